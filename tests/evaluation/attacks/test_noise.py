"""Noise: seeded, nested, and of the kind its name says."""

from itertools import pairwise

import numpy as np
import pytest
import torch

from toughen.evaluation import Target, Victim, run_attack
from toughen.evaluation.attacks.disturbances import KINDS, contractions, whitespace
from toughen.evaluation.attacks.noise import NoiseAttack, noisy
from toughen.tasks.spec import DataError, Task

from ...tiny import TOKENIZER, bert
from .little_target import TASK, sentences, target

TEXTS = [
    "It is not a film, it 's a (very) long nap; they aren't awake and you are not either.",
    "a gorgeous , witty , seductive movie .",
    "Cannot recommend it",
    "x",
    "",
]


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("text", TEXTS)
def test_seeded_and_nested(kind, text):
    """What one strength changes, the next changes alike: a changed piece never changes again, nor back."""
    steps = [0.0, 0.1, 0.3, 0.5, 0.8, 1.0]
    texts = [KINDS[kind](text, strength, "7") for strength in steps]
    assert texts == [KINDS[kind](text, strength, "7") for strength in steps]
    assert texts[0] == text
    if kind == "distractors":
        assert all(two.startswith(one) for one, two in pairwise(texts))
    elif kind in ("typos", "casing", "punctuation"):
        pieces = [each.split() for each in texts]
        assert len({len(each) for each in pieces}) == 1
        for forms in zip(*pieces, strict=True):
            assert len(set(forms)) <= 2, forms
            assert list(forms) == sorted(forms, key=lambda form, first=forms[0]: form != first)
    elif kind == "whitespace":
        assert len({"".join(each.split()) for each in texts}) == 1


def test_full_strength_hits_every_place():
    text = TEXTS[0]
    for kind in ("typos", "casing", "punctuation"):
        new = KINDS[kind](text, 1.0, "1").split()
        same = [piece for piece, other in zip(text.split(), new, strict=True) if piece == other]
        assert same == (["a", "'s", "a"] if kind == "typos" else [])  # a word of one letter takes no slip
    assert whitespace("a b c d", 1.0, "1") != "a b c d"
    assert KINDS["distractors"]("x .", 1.0, "1").count(" true") >= 5
    assert contractions("They are not here; it 's late, I can't", 1.0, "1") == (
        "They're not here; it is late, I can not"
    )
    assert contractions("ı am, İ am, it iſ", 1.0, "1") == "ı am, İ am, it iſ"  # letters that count as i and s


def test_the_seed_and_the_row_decide():
    row = {"text": TEXTS[0]}
    assert noisy(TASK, row, 1, "typos", 0.5, 0) == noisy(TASK, row, 1, "typos", 0.5, 0)
    assert noisy(TASK, row, 1, "typos", 0.5, 0) != noisy(TASK, row, 2, "typos", 0.5, 0)
    assert noisy(TASK, row, 1, "typos", 0.5, 0) != noisy(TASK, row, 1, "typos", 0.5, 1)


def test_distractors_stand_behind_the_last_text_and_tags_stay_with_their_words():
    pair = Task("pair", "pair", "pair", "classes", ("premise", "hypothesis"), ("a", "b"))
    row = {"premise": "one two", "hypothesis": "three"}
    new = noisy(pair, row, 0, "distractors", 0.2, 0)
    assert new["premise"] == "one two"
    assert new["hypothesis"].startswith("three and ")
    tags = Task("tags", "tags", "tokens", "tokens", ("tokens",), ("O", "B"), ("token_accuracy",))
    tokens = ["The", "quick", ",", "fox"]
    for kind in ("typos", "casing"):
        assert len(noisy(tags, {"tokens": tokens}, 0, kind, 1.0, 0)["tokens"]) == 4
    NoiseAttack().check(tags)
    with pytest.raises(DataError, match="would move the tags"):
        NoiseAttack(kinds=("whitespace",)).check(tags)


def test_scores_are_those_of_the_changed_rows(tmp_path):
    victims = target(20)
    attack = NoiseAttack((0.5, 1.0), ("typos", "contractions"), seed=4)
    found = run_attack(attack, victims, home=tmp_path)
    typos, contracted = found.summary["groups"]
    assert [point["x"] for point in typos["points"]] == [0.0, 0.5, 1.0]
    changed = [noisy(TASK, row, i, "typos", 0.5, 4) for i, row in enumerate(victims.rows)]
    right = (victims.victim.exact(changed).argmax(-1) == victims.labels).mean()
    assert typos["points"][1]["value"] == pytest.approx(right)
    assert found.outcomes["typos 0.5"].rows == (victims.victim.exact(changed).argmax(-1) == victims.labels).tolist()
    assert {point["value"] for point in contracted["points"]} == {found.summary["clean"]["value"]}
    assert found.summary["notes"] == ["contractions changed no text: there was no place for it"]
    with pytest.raises(DataError, match="shares above 0"):
        NoiseAttack((0.0,))


def test_a_regression_is_scored_by_its_own_metric():
    task = Task("score", "score", "sentence", "regression", ("text",), metrics=("pearson",))
    victim = Victim(bert(torch.float32, num_labels=1, problem_type="regression").eval(), TOKENIZER, task, max_length=32)
    rows = [{"text": text, "label": 0.0} for text in sentences(12)]
    logits = victim.exact(rows)
    found = run_attack(NoiseAttack((1.0,), ("typos",)), Target(victim, rows, logits, np.ravel(logits), samples=20))
    assert found.summary["metric"] == "pearson"
    assert found.summary["clean"]["value"] == pytest.approx(1.0)
    assert found.summary["groups"][0]["points"][1]["value"] < 0.9
