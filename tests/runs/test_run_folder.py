"""What a run leaves behind, and that others can use it."""

import io
import json
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest
import yaml

from toughen.runs import RunError, load, read, train
from toughen.runs.config_io import build
from toughen.runs.folder import RunFolder
from toughen.runs.progress import ProgressLogger

from .conftest import create, python


def test_everything_is_there(finished):
    names = {path.relative_to(finished.path).as_posix() for path in finished.path.rglob("*") if path.is_file()}
    wanted = {"config.yaml", "results.json", "metrics.jsonl", "train.log", "README.md", "model/config.json"}
    wanted |= {"report.html", "plots/loss-and-its-parts.svg"}
    wanted |= {"all_results.json", "train_results.json", "eval_results.json", "model/model.safetensors"}
    for folder in ("seeds/1", "seeds/2", "baseline/1", "baseline/2"):
        wanted |= {f"{folder}/predictions/{split}.tsv" for split in ("validation", "test")}
        wanted.add(f"{folder}/model/model.safetensors")
    assert wanted <= names
    assert not [name for name in names if "checkpoint" in name or Path(name).name.startswith(".") or ".bin" in name]


def test_the_star_is_told_in_words_once_a_run(finished):
    lines = [line for line in (finished.path / "train.log").read_text().splitlines() if line.endswith(("*", "so far)"))]
    assert lines[0].endswith("  * (the best so far)")
    assert len(lines) >= 4  # two seeds of two arms
    assert all(line.endswith("  *") for line in lines[1:])


@pytest.mark.parametrize(("total", "said"), [(1, "seed 1: 1 update in 1 epoch"), (2, "seed 1: 2 updates in 1 epoch")])
def test_one_update_is_no_updates(total, said, capsys):
    state = SimpleNamespace(global_step=0, max_steps=total, num_train_epochs=1, best_metric=None)
    ProgressLogger().begin("seed 1", ["plain"], "accuracy", state)
    assert capsys.readouterr().out == f"{said}\n"


def test_the_hours_of_a_long_run_are_told(capsys, monkeypatch):
    now = [0.0]
    monkeypatch.setattr("toughen.runs.progress.time.perf_counter", lambda: now[0])
    reporter = ProgressLogger()
    state = SimpleNamespace(global_step=0, max_steps=11_001, num_train_epochs=1, best_metric=None)
    reporter.begin("seed 1", ["plain"], "accuracy", state)
    now[0] = 10.0
    reporter.log_row({"kind": "train", "step": 10, "loss": 1.0}, {})
    assert capsys.readouterr().out.endswith("1.0 it/s · ETA 3:03:11\n")


def test_time_left_is_of_all_seeds(capsys, monkeypatch):
    now = [0.0]
    monkeypatch.setattr("toughen.runs.progress.time.perf_counter", lambda: now[0])
    reporter = ProgressLogger()
    state = SimpleNamespace(global_step=0, max_steps=100, num_train_epochs=1, best_metric=None)

    def left(step):
        reporter.log_row({"kind": "train", "step": step, "loss": 1.0}, {})
        return capsys.readouterr().out.rpartition("ETA ")[2].strip()

    reporter.plan("method", ["method", "baseline"], {"method": 3.0, "baseline": 1.0})
    reporter.begin("seed 1", ["smart"], "accuracy", state)
    now[0] = 30.0
    assert left(10) == "11:10"  # 270 s of this seed, 300 of the next, 100 of the plain one
    now[0] = 330.0
    reporter.end()
    reporter.plan("method", ["baseline"], {"method": 3.0, "baseline": 1.0})
    reporter.begin("seed 2", ["smart"], "accuracy", state)
    now[0] = 360.0
    assert left(20) == "2:50"  # 120 s and 50
    reporter.plan("baseline", ["method"], {"method": 3.0, "baseline": 1.0})
    assert reporter._eta(20) == "ETA 7:30"  # a seed of the method took 330 s


