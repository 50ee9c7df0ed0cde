"""Every metric against values worked out by hand, ties and single classes included."""

import math
from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest

from toughen import tasks
from toughen.tasks.bootstrap import _ranked, _sums
from toughen.tasks.catalog import ENTITY_METRICS, iob2


def task(head, *metrics, labels=("a", "b", "c")):
    labels = () if head == "regression" else labels
    kind = head if head in ("tokens", "choices") else "sentence"
    return tasks.Task("t", "t", kind, head, ("text",), labels, metrics)


BINARY = ([1, 1, 0, 0, 0, 1], [1, 1, 1, 0, 0, 0])  # 2 right of each, 1 wrong of each
THREE = ([0, 1, 1, 1, 2, 0], [0, 0, 1, 1, 2, 2])
MANY = ([[1, 1, 0], [0, 1, 0]], [[1, 0, 1], [0, 1, 0]])
GOLDEN = [
    ("classes", "accuracy", *BINARY, 4 / 6),
    ("classes", "accuracy", *THREE, 4 / 6),
    ("classes", "accuracy", [1, 1], [1, 1], 1.0),
    ("classes", "f1", *BINARY, 2 * 2 / (3 + 3)),
    ("classes", "f1", [0, 1, 1, 0], [0, 1, 0, 0], 2 / 3),
    ("classes", "f1", [0, 0], [1, 0], 0.0),
    ("classes", "f1", [0, 0], [0, 0], 0.0),  # one class only
    ("classes", "f1_macro", *THREE, (1 / 2 + 4 / 5 + 2 / 3) / 3),
    ("classes", "f1_macro", [1, 1], [1, 1], 1.0),
    ("classes", "matthews", *BINARY, (2 * 2 - 1 * 1) / 9),
    ("classes", "matthews", *THREE, (4 * 6 - 12) / math.sqrt(22 * 24)),
    ("classes", "matthews", [1, 1, 1], [1, 0, 1], 0.0),
    ("classes", "matthews", [1, 0, 1], [1, 1, 1], 0.0),
    ("classes", "matthews", [1, 0], [0, 1], -1.0),
    ("choices", "accuracy", *THREE, 4 / 6),
    ("regression", "pearson", [1, 2, 3, 4], [2, 4, 6, 9], 11.5 / math.sqrt(5 * 26.75)),
    ("regression", "pearson", [1, 1, 1], [1, 2, 3], 0.0),
    ("regression", "pearson", [1, 2, 3], [2, 2, 2], 0.0),
    ("regression", "spearman", [1, 2, 2, 3], [1, 2, 3, 4], 4.5 / math.sqrt(4.5 * 5)),  # a tie
    ("regression", "spearman", [1, 2, 2, 3], [0, 5, 5, 9], 1.0),
    ("regression", "spearman", [3, 2, 1], [1, 10, 100], -1.0),
    ("regression", "spearman", [7, 7, 7], [1, 2, 3], 0.0),
    ("regression", "mse", [1, 2], [2, 4], 2.5),
    ("multilabel", "f1_micro", *MANY, 2 * 2 / (3 + 3)),
    ("multilabel", "f1_macro", *MANY, (1 + 2 / 3 + 0) / 3),
    ("multilabel", "exact", *MANY, 1 / 2),
]


@pytest.mark.parametrize(("head", "name", "answers", "labels", "value"), GOLDEN)
def test_golden_values(head, name, answers, labels, value):
    scores = tasks.metrics(task(head, name))(answers, labels)
    assert scores[name] == pytest.approx(value)
    assert math.isfinite(scores[name])


def test_a_convention_is_noted():
    found = tasks.metrics(task("regression", "pearson", "spearman"))([1.0, 1.0], [0.5, 0.7])
    assert found == {"pearson": 0.0, "spearman": 0.0}
    assert len(found.notes) == 2
    assert "constant" in found.notes[0]
    assert not tasks.metrics(task("regression", "pearson"))([1.0, 2.0], [0.5, 0.7]).notes


def test_logits_become_answers():
    logits = np.array([[0.1, 2.0, 0.0], [3.0, 0.0, 0.0]])
    assert tasks.metrics(task("classes", "accuracy"))(logits, [1, 0])["accuracy"] == 1
    assert tasks.metrics(task("regression", "mse"))(np.array([[1.0], [2.0]]), [1.0, 2.0])["mse"] == 0
    assert tasks.metrics(task("multilabel", "exact"))(np.array([[2.0, -1.0, 0.5]]), [[1, 0, 1]])["exact"] == 1


