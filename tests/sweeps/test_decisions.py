"""What is tried next, what is stopped and what an interruption changes: nothing. Trials are pretended."""

import json
import os

import pytest

from toughen.sweeps import trials
from toughen.sweeps.definition import parse
from toughen.sweeps.errors import SweepError
from toughen.sweeps.search import Search
from toughen.sweeps.worker import Limits, Worker

RANGES = {
    "method.weight": {"min": 0.0, "max": 1.0},
    "train.learning_rate": {"min": 1e-5, "max": 1e-2, "log": True},
    "train.batch_size": {"values": [8, 16]},
}


def quality(config, seed, iteration):
    """Best at weight 0.3; a little better each time; seeds differ by a hundredth."""
    return 0.9 - abs(config["method"]["weight"] - 0.3) + 0.001 * iteration + 0.01 * seed


def settings_of(controller):
    return [row.settings for row in sorted(controller.rows(), key=lambda row: row.number)]


def test_a_grid_runs_each_row_once_with_each_seed(pretend):
    controller, worker = pretend(quality, seeds=[1, 2, 3])
    assert worker.started == [f"{row:03}-seed{seed}" for row in range(1, 5) for seed in (1, 2, 3)]
    log = (controller.folder.path / "sweep.log").read_text()
    assert [log.count(f" {name}: started (method.weight=") for name in worker.started] == [1] * 12
    best = controller.rows()[0]
    assert best.settings["method.weight"] == 0.5
    assert best.scores == pytest.approx({1: 0.713, 2: 0.723, 3: 0.733})
    assert best.mean == pytest.approx(0.723)
    assert best.sd == pytest.approx(0.01)
    assert [row.rank for row in controller.rows()] == [1, 1, 3, 3]  # the learning rate changes nothing
    assert controller.is_complete


def test_a_value_listed_twice_is_one_row(pretend):
    twice = {"parameters": {"method.weight": {"values": [0.5, 1.0, 0.5]}}}
    whole, _ = pretend(quality, **twice)
    pretend(quality, name="cut", at_most=1, **twice)
    resumed, _ = pretend(quality, name="cut", resume=True, **twice)
    assert settings_of(whole) == settings_of(resumed) == [{"method.weight": 0.5}, {"method.weight": 1.0}]
    assert whole.status().total == 2


def test_minimising_turns_the_order(pretend):
    controller, _ = pretend(quality, metric={"name": "accuracy", "goal": "minimize"})
    assert controller.rows()[0].settings["method.weight"] == 1.0


@pytest.mark.parametrize("search", ["random", "tpe"])
def test_proposals_are_in_range_and_differ(pretend, search):
    controller, _ = pretend(quality, search=search, trials=12, parameters=RANGES)
    rows = settings_of(controller)
    assert len(rows) == 12
    assert len({repr(row) for row in rows}) == 12
    for row in rows:
        assert 0 <= row["method.weight"] <= 1
        assert 1e-5 <= row["train.learning_rate"] <= 1e-2
        assert row["train.batch_size"] in (8, 16)
    again, _ = pretend(quality, name="again", search=search, trials=12, parameters=RANGES)
    assert settings_of(again) == rows
    other, _ = pretend(quality, name="other", search=search, trials=12, parameters=RANGES, search_seed=1)
    assert settings_of(other) != rows


def test_tpe_learns_where_it_is_good(pretend):
    changes = {"parameters": {"method.weight": RANGES["method.weight"]}, "iterations": 1}
    found = {}
    for search in ("random", "tpe"):
        controller, _ = pretend(quality, name=search, search=search, trials=30, **changes)
        weights = [row["method.weight"] for row in settings_of(controller)][15:]
        found[search] = sum(abs(weight - 0.3) for weight in weights) / len(weights)
    assert found["tpe"] < 0.6 * found["random"]


def test_a_small_space_ends_when_it_is_used_up(pretend):
    controller, _ = pretend(quality, search="random", trials=50)
    assert len(controller.rows()) == 4
    controller, _ = pretend(quality, name="tpe", search="tpe", trials=50)
    assert len(controller.rows()) == 4
    assert controller.is_complete


@pytest.mark.parametrize("search", ["grid", "random", "tpe"])
def test_resuming_repeats_no_proposal_and_no_trial(pretend, search, tmp_path):
    changes = {"search": search, "seeds": [1, 2]}
    changes |= {"trials": 6, "parameters": RANGES} if search != "grid" else {}
    cut, first = pretend(quality, at_most=3, **changes)
    assert not cut.is_complete
    # What a kill in the middle of a line leaves.
    with (tmp_path / "sweep" / "rows.jsonl").open("a") as file:
        file.write('{"row": 9, "sett')
    resumed, second = pretend(quality, resume=True, **changes)
    assert sorted(first.started + second.started) == sorted({*first.started, *second.started})
    whole, _ = pretend(quality, name="whole", **changes)
    assert len(resumed.rows()) == len(whole.rows())
    if search != "tpe":  # which learns from what it knows when it is asked
        assert [(row.settings, row.scores) for row in resumed.rows()] == [
            (row.settings, row.scores) for row in whole.rows()
        ]
    nothing, third = pretend(quality, resume=True, **changes)
    assert third.started == []
    assert nothing.is_complete


