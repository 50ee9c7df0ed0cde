"""Other words in a word's place: the choice by brute force, the budget, the table of candidates, and bad input."""

import itertools
import json
import math
from dataclasses import replace

import pytest
import torch
from tokenizers import Tokenizer, models, pre_tokenizers
from torch import nn
from transformers import PreTrainedTokenizerFast, Trainer

import toughen
from toughen.engine.diagnostics import WINDOW
from toughen.errors import DataError, MethodError, RobustnessWarning, SiteError
from toughen.search import Candidates, FlipWords, HullWords, RandomWords
from toughen.search.words import Words
from toughen.sites import Hidden
from toughen.sites.base import Activation, CandidateTable, EmbeddedTokens

from ..tiny import TOKENIZER, bert, other_tokens, text_batch, tokenizer
from ..trainers.driving import settings

SPECIAL = ["[PAD]", "[CLS]", "[SEP]", "[UNK]", "[MASK]"]


def view(ids, table, mask=None, continues=None, width=6, seed=0):
    """An embedding of small tables, as a site shows it."""
    random = torch.Generator().manual_seed(seed)
    embed = nn.Embedding.from_pretrained(torch.randn(len(table), width, generator=random, dtype=torch.float64))
    continues = torch.zeros(len(table), dtype=torch.bool) if continues is None else continues
    return Activation(
        embed(ids),
        None if mask is None else mask.unsqueeze(-1),
        random=random,
        tokens=EmbeddedTokens(ids, embed.forward),
        candidates=CandidateTable(table, continues),
    )


def others(size, count):
    return (torch.arange(size).unsqueeze(1) + torch.arange(1, count + 1)) % size


def test_flips_are_the_best_of_all_texts_with_so_many_other_words():
    """Of every text with at most two other words the one whose linearised goal is highest."""
    ids, table = torch.tensor([[4, 0, 7, 2, 9]]), others(12, 3)
    shown = view(ids, table)
    embed, grad = shown.tokens.embed, torch.randn(1, 5, 6, generator=torch.Generator().manual_seed(5)).double()

    def goal(text):
        return float((grad * (embed(text) - embed(ids))).sum())

    texts = [torch.tensor([text]) for text in itertools.product(*([int(i), *table[i].tolist()] for i in ids[0]))]
    best = max((text for text in texts if (text != ids).sum() <= 2), key=goal)
    (delta,) = FlipWords(share=0.4).ascend([FlipWords().start(shown)], [grad], [shown])
    assert goal(best) > 0
    torch.testing.assert_close(delta, embed(best) - embed(ids))


def test_a_flip_that_lowers_the_goal_is_not_taken():
    shown = view(torch.tensor([[4, 0, 7]]), torch.tensor([[i, (i + 1) % 9] for i in range(9)]))
    downhill = -offsets_of(shown)[:, :, 1]
    (delta,) = FlipWords(share=1.0, noise=3.0).ascend([downhill], [downhill], [shown])
    assert not delta.any()


def offsets_of(shown):
    return Words(shown).offsets


@pytest.mark.parametrize(
    "search", [RandomWords(0.3), FlipWords(0.3, noise=1.0), HullWords(0.3)], ids=lambda s: type(s).__name__
)
def test_the_budget_is_of_words_alone(search):
    """Padding, special tokens and pieces of words use nothing of it up, and nothing of them moves."""
    random = torch.Generator().manual_seed(2)
    ids = torch.randint(0, 40, (30, 20), generator=random)
    mask = torch.rand(ids.shape, generator=random) < 0.6
    pieces = torch.arange(40) % 4 == 0
    shown = view(ids, others(40, 4), mask, pieces)
    delta = search.start(shown)
    if search.steps:
        (delta,) = search.ascend([delta], [torch.randn(delta.shape, generator=random).double()], [shown])
    changed, words = delta.ne(0).any(-1), mask & ~pieces[ids]
    goes_on = pieces[ids].roll(-1, 1)
    goes_on[:, -1] = False
    assert not changed[~words | goes_on].any()
    limits = torch.tensor([max(1, math.ceil(round(0.3 * int(count), 6))) for count in words.sum(1)])
    assert (changed.sum(1) <= limits).all()
    assert (changed.sum(1) == limits).float().mean() > 0.3 - 0.2 * isinstance(search, RandomWords)


def test_random_words_are_drawn_evenly_with_the_word_itself():
    ids, table = torch.full((4000, 2), 3), torch.tensor([[i, i, i, i] for i in range(9)])
    table[3] = torch.tensor([5, 6, 7, 3])  # three others
    shown = view(ids, table)
    delta = RandomWords(share=1.0).start(shown)
    embed = shown.tokens.embed
    shares = [
        (delta - (embed(torch.tensor(k)) - embed(torch.tensor(3)))).abs().amax(-1).lt(1e-9).double().mean().item()
        for k in (3, 5, 6, 7)
    ]
    assert sum(shares) == pytest.approx(1)
    assert all(abs(share - 0.25) < 0.03 for share in shares)