def test_eighty_columns_hold_step_bar_and_time_left(monkeypatch):
    from rich.console import Console

    shown = io.StringIO()
    narrow = Console(file=shown, width=80, force_terminal=True, color_system=None)
    monkeypatch.setattr("rich.progress.get_console", lambda: narrow)
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True, raising=False)
    reporter = ProgressLogger()
    state = SimpleNamespace(global_step=0, max_steps=3280, num_train_epochs=3, best_metric=None)
    reporter.begin("seed 1", ["smart"], "accuracy", state)
    reporter.step(1200, 1.2)
    row = {"kind": "train", "step": 1200, "loss": 0.4321, "cost": 2.7, "robust/loss_clean": 0.3, "robust/term": 0.1}
    reporter.log_row({**row, "robust/delta_relative": 0.03}, {"robust/term": 5.0})
    reporter.bar.refresh()
    reporter.end()
    line = next(each for each in reversed(shown.getvalue().split("\r")) if "1200/3280" in each).split("\n")[0]
    assert "seed 1 epoch 2/3" in line
    assert "━" in line
    assert "ETA 0:" in line
    assert "it/s" in line


def test_results_hold_what_is_promised(finished):
    values = json.loads((finished.path / "results.json").read_text())
    assert set(values) == {
        *("toughen", "task", "model", "head", "method", "metric", "higher_is_better", "seeds", "mean", "sd", "median"),
        *("baseline", "data", "versions", "hardware", "notes"),
    }
    results = read(finished.path)
    first, second = results.seeds
    assert set(first.to_dict()) == {
        *("seed", "metrics", "best_epoch", "train_seconds", "passes", "seconds_per_step", "peak_memory_mb", "folder"),
    }
    assert results.mean["accuracy"] == pytest.approx((first.metrics["accuracy"] + second.metrics["accuracy"]) / 2)
    assert first.passes == {"forward": 3.0, "backward": 2.0}  # clean, search and perturbed; search and training
    assert results.baseline.seeds[0].passes == {"forward": 1.0, "backward": 1.0}
    assert results.data == {"train": 48, "validation": 20, "test": 10}


def test_metrics_rows(finished):
    rows = [json.loads(line) for line in (finished.path / "metrics.jsonl").read_text().splitlines()]
    assert {(row["seed"], row["arm"]) for row in rows} == {(s, a) for s in (1, 2) for a in ("method", "baseline")}
    trained = next(row for row in rows if row["kind"] == "train" and row["arm"] == "method")
    assert {"loss", "robust/loss_clean", "robust/term", "robust/delta_relative", "cost"} <= set(trained)
    assert sum(row["kind"] == "eval" for row in rows) == 2 * 2 * 2
    for row in rows:  # the parts are means over the same steps as the loss, so they add up
        if row["kind"] == "train" and row["arm"] == "method":
            assert row["loss"] == pytest.approx(row["robust/loss_clean"] + row["robust/term"], abs=1e-5)
    counted = {row["robust/backwards"] for row in rows if row["arm"] == "method" and "robust/backwards" in row}
    assert counted == {finished.results.seeds[0].passes["backward"]}  # the search's gradient is one of them


def test_config_is_merged_and_runs_again(finished, tmp_path):
    config = RunFolder(finished.path).config()
    again = yaml.safe_load((finished.path / "config.yaml").read_text())
    assert build(again) == config
    assert build({**again, "output_dir": str(tmp_path / "again")}).train == config.train


def test_model_loads_without_toughen_and_gives_the_logged_predictions(finished, little):
    code = """
import csv, json
class No:
    def find_spec(self, name, *_):
        if name.split(".")[0] == "toughen": raise ImportError("toughen is not to be imported")
sys.meta_path.insert(0, No())
from transformers import pipeline
pipe = pipeline("text-classification", model=sys.argv[1], device="cpu", top_k=None)
texts = [row["text"] for row in csv.DictReader(open(sys.argv[2]))]
print(json.dumps([{each["label"]: each["score"] for each in said} for said in pipe(texts)]))
"""
    said = json.loads(python(code, finished.path / "model", little.data["validation_file"]).stdout)
    best = finished.results.best.folder
    lines = (finished.path / best / "predictions" / "validation.tsv").read_text().splitlines()
    assert lines[0] == "index\tprediction\tlabel\tprobabilities"
    assert len(lines) == len(said) + 1
    for line, scores in zip(lines[1:], said, strict=True):
        _, label, _, probabilities = line.split("\t")
        assert max(scores, key=scores.get) == label
        assert [scores["neg"], scores["pos"]] == pytest.approx(json.loads(probabilities), abs=1e-5)


