"""Evaluation of runs and models on tiny models, against plain counting."""

import json
import math
from argparse import ArgumentParser

import numpy as np
import pytest
import torch
import yaml
from transformers import (
    BertConfig,
    BertForSequenceClassification,
    BertForTokenClassification,
    BertModel,
    GPT2Config,
    GPT2ForSequenceClassification,
    PreTrainedTokenizerFast,
)

from toughen import tasks
from toughen.cli.commands import evaluate as command
from toughen.cli.main import main
from toughen.evaluation import AttackSettings, Outputs, evaluate, measure, outputs_of
from toughen.evaluation.outputs import class_order
from toughen.internal.atomic import write_json
from toughen.runs import load
from toughen.tasks.spec import DataError, Task

from ..reports.samples import make_run
from ..tiny import TOKENIZER

NAMES = ("bad", "good", "fair")
ROWS = [
    {"text": " ".join(f"w{5 + (i * 7 + j) % 90}" for j in range(2 + i % 5)), "label": NAMES[i % 3]} for i in range(30)
]


def save_model(folder, names=NAMES, seed=0):
    torch.manual_seed(seed)
    size = {
        "hidden_size": 32,
        "num_hidden_layers": 2,
        "num_attention_heads": 4,
        "intermediate_size": 64,
        "vocab_size": 100,
    }
    config = BertConfig(**size, id2label=dict(enumerate(names)), initializer_range=0.3)
    BertForSequenceClassification(config).save_pretrained(folder)
    TOKENIZER.save_pretrained(folder)
    return folder


@pytest.fixture
def file(tmp_path):
    path = tmp_path / "own.jsonl"
    path.write_text("".join(json.dumps(row) + "\n" for row in ROWS))
    return path


@pytest.fixture
def run(tmp_path, file):
    """A run on own files with two seeds, each with a checkpoint."""
    folder = make_run(tmp_path / "own-smart", scores=(0.5, 0.6))
    save_model(folder / "model")
    for seed in (1, 2):
        save_model(folder / "seeds" / str(seed) / "model", seed=seed)
        for step in (30, 4):
            save_model(folder / "seeds" / str(seed) / f"checkpoint-{step}", seed=seed + step)
    data = {
        "train_file": str(file),
        "validation_file": str(file),
        "max_length": 16,
        "cache_dir": str(tmp_path / "cache"),
    }
    (folder / "config.yaml").write_text(yaml.safe_dump({"task": None, "data": data}))
    return folder


def by_hand(folder, rows=ROWS, names=NAMES) -> float:
    model = BertForSequenceClassification.from_pretrained(folder).eval()
    tokenizer = PreTrainedTokenizerFast.from_pretrained(folder)
    right = 0
    for row in rows:
        batch = tokenizer(row["text"], return_tensors="pt", truncation=True, max_length=16)
        with torch.no_grad():
            answer = int(model(input_ids=batch["input_ids"]).logits.argmax())
        right += model.config.id2label[answer] == row["label"]
    return right / len(rows)


def test_a_run_is_scored_and_written(run):
    (found,) = evaluate(run)
    assert found.name == "validation"
    assert found.rows == 30
    assert found.score == pytest.approx(by_hand(run / "model"))
    value = found.metrics["accuracy"]
    assert value["low"] <= value["value"] <= value["high"]
    assert value["low"] < value["high"]
    written = json.loads((run / "evaluations" / "validation.json").read_text())
    assert written["metrics"]["accuracy"] == value
    assert written["kind"] == "clean"
    assert np.sum(written["confusion"]["counts"]) == 30
    assert sorted(written["confusion"]["labels"]) == sorted(NAMES)
    assert written["per_class"]["good"]["rows"] == 10
    assert sum(part["rows"] for part in written["slices"]["length in tokens"]) == 30
    mean = sum(part["rows"] * part["accuracy"] for part in written["slices"]["length in tokens"]) / 30
    assert mean == pytest.approx(found.score)