def test_the_same_or_another_sweep_is_refused(pretend):
    pretend(quality)
    with pytest.raises(SweepError, match=r"already holds this sweep \(4 trials done\); add --resume"):
        pretend(quality)
    with pytest.raises(SweepError, match=r"holds another sweep: seeds differ"):
        pretend(quality, resume=True, seeds=[7])
    # What may change: how much of the machine it gets, and how many settings a search may try.
    pretend(quality, resume=True, resources={"minutes": 5}, retries=3)


def test_failures_are_tried_again_on_resume(pretend):
    def breaks(config, seed, iteration):
        if config["method"]["weight"] == 1.0 and seed == 2:
            raise ArithmeticError("broken")
        return quality(config, seed, iteration)

    controller, _ = pretend(breaks, seeds=[1, 2])
    rows = controller.rows()
    assert [row.state for row in rows] == ["done", "done", "partial", "partial"]
    assert [row.rank for row in rows] == [1, 1, None, None]
    assert rows[2].errors == ["seed 2: broken"]
    assert controller.status().failed == 2
    mended, worker = pretend(quality, resume=True, seeds=[1, 2])
    assert worker.started == ["003-seed2", "004-seed2"]
    assert {row.state for row in mended.rows()} == {"done"}


def test_asha(pretend):
    weights = [round(0.05 * number, 2) for number in range(20)]
    changes = {
        "parameters": {"method.weight": {"values": weights}},
        "seeds": [1, 2],
        "early_terminate": {"type": "asha", "min_iter": 1, "eta": 3},
        "iterations": 9,
    }
    controller, worker = pretend(quality, **changes)
    rows = {row.settings["method.weight"]: row for row in controller.rows()}
    assert rows[0.3].state == "done"
    assert controller.rows()[0].settings["method.weight"] == 0.3
    stopped = [row for row in controller.rows() if row.state == "stopped"]
    assert len(stopped) >= 10
    assert all(row.rank is None and row.mean is not None for row in stopped)
    assert rows[0.95].state == "stopped"
    assert rows[0.95].outcomes[1].iteration == 1  # at the first rung
    assert f"{rows[0.95].number:03}-seed2" not in worker.started
    assert f"{rows[0.3].number:03}-seed2" in worker.started
    assert controller.is_complete
    # Cut anywhere and resumed, the same rows are stopped at the same time.
    pretend(quality, name="cut", at_most=9, **changes)
    resumed, second = pretend(quality, name="cut", resume=True, **changes)
    assert not set(second.started) & {f"{row.number:03}-seed2" for row in stopped}
    table = [(row.settings, row.state, row.mean) for row in controller.rows()]
    assert [(row.settings, row.state, row.mean) for row in resumed.rows()] == table


def test_a_trial_stopped_at_its_end_stays_stopped(pretend):
    """Told to stop at its last evaluation a run comes to its end all the same; a later start sees no more in it."""
    weights = [round(0.05 * number, 2) for number in range(20)]
    changes = {"parameters": {"method.weight": {"values": weights}}, "early_terminate": "asha", "iterations": 1}
    controller, worker = pretend(quality, seeds=[1, 2], **changes)
    assert worker.stopped
    for name in worker.stopped:
        done = {"seeds": [{"seed": 1, "train_seconds": 1.0}], "mean": {"accuracy": 0.9}}
        folder = controller.folder.path / "trials" / name
        (folder / "results.json").write_text(json.dumps(done))
        with (folder / "metrics.jsonl").open("a") as file:  # another evaluation, before the word came
            file.write(json.dumps({"arm": "method", "step": 2, "kind": "eval", "eval_accuracy": 0.9}) + "\n")
    resumed, again = pretend(quality, seeds=[1, 2], resume=True, **changes)
    assert not again.started
    table = [(row.number, row.state, row.mean) for row in controller.rows()]
    assert [(row.number, row.state, row.mean) for row in resumed.rows()] == table


@pytest.mark.parametrize("kept", [False, True])
def test_pruned_trials_leave_no_checkpoints(values, tmp_path, kept):
    base = {**values["base"], "method": {"name": "r3f"}, "train": {"keep_checkpoints": kept}}
    trial = trials.make(tmp_path, base, 1, 1, {})
    checkpoint = trial.folder / "seeds" / "1" / "checkpoint-6"
    checkpoint.mkdir(parents=True)
    trials.clear_stopped(trial.folder)  # interrupted alone: it will go on from there
    assert checkpoint.is_dir()
    trials.note_stop(trial.folder, 1, 0.5)
    worker = Worker(Limits("accuracy"))
    worker.start(trial.folder)
    worker.stop()
    assert checkpoint.is_dir() == kept


def test_a_failed_first_seed_ends_its_row(pretend):
    def breaks(config, seed, iteration):
        if config["method"]["weight"] == 1.0:
            raise ArithmeticError("broken")
        return quality(config, seed, iteration)

    controller, worker = pretend(breaks, seeds=[1, 2], early_terminate="median")
    assert worker.started == ["001-seed1", "001-seed2", "002-seed1", "002-seed2", "003-seed1", "004-seed1"]
    status = controller.status()
    assert (status.total, status.done, status.failed, status.eta) == (6, 4, 2, 0)