def test_a_mixture_climbs_its_goal_as_autograd_does():
    """Two steps from a random mixture: the loss and the entropy, both means over texts."""
    ids, table = torch.tensor([[4, 0, 7, 2], [9, 3, 3, 1]]), others(12, 3)
    table[7] = 7  # no candidate
    shown, search = view(ids, table), HullWords(1.0, steps=2, step_size=0.7, entropy=0.3)
    embed, direction = shown.tokens.embed, torch.linspace(-1, 1, 6).double()
    goal = lambda delta: ((embed(ids) + delta) @ direction).tanh().sum(1).mean()  # noqa: E731
    delta = search.start(shown)
    logits = shown.memory["hull_logits"].clone().requires_grad_()
    there = torch.cat([torch.ones(2, 4, 1, dtype=torch.bool), table[ids] != ids.unsqueeze(-1)], -1)
    points = torch.cat([ids.unsqueeze(-1), table[ids]], -1)
    for _ in range(2):
        p = logits.masked_fill(~there, -1e9).softmax(-1)
        mixed = (p.unsqueeze(-1) * embed(points)).sum(2) - embed(ids)
        torch.testing.assert_close(delta, mixed.detach())
        entropy = -(p * p.clamp(min=1e-300).log()).sum(-1)
        several = there.sum(-1) > 1
        height = goal(mixed) - 0.3 * ((entropy * several).sum(1) / several.sum(1)).mean()
        (g,) = torch.autograd.grad(height, logits)
        logits = (logits + 0.7 * g / g.norm(dim=-1, keepdim=True).clamp(min=1e-30)).detach().requires_grad_()
        moved = delta.clone().requires_grad_()
        (delta,) = search.ascend([delta], [torch.autograd.grad(goal(moved), moved)[0]], [shown])
    assert not delta[ids == 7].any()


class Scaled(nn.Embedding):
    """A table that is multiplied on its way out, as Gemma's and BART's are."""

    def forward(self, input):
        return 3 * super().forward(input)


@pytest.mark.parametrize("preset", ["random", "flip", "safer", "a2t"])
def test_the_pass_is_that_of_the_other_text(preset):
    model, batch = bert(), text_batch()
    model.set_input_embeddings(Scaled.from_pretrained(model.get_input_embeddings().weight.detach() / 3, freeze=False))
    table = model.get_input_embeddings()
    with toughen.words(preset, candidates=other_tokens).attach(model, TOKENIZER, seed=3) as attached:
        attached.backward(model, batch)
        report = attached.report()
        (delta,) = attached.last_batches[0].perturbation.deltas
    read = table(batch["input_ids"]) + delta
    text = (read.unsqueeze(2) - table(torch.arange(100))).norm(dim=-1).argmin(-1)
    changed = text != batch["input_ids"]
    assert changed.any()
    allowed = (text.unsqueeze(-1) == other_tokens(None, model)[batch["input_ids"]]).any(-1)
    assert allowed[changed].all()
    other = model(**{**batch, "input_ids": text})
    torch.testing.assert_close(other.loss.detach(), report["loss_perturbed"])
    words = ~torch.isin(batch["input_ids"], torch.tensor([0, 1, 2]))
    assert report["words_changed"] == pytest.approx(changed.sum().item() / words.sum().item())


@pytest.mark.parametrize("preset", ["random", "flip", "hull", "ascc", "dne"])
def test_nothing_of_the_search_is_kept_after_the_step(preset):
    """The candidates' embeddings are eight times those of the batch."""
    model = bert()
    with toughen.words(preset, candidates=other_tokens).attach(model, TOKENIZER, seed=3) as attached:
        attached.backward(model, text_batch())
        perturbation = attached.last_batches[0].perturbation
        assert not any(one.memory for one in perturbation.views.values())
        attached.report()
    assert all(each.isfinite().all() for each in perturbation.deltas)


WORDS = [
    "good",
    "fine",
    "Good",
    "Fine",
    "great",
    "film",
    "movie",
    "not",
    "never",
    "plus",
    "two",
    "2",
    "b2b",
    "the",
    "a",
]
SYNONYMS = {
    "good": ["fine", "great", "very nice", "superb"],  # "superb" is no token
    "film": ["movie", "plus"],
    "not": ["never"],
    "the": ["a"],
    "b2b": ["film"],
    "great": ["Great", "not"],
    "plus": ["two"],
}