def test_all_seeds_and_all_checkpoints(run):
    seeds = evaluate(run, all_seeds=True)
    assert [each.name for each in seeds] == ["validation-seed-1", "validation-seed-2"]
    assert seeds[1].score == pytest.approx(by_hand(run / "seeds" / "2" / "model"))
    points = evaluate(run, all_checkpoints=True, write=False)
    assert [each.name for each in points] == [
        f"validation-seed-{seed}-checkpoint-{step}" for seed in (1, 2) for step in (4, 30)
    ]
    assert len(list((run / "evaluations").glob("*.json"))) == 2


def test_a_model_folder_on_an_own_file(tmp_path, file):
    # Another order of the classes than any alphabet's: names decide, not numbers.
    names = ("good", "fair", "bad")
    folder = save_model(tmp_path / "model", names)
    (found,) = evaluate(folder, file=file)
    assert found.score == pytest.approx(by_hand(folder))
    assert found.name == "own"
    assert (folder / "evaluations" / "own.json").is_file()
    assert found.confusion["labels"] == list(names)


def test_two_columns_may_have_a_space_between(tmp_path):
    folder = save_model(tmp_path / "model")
    file = tmp_path / "pairs.jsonl"
    file.write_text("".join(json.dumps({**row, "one": row["text"], "two": "w7"}) + "\n" for row in ROWS))
    (found,) = evaluate(folder, file=file, text_column="one, two", samples=20, write=False)
    assert found.rows == 30
    run = make_run(tmp_path / "own-smart")
    save_model(run / "model")
    data = {"train_file": str(file), "validation_file": str(file), "text_column": "one, two"}
    (run / "config.yaml").write_text(yaml.safe_dump({"task": None, "data": data}))
    assert [evaluate(run, write=False, samples=20, **own)[0].score for own in ({}, {"file": file})] == [found.score] * 2


@pytest.mark.parametrize(
    ("noted", "in_config", "several"),
    [
        ("multilabel", None, True),
        ("", "multi_label_classification", True),
        ("regression", "regression", False),
        ("", None, False),
    ],
)
def test_the_head_is_the_models_and_not_a_guess_from_the_file(tmp_path, noted, in_config, several):
    """Whole numbers alone would be classes, and words alone one class a row."""
    run = make_run(tmp_path / "own-smart")
    save_model(run / "model", NAMES if several else ("LABEL_0",))
    config = json.loads((run / "model" / "config.json").read_text())
    (run / "model" / "config.json").write_text(json.dumps({**config, "problem_type": in_config}))
    file = tmp_path / "regint.csv"
    rows = [(row["text"], row["label"] if several else place % 5) for place, row in enumerate(ROWS)]
    file.write_text("text,label\n" + "".join(f"{text},{label}\n" for text, label in rows))
    if noted:
        write_json(run / "began.json", {"head": noted})
        (run / "config.yaml").write_text(yaml.safe_dump({"task": None, "data": {"train_file": "gone.csv"}}))
    (found,) = evaluate(run if noted else run / "model", file=file, samples=20, write=False)
    assert (found.rows, found.metric) == (30, "f1_micro" if several else "pearson")


def test_a_file_in_another_form(run, tmp_path, capsys):
    other = tmp_path / "latin.csv"
    other.write_bytes("text|label\ncafé w5|good\ntea w6|bad\nno label|\n".encode("cp1252"))
    words = ["evaluate", str(run), "--file", str(other), "--text_column", "text", "--json"]
    assert main(words) == 2
    assert "--encoding" in capsys.readouterr().err
    assert main([*words, "--encoding", "cp1252", "--delimiter", "|"]) == 2
    assert "--on_bad skip" in capsys.readouterr().err
    assert main([*words, "--encoding", "cp1252", "--delimiter", "|", "--on_bad", "skip"]) == 0
    assert json.loads(capsys.readouterr().out)[0]["rows"] == 2


def test_files_do_not_write_over_each_other_or_the_runs_own_split(run, file):
    (own,) = evaluate(run, samples=20)
    names = []
    for name in ("validation.jsonl", "dev.en.jsonl", "dev.fr.jsonl"):
        rows = file.read_text().splitlines(keepends=True)[:4]
        other = file.with_name(name)
        other.write_text("".join(rows))
        names += [found.name for found in evaluate(run, file=other, samples=20)]
    assert names == ["file-validation", "dev.en", "dev.fr"]
    assert json.loads((run / "evaluations" / "validation.json").read_text())["rows"] == own.rows == 30
    assert {path.stem for path in (run / "evaluations").iterdir()} == {"validation", *names}


