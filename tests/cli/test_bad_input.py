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
    (["--model", "{folder}/none"], "neither a folder nor available on the Hub"),
    (["--task", "rtee"], "no task 'rtee'; the nearest: rte"),
    (["--output_dir", "{folder}"], "already exists"),
    (["--method", "./none.py:x"], "does not exist"),
    (["--resume", "{folder}"], "leave out"),
    (["--nnodes", "2"], "--output_dir"),
    (["--adv_epsilon", "1"], "only guarded a division"),
    (["--data.eval_split", "test"], "data.eval_split=test: there is none"),
    (["--data.eval_split", "test", "--data.test_file", "{folder}/bare.csv"], "it has no labels to score"),
    (["--data.test_file", "{folder}/half.csv"], "row 2 (line 3): label in some rows only"),
    (["--data.few_shot", "-1"], "--data.few_shot -1 leaves no rows"),
    (["--data.head", "regression"], "fix it or give --data.head classes."),
    (["--data.labels", "neg,ok"], "fix it, give --data.labels A,B or give --data.on_bad skip."),
    (["--data.delimiter", ",,"], "has 2 characters"),
    (["--head.q", "4"], "head.q does nothing without --head second-order"),
    (["--peft.r", "4"], "peft.r does nothing without --peft lora"),
    (["--trainer.learning_rate", "1"], "use train.learning_rate"),
    (["--train.max_grad_norm", "-1"], "cannot be negative"),
    (["--seed", "4294967296"], "from 0 to 2**32 - 1"),
    (["--print_config=skip_null"], "--print_config"),
    (["--print_configs"], "unrecognized arguments: --print_configs. Did you mean --print_config"),
    (["--train.epochs", ""], "toughen: train.epochs=: expected a number."),
    (["--config", "{folder}/twice.yaml"], "the key 'train' is given twice"),
    (["--config", "{folder}/loose.yaml"], "there is no option learning_rate. Did you mean train.learning_rate?"),
    (["--config", "{folder}/list.yaml"], "method=['fgm', 'rdrop']: give a name"),
    (["--config", "{folder}/words.yaml"], "toughen: train.batch_size=eight: expected a whole number."),
    (["--config", "{folder}/labels.yaml"], "toughen: data.labels=[False, True]: expected a list of text"),
    (["--config", "{folder}/itself.yaml"], "found unconstructable recursive node"),
    (["--config", "{folder}/endless.yaml"], "toughen: train.warmup=nan: give a finite number."),
    (["--config", "{folder}/resume.yaml"], "give --resume RUN on the command line"),
]
FILES = {
    "bare.csv": "text\ngood film\nbad film\n",
    "half.csv": "text,label\ngood film,pos\nbad film,\n",
    "twice.yaml": "train: {epochs: 1}\nmethod: fgm\ntrain: {batch_size: 8}\n",
    "loose.yaml": "learning_rate: 1e-5\n",
    "list.yaml": "method: [fgm, rdrop]\n",
    "words.yaml": "train: {batch_size: eight}\n",
    "labels.yaml": "data: {labels: [no, yes]}\n",
    "itself.yaml": "train: &train {epochs: *train}\n",
    "endless.yaml": "train: {warmup: .nan}\n",
    "resume.yaml": "resume: runs/x\n",
}


