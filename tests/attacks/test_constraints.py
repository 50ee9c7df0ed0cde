"""What attacks take from other models, files and functions, and what they say where something is off."""

import json
from pathlib import Path

import numpy as np
import pytest
import torch
from tokenizers import Tokenizer, models, normalizers, pre_tokenizers
from tokenizers.processors import TemplateProcessing
from transformers import AutoConfig, AutoModel, AutoModelForMaskedLM, BertModel, PreTrainedTokenizerFast

from toughen.attacks.attacked_text import AttackedText, Budget
from toughen.attacks.builtin.characters import ObfuscationAttack
from toughen.attacks.builtin.textfooler import TextFoolerAttack
from toughen.attacks.language_models import MaskedProposals, SentenceEncoder
from toughen.attacks.text_search import SearchState
from toughen.evaluation import AttackSettings, Victim, make_attacks, run_attack
from toughen.tasks.spec import DataError

from ..tiny import NO_DROPOUT, SMALL, TOKENIZER, bert
from .little_target import TASK, sentences, target


def save(folder, auto_class, tokenizer=TOKENIZER, **changes):
    torch.manual_seed(0)
    auto_class.from_config(AutoConfig.for_model("bert", **{**SMALL, **NO_DROPOUT, **changes})).save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    return str(folder)


@pytest.fixture
def synonyms(tmp_path):
    words = [f"w{number}" for number in range(5, 100)]
    table = {word: [words[(i + step) % 95] for step in (1, 7, 31, 40)] for i, word in enumerate(words)}
    (tmp_path / "synonyms.json").write_text(json.dumps(table))
    return tmp_path / "synonyms.json"


def fooled(synonyms, home, **changes):
    settings = AttackSettings(budget=Budget(200, 1.0), keep=(), synonyms=synonyms, **changes)
    (attack,) = make_attacks("textfooler", settings)
    result = run_attack(attack, target(), home=home)
    file = home / "attacks" / "textfooler.jsonl"
    return result, [json.loads(line) for line in file.read_text().splitlines()]


def test_the_judge_lets_pass_what_is_alike(synonyms, tmp_path):
    folder = save(tmp_path / "judge", AutoModel)
    free, _ = fooled(synonyms, tmp_path)
    judged, rows = fooled(synonyms, tmp_path, judge=Path(folder), similarity=0.9)
    assert free.summary.notes == ["off: part of speech (parts_of_speech=)", "off: sentence similarity (judge=)"]
    assert judged.summary.notes == ["off: part of speech (parts_of_speech=)"]
    assert free.score < judged.score < judged.summary.clean.value
    encoder = BertModel.from_pretrained(folder).eval()

    def mean(text):
        with torch.no_grad():
            return encoder(input_ids=TOKENIZER(text, return_tensors="pt")["input_ids"])[0].mean(1)

    for row in rows:
        old, new = mean(row["original"]["text"]), mean(row["perturbed"]["text"])
        assert torch.cosine_similarity(old, new) >= 0.9 - 1e-6
    nothing, _ = fooled(synonyms, tmp_path, judge=folder, similarity=1.0)
    assert nothing.score == nothing.summary.clean.value

    def encode(texts):
        return [3 * mean(text)[0].numpy() for text in texts]  # of any length

    again, same = fooled(synonyms, tmp_path, judge=encode, similarity=0.9)
    assert again.summary.settings["judge"].endswith("encode")
    assert [row["perturbed"] for row in same] == [row["perturbed"] for row in rows]
    for bad in (lambda texts: 1.0, lambda texts: encode(texts)[1:], lambda texts: [[np.nan] for _ in texts]):
        with pytest.raises(DataError, match=r"judge: for \d+ texts it returned .* give a function"):
            fooled(synonyms, tmp_path, judge=bad)


def test_vectors_do_not_depend_on_what_is_beside_them(tmp_path):
    judge = SentenceEncoder(save(tmp_path / "judge", AutoModel), "cpu")
    rows = [{"one": text, "two": "w7 w9", "choices": ["w5"]} for text in sentences(7)]
    together = judge(rows, [0] * 7)
    for row, vectors in zip(rows, together, strict=True):
        assert vectors.shape == (2, 32)
        np.testing.assert_allclose(np.linalg.norm(vectors, axis=1), 1, rtol=1e-5)
        (alone,) = SentenceEncoder(str(tmp_path / "judge"), "cpu")([row], [0])
        np.testing.assert_allclose(vectors, alone, atol=1e-5)


