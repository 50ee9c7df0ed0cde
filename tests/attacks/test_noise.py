"""Noise: seeded, nested, and of the kind its name says."""

from itertools import pairwise

import numpy as np
import pytest
import torch
from tokenizers import Tokenizer, models, pre_tokenizers
from transformers import AutoConfig, AutoModelForTokenClassification, PreTrainedTokenizerFast

from toughen.attacks.builtin.noise import NOISE_TRANSFORMS, NoiseAttack, add_noise, contractions, whitespace
from toughen.attacks.target import predict
from toughen.evaluation import Target, Victim, differences, run_attack, seed_scores
from toughen.tasks.spec import DataError, Task

from ..tiny import NO_DROPOUT, SMALL, TOKENIZER, bert
from .little_target import TASK, sentences, target

TEXTS = [
    "It is not a film, it 's a (very) long nap; they aren't awake and you are not either.",
    "a gorgeous , witty , seductive movie .",
    "Cannot recommend it",
    "x",
    "",
]


@pytest.mark.parametrize("kind", NOISE_TRANSFORMS)
@pytest.mark.parametrize("text", TEXTS)
def test_seeded_and_nested(kind, text):
    """What one strength changes, the next changes alike: a changed piece never changes again, nor back."""
    steps = [0.0, 0.1, 0.3, 0.5, 0.8, 1.0]
    texts = [NOISE_TRANSFORMS[kind](text, strength, "7") for strength in steps]
    assert texts == [NOISE_TRANSFORMS[kind](text, strength, "7") for strength in steps]
    assert texts[0] == text
    if kind == "distractors":
        assert all(two.startswith(one) for one, two in pairwise(texts))
    elif kind in ("typos", "casing", "punctuation"):
        tokens = [each.split() for each in texts]
        assert len({len(each) for each in tokens}) == 1
        for forms in zip(*tokens, strict=True):
            assert len(set(forms)) <= 2, forms
            assert list(forms) == sorted(forms, key=lambda form, first=forms[0]: form != first)
    elif kind == "obfuscation":
        assert sum(map(len, texts[-1].split())) >= sum(map(len, text.split()))  # letters are never taken away
    elif kind == "whitespace":
        assert len({"".join(each.split()) for each in texts}) == 1


def test_full_strength_hits_every_place():
    text = TEXTS[0]
    for kind in ("typos", "casing", "punctuation"):
        new = NOISE_TRANSFORMS[kind](text, 1.0, "1").split()
        same = [piece for piece, other in zip(text.split(), new, strict=True) if piece == other]
        assert same == (["a", "'s", "a"] if kind == "typos" else [])  # a word of one letter takes no slip
    assert whitespace("a b c d", 1.0, "1") != "a b c d"
    assert NOISE_TRANSFORMS["distractors"]("x .", 1.0, "1").count(" true") >= 5
    assert contractions("They are not here; it 's late, I can't", 1.0, "1") == (
        "They're not here; it is late, I can not"
    )
    assert contractions("ı am, İ am, it iſ", 1.0, "1") == "ı am, İ am, it iſ"  # letters that count as i and s


def test_the_seed_and_the_row_decide():
    row = {"text": TEXTS[0]}
    assert add_noise(TASK, row, 1, "typos", 0.5, 0) == add_noise(TASK, row, 1, "typos", 0.5, 0)
    assert add_noise(TASK, row, 1, "typos", 0.5, 0) != add_noise(TASK, row, 2, "typos", 0.5, 0)
    assert add_noise(TASK, row, 1, "typos", 0.5, 0) != add_noise(TASK, row, 1, "typos", 0.5, 1)


