"""Every head, adapters, the second-order head and a method from a file run through the same folder."""

import json

import pytest

from toughen.runs import load, train

from ..little import write_jsonl
from ..tasks.task_samples import rows_of

INPUTS = {
    "pair": ("the film is good", "a dull story"),
    "regression": "the film is good",
    "multilabel": "good and bad",
    "tokens": "the film is good",
    "choices": {"context": "the film", "question": "it is", "choices": ["good", "bad", "dull"]},
}


@pytest.mark.parametrize("head", INPUTS)
def test_heads(head, little, tmp_path):
    file = write_jsonl(tmp_path / "rows.jsonl", rows_of(head))
    data = {"train_file": file, "validation_file": file, "test_file": file, "cache_dir": tmp_path / "cache"}
    run = train(
        "r3f", model=little.model, data=data, train={**little.train, "max_steps": 2}, output_dir=tmp_path / "run"
    )
    said = load(run.path)(INPUTS[head])
    lines = (run.path / "seeds/1/predictions/test.tsv").read_text().splitlines()
    assert len(lines) == len(rows_of(head)) + 1
    first = lines[1].split("\t")[1]
    if head == "regression":
        assert isinstance(said.label, float)
        float(first)
    elif head == "multilabel":
        assert set(said.label) <= set(said.probabilities) == {"good", "bad", "dull"}
        assert set(json.loads(first)) <= {"good", "bad", "dull"}
    elif head == "tokens":
        assert len(said.label) == 4
        assert len(json.loads(first)) == len(rows_of(head)[0]["tokens"])
    else:
        assert said.probabilities[said.label] == max(said.probabilities.values())


def test_adapters_are_merged_into_a_plain_model(start):
    pytest.importorskip("peft")
    from transformers import AutoModelForSequenceClassification

    run = start("smart", peft={"name": "lora", "r": 2})
    model = AutoModelForSequenceClassification.from_pretrained(run.path / "model")
    assert not any("lora" in name for name, _ in model.named_parameters())
    assert (run.path / "seeds/1/adapter/adapter_model.safetensors").is_file()
    lines = (run.path / "seeds/1/predictions/validation.tsv").read_text().splitlines()
    said = run.load()("the film is good")
    assert said.label in ("neg", "pos")
    assert len(lines) == 21


def test_second_order_head(start):
    run = start("freelb", head={"name": "second-order", "q": 8, "k": 4})
    assert run.results.head == "second-order"
    assert type(run.load().model).__name__ == "SecondOrderForSequenceClassification"
    assert "import toughen" in (run.path / "README.md").read_text()


def test_a_method_from_a_file(start, tmp_path, capsys):
    from toughen.cli.main import main

    file = tmp_path / "mine.py"
    assert main(["new", str(file)]) == 0
    run = start(f"{file}:mine", weight=2.0)
    assert "Add(weight=2.0" in run.results.method["repr"]
    assert run.config.method["weight"] == 2.0


def test_a_sum_with_settings_of_its_parts(start):
    run = start("smart+rdrop", smart={"weight": 3.0}, seeds=[5])
    assert "Add(weight=3.0" in run.results.method["repr"]
    assert run.results.seeds[0]["seed"] == 5


def test_the_best_epoch_is_taken_and_patience_ends_early(start, little):
    run = start("plain", train={**little.train, "epochs": 12, "patience": 1})
    rows = [json.loads(line) for line in (run.path / "metrics.jsonl").read_text().splitlines()]
    scored = [(row["eval_accuracy"], row["epoch"]) for row in rows if row["kind"] == "eval"]
    best = max(scored, key=lambda each: (each[0], -each[1]))
    assert run.results.seeds[0]["best_epoch"] == best[1]
    assert run.results.seeds[0]["metrics"]["accuracy"] == best[0]
    assert scored[-1][1] == best[1] + 1 < 12
