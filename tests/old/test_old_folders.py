"""Folders from before the redesign load, resume, report and compare, and their sweeps go on."""

import json
import shutil
from pathlib import Path

import pytest

import toughen
from toughen.cli.main import main
from toughen.reports import compare_runs, find_runs
from toughen.runs import RunError, read

DATA = Path(__file__).parent / "data"
# What the same runs reached on the old code when nothing interrupted them: the last rows of metrics.jsonl.
WHOLE = {
    "smart": {
        "eval_loss": 0.8053811192512512,
        "loss": 0.7780201435089111,
        "robust/term": 0.010814032517373562,
        "robust/delta_norm": 0.06059866398572922,
    },
    "asa": {
        "eval_loss": 0.774425208568573,
        "loss": 0.9230464696884155,
        "robust/term": 0.2407492995262146,
        "robust/visible_0": 0.9691676497459412,
    },
}


@pytest.fixture
def old(tmp_path, monkeypatch):
    """A copy of the old folders, as the working directory."""
    folder = tmp_path / "old"
    shutil.copytree(DATA, folder)
    for path in folder.rglob("*"):
        if path.suffix in {".json", ".yaml"} and "HERE" in path.read_text():
            path.write_text(path.read_text().replace("HERE", str(folder)))
    monkeypatch.chdir(folder)
    return folder


@pytest.mark.parametrize("name", ["finished", "finished/seeds/1", "finished/model"])
def test_load(old, name):
    texts = [line.split(",")[0] for line in (old / "dev.csv").read_text().splitlines()[1:]]
    lines = (old / "finished" / "seeds" / "1" / "predictions" / "validation.tsv").read_text().splitlines()[1:]
    for answer, line in zip(toughen.load(name)(texts), lines, strict=True):
        assert answer.label == line.split("\t")[1]
        assert list(answer.probabilities.values()) == pytest.approx(json.loads(line.split("\t")[3]), abs=1e-4)


def test_read_results(old):
    results = read(old / "finished")
    assert [seed.seed for seed in results.seeds] == [1, 2]
    assert results.best.folder == "seeds/1"
    assert results.mean["loss"] == pytest.approx(0.7232731878757477)
    assert results.baseline.mean["accuracy"] == 0.475


def test_finished_run_is_not_trained_again(old, monkeypatch):
    before = json.loads((old / "finished" / "results.json").read_text())
    monkeypatch.setattr("toughen.runs.trainer.RunTrainer.training_step", None)
    toughen.resume("finished")
    (old / "finished" / "results.json").unlink()
    shutil.copytree(old / "finished" / "model", old / "finished" / "seeds" / "2" / "model")
    toughen.resume("finished")
    after = json.loads((old / "finished" / "results.json").read_text())
    assert {key: after[key] for key in ("seeds", "mean", "baseline")} == {
        key: before[key] for key in ("seeds", "mean", "baseline")
    }


@pytest.mark.parametrize("method", ["smart", "asa"])
def test_resume_ends_where_the_whole_run_ended(old, method):
    run = old / f"interrupted-{method}"
    with pytest.raises(RunError, match="--resume"):
        read(run)
    assert main(["train", "--resume", str(run)]) == 0
    rows = [json.loads(line) for line in (run / "metrics.jsonl").read_text().splitlines()]
    kept = [json.loads(line) for line in (DATA / run.name / "metrics.jsonl").read_text().splitlines()]
    assert rows[: len(kept)] == kept  # it went on from the checkpoint of step 8 and did not start again
    assert [row["step"] for row in rows if row["kind"] == "eval"] == [6, 12]
    last = {key: value for row in rows[-2:] for key, value in row.items()}
    assert {key: last[key] for key in WHOLE[method]} == pytest.approx(WHOLE[method], rel=1e-3)
    steps = [row["step"] for row in rows if row["kind"] == "train"]
    assert steps == [2, 4, 6, 8, 10, 12]
    assert (run / "report.html").is_file()
    assert toughen.load(run)("the film is good").label in {"neg", "pos"}


def test_changed_config_of_an_old_run_is_refused(old):
    config = old / "interrupted-smart" / "config.yaml"
    config.write_text(config.read_text().replace("learning_rate: 0.03", "learning_rate: 0.3"))
    with pytest.raises(RunError, match="learning_rate"):
        toughen.resume("interrupted-smart")


def test_report(old):
    page = toughen.report(["finished"], old / "page.html").read_text()
    for text in ("smart", "Neighbours in the embedding (PWWS)", "Perturbed embeddings (PGD)", "row 8"):
        assert text in page
    assert main(["report", "finished"]) == 0


def test_compare(old, capsys):
    shutil.copytree("finished", "other")
    (task,) = compare_runs(find_runs([old / "finished", old / "other"]))
    assert len(task.rows) == 4  # two runs with their baselines
    assert main(["compare", "finished", "other"]) == 0
    shown = capsys.readouterr().out
    assert "finished (plain)" in shown
    assert "rows of one seed: McNemar" in shown  # from the predictions


def test_attack_on_an_old_run(old):
    stored = old / "finished" / "attacks" / "neighbours-validation-limit-10.json"
    before = json.loads(stored.read_text())
    toughen.evaluate("finished", attack="neighbours", limit=10)
    after = json.loads(stored.read_text())
    for key in set(before) - {"toughen", "key", "seconds", "notes"}:  # notes name the temperature now
        assert after[key] == before[key], key


def test_finished_sweep(old, capsys):
    before = (old / "sweep-finished" / "leaderboard.csv").read_text()
    found = toughen.sweep("sweep-finished", resume=True, engine="serial")
    assert found.best.settings == {"train.epochs": 30}
    assert found.best.mean == 0.7
    assert (old / "sweep-finished" / "leaderboard.csv").read_text() == before
    assert "started" not in capsys.readouterr().out
    files = {path.name for path in (old / "sweep-finished").iterdir()}
    assert files - {path.name for path in (DATA / "sweep-finished").iterdir()} <= {"leaderboard.html", "workers.log"}


def test_unfinished_sweep_goes_on(old, capsys):
    found = toughen.sweep("sweep-unfinished", resume=True, engine="serial")
    shown = capsys.readouterr().out
    assert "002-seed1: started" in shown
    assert "001-seed1: started" not in shown
    assert found.best.settings == {"train.epochs": 30}
    # The trial went on from its checkpoint, so it ended on the score that it has in the finished sweep.
    rows, before = (
        [json.loads(line) for line in (folder / "sweep-unfinished/trials/002-seed1/metrics.jsonl").open()]
        for folder in (old, DATA)
    )
    assert rows[: len(before)] == before
    tables = [(old / name / "leaderboard.csv").read_text() for name in ("sweep-finished", "sweep-unfinished")]
    assert tables[0] == tables[1]
