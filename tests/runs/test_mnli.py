"""MNLI is scored on its mismatched half as well, without being asked."""

import json
import random

import pytest
import yaml

from toughen.cli.main import main
from toughen.runs import train
from toughen.runs.folder import RunFolder
from toughen.sweeps.validation import shared_scores
from toughen.tasks.catalog import NLI_LABELS

from ..tiny import BAD, GOOD, OTHER, write_jsonl

pytestmark = pytest.mark.usefixtures("no_page")


def pairs(count: int, seed: int, labelled: bool = True) -> list[dict]:
    dice = random.Random(seed)
    rows = []
    for number in range(count):
        premise, hypothesis = (" ".join(dice.choices([*GOOD, *BAD, *OTHER], k=5)) for _ in range(2))
        label = {"label": NLI_LABELS[number % 3]} if labelled else {}
        rows.append({"premise": premise, "hypothesis": hypothesis, **label})
    return rows


@pytest.fixture
def sets(tmp_path):
    folder = tmp_path / "sets" / "mnli"
    folder.mkdir(parents=True)
    write_jsonl(folder / "train.jsonl", pairs(24, 0))
    for seed, half in enumerate(("matched", "mismatched"), start=1):
        write_jsonl(folder / f"validation_{half}.jsonl", pairs(10 * seed + 2, seed))
        write_jsonl(folder / f"test_{half}.jsonl", pairs(5 * seed, seed + 9, labelled=False))
    return folder


def run(little, sets, tmp_path, **changes):
    data = {"dir": sets.parent, "cache_dir": tmp_path / "cache"}
    options = {"model": little.model, "task": "mnli", "data": data, "train": {**little.train, "epochs": 1}, **changes}
    return train("rdrop", output_dir=tmp_path / "run", **options)


def test_both_halves_are_scored_and_predicted(little, sets, tmp_path, capsys):
    found = run(little, sets, tmp_path, seeds=[1, 2])
    results = json.loads((found.path / "results.json").read_text())
    assert results["metric"] == "accuracy"
    assert {"accuracy", "accuracy_mm", "loss_mm"} <= results["mean"].keys()
    # A sweep may rank by all that a run ends with, and by nothing else.
    assert shared_scores([[RunFolder(found.path).config()]])[0].keys() == results["mean"].keys()
    named = {"train": 24, "validation": 12, "test": 5, "validation_mm": 22, "test_mm": 10}
    assert results["data"] == named
    tables = found.path / "seeds" / "1" / "predictions"
    lines = {split: (tables / f"{split}.tsv").read_text().splitlines() for split in named if split != "train"}
    assert {split: len(rows) - 1 for split, rows in lines.items()} == {k: v for k, v in named.items() if k != "train"}
    answers = [line.split("\t") for line in lines["validation_mm"][1:]]
    right = sum(prediction == label for _, prediction, label, _ in answers) / len(answers)
    assert results["seeds"][0]["metrics"]["accuracy_mm"] == pytest.approx(right)
    evaluated = json.loads((found.path / "eval_results.json").read_text())
    assert evaluated["eval_accuracy_mm"] == results["mean"]["accuracy_mm"]
    card = (found.path / "README.md").read_text()
    assert "| accuracy_mm |" in card.replace("loss_mm | accuracy_mm", "| accuracy_mm")
    first, second = yaml.safe_load(card.split("---")[1])["model-index"][0]["results"]
    assert (first["dataset"]["split"], second["dataset"]["split"]) == ("validation_matched", "validation_mismatched")
    assert second["metrics"] == [{"type": "accuracy", "value": round(results["mean"]["accuracy_mm"], 6)}]
    # The command of adversarialSA's script writes a table of each half.
    assert main(["train", "--do_test", "--task_name", "MNLI", "--output_dir", str(found.path)]) == 0
    of_best = found.path / found.results.best.folder / "predictions"
    for split, file in (("test", "MNLI-m.tsv"), ("test_mm", "MNLI-mm.tsv")):
        kept = [line.split("\t")[:2] for line in (of_best / f"{split}.tsv").read_text().splitlines()]
        assert [line.split("\t") for line in (found.path / file).read_text().splitlines()] == kept
    # Both halves reach GLUE's zip; these have too few rows for it.
    assert main(["submit", str(found.path), "--partial", "--out", str(tmp_path / "out.zip")]) == 2
    told = capsys.readouterr().err
    assert "MNLI has 5 predictions" in told
    assert "MNLI-mm has 10 predictions" in told


def test_a_folder_without_the_mismatched_half_is_noted(little, sets, tmp_path):
    for file in sets.glob("*mismatched*"):
        file.unlink()
    results = run(little, sets, tmp_path).results
    assert "accuracy_mm" not in results.mean
    assert any("mnli-mm is not scored" in note for note in results.notes)