@pytest.mark.parametrize(
    ("names", "labels", "order"),
    [
        (("US", "us"), ("US", "us"), None),
        (("us", "US"), ("US", "us"), [1, 0]),
        (("POS", "NEG"), ("neg", "pos"), [1, 0]),
        (("LABEL_1", "LABEL_0"), ("LABEL_0", "LABEL_1"), [1, 0]),
        (("LABEL_0", "LABEL_1"), ("neg", "pos"), None),
    ],
)
def test_classes_are_found_by_name(names, labels, order):
    config = BertConfig(id2label=dict(enumerate(names)))
    assert class_order(config, Task("own", "own", "sentence", "classes", ("text",), labels)) == order


def test_labels_in_another_order_are_put_in_order(tmp_path, file):
    folder = save_model(tmp_path / "model", ("fair", "bad", "good"))
    model = BertForSequenceClassification.from_pretrained(folder).eval()
    task = Task("own", "own", "sentence", "classes", ("text",), NAMES)
    rows = tasks.load(validation_file=file, labels=NAMES, cache_dir=tmp_path / "cache").validation
    found = outputs_of(model, TOKENIZER, task, rows, batch_size=7)
    with torch.no_grad():
        first = model(input_ids=TOKENIZER(ROWS[0]["text"], return_tensors="pt")["input_ids"]).logits[0].numpy()
    np.testing.assert_allclose(found.logits[0], first[[1, 2, 0]], atol=1e-5)


def test_withheld_labels_are_told_with_where_predictions_are(tmp_path, file):
    model = BertForSequenceClassification.from_pretrained(save_model(tmp_path / "model", NAMES)).eval()
    task = Task("own", "own", "sentence", "classes", ("text",), NAMES)
    rows = tasks.load(validation_file=file, labels=NAMES, cache_dir=tmp_path / "cache").validation
    hidden = rows.remove_columns("label").add_column("label", [-1] * len(rows))
    with pytest.raises(tasks.DataError, match=r"withheld.*predictions/test\.tsv"):
        outputs_of(model, TOKENIZER, task, hidden)


@pytest.mark.parametrize(
    ("names", "message"), [(("bad", "good"), "2 classes"), (("x", "y", "z"), "the model's classes are x, y, z")]
)
def test_a_model_of_other_classes_is_refused(tmp_path, file, names, message):
    folder = save_model(tmp_path / "model", names)
    task = Task("own", "own", "sentence", "classes", ("text",), NAMES)
    with pytest.raises(DataError, match=message):
        evaluate(folder, task=task, file=file)


def test_bad_input(tmp_path, run, file):
    with pytest.raises(DataError, match="nowhere does not exist"):
        evaluate(tmp_path / "nowhere")
    (tmp_path / "sweep" / "trials").mkdir(parents=True)
    with pytest.raises(DataError, match="is a sweep: give its runs"):
        evaluate(tmp_path / "sweep")
    with pytest.raises(DataError, match="no split 'dev'"):
        evaluate(run, split="dev")
    with pytest.raises(DataError, match="has no split 'test'"):
        evaluate(run, split="test")
    with pytest.raises(DataError, match="samples=0: it must be at least 1"):
        evaluate(run, samples=0)
    folder = save_model(tmp_path / "model")
    with pytest.raises(DataError, match="does not say its task"):
        evaluate(folder)
    with pytest.raises(DataError, match="no checkpoint"):
        evaluate(folder, all_checkpoints=True)
    (run / "config.yaml").write_text("a: [")
    with pytest.raises(DataError, match="broken run"):
        evaluate(run)