def test_median_stopping(pretend):
    changes = {"parameters": {"method.weight": {"values": [0.3, 0.35, 0.25, 0.4, 0.9, 0.31]}}}
    early = {"type": "median", "min_iter": 2, "min_trials": 3}
    controller, _ = pretend(quality, early_terminate=early, **changes)
    rows = {row.settings["method.weight"]: row for row in controller.rows()}
    assert {weight for weight, row in rows.items() if row.state == "stopped"} == {0.4, 0.9}
    assert rows[0.9].outcomes[1].iteration == 2  # not before min_iter


def test_threshold_stopping(pretend):
    early = {"type": "threshold", "min_iter": 2, "lower": 0.55}
    controller, _ = pretend(quality, early_terminate=early)
    ends = {(row.settings["method.weight"], row.state, row.outcomes[1].iteration) for row in controller.rows()}
    assert ends == {(0.5, "done", 3), (1.0, "stopped", 2)}  # 0.71 and 0.21


@pytest.mark.parametrize("search", ["random", "tpe"])
def test_draws_stay_in_their_ranges(search):
    parameters = {
        "a": {"min": 1, "max": 8},
        "b": {"min": 1, "max": 100, "log": True, "distribution": "int_uniform"},
        "c": {"min": 0.0, "max": 1.0, "step": 0.25},
        "d": {"values": [None, "a"]},
        "e": {"min": 1e-5, "max": 1e-1, "log": True},
        "f": {"min": 1, "max": 8, "step": 2},
    }
    made = Search(parse({"base": {}, "search": search, "trials": 200, "parameters": parameters}), [])
    rows = [made.propose() for _ in range(200)]
    assert made.propose() is None
    drawn = {key: {row[key] for row in rows} for key in parameters}
    assert drawn["a"] == set(range(1, 9))
    assert drawn["b"] <= set(range(1, 101))
    assert len([value for value in drawn["b"] if value <= 10]) > 5
    assert drawn["c"] == {0.0, 0.25, 0.5, 0.75, 1.0}
    assert drawn["d"] == {None, "a"}
    assert all(1e-5 <= value <= 1e-1 for value in drawn["e"])
    assert drawn["f"] == {1, 3, 5, 7}
    assert all(isinstance(value, int) for value in drawn["a"] | drawn["b"] | drawn["f"])
    if search == "random":
        low = sum(row["e"] < 1e-3 for row in rows)
        assert 60 < low < 140  # half of the logarithms, where evenly drawn numbers would nearly all be above


def test_rows_of_an_earlier_version():
    parameters = {"a": {"min": 0.0, "max": 1.0}, "b": {"values": ["x", "y"]}}
    for search in ("random", "tpe"):
        rows = [{"a": 0.25, "b": "y", "c": 2, "d": 4}, {"a": 0.5, "b": "x", "c": 1, "d": 2}]
        tied = [{"c": 1, "d": 2}, {"c": 2, "d": 4}]
        given = {"base": {}, "search": search, "trials": 4, "parameters": parameters, "tied": tied}
        made = Search(parse(given), rows)
        assert [trial.params["tied"] for trial in made.study.trials] == [1, 0]
        made.finish(1, 0.5)
        found = [made.propose(), made.propose()]
        assert made.propose() is None
        for row in found:
            assert {key: row[key] for key in ("c", "d")} in tied
            assert row not in rows


def test_tpe_learns_the_last_score_of_a_pruned_trial():
    parameters = {"method.weight": RANGES["method.weight"]}
    given = {"base": {}, "search": "tpe", "trials": 3, "parameters": parameters, "early_terminate": "asha"}
    made = Search(parse(given), [])
    made.propose(), made.propose(), made.propose()
    made.should_stop(1, 1, 0.5)
    for row, (score, stopped) in enumerate(((0.5, True), (0.7, False), (None, False)), 1):
        made.finish(row, score, stopped)
    assert [(trial.state.name, trial.values, trial.intermediate_values) for trial in made.study.trials] == [
        ("PRUNED", [0.5], {1: 0.5}),
        ("COMPLETE", [0.7], {}),
        ("FAIL", None, {}),
    ]


@pytest.mark.parametrize("goal", ["maximize", "minimize"])
def test_direction_of_the_study(goal):
    given = {"base": {}, "search": "tpe", "trials": 3, "parameters": {"method.weight": RANGES["method.weight"]}}
    definition = parse({**given, "metric": {"name": "loss", "goal": goal}, "early_terminate": {"type": "asha"}})
    assert Search(definition, []).study.direction.name == goal.upper()


def test_lines_are_synced_to_disk(tmp_path, monkeypatch):
    seen, fsync = [], os.fsync
    monkeypatch.setattr(trials.os, "fsync", lambda number: seen.append((tmp_path / "x").read_text()) or fsync(number))
    trials.append(tmp_path / "x", {"row": 1})
    assert seen == ['{"row": 1}\n']