@pytest.mark.parametrize(("words", "message"), TRAIN, ids=[" ".join(words) for words, _ in TRAIN])
def test_train(words, message, little, tmp_path, capsys, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for name, content in FILES.items():
        (little.folder / name).write_text(content)
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
    (["predict", "{run}", "--text", "x", "--out", "{folder}/train.csv"], "already exists"),
    (["predict", "{run}", "--text", "x", "--text_pair", "y"], "this model reads one text"),
    (["train", "--resume", "{folder}"], "is no run folder"),
    (["train", "--resume", "{run}", "--train.epochs", "5"], "leave out --train.epochs 5"),
    (["describe", "smrt"], "Did you mean 'smart'"),
    (["describe", "smart", "--wieght", "2"], "Did you mean --method.weight"),
    (["describe", "smart", "--weight", "-2"], "cannot be negative"),
    (["describe", "smart", "rdrop"], "unrecognized arguments: rdrop. See: toughen describe --help"),
    (["new-method", "{folder}/train.csv"], "end its name with .py"),
    (["init-config", "{folder}/train.csv"], "already exists"),
    (["tasks", "fetch", "rte"], "--to FOLDER"),
    (["submit", "{folder}"], "is no run folder"),
    (["submit", "{run}", "--out", "{folder}/train.csv"], "already exists"),
    (["submit", "{run}"], "was trained on 'train', which is no task of GLUE"),
    (["predict", "{run}", "--txt", "x"], "unrecognized arguments: --txt x. Did you mean --text"),
    (["predict"], "the following arguments are required: run. See: toughen predict --help"),
    (["predict", "{run}", "--text", "x", "--batch_size", "-1"], "must be at least 1"),
    (
        ["predict", "{run}", "--text", "x", "--batch_size", "two"],
        "--batch_size: invalid int value: 'two'",
    ),
    (["predict", "{run}", "--text", "x", "--device", "gpu"], "device 'gpu' is not available"),
    (["evaluate", "{run}", "--limit", "0"], "--limit 0"),
    (["evaluate", "{run}", "--batch_size", "0"], "must be at least 1"),
    (["evaluate", "{run}", "--file", "{folder}/amounts.csv"], "has numbers as labels, and the model 2 classes"),
    (["predict", "{run}", "--file", "{folder}"], "is a folder, not a file; give a file."),
    (["report", "{run}", "--out", "{folder}/train.csv"], "must end with .html"),
    (["demo", "--out", "{run}"], "already exists"),
    (["demo", "--seed", "x", "--out", "{folder}/new"], "seed='x': give a whole number"),
    (["demo", "--limit", "0", "--out", "{folder}/new"], "limit=0: give 7 to"),
    (["submit", "glue"], "AX.tsv (or give --partial)"),
    (["evaluate", "{run}", "--file", "{folder}/bare.csv"], "name the right one with --label_column."),
    (["predict", "{run}", "--text", "x", "--out", "{folder}/" + "x" * 250 + ".csv"], "x.csv'"),  # not a name beside it
    (["bench", "--model", "tiny", "--repeats", "0"], "repeats=0: a median needs at least one step"),
    (["bench", "--model", "tiny", "--methods", "smrt"], "Did you mean 'smart'"),
    (["sweep", "--engine", "dask", "x"], "invalid choice: 'dask'"),
    (["tasks", "verify", "--to", "{folder}"], "has no manifest.json"),
    (["push", "{run}", "name"], "write owner/name"),
    (["push", "{run}", "me/na me"], "write owner/name"),
    (["push", "{folder}/cache", "a/b"], "holds no trained model"),
]


@pytest.mark.parametrize(("words", "message"), OTHERS, ids=[" ".join(words[:2]) for words, _ in OTHERS])
def test_other_commands(words, message, little, finished, capsys, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (little.folder / "bare.csv").write_text(FILES["bare.csv"])
    (little.folder / "amounts.csv").write_text("text,label\ngood film,0.5\nbad film,1.5\n")
    before = files(little.folder) | files(finished.path)
    line = told(capsys, [word.format(folder=little.folder, run=finished.path) for word in words])
    assert message in line
    assert files(little.folder) | files(finished.path) == before


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("ragged.csv", "text\ngood film\nbad, film\n", "row 2 (line 3): has 2 fields where the header has 1"),
        ("null.jsonl", '{"text": null}\n', "row 1 (line 1): text is missing"),
    ],
)
def test_a_text_is_never_guessed(name, content, message, finished, tmp_path, capsys):
    (tmp_path / name).write_text(content)
    assert message in told(capsys, ["predict", str(finished.path), "--file", str(tmp_path / name)])


def test_an_error_of_ours_is_shown_whole_on_request(monkeypatch):
    monkeypatch.setenv("TOUGHEN_DEBUG", "1")
    with pytest.raises(ValueError, match="no run folder"):
        main(["train", "--resume", "nowhere"])
