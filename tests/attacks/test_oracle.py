"""Every search against its definition, written as plain loops that put one text after the other to the model."""

import json
import math
import random

import numpy as np
import pytest
import torch
from tokenizers import Regex, Tokenizer, models, pre_tokenizers
from tokenizers.processors import TemplateProcessing
from transformers import AutoConfig, AutoModel, AutoModelForMaskedLM, PreTrainedTokenizerFast

from toughen.attacks.base import attack_classes
from toughen.attacks.builtin.characters import EACH
from toughen.attacks.text_attack import TextAttack
from toughen.evaluation import AttackSettings, Budget, Target, Victim, make_attacks, run_attack
from toughen.text.edits import OBFUSCATION, TYPOS, case_forms, edit_variants

from ..tiny import NO_DROPOUT, SMALL, TOKENIZER, bert
from .little_target import TASK, model, target

COUNT, CANDIDATES, WORDS = 10, 3, 0.6
VOCABULARY = [f"w{number}" for number in range(5, 100)]
SPECIAL = ["[PAD]", "[CLS]", "[SEP]", "[UNK]", "[MASK]"]
NEAR = {word: [VOCABULARY[(i + step) % 95] for step in (1, 7, 31, 40)] for i, word in enumerate(VOCABULARY)}


def letters():
    """A target that reads letter by letter, so that every edit of a word is another text."""
    alphabet = [*"abcdefghijklmnopqrstuvwxyz ", *"ABCDEFGHIJKLMNOPQRSTUVWXYZ", *"01234579асеіо", "\u200b"]
    core = Tokenizer(models.WordLevel({token: n for n, token in enumerate([*SPECIAL, *alphabet])}, unk_token="[UNK]"))
    core.pre_tokenizer = pre_tokenizers.Split(Regex("."), "isolated")
    core.post_processor = TemplateProcessing("[CLS] $A [SEP]", special_tokens=[("[CLS]", 1), ("[SEP]", 2)])
    own = PreTrainedTokenizerFast(tokenizer_object=core, pad_token="[PAD]", unk_token="[UNK]")
    victim = Victim(bert(torch.float32, initializer_range=0.3).eval(), own, TASK, max_length=64)
    rng = random.Random(3)
    texts = [" ".join(rng.choices(["good", "Film", "awful", "plot", "SO", "it", "bores"], k=4)) for _ in range(COUNT)]
    logits = victim.exact([{"text": text} for text in texts])
    rows = [{"text": text, "label": int(one.argmax())} for text, one in zip(texts, logits, strict=True)]
    return Target(victim, rows, logits, logits.argmax(-1), samples=20)


class Reference:
    """One example before a model: how far the best wrong class leads, and how many texts were tried."""

    def __init__(self, whole, number):
        self.whole, self.number, self.tried = whole, number, 0
        self.label = int(whole.labels[number])
        self.words = whole.rows[number]["text"].split()
        self.limit = math.ceil(WORDS * len(self.words) - 1e-9)
        self.clean = self.lead(self.words)
        self.tried, self.tie = 0, whole.tie

    def lead(self, words):
        return self.lead_of(" ".join(words))

    def lead_of(self, text):
        self.tried += 1
        ids = self.whole.victim.tokenizer(text, return_tensors="pt", return_token_type_ids=False)
        with torch.no_grad():
            logits = self.whole.victim.model(**ids).logits[0].tolist()
        return max(logits[: self.label] + logits[self.label + 1 :]) - logits[self.label]

    def leads_without(self):
        """Without each word and the space after it."""
        spaced = [f"{word} " for word in self.words[:-1]] + self.words[-1:]
        return [self.lead_of("".join(put(spaced, index, ""))) for index in range(len(spaced))]


def put(words, index, word):
    return [*words[:index], word, *words[index + 1 :]]


def descending(values):
    return sorted(range(len(values)), key=lambda index: -values[index])


def greedy(one, variants, passes=None):
    """Word after word, the one that is missed most first; each by the best of all its variants, if that helps."""
    words, best, changed = one.words, one.clean, 0
    for index in descending(one.leads_without()):
        if changed == one.limit:
            break
        tries = [put(words, index, other) for other in variants(index)]
        tries = [each for each in tries if passes is None or passes(one.words, each) >= SIMILAR]
        leads = [one.lead(each) for each in tries]
        if not leads:
            continue
        chosen = leads.index(max(leads))
        if passes is not None and max(leads) > one.tie:
            chosen = max(
                (i for i, lead in enumerate(leads) if lead > one.tie), key=lambda i: passes(one.words, tries[i])
            )
        if leads[chosen] > best:
            words, best, changed = tries[chosen], leads[chosen], changed + 1
        if best > one.tie:
            return words, True
    return words, False


def weighted(one, variants):
    """The best variant of every word by itself, then one after the other by softmax of saliency times gain."""

    def probability(lead):
        return 1 / (1 + math.exp(lead / one.whole.temperature))

    without, best = one.leads_without(), {}
    for index in descending(without):
        leads = {other: one.lead(put(one.words, index, other)) for other in variants(index)}
        if leads:
            word = max(leads, key=leads.get)
            if leads[word] > one.tie:
                return put(one.words, index, word), True
            if leads[word] > one.clean:
                best[index] = word, probability(one.clean) - probability(leads[word])
    saliency = np.exp([probability(one.clean) - probability(lead) for lead in without])
    score = {index: saliency[index] / saliency.sum() * gain for index, (_, gain) in best.items()}
    words = one.words
    for index in sorted(score, key=score.get, reverse=True)[: one.limit]:
        words = put(words, index, best[index][0])
        if one.lead(words) > one.tie:
            return words, True
    return words, False