def test_natural_misspellings_come_from_the_lexicon(tmp_path):
    row = {"text": "(The film, the Film) film nap"}
    noisy = add_noise(TASK, row, 0, "misspellings", 1.0, 0, {"film": ["flim"]})
    assert noisy["text"] == "(The flim, the Flim) flim nap"
    file = tmp_path / "lexicon.txt"
    file.write_text("\n".join(f"w{n} w{n - 1 if n > 5 else 99}" for n in range(5, 100)))
    attack = NoiseAttack((0.5, 1.0), ("misspellings", "obfuscation"), lexicon=file)
    misspelt, _ = run_attack(attack, target(12)).summary.groups
    assert misspelt.points[-1].changed == 1.0
    file.write_text("w5 w6")
    assert attack.settings != NoiseAttack((0.5, 1.0), ("misspellings", "obfuscation"), lexicon=file).settings


def test_distractors_stand_behind_the_last_text_and_tags_stay_with_their_words():
    pair = Task("pair", "pair", "pair", "classes", ("premise", "hypothesis"), ("a", "b"))
    row = {"premise": "one two", "hypothesis": "three"}
    new = add_noise(pair, row, 0, "distractors", 0.2, 0)
    assert new["premise"] == "one two"
    assert new["hypothesis"].startswith("three and ")
    tags = Task("tags", "tags", "tokens", "tokens", ("tokens",), ("O", "B"), ("token_accuracy",))
    tokens = ["The", "quick", ",", "fox"]
    for kind in ("typos", "casing", "obfuscation"):
        assert len(add_noise(tags, {"tokens": tokens}, 0, kind, 1.0, 0)["tokens"]) == 4
    NoiseAttack().check(tags)
    with pytest.raises(DataError, match="would break the tags"):
        NoiseAttack(noise=("whitespace",)).check(tags)


def test_scores_are_those_of_the_changed_rows(tmp_path):
    victims = target(20)
    attack = NoiseAttack((0.5, 1.0), ("typos", "contractions"), seed=4)
    found = run_attack(attack, victims, home=tmp_path)
    typos, contracted = found.summary.groups
    assert [point.x for point in typos.points] == [0.0, 0.5, 1.0]
    changed = [add_noise(TASK, row, i, "typos", 0.5, 4) for i, row in enumerate(victims.rows)]
    right = (victims.victim.exact(changed).argmax(-1) == victims.labels).mean()
    assert typos.points[1].score.value == pytest.approx(right)
    hit = np.mean([new != row for new, row in zip(changed, victims.rows, strict=True)])
    assert typos.points[1].changed == pytest.approx(hit)
    assert found.outcomes["typos 0.5"].rows == (victims.victim.exact(changed).argmax(-1) == victims.labels).tolist()
    assert {point.score.value for point in contracted.points} == {found.summary.clean.value}
    assert found.summary.notes == ["contractions changed no text: there was no place for it"]
    with pytest.raises(DataError, match="shares above 0"):
        NoiseAttack((0.0,))


@pytest.mark.parametrize("side", ["right", "left"])
def test_words_that_garbled_ones_push_out_of_a_cut_text_have_no_tag(side):
    """A word is one piece and its garbled form several: of a text cut at eight pieces fewer words are left."""
    letters = "abcdefghijklmnopqrstuvwxyz"
    tokens = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "good", "film", *letters, *(f"##{letter}" for letter in letters)]
    cut = Tokenizer(models.WordPiece({piece: n for n, piece in enumerate(tokens)}, unk_token="[UNK]"))
    cut.pre_tokenizer = pre_tokenizers.Whitespace()
    tokenizer = PreTrainedTokenizerFast(tokenizer_object=cut, pad_token="[PAD]", unk_token="[UNK]")
    tokenizer.truncation_side = side
    task = Task("tags", "tags", "tokens", "tokens", ("tokens",), ("B-x", "I-x", "O"), ("token_accuracy", "entity_f1"))
    torch.manual_seed(0)
    config = AutoConfig.for_model("bert", **{**SMALL, "num_labels": 3}, **NO_DROPOUT)
    victim = Victim(AutoModelForTokenClassification.from_config(config).eval(), tokenizer, task, max_length=8)
    rows = [{"tokens": ["good", "film"] * count, "label": [0, 1] * count} for count in (1, 3, 4)]
    clean = predict(victim, rows)
    labels = [np.asarray(row["label"]) for row in rows]
    attack = NoiseAttack((1.0,), ("typos",))
    (told, *_) = next(attack.run_items(Target(victim, rows, clean, labels, samples=20), [0]))
    seen = predict(victim, [add_noise(task, row, n, "typos", 1.0, 0) for n, row in enumerate(rows)])
    for answers, own, label in zip(told["answers"], seen, labels, strict=True):
        gone = [2] * (len(label) - len(own))
        assert answers == ([*own, *gone] if side == "right" else [*gone, *own])
    assert told["lost"] == sum(map(len, labels)) - sum(map(len, seen)) > 0
    found = run_attack(attack, Target(victim, rows, clean, labels, samples=20))
    right = [a == b for one, two in zip(told["answers"], labels, strict=True) for a, b in zip(one, two, strict=True)]
    assert found.summary.groups[0].points[1].score.value == pytest.approx(np.mean(right))
    assert "behind the cut" in found.summary.notes[0]


