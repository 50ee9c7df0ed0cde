"""Scans of tiny models and of functions, against counting by hand."""

import json
import re
from pathlib import Path

import numpy as np
import pytest
import torch
from transformers import (
    BertConfig,
    BertForMultipleChoice,
    BertForSequenceClassification,
    BertForTokenClassification,
    BertModel,
)

import toughen
from toughen.attacks.builtin.noise import add_noise
from toughen.cli.main import main
from toughen.evaluation import checks
from toughen.evaluation import scan as scan_module
from toughen.reports.scan_page import mark_letters
from toughen.tasks.spec import DataError, Task

from ..tiny import TOKENIZER
from .test_evaluate import file as file
from .test_evaluate import run as run

NAMES = ("bad", "good", "fair")
SIZE = {"hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 4, "intermediate_size": 64, "vocab_size": 100}


def save(folder, kind=BertForSequenceClassification, **settings):
    torch.manual_seed(0)
    kind(BertConfig(**SIZE, initializer_range=0.3, **settings)).save_pretrained(folder)
    TOKENIZER.save_pretrained(folder)
    return folder


def sentence(number, words=6):
    return " ".join(f"w{5 + (number * 7 + place * 3) % 90}" for place in range(words + number % 4))


def write(path, rows):
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return path


class Classifier:
    """A saved model as a function."""

    def __init__(self, folder):
        self.model = BertForSequenceClassification.from_pretrained(folder).eval()

    def __call__(self, texts):
        with torch.no_grad():
            logits = [self.model(**TOKENIZER(text, return_tensors="pt")).logits[0] for text in texts]
        return torch.stack(logits).softmax(-1)


@pytest.fixture(scope="module")
def subject(tmp_path_factory):
    """A model, and rows of which it gets most right."""
    folder = tmp_path_factory.mktemp("scan")
    model = save(folder / "model", id2label=dict(enumerate(NAMES)))
    texts = [sentence(number) for number in range(24)]
    answers = Classifier(model)(texts).argmax(-1).tolist()
    labels = [NAMES[(answer + (number % 6 == 5)) % 3] for number, answer in enumerate(answers)]
    rows = [{"text": text, "label": label} for text, label in zip(texts, labels, strict=True)]
    return model, write(folder / "own.jsonl", rows), rows


@pytest.fixture(scope="module")
def scanned(subject, tmp_path_factory):
    synonyms = tmp_path_factory.mktemp("words") / "synonyms.json"
    synonyms.write_text(json.dumps({f"w{number}": [f"w{number + 1}", f"w{number + 2}"] for number in range(5, 90)}))
    return toughen.scan(subject[0], file=subject[1], synonyms=synonyms)


def test_the_scores_are_those_of_the_attacks(subject, scanned):
    by_name = {each.check.name: each for each in scanned.checks}
    assert list(by_name) == ["typos", "casing", "obfuscation", "characters", "synonyms", "pgd"]
    assert "lexicon" in scanned.left_out["misspellings"]
    model, _, rows = subject
    task = Task("own", "own", "sentence", "classes", ("text",), NAMES)
    noisy = [add_noise(task, row, number, "typos", 0.3, 0)["text"] for number, row in enumerate(rows)]
    labels = np.array([NAMES.index(row["label"]) for row in rows])
    right = [
        np.array(Classifier(model)(texts).argmax(-1)) == labels for texts in ([row["text"] for row in rows], noisy)
    ]
    typos = by_name["typos"]
    assert (scanned.clean.value, typos.score.value) == (right[0].mean(), right[1].mean())
    assert typos.loss.difference == pytest.approx(right[0].mean() - right[1].mean())
    assert typos.broken == (right[0] & ~right[1]).sum()
    assert all(rows[each.index]["text"] == each.original["text"] for each in typos.examples)
    assert all(noisy[each.index] == each.changed["text"] for each in typos.examples)
    chances = Classifier(model)([row["text"] for row in rows]).max(-1).values
    sure = [chances[each.index].item() for each in typos.examples]
    assert sure == sorted(sure, reverse=True)
    assert len(sure) > 1
    characters = json.loads((scanned.page.parent / "attacks" / "characters-characters.json").read_text())
    assert by_name["characters"].score.value == characters["attacked"]["accuracy"]["value"]
    assert by_name["pgd"].score.value < scanned.clean.value
    sizes = {
        kind: sum(each.rows for each in scanned.slices if each.kind == kind) for kind in ("label", "length in words")
    }
    assert set(sizes.values()) == {24}
    (weakest,) = [each for each in scanned.slices if each == scanned.weakest_slice]
    assert weakest.worst[1] == max(each.worst[1] for each in scanned.slices if each.rows >= 10)


def test_the_decision_names_the_loss_and_the_weakest(scanned):
    loss = {each.check.name: each for each in scanned.checks}
    assert scanned.decision.startswith(f"model loses {loss['typos'].points} points of accuracy under typos in 30 %")
    random = max((each for each in scanned.checks if not each.check.searched), key=lambda each: each.loss.difference)
    assert random.check.name == "typos" or f"weakest: {random.check.name} ({random.points})" in scanned.decision


def test_the_page_and_its_file(scanned):
    page = scanned.page.read_text()
    assert all(each.check.title in page for each in scanned.checks)
    assert page.count('<article class="example"') == sum(len(each.examples) for each in scanned.checks)
    assert "What would help" in page
    assert f">{100 * scanned.checks[0].score.value:.1f}<" in page  # in points, as on all pages
    saved = json.loads((scanned.page.parent / "scan.json").read_text())
    assert [each["check"] for each in saved["checks"]] == [each.check.name for each in scanned.checks]
    assert saved["decision"] == scanned.decision


def test_texts_are_escaped_on_the_page(subject, tmp_path, monkeypatch):
    monkeypatch.setattr(checks, "CHECKS", checks.CHECKS[:1])
    rows = [{**row, "text": f"{row['text']} <script>alert(1)</script>"} for row in subject[2]]
    scanned = toughen.scan(Classifier(subject[0]), file=write(tmp_path / "own.jsonl", rows), out=tmp_path)
    assert scanned.checks[0].examples
    assert "<script>alert" not in scanned.page.read_text()


def test_an_interrupted_scan_goes_on(subject, scanned, tmp_path, monkeypatch):
    run, calls = scan_module.run_attack, []

    def until_the_third(*args, **settings):
        calls.append(settings["where"])
        if len(calls) == 3:
            raise KeyboardInterrupt
        return run(*args, **settings)

    monkeypatch.setattr(scan_module, "run_attack", until_the_third)
    with pytest.raises(KeyboardInterrupt):
        toughen.scan(subject[0], file=subject[1], out=tmp_path)
    monkeypatch.undo()
    done = {file: file.stat().st_mtime_ns for file in (tmp_path / "attacks").glob("*.rows.jsonl")}
    assert len(done) == 2
    again = toughen.scan(subject[0], file=subject[1], out=tmp_path)
    assert {file: file.stat().st_mtime_ns for file in done} == done
    known = {each.check.name: each.score for each in scanned.checks}
    assert all(known[each.check.name] == each.score for each in again.checks)


def test_a_function_is_scanned_as_its_model_is(subject, scanned, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    found = toughen.scan(Classifier(subject[0]), file=subject[1], labels=NAMES)
    assert found.page == Path("scan/Classifier/own/scan.html")
    known = {each.check.name: each for each in scanned.checks}
    assert [each.check.name for each in found.checks] == ["typos", "casing", "obfuscation", "characters"]
    for each in found.checks:
        assert each.score == known[each.check.name].score
        assert {row.index for row in each.examples} == {row.index for row in known[each.check.name].examples}
    assert "weights" in found.left_out["pgd"]
    assert found.evaluation.calibration["ece"] == pytest.approx(scanned.evaluation.calibration["ece"])


def test_a_function_of_other_answers_starts_again(subject, tmp_path, monkeypatch):
    monkeypatch.setattr(checks, "CHECKS", checks.CHECKS[:1])
    model, settings = Classifier(subject[0]), {"file": subject[1], "labels": NAMES, "out": tmp_path}
    first = toughen.scan(model, **settings)
    turned = toughen.scan(lambda texts: model(texts)[:, [1, 2, 0]], **settings)
    assert turned.checks[0].score != first.checks[0].score


def test_a_function_of_pairs_and_one_of_amounts(tmp_path):
    given = []

    def entails(texts):
        given.extend(texts)
        yes = np.array([len(set(one.split()) & set(two.split())) > 0 for one, two in texts])
        return np.stack([~yes, yes], axis=1)

    rows = [
        {"premise": sentence(n), "hypothesis": sentence(n if n % 2 else n + 40, 3), "label": "ny"[n % 2]}
        for n in range(12)
    ]
    columns = "hypothesis, premise"
    found = toughen.scan(entails, file=write(tmp_path / "pairs.jsonl", rows), text_column=columns, out=tmp_path)
    assert given[0] == (rows[0]["hypothesis"], rows[0]["premise"])
    assert found.clean.value == 1
    assert {each.check.name for each in found.checks} >= {"typos", "characters"}

    rows = [{"text": sentence(n), "label": float(len(sentence(n))) + 0.5} for n in range(12)]
    lengths = toughen.scan(
        lambda texts: list(map(len, texts)), file=write(tmp_path / "amounts.jsonl", rows), out=tmp_path / "amounts"
    )
    assert lengths.metric == "pearson"
    assert lengths.clean.value == pytest.approx(1)
    assert "a regression" in lengths.left_out["characters"]
    assert lengths.checks[0].loss.difference > 0
    assert lengths.checks[0].examples


def tokens(number):
    words = sentence(number).split()
    return {"tokens": words, "tags": [("O", "B-X", "I-X")[len(word) % 3 if number else 0] for word in words]}


def choices(number):
    return {
        "context": sentence(number),
        "question": "w9",
        "choices": [sentence(number + n, 3) for n in (1, 2)],
        "label": number % 2,
    }


@pytest.mark.parametrize(
    ("kind", "row", "settings", "ran"),
    [
        (BertForTokenClassification, tokens, {"id2label": dict(enumerate(("O", "B-X", "I-X")))}, "pgd"),
        (BertForMultipleChoice, choices, {}, "characters pgd"),
        (
            BertForSequenceClassification,
            lambda number: {"text": sentence(number), "label": number / 7},
            {"num_labels": 1},
            "pgd",
        ),
        (
            BertForSequenceClassification,
            lambda number: {"text": sentence(number), "label": [["x"], ["y"], ["x", "y"]][number % 3]},
            {"problem_type": "multi_label_classification", "id2label": {0: "x", 1: "y"}},
            "pgd",
        ),
    ],
    ids=["tokens", "choices", "regression", "multilabel"],
)
def test_other_heads(kind, row, settings, ran, tmp_path):
    model = save(tmp_path / "model", kind, **settings)
    found = toughen.scan(model, file=write(tmp_path / "own.jsonl", map(row, range(12))))
    assert [each.check.name for each in found.checks] == ["typos", "casing", "obfuscation", *ran.split()]
    assert found.page.is_file()
    assert all(each.loss.low <= each.loss.difference <= each.loss.high for each in found.checks)


def test_a_file_is_read_as_it_was_written(tmp_path, monkeypatch):
    monkeypatch.setattr(checks, "CHECKS", checks.CHECKS[:2])
    text = "text|label\n" + "".join(f"caf\u00e9 w{n}|{'ny'[n % 2]}\n" for n in range(12)) + "no label|\n"
    (tmp_path / "own.csv").write_bytes(text.encode("cp1252"))
    settings = {"delimiter": "|", "encoding": "cp1252", "on_bad": "skip"}
    found = toughen.scan(
        lambda texts: uniform(texts)[:, :2] * 1.5, file=tmp_path / "own.csv", out=tmp_path / "out", **settings
    )
    assert found.rows == 12
    assert found.weakest_slice is None  # one answer to all: nothing can be lost
    assert "weakest" not in found.decision


def test_a_run_has_its_own_rows(run, monkeypatch):
    monkeypatch.setattr(checks, "CHECKS", checks.CHECKS[:1])
    found = toughen.scan(run, limit=10)
    assert (found.model, found.rows) == (run.name, 10)
    assert found.page == run / "scan" / "validation-limit-10" / "scan.html"
    assert not (run / "attacks").exists()  # those are the run's own, of all its rows


def test_a_name_on_the_hub(subject, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    asked = []
    monkeypatch.setattr("huggingface_hub.snapshot_download", lambda name, **_: asked.append(name) or str(subject[0]))
    monkeypatch.setattr(checks, "CHECKS", checks.CHECKS[:1])
    found = toughen.scan("somebody/model", file=subject[1])
    assert asked == ["somebody/model"]
    assert (found.model, found.page) == ("somebody/model", Path("scan/somebody--model/scan/own/scan.html"))


def uniform(texts):
    return np.full((len(texts), 3), 1 / 3)


BAD = {
    "a number": (lambda texts: 1.0, "returned float for 8 texts; give a row for each text with 3 probabilities"),
    "nothing": (lambda texts: None, "returned NoneType for 8 texts"),
    "words": (lambda texts: ["good"] * len(texts), "returned list, no array of numbers"),
    "a column": (lambda texts: uniform(texts)[:, 0], "returned 8 for 8 texts"),
    "two columns": (lambda texts: uniform(texts)[:, :2], "returned 8 x 2 for 8 texts"),
    "a row too few": (lambda texts: uniform(texts)[1:], "returned 7 x 3 for 8 texts"),
    "NaN": (lambda texts: uniform(texts) * np.nan, "returned NaN or infinity for 'w5 "),
    "logits": (lambda texts: uniform(texts) * 7, r"no probabilities.*softmax"),
    "chance": (
        lambda texts: np.random.default_rng().dirichlet(np.ones(3), len(texts)),
        "gives two answers to the same text",
    ),
}


@pytest.mark.parametrize("name", BAD)
def test_functions_that_cannot_be_scanned(name, subject, tmp_path):
    function, message = BAD[name]
    with pytest.raises(DataError, match=message):
        toughen.scan(function, file=subject[1], out=tmp_path / "out")
    assert not (tmp_path / "out").exists()


def test_rows_that_cannot_be_scanned(subject, tmp_path):
    model, file, rows = subject

    def refused(rows, match, subject=model, **settings):
        with pytest.raises(DataError, match=match):
            toughen.scan(subject, file=write(tmp_path / "bad.jsonl", rows), out=tmp_path / "out", **settings)
        assert not (tmp_path / "out").exists()

    refused([{"text": row["text"]} for row in rows], "no column 'label'.*label_column=")
    refused([{**row, "label": "good"} for row in rows], "all 24 rows have the label 'good'; give rows of two classes")
    refused([{**row, "label": "good"} for row in rows], "only 'good'.*labels=", uniform)
    refused([*rows, {"text": " ", "label": "bad"}], "1 of 25 texts in 'text' are empty, that of row 25 first")
    refused(rows, "no synonyms|does not exist", synonyms=tmp_path / "none.json")
    with pytest.raises(DataError, match=r"a function has no rows of its own: give file="):
        toughen.scan(uniform)
    with pytest.raises(DataError, match="there is no split 'dev': give one of train"):
        toughen.scan(uniform, file=file, split="dev")
    with pytest.raises(DataError, match="max_length=0: it must be at least 1"):
        toughen.scan(model, file=file, max_length=0)
    with pytest.raises(DataError, match="BertForSequenceClassification takes token ids, not texts: save it"):
        toughen.scan(Classifier(model).model, file=file)
    with pytest.raises(DataError, match="is not a folder; give a run"):
        toughen.scan(tmp_path / "no" / "where" / "model", file=file)
    BertModel(BertConfig(**SIZE)).save_pretrained(tmp_path / "headless")
    TOKENIZER.save_pretrained(tmp_path / "headless")
    two = [{**row, "label": NAMES[number % 2]} for number, row in enumerate(rows)]
    with pytest.raises(ValueError, match="answers would be random; fine-tune it first"):
        toughen.scan(tmp_path / "headless", file=write(tmp_path / "two.jsonl", two))


def test_from_the_command_line(subject, tmp_path, capsys, monkeypatch):
    monkeypatch.setattr(checks, "CHECKS", checks.CHECKS[:2])
    own = tmp_path / "own.py"
    own.write_text("def guess(texts):\n    return [[0.2, 0.5, 0.3] if 'w' in text else [1, 0, 0] for text in texts]\n")
    words = ["scan", f"{own}:guess", "--file", str(subject[1]), "--out", str(tmp_path / "out")]
    assert main(words) == 0
    said = capsys.readouterr()
    assert re.search(r"scan 2/2: other case in 30 % of the words · about [\d:]+ left", said.err)
    assert said.out.splitlines()[-1].startswith("guess loses ")
    assert f"page: {tmp_path / 'out' / 'scan.html'}" in said.out
    assert main([*words, "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["model"] == "guess"
    for model, message in ((f"{own}:other", "has no function 'other'"), (f"{own}x.py:guess", "give file.py:function")):
        assert main(["scan", model, "--file", str(subject[1])]) == 2
        assert message in capsys.readouterr().err
    assert main(["scan", str(subject[0]), "--file", str(subject[1]), "--labels", "a,b"]) == 2
    assert "--labels names the columns of a function" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("before", "after", "went", "came"),
    [
        ("a good film", "a gold film", ["o"], ["l"]),
        ("a good film", "a good movie", ["film"], ["movie"]),
        ("a good film", "a go\u200bod film", [], ["[U+200B]"]),
        ("a good film", "a g o o d film", [], [" ", " ", " "]),
        ("a good film", "a good film", [], []),
        ("x " * 600 + "good", "x " * 600 + "g0od", ["o"], ["0"]),
    ],
)
def test_changed_letters_are_marked(before, after, went, came):
    pieces = mark_letters(before, after)
    assert [[text for text, marked in each if marked] for each in pieces] == [went, came]
    assert all(sum(len(text) for text, _ in each) < 720 for each in pieces)


def test_the_few_rows_of_a_function_are_put_to_it_first(subject):
    asked = []

    def counted(texts):
        asked.append(len(texts))
        return uniform(texts)

    scan_module.function_subject(counted, scan_module.Source(file=subject[1]), None)
    assert asked == [8, 8, 24]
