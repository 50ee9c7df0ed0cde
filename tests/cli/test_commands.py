"""The commands, on a finished run of a tiny model."""

import csv
import datetime
import io
import json
import os
import re
import shlex
import shutil
import subprocess
import sys
import zipfile
from contextlib import suppress
from importlib import import_module
from pathlib import Path
from pkgutil import iter_modules

import pytest
import yaml

from toughen.cli import commands
from toughen.cli.arguments import CommandParser
from toughen.cli.commands.predict import FORMATS
from toughen.cli.main import COMMANDS, RENAMED, main
from toughen.cli.parser import parse_flags, parse_train, split_arguments
from toughen.runs.config_io import build
from toughen.runs.errors import RunError
from toughen.runs.folder import RunFolder
from toughen.runs.predictor import Prediction
from toughen.tasks.spec import Task

SOURCE = str(Path(__file__).resolve().parents[2] / "src")


def out(capsys, *words) -> str:
    assert main(list(map(str, words))) == 0
    return capsys.readouterr().out


def test_train_from_the_command_line(little, tmp_path, capsys):
    words = [word for key, value in little.data.items() for word in (f"--data.{key}", value)]
    words += ["--model", little.model, "--max_steps", "3", "--train.batch_size", "8", "--output_dir", tmp_path / "run"]
    text = out(capsys, "train", *words, "--method", "rdrop", "--method.weight", "2", "--seed", "1,2")
    assert "accuracy: seed 1" in text
    assert f"saved {tmp_path / 'run'}/" in text
    assert yaml.safe_load((tmp_path / "run" / "config.yaml").read_text())["method"] == {"name": "rdrop", "weight": 2.0}


def test_a_baseline_ends_with_a_decision(little, tmp_path, capsys, monkeypatch):
    monkeypatch.setenv("COLUMNS", "200")
    words = [word for key, value in little.data.items() for word in (f"--data.{key}", value)]
    words += ["--model", little.model, "--max_steps", "3", "--train.batch_size", "8", "--method", "fgm", "--baseline"]
    lines = out(capsys, "train", *words, "--output_dir", tmp_path / "run").splitlines()
    table = "\n".join(lines[lines.index(next(line for line in lines if "difference" in line)) :])
    number = r"\s+\d+\.\d\s+\d+\.\d\s+[+-][\d.]+, 95 % over rows "
    assert re.search(rf"accuracy\s+plain\s+fgm.*\n.*\n clean{number}.*\n under .* at 0.02{number}", table)
    assert re.search(r"time of a step\s+1\.0x\s+\d+\.\dx", table)
    assert lines[-1] == f"more: toughen evaluate {tmp_path / 'run'} --all_seeds --attack all"
    assert lines[-2].removeprefix("decision: ")[1:] in (tmp_path / "run" / "report.html").read_text()


def test_fast_needs_no_value(little):
    words = ["--model", little.model, "--task", "rte"]
    given = {"--fast": True, "--fast=true": True, "--fast=false": False, "--fast=auto": "auto"}
    for flag, value in given.items():
        assert parse_train([flag, *words])[0].fast == value
    assert parse_train(words)[0].fast == "auto"
    with pytest.raises(RunError, match=r"fast=often: expected true or false or auto"):
        parse_train(["--fast=often", *words])


def test_as_a_module():
    done = subprocess.run(
        [sys.executable, "-m", "toughen", "--version"], env={"PYTHONPATH": SOURCE}, capture_output=True, text=True
    )
    assert done.stdout.startswith("toughen "), done.stderr


def test_a_list_of_words_is_joined_as_in_training(finished, tmp_path, capsys):
    (tmp_path / "x.jsonl").write_text('{"text": ["good", "film"]}\n')
    one = out(capsys, "predict", finished.path, "--file", tmp_path / "x.jsonl")
    assert one == out(capsys, "predict", finished.path, "--text", "good film")


def test_a_run_named_twice_counts_once(finished, capsys):
    assert out(capsys, "compare", finished.path, finished.path) == out(capsys, "compare", finished.path)