@pytest.mark.parametrize(
    ("content", "message"),
    {
        "text,label\nw5,0\nw6,\nw7,1\n": "'label' is empty there: fill it in or give --on_bad skip.",
        "text,label\nw5,1\nw6,1\n": "only '1'; add rows of another class, or name the classes in config.json",
        "text,label\nw5,\nw6,\n": "has no label at all: nothing can be scored.",
        "text,label\nw5,0,1\nw6,1\nw7,0\n": "has 3 fields where the header has 2; fix",
        'text,label\nw5,0\n"w6,1\n': "a quote is not closed or not doubled; fix it.",
        "text,label\nw\xe4,0\n": "is not utf-8; save the file as UTF-8 or give --encoding cp1252",
        "text,label\n" + "w5 " * 400_000 + ",0\n": "likely a broken file or an unclosed quote; fix it.",
    }.items(),
)
def test_no_way_out_is_told_that_an_evaluation_has_not(tmp_path, content, message, capsys):
    folder = save_model(tmp_path / "model", names=("LABEL_0", "LABEL_1"))
    (tmp_path / "own.csv").write_bytes(content.encode("latin-1"))
    assert main(["evaluate", str(folder), "--file", str(tmp_path / "own.csv")]) == 2
    assert message in capsys.readouterr().err


def test_an_unknown_task_is_told_with_the_options_of_the_command(tmp_path, capsys):
    assert main(["evaluate", str(save_model(tmp_path / "model")), "--task", "sst22"]) == 2
    assert capsys.readouterr().err.endswith("For a file of your own give --file.\n")


def test_a_length_above_the_models_is_told(tmp_path, file):
    folder = save_model(tmp_path / "model")
    (found,) = evaluate(folder, file=file, max_length=9999, write=False)
    assert found.notes == ["texts are cut at 512 tokens and not at max_length=9999: the model reads no more"]
    assert not evaluate(folder, file=file, max_length=512, write=False)[0].notes


def test_a_decoder_without_a_padding_id_reads_texts_in_batches(tmp_path, file):
    torch.manual_seed(0)
    size = {"n_embd": 32, "n_layer": 2, "n_head": 4, "vocab_size": 100, "bos_token_id": None, "eos_token_id": None}
    names = dict(enumerate(NAMES))
    config = GPT2Config(**size, id2label=names, initializer_range=0.3)
    GPT2ForSequenceClassification(config).save_pretrained(tmp_path / "model")
    TOKENIZER.save_pretrained(tmp_path / "model")
    found = [evaluate(tmp_path / "model", file=file, batch_size=size, write=False)[0] for size in (1, 8)]
    assert found[0].metrics == found[1].metrics
    texts = [row["text"] for row in ROWS]
    one, several = (load(tmp_path / "model", batch_size=size)(texts) for size in (1, 8))
    assert [said.label for said in one] == [said.label for said in several]


def test_hans_folds_three_classes_onto_two():
    task = tasks.task("hans")
    logits = np.log(np.array([[0.4, 0.3, 0.3], [0.6, 0.2, 0.2], [0.1, 0.8, 0.1], [0.1, 0.1, 0.8]]))
    outputs = Outputs(logits, np.array([0, 0, 1, 1]), np.array([3, 4, 5, 6]))
    columns = {"heuristic": ["overlap", "overlap", "subsequence", "subsequence"]}
    found = measure(task, outputs, name="x", columns=columns, samples=50)
    assert found.score == 1.0  # the answer is folded, not the probabilities
    assert found.calibration is not None
    assert [part["name"] for part in found.slices["heuristic"]] == ["overlap", "subsequence"]
    assert found.confusion["counts"] == [[2, 0], [0, 2]]


def test_texts_are_cut_where_the_run_cut_them(run):
    config = yaml.safe_load((run / "config.yaml").read_text())
    config["data"]["max_length"] = 5
    (run / "config.yaml").write_text(yaml.safe_dump(config))
    (own,) = evaluate(run, samples=20, write=False)
    (other,) = evaluate(run, samples=20, write=False, max_length=7)
    ends = [max(part["name"].split("-")[1] for part in each.slices["length in tokens"]) for each in (own, other)]
    assert ends == ["5", "7"]


