"""The leaderboard in small: two tasks, two methods, two seeds, a tiny random model, from files to table."""

import json
import os
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path

import pytest

from benchmarks.leaderboard import journal, packed, planning, table
from benchmarks.leaderboard.prepare import prepare
from benchmarks.leaderboard.protocol import TEXT_METHODS, Run, written
from benchmarks.leaderboard.run import run, times
from benchmarks.leaderboard.sections import parts
from benchmarks.leaderboard.summary import MEAN, boards, robust
from benchmarks.leaderboard.workers import Here, Limit, open_bench, workers

from . import small


@pytest.fixture(scope="module")
def cache(tmp_path_factory):
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("HF_DATASETS_CACHE", str(tmp_path_factory.mktemp("cache")))
        yield


@pytest.fixture(scope="module")
def made(tmp_path_factory, cache):
    """Protocol, prepared file and results of a whole sweep with the linear head."""
    folder, what = tmp_path_factory.mktemp("board"), small.protocol()
    file, results = small.prepared(folder, what, texts=True), folder / "rows.jsonl"
    count = run(file, results, what, device="cpu", only=["linear"])
    return what, file, results, count


def test_from_files_to_table(made, tmp_path):
    what, _, results, count = made
    rows = journal.read([results])
    tuning, board = 2 * 2 + 2, 2 * 2 * 3  # rates x tasks, candidates; seeds x tasks x (plain, plain x2, fgm)
    tune = 2 * (1 + 2)  # tasks x (plain, candidates of the tuned row)
    chosen = [planning.tuned_settings(what, "tiny", task.name, "fgm tuned", rows) for task in what.tasks]
    tuned = 2 * sum(settings is not None for settings in chosen)  # seeds; else it is plain training's runs
    assert count == len(rows) == tuning + tune + board + tuned
    assert [len(journal.unpacked(row["answers"]["clean"])) for row in rows if row["purpose"] == "tune"] == [16] * tune
    shown = planning.of_today(what, rows)
    assert {row["task"] for row in shown if row["purpose"] == "board" and row["method"] == "fgm tuned"} == {
        "sst2",
        "rte",
    }
    assert not results.with_suffix(".failed.jsonl").exists()
    evidence = tmp_path / "evidence.md"
    evidence.write_text(f"# Evidence\n\n{table.BEGIN}\nold\n{table.END}\n\nend\n")
    written = table.write(results, what, evidence)
    text = evidence.read_text()
    assert "old" not in text
    assert text.endswith("\n\nend\n")
    assert "clean scores at equal epochs" in text
    assert "at a glance" in text
    assert "against plain of equal compute" in written[0].read_text()  # a detail
    assert {"evidence-tiny-clean.svg", "evidence-tiny-pgd.svg"} <= {path.name for path in tmp_path.iterdir()}
    assert "![tiny: mean of the tasks, clean](evidence-tiny-clean.svg)" in text
    assert len(written[2].read_text()) < 990_000
    cells = json.loads(written[1].read_text())
    assert {cell["task"] for cell in cells} == {"sst2", "rte", "mean"}
    assert times(results).startswith("purpose\tmethod")