def test_a_run_stands_for_its_folder(finished, tmp_path):
    import toughen

    text = "the film is good"
    assert toughen.load(finished)(text) == toughen.load(finished.path)(text)
    (found,) = toughen.evaluate(finished, samples=10, write=False)
    assert found.score == finished.results.best.metrics["accuracy"]
    assert toughen.report([finished], tmp_path / "page.html").is_file()


def test_predictor_gives_the_logged_predictions(finished, little, monkeypatch):
    monkeypatch.chdir(finished.path / "seeds" / "2")
    predictor = load(".")
    assert predictor.task == load(finished.path).task
    texts = [json.loads(line)["text"] for line in Path(little.test_file).read_text().splitlines()]
    lines = (finished.path / "seeds" / "2" / "predictions" / "test.tsv").read_text().splitlines()[1:]
    for said, line in zip(predictor(texts), lines, strict=True):
        assert said.label == line.split("\t")[1]
        assert list(said.probabilities.values()) == pytest.approx(json.loads(line.split("\t")[3]), abs=1e-5)
    assert predictor(texts[0]).label == predictor(texts)[0].label
    with pytest.raises(RunError, match="one text"):
        predictor([("a", "b")])


@pytest.mark.parametrize("option", [{"train_sampling_strategy": "group_by_length"}, {"dataloader_drop_last": True}])
def test_every_row_is_predicted_in_its_order(start, little, option):
    run = start("fgm", train={**little.train, "max_steps": 1, "eval_batch_size": 8}, trainer=option)
    table = (run.path / "seeds" / "1" / "predictions" / "validation.tsv").read_text().splitlines()[1:]
    assert [line.split("\t")[2] for line in table] == ["neg", "pos"] * 10


def test_card_has_a_model_index(finished):
    front = yaml.safe_load((finished.path / "model" / "README.md").read_text().split("---")[1])
    metrics = front["model-index"][0]["results"][0]["metrics"]
    assert {each["type"] for each in metrics} == {"accuracy", "f1"}
    assert "base_model" not in front  # a folder of this machine is nobody's base model


def test_same_seed_same_numbers(start):
    first, second = (start("freelb", name, seeds=[3]).results for name in ("one", "two"))
    assert first.seeds[0].metrics == second.seeds[0].metrics
    files = [run.path / "model" / "model.safetensors" for run in (first, second)]
    assert files[0].read_bytes() == files[1].read_bytes()


def test_an_existing_folder_is_left_alone(finished, little):
    before = {path: path.stat().st_mtime_ns for path in finished.path.rglob("*")}
    with pytest.raises(RunError, match="already exists; continue with --resume"):
        create(build({"model": little.model, "data": little.data, "output_dir": str(finished.path)}))
    assert before == {path: path.stat().st_mtime_ns for path in finished.path.rglob("*")}