def test_scores_by_class():
    task = Task("two", "two", "sentence", "classes", ("text",), ("a", "b"))
    outputs = Outputs(np.eye(2)[[0, 1, 1, 1]], np.array([0, 0, 0, 1]), np.array([3, 3, 3, 3]))
    found = measure(task, outputs, name="x", samples=10).per_class
    assert found["a"] == pytest.approx({"precision": 1.0, "recall": 1 / 3, "f1": 1 / 2, "rows": 3})
    assert found["b"] == pytest.approx({"precision": 1 / 3, "recall": 1.0, "f1": 1 / 2, "rows": 1})


def test_regression_and_tokens():
    score = Outputs(np.array([[1.0], [2.0], [2.5]]), np.array([1.0, 2.0, 3.0]), np.array([3, 4, 5]))
    found = measure(tasks.task("stsb"), score, name="x", samples=20)
    assert found.metrics["pearson"]["value"] == pytest.approx(np.corrcoef([1, 2, 2.5], [1, 2, 3])[0, 1])
    assert found.confusion is None
    assert found.calibration is None
    words = Outputs(
        [np.array([0, 1, 2]), np.array([0, 0])], [np.array([-100, 1, 2]), np.array([0, -100])], np.array([3, 2])
    )
    found = measure(tasks.task("conll2003"), words, name="x", samples=20)
    assert found.metrics["entity_f1"]["value"] == 1.0


@pytest.fixture
def tagger(tmp_path):
    """A model of tags, and a file of four words a row."""
    torch.manual_seed(0)
    names = {0: "O", 1: "B-X", 2: "I-X"}
    size = {"hidden_size": 32, "num_hidden_layers": 1, "num_attention_heads": 4, "intermediate_size": 64}
    model = BertForTokenClassification(BertConfig(**size, vocab_size=100, id2label=names, initializer_range=0.5))
    model.save_pretrained(tmp_path / "tagger")
    TOKENIZER.save_pretrained(tmp_path / "tagger")
    rows = [{"tokens": [f"w{5 + i + j}" for j in range(4)], "tags": ["O", "B-X", "I-X", "O"]} for i in range(6)]
    path = tmp_path / "tags.jsonl"
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return model, tmp_path / "tagger", path


def test_a_tagger_whose_logits_are_no_numbers_is_refused(tagger):
    model, folder, path = tagger
    with torch.no_grad():
        model.classifier.weight[1] = math.nan
    model.save_pretrained(folder)
    with pytest.raises(ValueError, match="6 of 6 predictions are NaN"):
        evaluate(folder, file=path, write=False)
    with pytest.raises(ValueError, match="1 of 1 predictions are NaN"):
        load(folder)("w5 w6")


def test_tagged_words_that_the_model_never_sees_are_told(tagger):
    _, folder, path = tagger
    (found,) = evaluate(folder, file=path, write=False, max_length=5)  # three words and two special tokens
    assert any(note.startswith("6 of 24 tagged words are not scored") for note in found.notes)
    assert not evaluate(folder, file=path, write=False)[0].notes


def test_a_tagger_that_pads_at_the_left_says_the_same_of_a_text_beside_a_longer_one(tagger):
    _, folder, _ = tagger
    settings = folder / "tokenizer_config.json"
    settings.write_text(json.dumps({**json.loads(settings.read_text()), "padding_side": "left"}))
    predict = load(folder)
    texts = [" ".join(f"w{number}" for number in range(start, start + 3 + start % 7)) for start in range(5, 60, 5)]
    assert [said.label for said in predict(texts)] == [predict(text).label for text in texts]
    assert len({tag for said in predict(texts) for tag in said.label}) > 1


@pytest.mark.parametrize("size", [1, 7])
def test_a_score_does_not_hang_on_the_texts_of_a_batch_where_padding_is_at_the_left(tmp_path, file, size):
    save_model(tmp_path / "model")
    settings = tmp_path / "model" / "tokenizer_config.json"
    settings.write_text(json.dumps({**json.loads(settings.read_text()), "padding_side": "left"}))
    (found,) = evaluate(tmp_path / "model", file=file, max_length=16, batch_size=size, write=False)
    assert found.score == by_hand(tmp_path / "model")