def test_a_row_says_all(made):
    row = next(row for row in journal.read([made[2]]) if row["purpose"] == "board" and row["method"] == "fgm")
    assert {
        "model",
        "task",
        "method",
        "seed",
        "arm",
        "metric",
        "value",
        "passes",
        "ms",
        "epochs",
        "steps",
    } <= row.keys()
    assert row["passes"] == 2.0
    assert row["steps"] == row["epochs"] * (60 // 8)
    robust = row["robust"]
    assert {"typos 0.3", "pgd", "noise", "pgd_area", "pgd_reference"} <= robust.keys()
    assert robust["pgd_reference"] == robust["pgd"][1] <= robust["pgd"][0] <= robust["pgd_clean"]
    assert sum(row["captured"].values()) == row["steps"]
    assert set(row["seconds"]) == {"begin", "train", "test", "attack", "texts"}


def test_changed_texts_are_columns_of_the_same_runs(made):
    what, file, results, _ = made
    searched = ["characters", "synonyms far", "synonyms near"]
    noise = ["misspellings 0.5", "casing 0.5", "obfuscation 0.5"]
    rows = journal.read([results])
    for row in (row for row in rows if row["purpose"] == "board"):
        assert all(0 <= row["robust"][name] <= 1 for name in (*searched, *noise))
        assert (row["texts"]["rows"], row["texts"]["queries"]) == (5, 6)
        assert all(row["texts"]["seconds_per_1000_rows"][name] > 0 for name in searched)
    assert not any("texts" in row for row in rows if row["purpose"] != "board")
    facts = packed.facts_of(file)["texts"]
    assert {task: len(some) for task, some in facts["rows"].items()} == {"sst2": 5, "rte": 5}
    shown = [part for part in parts(rows, what) if part.title == "tiny, linear head: changed texts"]
    assert [part.head for part in shown] == [["method", *searched, *noise]]
    assert [line[0] for line in shown[0].rows][:2] == ["plain", "fgm"]
    without = [{**row, "robust": {k: v for k, v in row["robust"].items() if k not in searched}} for row in rows]
    for some, left in (
        (without, noise),
        ([{**row, "robust": {"pgd_area": 0.5, "pgd_reference": 0.5}} for row in rows], []),
    ):
        assert [part.head[1:] for part in parts(some, what) if "changed texts" in part.title] == [left] * bool(left)


@pytest.mark.parametrize("name", ["words", "freelb+views robust"])
def test_methods_on_texts_read_the_synonyms_of_the_file(made, name):
    """Training names a source of the prepared file; the board keeps its name, not a folder of one machine."""
    what, file, *_ = made
    bench = open_bench(file, "cpu", replace(what, text_methods=TEXT_METHODS))
    settings = written(TEXT_METHODS[name])
    with pytest.raises(SystemExit, match="prepared without synonyms 'wordnet'"):
        bench.make(Run("board", "tiny", "sst2", "linear", name, settings, 1, 1e-3))
    row = bench.make(Run("board", "tiny", "sst2", "linear", name, settings.replace("wordnet", "near"), 1, 1e-3))
    assert '"synonyms": "near"' in json.dumps(row["settings"])
    assert {"characters", "synonyms far", "misspellings 0.5", "typos 0.3"} <= row["robust"].keys()
    assert row["passes"] > 2


def test_the_mean_leaves_out_tasks_that_have_no_such_score(made):
    what, _, results, _ = made
    rows = [row for row in journal.read([results]) if row["purpose"] == "board"]
    for row in rows:
        if row["task"] == "rte":
            del row["robust"]["characters"]
    board = boards(rows, what)["tiny", "linear"]
    assert board.seeds("plain", MEAN, robust("characters")) == board.seeds("plain", "sst2", robust("characters"))
    assert board.seeds("plain", MEAN, robust("unknown")) == {}


def test_texts_and_pruned_tokens_exclude_each_other(made, tmp_path):
    what, *_ = made
    with pytest.raises(SystemExit, match="--prune"):
        prepare(tmp_path, "tiny", tmp_path, tmp_path / "x", what, prune=True, synonyms={"near": tmp_path})


def test_all_methods_see_the_same_batches(made):
    orders = {}
    for row in journal.read([made[2]]):
        if row["purpose"] == "board":
            orders.setdefault((row["task"], row["seed"]), set()).add(row["order"])
    assert all(len(seen) == 1 for seen in orders.values())  # also of plain with twice the epochs
    assert len(set.union(*orders.values())) == 4  # two tasks, two seeds


def test_it_goes_on_where_it_stopped(made, tmp_path):
    what, file, results, _ = made
    lines = results.read_text().splitlines()
    again = tmp_path / "rows.jsonl"
    again.write_text("\n".join(lines[:-2]) + "\n" + lines[-2][:50])  # killed while it wrote
    assert run(file, again, what, device="cpu", only=["linear"]) == 2
    first, second = (
        {row["key"]: (row["value"], row["robust"], row["order"]) for row in journal.read([path])}
        for path in (results, again)
    )
    assert first == second  # a run on a used rig, and on another one: the same numbers
    assert run(file, again, what, device="cpu", only=["linear"]) == 0


def test_runs_of_two_protocols_are_not_mixed(made):
    what, file, results, _ = made
    with pytest.raises(SystemExit, match="runs of rte, sst2 are of another protocol"):
        run(file, results, replace(what, batch_size=4), device="cpu")


def test_it_stops_at_its_limit(made, tmp_path, capsys):
    what, file, *_ = made
    results = tmp_path / "rows.jsonl"
    assert run(file, results, what, device="cpu", minutes=0) == 0
    assert "the time is over" in capsys.readouterr().out
    # A run under way is given up, and leaves nothing.
    late = Here(file, "cpu", small.protocol(tasks=(small.plan("sst2", epochs=50),)), Limit(time.time() + 3600))
    object.__setattr__(late.limit, "end", time.time() + 0.5)
    told = []
    wanted = Run("board", "tiny", "sst2", "linear", "plain", written({}), 1, 1e-3)
    from benchmarks.leaderboard import workers as module

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(module, "GRACE", -10)
        late.run([[wanted]], lambda kind, about: told.append((kind, about)))
    assert told == [("left", {"key": wanted.key})]


def test_processes_share_the_work_and_one_may_die(made, tmp_path):
    what, file, results, _ = made
    known = journal.read([results])
    chunks = planning.plan("board", what, "tiny", [row for row in known if row["purpose"] != "board"])
    chunks = [chunk for chunk in chunks if chunk[0].head == "linear" and chunk[0].method == "plain"]
    told = []
    with workers(2, file, "cpu", what, Limit(time.time() + 300)) as pool:

        def tell(kind, about):
            told.append((kind, about))
            if len(told) == 1:
                os.kill(next(worker for worker in pool.workers if worker.busy).process.pid, 9)

        pool.run(chunks, tell)
        assert len(pool.workers) == 1
    values = {row["key"]: row["value"] for row in known}
    rows = [about for kind, about in told if kind == "row"]
    assert rows
    assert all(row["value"] == values[row["key"]] for row in rows)  # also in a process of its own
    assert sorted(about["key"] for _, about in told) == sorted(run.key for chunk in chunks for run in chunk)


def test_runs_need_no_more_than_torch_and_transformers(made, tmp_path):
    """The machine with the GPU may have nothing else."""
    _, file, *_ = made
    source = f"""
import sys
for name in ("datasets", "pyarrow", "sklearn", "scipy", "seqeval", "matplotlib", "jinja2", "pandas", "accelerate"):
    sys.modules[name] = None
from pathlib import Path
from benchmarks.leaderboard.run import run
from tests.leaderboard.small import protocol
file, results = Path({str(file)!r}), Path({str(tmp_path / "rows.jsonl")!r})
assert run(file, results, protocol(), device="cpu", phases=["rates", "settings"]) == 6
assert run(file, results, protocol(), device="cpu", only=["sst2", "plain", "linear"]) == 5
"""
    subprocess.run([sys.executable, "-c", source], check=True, cwd=Path(__file__).parents[2], timeout=120)
