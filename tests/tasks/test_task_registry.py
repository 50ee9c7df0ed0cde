import pickle
import subprocess
import sys

import pytest

from toughen import tasks
from toughen.tasks.catalog import ENTITY_METRICS
from toughen.tasks.scoring import SCORES

_NAMES = """
cola sst2 mrpc stsb qqp mnli mnli-mm qnli rte wnli ax snli anli-r1 anli-r2 anli-r3 paws-qqp hans advglue-sst2
stress-negation stress-word-overlap stress-length-mismatch stress-spelling-swap
advglue-qqp advglue-mnli advglue-mnli-mm advglue-qnli advglue-rte ag_news imdb swag hellaswag dream conll2003 wnut17 ptb
"""
EXPECTED = _NAMES.split()


def test_every_set_is_there():
    assert set(EXPECTED) <= set(tasks.available())


@pytest.mark.parametrize(
    ("spelled", "name"),
    [
        ("SST-2", "sst2"),
        ("STS-B", "stsb"),
        ("MNLI_mm", "mnli-mm"),
        ("AG News", "ag_news"),
        ("CoNLL-2003", "conll2003"),
        ("ANLI R2", "anli-r2"),
        ("Penn Treebank", "ptb"),
        ("adv_sst2", "advglue-sst2"),
    ],
)
def test_names_are_forgiving(spelled, name):
    assert tasks.task(spelled).name == name


def test_an_unknown_name_lists_the_nearest():
    with pytest.raises(ValueError, match=r"no task 'sts2'.*sst2"):
        tasks.task("sts2")
    with pytest.raises(ValueError, match="hellaswag"):
        tasks.task("helaswag")


@pytest.mark.parametrize("name", EXPECTED)
def test_entries_are_whole(name):
    task = tasks.task(name)
    assert task.primary_metric == task.metrics[0]
    assert set(task.metrics) <= set(SCORES) | set(ENTITY_METRICS)
    assert task.citation
    assert set(task.splits) <= {"train", "validation", "test"}
    assert len(task.columns) == {"sentence": 1, "pair": 2, "choices": 3, "tokens": 1}[task.kind]
    assert (task.head == "regression") == (not task.labels)
    assert pickle.loads(pickle.dumps(task)) == task
    hash(task)
    if task.tests:
        tested = tasks.task(task.tests)
        assert tested.head == task.head
        assert task.labels == tested.labels or len(task.class_map) == len(tested.labels)


def test_a_task_of_ones_own():
    own = tasks.Task("my-stars", "My Stars", "sentence", "classes", ("text",), ("1", "2"))
    assert tasks.register(own) is tasks.task("mystars")
    with pytest.raises(ValueError, match="already belongs to 'sst2'"):
        tasks.register(tasks.Task("other", "SST2", "sentence", "classes", ("text",), ("1", "2")))
    with pytest.raises(ValueError, match="two labels"):
        tasks.Task("x", "x", "sentence", "classes", ("text",), ("one",))


@pytest.mark.parametrize(
    ("name", "model", "kwargs"),
    [
        (
            "mnli",
            "AutoModelForSequenceClassification",
            {"num_labels": 3, "problem_type": "single_label_classification"},
        ),
        ("hans", "AutoModelForSequenceClassification", {"num_labels": 3}),
        ("stsb", "AutoModelForSequenceClassification", {"num_labels": 1, "problem_type": "regression"}),
        ("wnut17", "AutoModelForTokenClassification", {"num_labels": 13}),
        ("dream", "AutoModelForMultipleChoice", {}),
    ],
)
def test_the_model_of_a_task(name, model, kwargs):
    assert tasks.auto_class(name).__name__ == model
    found = tasks.model_kwargs(name)
    assert found.items() >= kwargs.items()
    if "id2label" in found:
        assert {label: number for number, label in found["id2label"].items()} == found["label2id"]


def test_importing_tasks_is_cheap_and_says_which_extra_is_missing():
    code = """
import sys
from toughen import tasks
tasks.task("sst2"), tasks.available(), tasks.load, tasks.Data
heavy = {"torch", "transformers", "datasets", "sklearn", "scipy", "seqeval", "pandas", "pyarrow"} & set(sys.modules)
assert not heavy, heavy
sys.modules["datasets"] = None
try:
    tasks.load("sst2")
except ImportError as problem:
    told = "This needs the package 'datasets'. Install it with: pip install \\"toughen[tasks]\\""
    assert str(problem) == told, problem
else:
    raise SystemExit("no error")
"""
    subprocess.run([sys.executable, "-c", code], check=True)