def test_files_hold_no_nan(tmp_path):
    write_json(tmp_path / "x.json", {"a": math.nan, "b": [math.inf, 1.0], "c": "é", "d": (math.nan, 2.0)})
    assert json.loads((tmp_path / "x.json").read_text()) == {"a": None, "b": [None, 1.0], "c": "é", "d": [None, 2.0]}
    assert list(tmp_path.iterdir()) == [tmp_path / "x.json"]


def test_a_failed_write_leaves_the_old_file(tmp_path):
    write_json(tmp_path / "x.json", [1])
    with pytest.raises(TypeError):
        write_json(tmp_path / "x.json", {1: {2}})
    assert (tmp_path / "x.json").read_text() == "[\n 1\n]\n"


def test_a_folder_that_cannot_be_written_costs_no_scores(tmp_path, file):
    """Such as a model of somebody else's; the scores and the attack are had all the same."""
    model = save_model(tmp_path / "model")
    (model / "evaluations").write_text("in the way")
    settings = AttackSettings(radii=(0.1,), steps=1)
    (found,) = evaluate(model, file=file, attack="embedding", settings=settings, samples=20)
    assert found.metrics["accuracy"]["value"] == by_hand(model)
    assert found.attacks[0].summary.curve
    (note,) = [note for note in found.notes if note.startswith("not kept")]
    assert note == f"not kept, as {model / 'evaluations'} cannot be written to: File exists"
    assert not (model / "attacks").exists()


def test_settings_of_attacks_without_an_attack(run, capsys):
    for words in (["--radii", "0.1"], ["--steps", "10"], ["--keep", "none"]):
        assert main(["evaluate", str(run), *words]) == 2
        assert f"{words[0]} is for attacks: name some with --attack as well" in capsys.readouterr().err


def test_the_command(run, file, capsys, monkeypatch):
    monkeypatch.setenv("COLUMNS", "180")
    parser = ArgumentParser()
    command.add(parser)
    assert command.run(parser.parse_args([str(run)])) == 0
    printed = capsys.readouterr().out
    assert "accuracy" in printed
    assert "length in tokens" in printed
    assert "*" not in printed
    one = str(run / "model")
    assert command.run(parser.parse_args([one, one, "--file", str(file), "--samples", "20"])) == 0
    assert "*" not in capsys.readouterr().out  # of a tie none is the best
    scores = [by_hand(run / "seeds" / seed / "model") for seed in ("1", "2")]
    assert command.run(parser.parse_args([str(run), "--all_seeds", "--samples", "20"])) == 0
    printed = capsys.readouterr().out
    assert scores[0] != scores[1]
    assert printed.count(" seed 1 *") == (scores[0] > scores[1])
    assert "\n* the best score\n" in printed
    assert command.run(parser.parse_args([str(run), "--file", str(file), "--json", "--limit", "9"])) == 0
    (found,) = json.loads(capsys.readouterr().out)
    assert found["rows"] == 9
    assert found["source"] == str(file)


def test_of_an_error_the_smallest_has_the_star(capsys, monkeypatch):
    monkeypatch.setenv("COLUMNS", "180")
    task = Task("a", "a", "sentence", "regression", ("text",), metrics=("mse",))
    labels = np.array([0.0, 1.0, 2.0])
    off = {"near": 0.1, "far": 1.0}
    found = [
        (name, measure(task, Outputs(labels[:, None] + far, labels, np.ones(3)), name=name, samples=10))
        for name, far in off.items()
    ]
    command._print_scores(found)
    printed = capsys.readouterr().out
    assert "near *" in printed
    assert "far *" not in printed


def test_a_training_file_that_has_grown(run, file):
    """The development rows were made from it: other ones now, and some of them were trained on."""
    config = yaml.safe_load((run / "config.yaml").read_text())
    config["data"].pop("validation_file", None)
    (run / "config.yaml").write_text(yaml.safe_dump(config))
    write_json(run / "began.json", {"rows": {"train": 27, "validation": 3}})
    (found,) = evaluate(run, write=False)
    assert found.rows == 3
    file.write_text(file.read_text() + "".join(json.dumps(row) + "\n" for row in ROWS))
    with pytest.raises(DataError, match=r"held out 3 rows and would now hold out 6"):
        evaluate(run, write=False)
    (found,) = evaluate(run, file=file, write=False)
    assert found.rows == 60