def test_two_runs_in_one_second_get_two_folders(little, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    config = build({"model": little.model, "data": little.data, "method": "smart+rdrop"})
    first, second = create(config), create(config)
    assert first != second
    assert first.name.startswith("train-smart+rdrop-2")


@pytest.mark.parametrize("given", [{}, {"output_dir": "mine"}, {"output_dir": "empty"}])
def test_runs_that_begin_at_the_same_moment_never_share_a_folder(little, tmp_path, monkeypatch, given):
    monkeypatch.chdir(tmp_path)
    config = build({"model": little.model, "data": little.data, **given})
    Path("empty").mkdir()
    made, real = [], Path.mkdir

    def late(self, *args, **kwargs):  # another run looks and makes its folder between our look and our making
        if not made:
            made.append(None)
            made[0] = create(config)
        real(self, *args, **kwargs)

    monkeypatch.setattr(Path, "mkdir", late)
    if given:
        with pytest.raises(RunError, match=f"{given['output_dir']} was taken by another run"):
            create(config)
    else:
        assert create(config) != made[0]
    assert [path.name for path in made[0].iterdir()] == ["config.yaml"]


def test_an_unfinished_run_says_how_to_go_on(little, tmp_path):
    folder = create(build({"model": little.model, "data": little.data, "output_dir": str(tmp_path / "run")}))
    with pytest.raises(RunError, match=f"toughen train --resume {folder}"):
        read(folder)


@pytest.mark.parametrize("given", [None, 3, b"good", [None], ["good", float("nan")], [3]])
def test_what_is_no_text_is_refused(finished, given):
    with pytest.raises(RunError, match="is no text"):
        finished.load()(given)


def test_a_config_in_python_is_not_lost_to_defaults(little, tmp_path, monkeypatch):
    monkeypatch.setattr("toughen.runs.api.launch_new", lambda folder, **_: None)
    below = {
        **{"model": little.model, "data": little.data, "seed": [4, 5], "baseline": True, "fast": True, "nproc": 2},
        **{"method": {"name": "freelb", "steps": 3}, "peft": "lora"},
    }
    made = train(config=below, output_dir=tmp_path / "below").config
    assert (made.method, made.seed, made.peft.name) == ({"name": "freelb", "steps": 3}, (4, 5), "lora")
    assert (made.baseline, made.fast, made.nproc) == (True, True, 2)
    over = train(config=below, steps=4, seeds=1, baseline=False, peft=False, nproc=1, output_dir=tmp_path / "o").config
    assert (over.method["steps"], over.seed, over.baseline, over.peft.name, over.nproc) == (4, (1,), False, None, 1)
    plain = train(model=little.model, data=little.data, weight=2.0, output_dir=tmp_path / "plain").config
    assert (plain.method, plain.seed) == ({"name": "smart", "weight": 2.0}, (1,))


def test_things_in_place_of_names(little):
    with pytest.raises(RunError, match="save it with save_pretrained and give the folder"):
        train("fgm", model=object(), data=little.data)
    with pytest.raises(RunError, match=r"data=train\.csv: expected options by name"):
        train("fgm", model=little.model, data="train.csv")


def test_the_config_of_a_new_folder_is_the_one_that_is_read(little, tmp_path):
    """The process that made a run has the config as an object; others read config.yaml."""
    for number, recipe in enumerate((None, "freelb/rte-roberta-base")):
        given = {"model": little.model, "data": little.data, "method": {"name": "freelb", "norm": None, "steps": 2}}
        given |= {"trainer": {"adam_beta1": None}, "recipe": recipe, "output_dir": str(tmp_path / str(number))}
        made = RunFolder.create(build(given))
        assert made.config() == RunFolder(made.path).config()


def test_results_of_other_versions_are_read(tmp_path):
    seed = {"seed": 3, "metrics": {"accuracy": 0.5}, "folder": "seeds/3", "later": 1}
    values = {
        **{"task": "rte", "model": "m", "metric": "accuracy", "method": {"name": "smart"}, "later": 1},
        **{"seeds": [seed], "mean": {"accuracy": 0.5}, "sd": {"accuracy": 0.0}, "median": {"accuracy": 0.5}},
    }
    (tmp_path / "results.json").write_text(json.dumps(values))
    results = read(tmp_path)
    assert (results.best.folder, results.best.peak_memory_mb, results.baseline) == ("seeds/3", None, None)
    assert str(results) == "accuracy: seed 3 0.5000"


def test_results_are_written_as_they_were_read(finished):
    for name, read_again in (("results.json", finished.results), ("began.json", RunFolder(finished.path).manifest())):
        values = json.loads((finished.path / name).read_text())
        assert json.loads(json.dumps(read_again.to_dict())) == values
    assert list(read_again.to_dict())[:3] == ["task", "labels", "head"]