def test_hans_folds_three_classes_onto_two():
    hans = tasks.task("hans")
    logits = np.eye(3)  # entailment, neutral, contradiction
    assert tasks.metrics(hans)(logits, [0, 1, 1])["accuracy"] == 1
    assert tasks.metrics(hans)([0, 2, 1], [0, 1, 1])["accuracy"] == 1


NAMES = iob2("PER", "LOC")  # O B-PER I-PER B-LOC I-LOC
ENTITIES = task("tokens", *ENTITY_METRICS, labels=NAMES)


def test_entities_by_hand():
    labels = [[-100, 1, -100, 2, 0, 3, -100], [-100, 0, 3, -100, -100, -100, -100]]
    answers = [[0, 1, 4, 0, 0, 3, 3], [0, 0, 3, 3, 3, 3, 3]]
    # gold: PER(0-1), LOC(3), LOC(1); found: PER(0), LOC(3), LOC(1) -> 2 of 3 right, tokens 5 of 6
    scores = tasks.metrics(ENTITIES)(np.array(answers), np.array(labels))
    assert scores["entity_f1"] == pytest.approx(2 / 3)
    assert scores["entity_precision"] == pytest.approx(2 / 3)
    assert scores["entity_recall"] == pytest.approx(2 / 3)
    assert scores["token_accuracy"] == pytest.approx(5 / 6)
    logits = np.eye(5)[np.array(answers)]
    assert tasks.metrics(ENTITIES)(logits, np.array(labels)) == scores


def test_strict_entities_must_begin_with_b():
    labels, answers = [[3, 0]], [[4, 0]]  # B-LOC O against I-LOC O
    assert tasks.metrics(ENTITIES)(answers, labels)["entity_f1"] == 1
    assert tasks.metrics(ENTITIES, strict=True)(answers, labels)["entity_f1"] == 0


@pytest.mark.parametrize(("last", "single"), [("E", "S"), ("L", "U")])
def test_neighbouring_entities_where_tags_say_where_they_end(last, single):
    one = task("tokens", *ENTITY_METRICS, labels=("O", "B-X", "I-X", f"{last}-X", f"{single}-X"))
    labels = [[1, 3, 1, 3, 0, 4, 4], [4, 4, 0, 0, 0, 0, 0]]  # two of two words, and four single ones
    answers = [[1, 3, 1, 3, 0, 1, 3], [1, 3, 0, 0, 0, 0, 0]]  # the single ones as two of two
    scores = tasks.metrics(one)(answers, labels)
    assert scores["entity_recall"] == pytest.approx(2 / 6)
    assert scores["entity_precision"] == pytest.approx(2 / 4)
    for name in ENTITY_METRICS:
        assert tasks.interval(one, answers, labels, name, samples=5).value == pytest.approx(scores[name])


def test_no_entity_at_all_is_noted():
    scores = tasks.metrics(ENTITIES)([[0, 0]], [[0, 0]])
    assert scores["entity_f1"] == 0
    assert scores["token_accuracy"] == 1
    assert "no entity" in scores.notes[0]


def test_the_function_for_a_trainer():
    compute = tasks.compute_metrics(tasks.task("cola"))
    output = SimpleNamespace(predictions=(np.eye(2)[[0, 1]], "hidden"), label_ids=np.array([0, 1]))
    assert compute(output) == {"matthews": 1.0, "accuracy": 1.0}


def test_what_cannot_be_scored():
    score = tasks.metrics(task("classes", "accuracy"))
    with pytest.raises(ValueError, match=r"1 of 2 predictions are NaN.*diverged"):
        score(np.array([[0.0, np.nan], [1.0, 0.0]]), [0, 1])
    with pytest.raises(ValueError, match="3 predictions and 2 labels"):
        score([0, 1, 1], [0, 1])
    with pytest.raises(ValueError, match="nothing to score"):
        score([], [])


def test_calibration_by_hand():
    sure = np.array([0.9, 0.6, 0.8, 0.55])
    table = np.stack([sure, 1 - sure], axis=1)
    labels = [0, 1, 0, 0]
    # bins of a tenth: 0.9 right (gap 0.1); 0.6 wrong with 0.55 right (gap 0.075, twice); 0.8 right (gap 0.2)
    assert tasks.calibration_error(table, labels, bins=10) == pytest.approx((0.1 + 2 * 0.075 + 0.2) / 4)
    assert sum(part.rows for part in tasks.reliability(table, labels)) == 4
    assert tasks.calibration_error(np.eye(2), [0, 1]) == 0
    assert tasks.calibration_error(np.eye(2), [1, 0]) == 1
    with pytest.raises(ValueError, match="softmax"):
        tasks.calibration_error(np.array([[2.0, 3.0]]), [0])