def test_calibration_of_folded_classes_is_that_of_the_answers():
    """Entailment is the answer of a row whose other two classes are likelier together; HANS folds these onto one."""
    chances = np.array([[0.4, 0.35, 0.25], [0.8, 0.1, 0.1], [0.1, 0.3, 0.6]])
    hans = tasks.task("hans")
    assert hans.class_map[0] == 0
    assert hans.class_map[1] == hans.class_map[2] == 1
    found = measure(hans, Outputs(np.log(chances), np.array([0, 0, 1]), np.array([3, 4, 5])), name="x", samples=10)
    assert found.metrics["accuracy"]["value"] == 1.0
    assert found.calibration is not None
    assert sum(bar["rows"] * bar["accuracy"] for bar in found.calibration["bins"]) == 3
    assert found.calibration["ece"] == pytest.approx((0.6 + 0.2 + 0.1) / 3)


def without_tokenizer(folder):
    for place in folder.glob("tokenizer*"):
        place.unlink()


def without_head(folder):
    """A pretrained body, as the Hub has it before anybody fine-tuned it."""
    config = BertConfig.from_pretrained(folder, architectures=["BertModel"])
    BertModel(config).save_pretrained(folder)


def with_fewer_words(folder):
    BertForSequenceClassification(BertConfig.from_pretrained(folder, vocab_size=10)).save_pretrained(folder)


@pytest.mark.parametrize(
    ("harm", "message"),
    [
        (without_tokenizer, "has no tokenizer with a vocabulary"),
        (without_head, r"classifier.bias, classifier.weight are not in its file.*would be random; fine-tune it first"),
        (with_fewer_words, "it is the tokenizer of another model"),
    ],
)
def test_a_model_that_would_answer_by_chance(tmp_path, file, harm, message):
    folder = save_model(tmp_path / "model")
    harm(folder)
    with pytest.raises(ValueError, match=message):
        evaluate(folder, file=file)
    assert not (folder / "evaluations").exists()


def test_a_model_with_more_classes_than_the_data(tmp_path, file):
    folder = save_model(tmp_path / "model", ("LABEL_0", "LABEL_1", "LABEL_2", "LABEL_3", "LABEL_4"))
    message = r"5 classes \(LABEL_0, .* \.\.\.\) and 'own' has 3 \(bad, fair, good\).*name the classes in its config"
    with pytest.raises(DataError, match=message):
        evaluate(folder, file=file)


def test_classes_without_names_are_told_with_what_they_are_taken_for(tmp_path, file, capsys):
    folder = save_model(tmp_path / "model", ("LABEL_0", "LABEL_1", "LABEL_2"))
    (found,) = evaluate(folder, file=file)
    note = "LABEL_0 is taken for 'bad', LABEL_1 is taken for 'fair', LABEL_2 is taken for 'good'; name them"
    assert note in " ".join(found.notes)
    (named,) = evaluate(save_model(tmp_path / "named"), file=file)
    assert not named.notes
    numbers = tmp_path / "numbers.jsonl"
    numbers.write_text("".join(json.dumps({**row, "label": i % 3}) + "\n" for i, row in enumerate(ROWS)))
    assert not evaluate(folder, file=numbers)[0].notes
    parser = ArgumentParser()
    command.add(parser)
    command.run(parser.parse_args([str(folder), str(tmp_path / "named"), "--file", str(file)]))
    assert "the model's classes have no names" in capsys.readouterr().out


def test_rows_that_are_left_out_are_noted(tmp_path, run, file):
    config = yaml.safe_load((run / "config.yaml").read_text())
    bad = tmp_path / "bad.jsonl"
    bad.write_text(file.read_text() + json.dumps({"text": "w5", "label": None}) + "\n")
    config["data"] |= {"validation_file": str(bad), "on_bad": "skip"}
    (run / "config.yaml").write_text(yaml.safe_dump(config))
    (found,) = evaluate(run)
    assert (found.rows, list(found.notes)) == (30, ["validation: 1 row left out (no label)"])