def tiny(words=WORDS):
    return bert(vocab_size=len(SPECIAL) + len(words)), tokenizer(SPECIAL, words)


def candidates(tmp_path, synonyms=SYNONYMS, **options):
    file = tmp_path / "synonyms.json"
    file.write_text(json.dumps(synonyms))
    return Candidates(str(file), **options)


def named(table, known):
    found = {}
    for number, row in enumerate(table.ids.tolist()):
        rest = [known.convert_ids_to_tokens(each) for each in row if each != number]
        if rest:
            found[known.convert_ids_to_tokens(number)] = rest
    return found


def test_candidates_are_single_tokens_and_spare_what_must_stay(tmp_path):
    model, known = tiny()
    model.config.id2label = {0: "minus", 1: "plus", 2: "LABEL_2"}
    table = candidates(tmp_path).build(model, known)
    assert named(table, known) == {"good": ["fine", "great"], "Good": ["Fine"], "film": ["movie"]}
    assert named(candidates(tmp_path, count=1).build(model, known), known)["good"] == ["fine"]
    assert table.ids.shape == (len(SPECIAL) + len(WORDS), 8)


def test_the_vocabularys_nearest_words_are_those_by_cosine():
    model, known = tiny()
    found = named(Candidates("vocabulary", count=3).build(model, known), known)
    free = ["good", "fine", "Good", "Fine", "great", "film", "movie", "plus", "two"]
    assert set(found) == set(free)
    ids = known.convert_tokens_to_ids(free)
    alike = torch.cosine_similarity(
        model.get_input_embeddings().weight[ids[0]], model.get_input_embeddings().weight[ids], dim=-1
    )
    order = [free[place] for place in alike.argsort(descending=True) if free[place].lower() != "good"]
    assert found["good"] == order[:3]


@pytest.mark.parametrize("kind", ["wordpiece", "bytes"])
def test_words_of_several_pieces_are_left_alone(kind):
    """ "play" + "##ing" is another word than "play", and "don" + "'" + "t" is none of its parts."""
    if kind == "wordpiece":
        vocab = ["[PAD]", "[UNK]", "play", "game", "##ing", "don", "wear", "'", "t"]
        core = Tokenizer(models.WordPiece({token: i for i, token in enumerate(vocab)}, unk_token="[UNK]"))
        core.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    else:
        vocab = ["[PAD]", "[UNK]", "Ġplay", "Ġgame", "ing", "Ġdon", "Ġwear", "'", "t", "Ġa"]
        core = Tokenizer(models.WordLevel({token: i for i, token in enumerate(vocab)}, unk_token="[UNK]"))
    known = PreTrainedTokenizerFast(tokenizer_object=core, pad_token="[PAD]", unk_token="[UNK]")
    source = Candidates(table=lambda _tokenizer, _model: others(len(vocab), 2))
    table = source.build(bert(vocab_size=len(vocab)), known)
    ids = torch.tensor([[2, 2, 4, 5, 7, 8, 2]])
    delta = RandomWords(share=1.0).start(replace(view(ids, table.ids, seed=1), candidates=table))
    for seed in range(2, 9):
        delta = delta.abs() + RandomWords(1.0).start(replace(view(ids, table.ids, seed=seed), candidates=table)).abs()
    moved = delta.ne(0).any(-1)[0].tolist()
    assert moved[:5] == [True, False, False, False, False]
    assert moved[6]


def test_without_what_it_needs_it_is_refused_where_it_is_attached(tmp_path, monkeypatch):
    model, known = tiny()
    source = candidates(tmp_path)
    with pytest.raises(MethodError, match=r"needs the tokenizer.*processing_class=tokenizer"):
        toughen.words(synonyms=source.synonyms).attach(model)
    candidates(tmp_path, {"bon": ["bien"]})
    with pytest.raises(DataError, match=r"synonyms.json has no two words.*9 of its 20 tokens.*synonyms=\"vocabulary\""):
        toughen.words(synonyms=source.synonyms).attach(model, known)
    monkeypatch.setattr("toughen.text.synonyms.installed_wordnet", lambda: None)
    with pytest.raises(DataError, match=r"needs synonyms.*--method.synonyms.*\"vocabulary\""):
        toughen.words().attach(model, known)
    with pytest.raises(DataError, match=r"nowhere.json does not exist"):
        toughen.words(synonyms="nowhere.json").attach(model, known)
    toughen.plain().attach(model).detach()  # nothing of the refused ones is left

    class Slow:
        is_fast, all_special_ids, convert_ids_to_tokens = False, (), None

    with pytest.raises(DataError, match="Slow cannot say which piece is which word; use a fast tokenizer"):
        toughen.words(synonyms="vocabulary").attach(model, Slow())
    with pytest.raises(DataError, match=r"the vocabulary has no two words.*0 of its 100 tokens"):
        toughen.words(synonyms="vocabulary").attach(bert(), TOKENIZER)  # w5, w6, ...: numbers