def test_substitutes_of_another_part_of_speech_are_left_out(tmp_path):
    (tmp_path / "synonyms.json").write_text(json.dumps({"film": ["movie", "shoot", "pellicle"]}))
    wordnet = tmp_path / "wordnet"
    wordnet.mkdir()
    for part, lemmas in (("noun", ("film", "movie")), ("verb", ("shoot",))):
        (wordnet / f"index.{part}").write_text("".join(f"{lemma} x\n" for lemma in lemmas))
        (wordnet / f"data.{part}").write_text("")
    text = AttackedText.of({"text": "this film, then"}, ("text",), lambda word: False)
    state = SearchState(0, text, 0, Budget(), -1.0)

    def left(parts):
        attack = TextFoolerAttack(synonyms=tmp_path / "synonyms.json", parts_of_speech=parts)
        return attack.variants(state, ("text", 1)), attack.settings["parts_of_speech"]

    assert left(None) == (["movie", "shoot", "pellicle"], None)
    assert left(wordnet) == (["movie", "pellicle"], "wordnet")  # WordNet knows nothing of a pellicle here
    seen = []

    def tag(words):
        seen.append(tuple(words))
        return ["X", "N" if words[1] in ("film", "pellicle") else "V", "X"]

    words, name = left(tag)
    assert words == ["pellicle"]
    assert name.endswith("tag")
    assert set(seen) == {("this", word, "then") for word in ("film", "movie", "shoot", "pellicle")}


def test_a_language_model_proposes_words_in_context(tmp_path):
    """Words of one token from the text as it is, words of several from a mask; of pairs every text by itself."""
    alphabet = [f"##{letter}" for letter in "abcdefghijklmnopqrstuvwxyz"]
    tokens = ["[PAD]", "[CLS]", "[SEP]", "[UNK]", "[MASK]", "good", "film", "bad", "plot", "re", *alphabet]
    core = Tokenizer(models.WordPiece({token: number for number, token in enumerate(tokens)}, unk_token="[UNK]"))
    core.pre_tokenizer = pre_tokenizers.Whitespace()
    core.post_processor = TemplateProcessing("[CLS] $A [SEP]", special_tokens=[("[CLS]", 1), ("[SEP]", 2)])
    names = {"pad_token": "[PAD]", "unk_token": "[UNK]", "mask_token": "[MASK]"}
    tokenizer = PreTrainedTokenizerFast(tokenizer_object=core, **names, cls_token="[CLS]", sep_token="[SEP]")
    folder = save(tmp_path / "lm", AutoModelForMaskedLM, tokenizer, vocab_size=len(tokens))
    proposals = MaskedProposals(folder, 2, "cpu")
    assert proposals.words == ["good", "film", "bad", "plot", "re"]
    rows = [{"one": "a (good) remake, good", "two": "film"}, {"one": "plot", "two": "bad film"}]
    told = proposals(rows, [0, 0])
    places = {("one", 0), ("one", 1), ("one", 2), ("one", 3), ("two", 0)}
    assert [set(each) for each in told] == [places - {("one", 0)} | {("one", 0)}, {("one", 0), ("two", 0), ("two", 1)}]
    net = AutoModelForMaskedLM.from_pretrained(folder).eval()

    def likeliest(text, token):
        with torch.no_grad():
            logits = net(**tokenizer(text, return_tensors="pt", return_token_type_ids=False)).logits[0]
        place = tokenizer(text).tokens().index(token)
        return [proposals.words[n] for n in logits[place, 5:10].argsort(descending=True)[:3].tolist()]

    assert told[0]["one", 1] == likeliest("a (good) remake, good", "good")
    assert told[0]["one", 2] == likeliest("a (good) [MASK], good", "[MASK]")
    assert told[1]["two", 1] == likeliest("bad film", "film")


def test_models_that_cannot_help_are_told_in_a_line(tmp_path, synonyms):
    headless = save(tmp_path / "headless", AutoModel)
    (attack,) = make_attacks("bert_attack", AttackSettings(masked_lm=headless))
    with pytest.raises(DataError, match=r"masked_lm: .* no trained head"):
        run_attack(attack, target(2))
    (tmp_path / "empty").mkdir()
    (attack,) = make_attacks("textfooler", AttackSettings(judge=str(tmp_path / "empty"), synonyms=synonyms))
    with pytest.raises(DataError, match=r"judge: .* cannot be loaded"):
        run_attack(attack, target(2))
    with pytest.raises(DataError, match=r"judge: .* is no folder"):
        make_attacks("textfooler", AttackSettings(judge=str(tmp_path / "none"), synonyms=synonyms))


def test_a_tokenizer_without_capitals_is_named():
    core = Tokenizer.from_str(TOKENIZER.backend_tokenizer.to_str())
    core.normalizer = normalizers.Lowercase()
    small = PreTrainedTokenizerFast(tokenizer_object=core, pad_token="[PAD]", unk_token="[UNK]")
    victims = target(6)
    (attack,) = make_attacks("casing", AttackSettings(keep=()))
    assert run_attack(attack, victims).summary.notes == []
    victim = Victim(bert(torch.float32).eval(), small, TASK, max_length=32)
    found = run_attack(attack, type(victims)(victim, victims.rows, victims.logits, victims.labels, samples=20))
    assert "all letters small" in found.summary.notes[0]


def test_spaced_letters_are_one_changed_word():
    text = AttackedText.of({"text": 'a "good" film'}, ("text",), lambda word: False)
    state = SearchState(0, text, 0, Budget(), -1.0)
    attack = ObfuscationAttack(obfuscations=("spaced",))
    assert attack.variants(state, ("text", 1)) == ["g o o d"]
    assert text.changed({("text", 1): "g o o d"})["text"] == 'a "g o o d" film'