def by_gradient(one):
    """A gradient of the lead at the embeddings; of all flips so many at a time, the most promising first."""
    net = one.whole.victim.model
    table = net.get_input_embeddings().weight.detach()
    ids = torch.tensor(TOKENIZER.convert_tokens_to_ids(VOCABULARY))
    words, best, changed = one.words, one.clean, set()
    while len(changed) < one.limit:
        one.tried += 1
        inputs = TOKENIZER(" ".join(words), return_tensors="pt")["input_ids"]
        embedded = table[inputs].requires_grad_()
        logits = net(inputs_embeds=embedded).logits[0]
        wrong = torch.cat([logits[: one.label], logits[one.label + 1 :]]).max()
        (slope,) = torch.autograd.grad(wrong - logits[one.label], embedded)
        flips = []
        for index in set(range(len(words))) - changed:
            gains = (table[ids] - embedded[0, index + 1]) @ slope[0, index + 1]
            best_words = gains.argsort(descending=True)[:CANDIDATES].tolist()
            flips += [(float(gains[number].detach()), index, VOCABULARY[number]) for number in best_words]
        flips = [flip for flip in flips if flip[2] != words[flip[1]]]
        flips.sort(reverse=True)
        for start in range(0, len(flips), CANDIDATES):
            some = flips[start : start + CANDIDATES]
            leads = [one.lead(put(words, index, word)) for _, index, word in some]
            if max(leads) > best:
                _, index, word = some[leads.index(max(leads))]
                words, best = put(words, index, word), max(leads)
                changed.add(index)
                break
        else:
            return words, False
        if best > one.tie:
            return words, True
    return words, False


SIMILAR = 0.97


@pytest.fixture(scope="module")
def sources(tmp_path_factory):
    home = tmp_path_factory.mktemp("sources")
    (home / "near.json").write_text(json.dumps(NEAR))
    (home / "lexicon.txt").write_text("\n".join(" ".join([word, *others]) for word, others in NEAR.items()))
    config = AutoConfig.for_model("bert", **{**SMALL, **NO_DROPOUT})
    for name, auto_class in (("judge", AutoModel), ("masked_lm", AutoModelForMaskedLM)):
        torch.manual_seed(1)
        auto_class.from_config(config).save_pretrained(home / name)
        TOKENIZER.save_pretrained(home / name)
    return {"synonyms": home / "near.json", "lexicon": home / "lexicon.txt"} | {
        name: str(home / name) for name in ("judge", "masked_lm")
    }


def references(name, whole, sources):
    """Return the search of each attack by its definition."""

    def edited(kinds):
        def search(one):
            def variants(index):
                return edit_variants(one.words[index], kinds, EACH, random.Random(f"0/{one.number}/text/{index}"))

            return greedy(one, variants)

        return search

    def near(one):
        return lambda index: NEAR[one.words[index]][:CANDIDATES]

    def nearest(one):
        table = whole.victim.model.get_input_embeddings().weight.detach()[TOKENIZER.convert_tokens_to_ids(VOCABULARY)]

        def variants(index):
            own = table[VOCABULARY.index(one.words[index])]
            order = torch.cosine_similarity(table, own[None]).argsort(descending=True).tolist()
            return [VOCABULARY[number] for number in order if VOCABULARY[number] != one.words[index]][:CANDIDATES]

        return variants

    encoder = AutoModel.from_pretrained(sources["judge"]).eval()
    proposer = AutoModelForMaskedLM.from_pretrained(sources["masked_lm"]).eval()

    def alike(words, others):
        with torch.no_grad():
            means = [
                encoder(input_ids=TOKENIZER(" ".join(each), return_tensors="pt")["input_ids"])[0].mean(1)
                for each in (words, others)
            ]
        return float(torch.cosine_similarity(*means))

    def proposed(one):
        with torch.no_grad():
            logits = proposer(**TOKENIZER(" ".join(one.words), return_tensors="pt", return_token_type_ids=False)).logits
        order = logits[0, 1:-1].argsort(-1, descending=True).tolist()

        def variants(index):
            words = TOKENIZER.convert_ids_to_tokens(order[index])
            return [word for word in words if word in NEAR and word != one.words[index]][:CANDIDATES]

        return variants

    return {
        "characters": edited((*TYPOS, "homoglyph")),
        "obfuscation": edited(OBFUSCATION),
        "casing": lambda one: greedy(one, lambda index: case_forms(one.words[index])),
        "misspellings": lambda one: greedy(one, near(one)),
        "synonyms": lambda one: weighted(one, near(one)),
        "neighbours": lambda one: weighted(one, nearest(one)),
        "bert_attack": lambda one: greedy(one, proposed(one)),
        "textfooler": lambda one: greedy(one, near(one), alike),
        "flips": by_gradient,
    }[name]


@pytest.mark.parametrize("name", [name for name, kind in attack_classes().items() if issubclass(kind, TextAttack)])
def test_a_search_is_its_definition(name, sources, tmp_path):
    whole = letters() if name in ("characters", "obfuscation", "casing") else target(COUNT, net=model())
    settings = {"keep": (), "candidates": CANDIDATES, "similarity": SIMILAR, **sources}
    (attack,) = make_attacks(name, AttackSettings(budget=Budget(10_000, WORDS), **settings))
    run_attack(attack, whole, home=tmp_path)
    records = [json.loads(line) for line in (tmp_path / "attacks" / f"{name}.jsonl").read_text().splitlines()]
    search, compared = references(name, whole, sources), 0
    for number, record in enumerate(records):
        if record["status"] != "skipped":
            one = Reference(whole, number)
            words, broken = search(one)
            assert record["perturbed"]["text"] == " ".join(words)
            assert record["status"] == ("succeeded" if broken else "failed")
            assert record["queries"] == one.tried
            compared += 1
    assert compared >= 8