CASES = [
    (task("classes", "accuracy", "f1", "f1_macro", "matthews"), (40,), "classes"),
    (task("regression", "pearson", "spearman", "mse"), (40,), "values"),
    (task("multilabel", "f1_micro", "f1_macro", "exact"), (40, 3), "hot"),
    (ENTITIES, (40, 6), "tags"),
]


def _example(shape, kind):
    dice = np.random.default_rng(5)
    if kind == "values":
        labels = dice.integers(0, 6, size=shape).astype(float)
        return labels + dice.normal(size=shape), labels
    high = {"classes": 3, "hot": 2, "tags": 5}[kind]
    labels = dice.integers(0, high, size=shape)
    return np.where(dice.random(shape) < 0.3, dice.integers(0, high, size=shape), labels), labels


@pytest.mark.parametrize(("of", "shape", "kind"), CASES)
def test_intervals_equal_the_slow_way(of, shape, kind):
    answers, labels = _example(shape, kind)
    drawn = np.random.default_rng(1).integers(0, 40, size=40)
    slow = tasks.metrics(of)(answers[drawn], labels[drawn])
    for name in of.metrics:
        whole = tasks.interval(of, answers, labels, name, samples=200)
        assert whole.value == pytest.approx(tasks.metrics(of)(answers, labels)[name])
        assert whole.low <= whole.value <= whole.high
        assert whole.low < whole.high
        assert whole == tasks.interval(of, answers, labels, name, samples=200)
        assert whole != tasks.interval(of, answers, labels, name, samples=200, seed=1)
        if name == "spearman":
            fast = _ranked(answers[drawn][None], labels[drawn][None])[0]
        else:
            sums = _sums(of, name, answers, labels)
            fast = sums.score(np.bincount(drawn, minlength=40).astype(float)[None] @ sums.rows)[0]
        assert fast == pytest.approx(slow[name]), name


@pytest.mark.parametrize(("unit", "zero"), [(1e-9, 0.0), (1e-9, 1e-7), (1e9, 0.0), (1.0, 1e6)])
def test_an_interval_of_a_correlation_does_not_ask_what_is_measured(unit, zero):
    of = task("regression", "pearson")
    answers, labels = _example((40,), "values")
    plain, other = (tasks.interval(of, answers * u, labels * u + z) for u, z in ((1.0, 0.0), (unit, zero)))
    assert other == pytest.approx(plain, rel=1e-6)
    for constant in (0.1, 1e-9, 1e9):
        assert tasks.interval(of, answers, np.full(40, constant)) == (0.0, 0.0, 0.0)


def test_an_interval_is_as_wide_as_theory_says():
    labels = np.zeros(1000, dtype=int)
    answers = np.where(np.arange(1000) < 800, 0, 1)
    found = tasks.interval(task("classes", "accuracy"), answers, labels, samples=2000)
    half = 1.96 * math.sqrt(0.8 * 0.2 / 1000)
    assert found.value == pytest.approx(0.8)
    assert found.high - found.low == pytest.approx(2 * half, rel=0.1)


def test_a_difference_is_paired():
    of = task("classes", "accuracy")
    labels = np.arange(200) % 3
    worse = np.where(np.arange(200) % 10 == 0, (labels + 1) % 3, labels)
    much_worse = np.where(np.arange(200) % 5 == 0, (labels + 1) % 3, labels)
    found = tasks.difference(of, worse, much_worse, labels)
    assert found.value == pytest.approx(0.1)
    assert found.low > 0
    assert tasks.difference(of, worse, worse.copy(), labels) == (0, 0, 0)


def test_constant_resamples_are_zero_and_not_nan():
    found = tasks.interval(task("regression", "pearson"), np.array([1.0, 1.0, 2.0]), np.array([1.0, 2.0, 3.0]))
    assert all(map(math.isfinite, found))
    spearman = replace(task("regression", "spearman"))
    assert all(map(math.isfinite, tasks.interval(spearman, np.array([1.0, 1.0]), np.array([1.0, 2.0]))))