def test_help_lists_every_command(capsys):
    text = out(capsys)
    files = {module.name.replace("_", "-") for module in iter_modules(commands.__path__)}
    assert files == set(COMMANDS)
    assert all(f"\n  {name} " in text for name in COMMANDS)


@pytest.mark.parametrize("name", COMMANDS)
def test_help_has_a_purpose_and_examples_that_parse(name, capsys):
    with suppress(SystemExit):
        assert main([name, "--help"]) == 0
    text, _, examples = capsys.readouterr().out.partition("\nExamples:\n")
    assert re.match(rf"usage: toughen {name} .*\n\n[A-Z](.+\n)*.*\.\n\n", text)
    command = import_module(f"toughen.cli.commands.{name.replace('-', '_')}")
    lines = [shlex.split(re.split("[|<>]", line)[0])[1:] for line in examples.strip().splitlines()]
    assert len(lines) == 3
    for words in (words[1:] for words in lines if words[0] == name):
        if hasattr(command, "add"):
            parser = CommandParser(name)
            command.add(parser)
            parser.parse_args(words)
            assert [action.dest for action in parser._actions if not action.help] == []
        elif name == "train":
            assert parse_train(words)[0].model
        elif name == "sweep":
            parse_flags([word for word in words[1:] if not word.startswith(("--seeds", "--resume", "1"))], None)
        elif name == "tune":
            _, rest = command.make_parser().parse_known_args(words)
            parse_flags(split_arguments(rest).words, None)
        else:
            assert main([name, *words]) == 0


@pytest.mark.parametrize(("old", "new"), RENAMED.items())
def test_old_names_of_commands(old, new, capsys):
    for name in (old, new):
        with suppress(SystemExit):
            assert main([name, "--help"]) == 0
    said = capsys.readouterr()
    assert said.err == f"toughen: {old} is now {new}; the old name still works.\n"
    first, second = said.out.split("usage: ")[1:]
    assert first == second


@pytest.mark.parametrize("words", [["--help"], ["methods"], ["tasks"]], ids=" ".join)
def test_a_reader_that_is_gone_is_no_error(words):
    """What `toughen methods | head -1` may meet: nothing is said, and no traceback."""
    reading, writing = os.pipe()
    os.close(reading)
    done = subprocess.run(
        [sys.executable, "-m", "toughen", *words], env={"PYTHONPATH": SOURCE}, stdout=writing, stderr=subprocess.PIPE
    )
    os.close(writing)
    assert (done.returncode, done.stderr) == (1, b"")


def test_an_interrupt_before_anything_runs_is_one_line(little, tmp_path, capsys, monkeypatch):
    def interrupted(*_, **__):
        raise KeyboardInterrupt

    monkeypatch.setattr("toughen.runs.launch.launch", interrupted)
    words = ["--model", little.model, "--data.train_file", little.data["train_file"], "--output_dir", f"{tmp_path}/run"]
    assert main(["train", *words]) == 130
    assert capsys.readouterr().err == "toughen: interrupted\n"
    assert not (tmp_path / "run").exists()


HEAVY = {
    *("torch", "transformers", "datasets", "accelerate", "peft", "numpy", "pandas", "pyarrow", "scipy", "sklearn"),
    *("matplotlib", "jinja2", "rich", "huggingface_hub", "safetensors", "tokenizers", "seqeval"),
}


WAITED_FOR = [
    ["--help"],
    ["--version"],
    ["methods", "--names"],
    ["train", "--help"],
    ["train", "--method", "smart+rdrop", "--help"],
    ["train", "--recipe", "freelb/rte-roberta-base", "--trainer.lr_scheduler_type", "cosine", "--print_config"],
    ["train", "--model", "m", "--task", "rte", "--method.stepsize", "1"],
    *([name, "--help"] for name in COMMANDS),
]