@pytest.mark.filterwarnings("ignore")
def test_a_trainer_gives_its_tokenizer(tmp_path):
    model, known = tiny()
    words = torch.tensor(known.convert_tokens_to_ids(["good", "film", "great", "the"]))
    rows = [{"input_ids": words.roll(i), "attention_mask": torch.ones(4).long(), "labels": i % 3} for i in range(8)]
    method = toughen.words(synonyms=candidates(tmp_path).synonyms)
    trainer = toughen.robust(Trainer)(
        model.float(), settings(tmp_path), train_dataset=rows, processing_class=known, method=method
    )
    trainer.train()
    assert trainer.attached.report()["words_with_candidates"] == 0.5  # "good" and "film"


def test_a_model_that_embeds_no_ids_is_refused():
    class Pixels(nn.Module):
        def __init__(self):
            super().__init__()
            self.patches = nn.Linear(4, 4)

        def get_input_embeddings(self):
            return self.patches

    with pytest.raises(SiteError, match=r"Pixels \(Linear\) is no table of token ids.*smart"):
        toughen.words(candidates=other_tokens).attach(Pixels(), TOKENIZER)
    model, batch = bert(), text_batch()
    embeds = {**batch, "inputs_embeds": torch.zeros(3, 10, 32, dtype=torch.float64)}
    del embeds["input_ids"]
    with (
        toughen.words(candidates=other_tokens).attach(model, TOKENIZER) as attached,
        pytest.raises(SiteError, match="inputs_embeds"),
    ):
        attached.backward(model, embeds)


@pytest.mark.parametrize(
    ("table", "told"),
    [
        (torch.zeros(99, 2, dtype=torch.long), r"shape \(99, 2\).*below 100"),
        (torch.full((100, 2), 100), r"ids below 100"),
        (torch.zeros(100, 2), "it must hold ids"),
    ],
)
def test_a_table_that_does_not_fit_is_refused(table, told):
    with pytest.raises(MethodError, match=told):
        toughen.words(candidates=lambda _tokenizer, _model: table).attach(bert(), TOKENIZER)


def test_settings_that_would_change_nothing_are_refused():
    with pytest.raises(MethodError, match=r"entropy=1\.0 changes nothing: search='flip'"):
        toughen.words(entropy=1.0)
    with pytest.raises(MethodError, match="steps=3 changes nothing: search='random'"):
        toughen.words("random", steps=3)
    with pytest.raises(MethodError, match=r"weight=2.0 changes nothing: words\('safer'\)"):
        toughen.words("safer", weight=2.0)
    with pytest.raises(MethodError, match="search='best' is not known"):
        toughen.words(search="best")
    for share in (0.0, 1.1, -0.2):
        with pytest.raises(MethodError, match="share"):
            toughen.words(share=share)
    with pytest.raises(MethodError, match="at least one candidate"):
        toughen.words(count=0)
    with pytest.raises(MethodError, match=r"use site=WordEmbedding\(\), not Hidden"):
        replace(toughen.words(), site=Hidden(0))


@pytest.mark.parametrize("preset", ["random", "flip"])
def test_texts_in_which_no_word_can_change_are_counted(preset):
    """A warning after many batches, once; a few such texts are normal."""
    batch = text_batch()
    first = batch["input_ids"][0].unique()

    def table(_tokenizer, model):
        found = others(100, 2)
        return torch.where(torch.isin(torch.arange(100), first).unsqueeze(1), found, torch.arange(100).unsqueeze(1))

    def none(_tokenizer, model):
        return torch.arange(100).unsqueeze(1)

    for source, share in ((table, 2 / 3), (none, 1.0)):
        model = bert(torch.float32)
        rows = {key: value.clone() for key, value in batch.items()}
        rows["input_ids"][1:, 1:-6] = torch.tensor([t for t in range(5, 99) if t not in first])[:3]
        with toughen.words(preset, candidates=source).attach(model, TOKENIZER, seed=3) as attached:
            for _ in range(WINDOW):
                attached.backward(model, rows)
            report = attached.report()
            attached.backward(model, rows)  # the counts are copied here, and read at the next one
            with pytest.warns(
                RobustnessWarning, match=rf"No word could change in {share:.0%} of the texts in {WINDOW}"
            ):
                attached.backward(model, rows)
        assert (report["words_with_candidates"] == 0) == (share == 1.0)
        assert report["texts_without_candidates"] == round(3 * share)
        assert report["delta_norm"].isfinite()
