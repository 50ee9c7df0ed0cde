"""Bad input: exit code 2, one line, no traceback, nothing overwritten."""

import os

import pytest

from toughen.cli.main import main


def told(capsys, words) -> str:
    assert main(words) == 2
    captured = capsys.readouterr()
    lines = captured.err.strip().splitlines()
    assert len(lines) == 1, captured.err
    assert lines[0].startswith("toughen: ")
    assert "Traceback" not in captured.err
    return lines[0]


def files(folder):
    return {path: path.stat().st_mtime_ns for path in folder.rglob("*")}


TRAIN = [
    (["--method.weigth", "1"], "Did you mean --method.weight"),
    (["--train.epochs", "many"], "expected a number"),
    (["--data.train_file", "{folder}/none.csv"], "does not exist"),
    (["--data.label_column", "verdict"], "there is no column 'verdict'"),
    (["--model", "{folder}/none"], "neither a folder here nor"),
    (["--task", "rtee"], "no task 'rtee'; the nearest: rte"),
    (["--output_dir", "{folder}"], "nothing is overwritten"),
    (["--method", "./none.py:x"], "is not there"),
    (["--resume", "{folder}"], "leave out"),
    (["--nnodes", "2"], "--output_dir"),
    (["--adv_epsilon", "1"], "only guarded a division"),
    (["--data.eval_split", "test"], "data.eval_split=test: there is none"),
]


@pytest.mark.parametrize(("words", "message"), TRAIN, ids=[words[0] for words, _ in TRAIN])
def test_train(words, message, little, tmp_path, capsys, monkeypatch):
    monkeypatch.chdir(tmp_path)
    before = files(little.folder)
    shared = ["--model", little.model]
    shared += [word for key, value in little.data.items() for word in (f"--data.{key}", value)]
    line = told(capsys, ["train", *shared, *(word.format(folder=little.folder) for word in words)])
    assert message in line
    assert files(little.folder).keys() - {p for p in files(little.folder) if "cache" in p.parts} <= before.keys()
    assert all(files(little.folder)[path] == time for path, time in before.items() if "cache" not in path.parts)
    assert not list(tmp_path.rglob("results.json"))


def test_an_unwritable_place(little, tmp_path, capsys):
    if os.geteuid() == 0:
        place = "/proc/toughen-run"  # root may write anywhere but here
    else:
        tmp_path.chmod(0o500)
        place = str(tmp_path / "run")
    line = told(capsys, ["train", "--model", little.model, "--task", "rte", "--output_dir", place])
    assert "cannot be written" in line


OTHERS = [
    (["trian"], "there is no command 'trian'. Did you mean 'train'"),
    (["predict", "{folder}/cache", "--text", "x"], "holds no trained model"),
    (["predict", "{run}", "--file", "none.csv"], "does not exist"),
    (["predict", "{run}", "--file", "{folder}/test.jsonl", "--text_column", "words"], "there is no column 'words'"),
    (["predict", "{run}", "--text", "x", "--out", "{folder}/train.csv"], "nothing is overwritten"),
    (["predict", "{run}", "--text", "x", "--text_pair", "y"], "this model reads one text"),
    (["train", "--resume", "{folder}"], "is no run folder"),
    (["train", "--resume", "{run}", "--train.epochs", "5"], "leave out --train.epochs 5"),
    (["show", "smrt"], "Did you mean 'smart'"),
    (["show", "smart", "--wieght", "2"], "Did you mean --method.weight"),
    (["show", "smart", "--weight", "-2"], "cannot be negative"),
    (["new", "{folder}/train.csv"], "end its name with .py"),
    (["init", "{folder}/train.csv"], "nothing is overwritten"),
    (["tasks", "fetch", "rte"], "--to FOLDER"),
    (["submit", "{folder}"], "is no run folder"),
    (["submit", "{run}"], "was trained on 'train', which is no task of GLUE"),
    (["push", "{run}", "name"], "write owner/name"),
    (["push", "{folder}/cache", "a/b"], "holds no trained model"),
]


@pytest.mark.parametrize(("words", "message"), OTHERS, ids=[" ".join(words[:2]) for words, _ in OTHERS])
def test_other_commands(words, message, little, finished, capsys, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    before = files(little.folder) | files(finished.path)
    line = told(capsys, [word.format(folder=little.folder, run=finished.path) for word in words])
    assert message in line
    assert files(little.folder) | files(finished.path) == before


def test_an_error_of_ours_is_shown_whole_on_request(monkeypatch):
    monkeypatch.setenv("TOUGHEN_DEBUG", "1")
    with pytest.raises(ValueError, match="no run folder"):
        main(["train", "--resume", "nowhere"])