@pytest.mark.parametrize("side", ["right", "left"])
def test_tags_of_a_text_do_not_hang_on_the_side_of_its_padding(side):
    tokenizer = PreTrainedTokenizerFast(tokenizer_object=TOKENIZER._tokenizer, pad_token="[PAD]", padding_side=side)
    task = Task("tags", "tags", "tokens", "tokens", ("tokens",), ("O", "B-x", "I-x"), ("token_accuracy",))
    torch.manual_seed(0)
    config = AutoConfig.for_model("bert", **{**SMALL, "initializer_range": 0.3}, **NO_DROPOUT)
    net = AutoModelForTokenClassification.from_config(config).eval()
    net.bert.embeddings.position_embeddings.weight.data.zero_()  # BERT counts padding at the left among its places
    victim = Victim(net, tokenizer, task, max_length=32)
    rows = [{"tokens": text.split(), "label": [0] * len(text.split())} for text in sentences(6)]
    assert predict(victim, rows) == [predict(victim, [row])[0] for row in rows]


def test_a_regression_is_scored_by_its_own_metric():
    task = Task("score", "score", "sentence", "regression", ("text",), metrics=("pearson",))
    victim = Victim(bert(torch.float32, num_labels=1, problem_type="regression").eval(), TOKENIZER, task, max_length=32)
    rows = [{"text": text, "label": 0.0} for text in sentences(12)]
    logits = victim.exact(rows)
    found = run_attack(NoiseAttack((1.0,), ("typos",)), Target(victim, rows, logits, np.ravel(logits), samples=20))
    assert found.summary.metric == "pearson"
    assert found.summary.clean.value == pytest.approx(1.0)
    assert found.summary.groups[0].points[1].score.value < 0.9


def test_differences_and_means_over_seeds_are_of_the_metric_that_noise_is_scored_by():
    """CoLA's correlation; right or wrong would make accuracies of it, far above the scores in the table."""
    task = Task("own", "own", "sentence", "classes", ("text",), TASK.labels, ("matthews", "accuracy"))
    attack = NoiseAttack((0.5,), ("typos",))
    net = bert(torch.float32, initializer_range=0.5).eval()
    found = [run_attack(attack, target(24, task=task, **given)) for given in ({}, {"net": net})]
    scores = [each.summary.groups[0].points[1].score.value for each in found]
    (one,) = differences(found[:1], found[1:])
    assert (one.first, one.second) == pytest.approx(tuple(scores))
    assert one.low < one.difference < one.high
    assert one.low + one.high > 0  # of the first less the second, and not the other way round
    assert target(3, task=task).metric == "accuracy"  # of attacks that search
    assert seed_scores({1: found[:1]})["noise", "typos 0.5"] == {1: pytest.approx(scores[0])}