def test_help_and_mistakes_import_nothing_heavy():
    """What a person waits for before anything runs; `toughen train --help` then takes 0.2 s.

    One process for all of them: what none of them imported, no single one did.
    """
    code = (
        f"import sys; sys.path.insert(0, {SOURCE!r})\n"
        "from toughen.cli.main import main\n"
        f"for words in {WAITED_FOR!r}:\n"
        "    try: main(words)\n"
        "    except SystemExit: pass\n"
        f"    heavy = {HEAVY!r} & set(sys.modules)\n"
        "    assert not heavy, (words, heavy)\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


def test_predict_in_all_forms(finished, little, capsys, tmp_path, monkeypatch):
    texts = [json.loads(line)["text"] for line in Path(little.test_file).read_text().splitlines()]
    table = finished.path / finished.results.best.folder / "predictions" / "test.tsv"
    expected = [line.split("\t")[1] for line in table.read_text().splitlines()[1:]]
    printed = out(capsys, "predict", finished.path, "--file", little.test_file, "--format", "jsonl")
    rows = [json.loads(line) for line in printed.splitlines()]
    assert [row["prediction"] for row in rows] == expected
    assert [row["text"] for row in rows] == texts
    out(capsys, "predict", finished.path, "--file", little.test_file, "--out", tmp_path / "said.csv")
    with (tmp_path / "said.csv").open() as file:
        assert [row["prediction"] for row in csv.DictReader(file)] == expected
    monkeypatch.setattr(sys, "stdin", io.StringIO("\n".join(texts)))
    assert [line.split()[0] for line in out(capsys, "predict", finished.path).splitlines()] == expected
    # One prediction a line, also where a text holds what Unicode calls the end of one.
    monkeypatch.setattr(sys, "stdin", io.StringIO("\n".join(text.replace(" ", "\u2028", 1) for text in texts)))
    assert [line.split()[0] for line in out(capsys, "predict", finished.path).splitlines()] == expected
    assert out(capsys, "predict", finished.path, "--text", texts[0]).split()[0] == expected[0]
    monkeypatch.setattr(sys, "stdin", io.StringIO("a film\n\nanother\n"))
    assert main(["predict", str(finished.path)]) != 0
    assert "stdin, line 2: it is empty" in capsys.readouterr().err


def test_predict_a_split_of_the_run(finished, little, capsys, tmp_path):
    table = finished.path / finished.results.best.folder / "predictions" / "test.tsv"
    expected = [line.split("\t")[:2] for line in table.read_text().splitlines()]
    printed = out(capsys, "predict", finished.path, "--split", "test", "--format", "tsv")
    assert [line.split("\t") for line in printed.splitlines()] == expected
    out(capsys, "predict", finished.path / "model", "--split", "validation", "--out", tmp_path / "dev.tsv")
    assert len((tmp_path / "dev.tsv").read_text().splitlines()) == 21
    for words, message in (
        (("--split", "test", "--text", "good"), "--split reads the run's own data"),
        (("--split", "test_mm"), "test_mm is a split of MNLI"),
        (("--split", "test", "--out", str(tmp_path / "x.xls")), r"end it with .csv, .jsonl or .tsv"),
    ):
        assert main(["predict", str(finished.path), *words]) == 2
        assert message in capsys.readouterr().err
    assert main(["predict", little.model, "--split", "test"]) == 2
    assert "is not a run, so its data is unknown; give the rows as a file" in capsys.readouterr().err


def test_a_model_inside_a_run_needs_no_task(finished, tmp_path, capsys):
    """The folder of a seed, and a model of it: scored on the run's own data, kept beside the run's other scores."""
    run = Path(shutil.copytree(finished.path, tmp_path / "run"))
    seed = run / "seeds" / "2"
    for place in (seed, seed / "model"):
        rows = json.loads(out(capsys, "evaluate", place, "--json"))
        assert rows[0]["rows"] == 20
    assert (run / "evaluations" / "validation-seed-2.json").is_file()
    twin = json.loads(out(capsys, "evaluate", run / "baseline" / "1", "--json"))
    assert (run / "evaluations" / "validation-baseline-1.json").is_file()
    assert twin[0]["metrics"]["accuracy"]["value"] == pytest.approx(
        finished.results.baseline.seeds[0].metrics["accuracy"]
    )


def test_lower_case_is_refused_where_the_tokenizer_cannot(little, tmp_path, capsys):
    words = ["--model", little.model, "--data.train_file", little.data["train_file"], "--data.lower_case"]
    assert main(["train", *words, "--output_dir", str(tmp_path / "run")]) == 2
    assert "data.lower_case: the TokenizersBackend of" in capsys.readouterr().err


def test_predict_reads_files_as_the_training_did(little, tmp_path, capsys):
    """Choices in columns of their own, words by another name, and a file that is not UTF-8."""
    from transformers import BertForMultipleChoice, BertForTokenClassification

    for kind in (BertForMultipleChoice, BertForTokenClassification):
        kind.from_pretrained(little.model, ignore_mismatched_sizes=True).save_pretrained(tmp_path / kind.__name__)
        for part in ("tokenizer.json", "tokenizer_config.json"):
            (tmp_path / kind.__name__ / part).write_text((Path(little.model) / part).read_text())
    (tmp_path / "list.jsonl").write_text('{"context": "the film", "question": "is", "choices": ["good", "bad", "a"]}\n')
    (tmp_path / "table.csv").write_text("sent1,sent2,ending0,ending1,ending2\nthe film,is,good,bad,a\n")
    (tmp_path / "other.csv").write_text("start,choice0,choice1,choice2\nthe film,good,bad,a\n")

    def said(model, *words):
        text = out(capsys, "predict", tmp_path / model, "--format", "jsonl", *words)
        return [json.loads(line) for line in text.splitlines()]

    (row,) = said("BertForMultipleChoice", "--file", tmp_path / "list.jsonl")
    (again,) = said("BertForMultipleChoice", "--file", tmp_path / "table.csv")
    assert [again[key] for key in ("prediction", "probabilities")] == [row["prediction"], row["probabilities"]]
    (row,) = said("BertForMultipleChoice", "--file", tmp_path / "other.csv", "--text_column", "start")
    assert (row["start"], row["choice1"]) == ("the film", "bad")
    assert main(["predict", str(tmp_path / "BertForMultipleChoice"), "--file", str(tmp_path / "other.csv")]) == 2
    assert "row 1: it is not clear which column is the context" in capsys.readouterr().err
    (tmp_path / "none.csv").write_text("context,question\nthe film,is\n")
    assert main(["predict", str(tmp_path / "BertForMultipleChoice"), "--file", str(tmp_path / "none.csv")]) == 2
    assert "row 1: there are no choices; write a list 'choices' or columns choice0" in capsys.readouterr().err

    (tmp_path / "words.jsonl").write_text('{"words": ["the", "film"]}\n')
    assert len(said("BertForTokenClassification", "--file", tmp_path / "words.jsonl")[0]["prediction"]) == 2

    (tmp_path / "latin.csv").write_bytes("text;n\nun très good film;1\n".encode("cp1252"))
    words = ["predict", little.model, "--file", str(tmp_path / "latin.csv"), "--format", "jsonl"]
    assert main(words) == 2
    assert "save the file as UTF-8 or give --encoding cp1252" in capsys.readouterr().err
    assert json.loads(out(capsys, *words, "--encoding", "cp1252"))["text"] == "un très good film"
    (tmp_path / "odd.csv").write_text("text#n,a\ngood, film#1,2\n")
    words = ["predict", little.model, "--file", tmp_path / "odd.csv", "--format", "jsonl", "--delimiter", "#"]
    assert json.loads(out(capsys, *words))["text"] == "good, film"


def test_predict_keeps_every_column(finished, tmp_path, capsys, monkeypatch):
    (tmp_path / "x.csv").write_text("id,Text,prediction\n7,a good film,old\n8,a bad film,old\n")
    words = ("predict", finished.path, "--file", tmp_path / "x.csv", "--format")
    rows = list(csv.DictReader(io.StringIO(out(capsys, *words, "csv"))))
    assert [(row["id"], row["Text"], row["prediction (before)"]) for row in rows] == [
        ("7", "a good film", "old"),
        ("8", "a bad film", "old"),
    ]
    assert all(row["prediction"] in ("neg", "pos") for row in rows)
    assert json.loads(out(capsys, *words, "jsonl").splitlines()[1])["id"] == "8"
    monkeypatch.setattr(sys, "stdin", io.StringIO("a good film\r\na bad film\r\n"))
    printed = out(capsys, "predict", finished.path, "--format", "jsonl")
    assert [json.loads(line)["text"] for line in printed.splitlines()] == ["a good film", "a bad film"]


def test_lists_are_printed_as_words():
    """Not as Python writes them; a text without any label keeps its line."""
    tags = Task("a", "a", "tokens", "tokens", ("tokens",), ("O", "B-X"))
    labels = Task("a", "a", "sentence", "multilabel", ("text",), ("very good", "bad"))
    said = [Prediction(["very good", "bad"]), Prediction([]), Prediction(["bad"])]
    assert FORMATS["plain"]([], said, labels) == "very good, bad\n-\nbad\n"
    assert FORMATS["plain"]([], [Prediction(["O", "B-X"])], tags) == "O B-X\n"
    rows = [{"text": "a", "when": datetime.date(2024, 1, 2), "none": None, "ids": [1]}]  # of Excel and Parquet
    assert "\na,2024-01-02,,[1],bad," in FORMATS["csv"](rows, [Prediction("bad")], labels)


def test_predict_gives_pairs_to_a_plain_model(little, tmp_path, capsys):
    """It does not say whether it reads one text or two."""
    words = ("--text", "the film", "--text_pair", "is good")
    alone = out(capsys, "predict", little.model, "--text", "the film")
    both = out(capsys, "predict", little.model, *words)
    assert both != alone
    (tmp_path / "pairs.csv").write_text("a,b\nthe film,is good\n")
    file = ("--file", tmp_path / "pairs.csv", "--text_column", "a,b")
    assert out(capsys, "predict", little.model, *file) == both
    table = out(capsys, "predict", little.model, *words, "--format", "csv")
    assert table.startswith("text,text_pair,prediction,score\nthe film,is good,LABEL_")
    assert out(capsys, "predict", little.model, "--text", "the film", *file) == alone + both


def test_what_is_said_at_the_end_of_a_run(finished, little, tmp_path, capsys):
    from toughen.cli.commands.train import print_summary

    print_summary(RunFolder(finished.path))
    lines = capsys.readouterr().out.splitlines()
    mean, sd, plain = finished.results.mean, finished.results.sd, finished.results.baseline.mean
    change = mean["test_accuracy"] - plain["test_accuracy"]
    assert lines[2] == (
        f"test_accuracy: {mean['test_accuracy']:.4f} ± {sd['test_accuracy']:.4f} "
        f"(plain {plain['test_accuracy']:.4f}, smart {change:+.4f})"
    )
    assert lines[-1].startswith(f"next: toughen predict {finished.path} --text ... · toughen evaluate ")
    for columns, head, flags in (
        (["premise", "hypothesis"], "classes", "--text ... --text_pair ..."),
        (["context", "question", "choices"], "choices", "--file ..."),
    ):
        run = tmp_path / head
        run.mkdir()
        (run / "results.json").write_text((finished.path / "results.json").read_text())
        began = json.loads((finished.path / "began.json").read_text())
        (run / "began.json").write_text(json.dumps({**began, "columns": columns, "head": head}))
        print_summary(RunFolder(run))
        assert f"next: toughen predict {run} {flags} · " in capsys.readouterr().out


def test_predict_says_what_is_wrong_with_a_folder(finished, tmp_path, capsys):
    for place, words in (
        ("seeds/9", "does not exist; check the path"),
        ("config.yaml", "holds no trained model; give a run or a model folder"),
        ("plots", "holds no trained model; give a run or a model folder"),
    ):
        assert main(["predict", str(finished.path / place), "--text", "a film"]) == 2
        assert capsys.readouterr().err == f"toughen: {finished.path / place} {words}.\n"
    (tmp_path / "seeds" / "1").mkdir(parents=True)
    (tmp_path / "began.json").write_text("{}")
    for place in (tmp_path, tmp_path / "seeds" / "1"):
        assert main(["predict", str(place), "--text", "a film"]) == 2
        assert (
            f"{place} holds no trained model; continue with: toughen train --resume {tmp_path}."
            in capsys.readouterr().err
        )


def test_the_configuration_of_several_recipes_is_refused(capsys):
    assert main(["recipes", "sift", "--yaml"]) == 2
    assert "--yaml writes one recipe; give its whole name" in capsys.readouterr().err


def test_a_package_that_the_trainer_needs(little, tmp_path, capsys, monkeypatch):
    """`report_to` names trackers that are not installed with toughen."""
    monkeypatch.setattr("transformers.integrations.integration_utils.is_wandb_available", lambda: False)
    words = [word for key, value in little.data.items() for word in (f"--data.{key}", value)]
    words += ["--model", little.model, "--max_steps", "1", "--trainer.report_to", "wandb"]
    assert main(["train", *map(str, words), "--output_dir", str(tmp_path / "run")]) == 2
    assert "toughen: WandbCallback requires wandb to be installed" in capsys.readouterr().err
    assert not (tmp_path / "run").exists()


def test_methods_and_describe(capsys):
    assert re.search(r"^smart +2\.7  Smoothness-inducing", out(capsys, "methods"), re.MULTILINE)
    assert "freelb" in out(capsys, "methods", "--names").split()
    text = out(capsys, "describe", "smart", "--weight", "5", "--method.preset", "paper")
    assert "combine=Add(weight=5.0" in text
    assert "init=Normal(scale=1e-05" in text
    options = [line for line in out(capsys, "describe", "asa").splitlines() if line.startswith("  --method.")]
    starts = {re.match(r"  --method\.\w+ +", line).end() for line in options}
    assert len(starts) == 1  # also behind adversary_weight, the longest
    plain = out(capsys, "describe", "plain")
    assert plain.startswith("plain: Ordinary fine-tuning: one clean pass.")
    assert "Options:" not in plain
    both = out(capsys, "describe", "smart+rdrop")
    assert "smart: Smoothness" in both
    assert "\nrdrop: " in both


def test_recipes_by_any_start_of_their_names(capsys):
    def named(*words):
        return [line.split()[0] for line in out(capsys, "recipes", *words).splitlines() if line.startswith(" sift/")]

    assert "sift/mnli-deberta-base" in named("sift/mnli")
    assert all(name.startswith("sift/mnli") for name in named("sift/mnli"))
    assert set(named("sift/mnli")) < set(named("sift")) == set(named("sift/")) == set(named())
    assert "differences" in out(capsys, "recipes", "sift/mnli-deberta-base")
    assert main(["recipes", "sift/nothing"]) == 2


OWN = """
import toughen

@toughen.register_method("needy")
def needy(weight: float, steps: int = 1) -> toughen.Method:
    '''What it is.'''
    return toughen.smart(weight=weight, steps=steps)
"""


def test_an_option_of_ones_own_without_a_default_is_asked_for(capsys, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    Path("needy.py").write_text(OWN)
    text = out(capsys, "describe", "./needy.py")
    assert "in the loss. (must be given)" in text
    assert "give --method.weight to see it" in text
    assert "weight=2.0" in out(capsys, "describe", "./needy.py", "--weight", "2")
    out(capsys, "init-config", "run", "--method", "./needy.py")
    text = Path("run.yaml").read_text()
    assert "\n  weight:  # must be given\n" in text
    assert "\n  # steps: 1\n" in text
    with pytest.raises(ValueError, match=r"^method.weight has no default: give it a value \(--method.weight\)\.$"):
        build(yaml.safe_load(text))
    filled = yaml.safe_load(text.replace("weight:  #", "weight: 3  #"))
    assert build(filled).method["weight"] == 3
    for words in ("./needy.py", "smart+./needy.py:needy"):
        assert main(["train", "--model", "m", "--task", "rte", "--method", words]) == 2
        assert "weight has no default" in capsys.readouterr().err


def test_new_method_and_init_config_give_files_that_work(capsys, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    out(capsys, "new-method", "smart.py")  # a name that is taken gets another
    assert main(["new-method", "smart"]) == 2
    assert "smart.py already exists" in capsys.readouterr().err
    assert "my-smart" in out(capsys, "describe", "./smart.py:my-smart", "--weight", "2")
    out(capsys, "init-config", "run", "--method", "freelb", "--task", "rte")
    lines = Path("run.yaml").read_text().splitlines()
    assert build(yaml.safe_load("\n".join(lines))).method_name == "freelb"
    # Every option that stands there as a comment is right as it stands, once the mark is taken away.
    bare = [re.sub(r"^(\s*)# (\s*\w+:( |$))", r"\1\2", line) for line in lines]
    values = yaml.safe_load("\n".join(line for line in bare if "any field" not in line.lower()))
    assert (values["train"]["batch_size"], values["peft"]["r"], values["method"]["steps"]) == (32, 8, None)
    del values["trainer"]
    assert build(values).train == build(yaml.safe_load("\n".join(lines))).train


@pytest.mark.parametrize(("model", "task"), [("C:\\new folder: größe", "a # b"), ("yes", "[x]"), ("it's", '"')])
def test_init_config_writes_any_name_as_it_is(model, task, tmp_path, capsys):
    out(capsys, "init-config", tmp_path / "run.yaml", "--model", model, "--task", task)
    values = yaml.safe_load((tmp_path / "run.yaml").read_text())
    assert (values["model"], values["task"]) == (model, task)


def test_what_is_to_be_typed_next_can_be_typed(tmp_path, capsys, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for place in ("my method.py", tmp_path / "other.py"):
        said = out(capsys, "new-method", place)
        words = shlex.split(said.partition("try: toughen ")[2])
        assert "Ascent steps." in out(capsys, *words)
    assert shlex.split(out(capsys, "init-config", "my run.yaml"))[-2:] == ["--config", "my run.yaml"]


def test_env_and_tasks(capsys):
    text = out(capsys, "env")
    assert all(f"\n  {name} " in text for name in ("torch", "ray", "optuna"))
    text = out(capsys, "tasks")
    assert "stsb" in text
    assert "(tests mnli)" in text
    heads = text.splitlines()[0].index("head")
    assert {line[heads - 1 : heads] for line in text.splitlines()} == {" "}  # also behind stress-length-mismatch
    assert all(line[heads] != " " for line in text.splitlines())


def test_submit_makes_the_zip(capsys, tmp_path, finished):
    from toughen.tasks.catalog import GLUE_TEST_ROWS as ROWS

    run = tmp_path / "wnli"
    values = json.loads((finished.path / "results.json").read_text())
    scored = zip(values["seeds"], (0.5, 0.6), strict=True)  # the second is the best
    seeds = [{**seed, "metrics": {values["metric"]: score}} for seed, score in scored]
    run.mkdir()
    (run / "results.json").write_text(json.dumps({**values, "task": "wnli", "seeds": seeds}))
    for seed, label in (("1", "not_entailment"), ("2", "entailment")):
        (run / "seeds" / seed / "predictions").mkdir(parents=True)
        answers = "".join(f"{number}\t{label}\n" for number in range(ROWS["wnli"]))
        (run / "seeds" / seed / "predictions" / "test.tsv").write_text("index\tprediction\n" + answers)
    text = out(capsys, "submit", "glue", run, "--partial", "--out", tmp_path / "all.zip")
    assert "1 of 11 files" in text
    with zipfile.ZipFile(tmp_path / "all.zip") as archive:
        assert archive.read("WNLI.tsv").decode().splitlines()[1] == "0\t1"
    assert main(["submit", str(run), str(run), "--partial", "--out", str(tmp_path / "two.zip")]) == 2
    assert "two of the runs are of wnli; give one a task" in capsys.readouterr().err


def test_push_is_a_dry_run_unless_told_otherwise(capsys, finished, monkeypatch):
    monkeypatch.setattr("huggingface_hub.HfApi.create_repo", None)
    text = out(capsys, "push", finished.path, "me/mine")
    assert "model.safetensors" in text
    assert "dry run: nothing was uploaded" in text


def test_version(capsys):
    assert out(capsys, "--version").startswith("toughen 0")
