"""The table's arithmetic against numbers worked out by hand, and the rules by which settings are chosen."""

import json
import math
from dataclasses import replace

import numpy as np
import pytest

from benchmarks.leaderboard import gates, journal, planning, scoring, table
from benchmarks.leaderboard.__main__ import RESULTS
from benchmarks.leaderboard.findings import findings
from benchmarks.leaderboard.protocol import METHODS, TEXT_METHODS, Protocol, Run, is_tuned, made_as, written
from benchmarks.leaderboard.robust import area
from benchmarks.leaderboard.sections import brief, parts
from benchmarks.leaderboard.summary import MEAN, boards, clean, holm, robust

from . import small


def row(method, task, seed, value, *, times=1, pgd=0.5, purpose="board", rate=1e-3, settings=None, **changes):
    about = {"model": "tiny", "head": "linear", "purpose": purpose, "rate": rate, "settings": settings or {}}
    cost = {"passes": {"plain": 1.0, "fgm": 2.0}.get(method, 3.0), "ms": 1.0, "memory_gib": None, "steps": 10}
    cost |= {"captured": {"captured": 0, "eager": 10}, "diverged": False, "order": "same"}
    scores = {"value": value, "robust": {"pgd_reference": pgd, "pgd_area": pgd}}
    key = f"{purpose}/{task}/{method}/{settings}/{seed}/{rate}/{times}"
    return {
        **about,
        **cost,
        **scores,
        "key": key,
        "method": method,
        "task": task,
        "seed": seed,
        "times": times,
        **changes,
    }


def by_hand():
    """Differences of fgm from plain: sst2 +2, +4, +6 points (mean 4, sd 2); rte -1, -1, -4 (mean -2, sd sqrt 3)."""
    found = []
    for seed, plain, sst2, rte in ((1, 0.80, 0.82, 0.79), (2, 0.82, 0.86, 0.81), (3, 0.84, 0.90, 0.80)):
        found += [row("plain", "sst2", seed, plain), row("plain", "rte", seed, plain)]
        found += [row("plain", "sst2", seed, plain + 0.05, times=2), row("plain", "rte", seed, plain, times=2)]
        found += [row("fgm", "sst2", seed, sst2, pgd=0.65), row("fgm", "rte", seed, rte)]
    return found


def board():
    return boards(by_hand(), small.protocol())["tiny", "linear"]


def test_paired_difference():
    cell = board().column("sst2", clean)["fgm"]
    assert cell.scores.mean == pytest.approx(86.0)
    assert cell.scores.sd == pytest.approx(4.0)
    assert cell.against.difference == pytest.approx(4.0)
    # Student's t with 2 degrees of freedom: t = 4 / (2 / sqrt 3) = 2 sqrt 3; 97.5 % at 4.30265.
    error = 2 / math.sqrt(3)
    assert cell.against.low == pytest.approx(4 - 4.30265 * error, abs=1e-4)
    t = 4 / error
    assert cell.against.p == pytest.approx(1 - t / math.sqrt(2 + t * t), abs=1e-9)  # two-sided, closed form for 2


def test_mean_over_tasks_is_paired_by_seed():
    cell = board().column(MEAN, clean)["fgm"]
    assert cell.against.difference == pytest.approx(1.0)  # (4 - 2) / 2
    one_less = [r for r in by_hand() if (r["method"], r["task"], r["seed"]) != ("fgm", "rte", 3)]
    fewer = boards(one_less, small.protocol())["tiny", "linear"].column(MEAN, clean)["fgm"]
    assert fewer.scores.count == fewer.against.count == 2
    assert fewer.against.difference == pytest.approx(((2 - 1) / 2 + (4 - 1) / 2) / 2)


def test_equal_compute():
    times, pair = board().equal_compute("fgm", "sst2", clean)
    assert times == 2
    assert pair.difference == pytest.approx(-1.0)  # 4 less the 5 points of twice the epochs
    assert board().equal_compute("plain", "sst2", clean) is None
    for passes in (1.5, 2.04):  # no less than the method's, but for rounding
        rows = [{**r, "passes": passes} if r["method"] == "fgm" else r for r in by_hand()]
        assert boards(rows, small.protocol())["tiny", "linear"].equal_compute("fgm", "sst2", clean) == (times, pair)


def test_holm():
    # Smallest times 4, next times 3, ...; never below the one before.
    assert holm({"a": 0.01, "b": 0.04, "c": 0.03, "d": 0.5}) == pytest.approx(
        {"a": 0.04, "c": 0.09, "b": 0.09, "d": 0.5}
    )
    assert holm({}) == {}


def test_only_what_is_beyond_noise_is_marked():
    rows = []
    for seed, noise in enumerate((0.001, 0.0, -0.001, 0.002, -0.002), start=1):
        rows += [row("plain", "sst2", seed, 0.8), row("fgm", "sst2", seed, 0.7 + noise)]
        rows += [row("smart", "sst2", seed, 0.8 + 40 * noise)]
    what = small.protocol(methods=METHODS, mean_tasks=("sst2",))
    only = boards(rows, what)["tiny", "linear"]
    assert {method: cell.clear for method, cell in only.column("sst2", clean).items()} == {
        "plain": 0,
        "smart": 0,
        "fgm": -1,
    }
    told = " ".join(findings(only))
    assert "with its default: fgm on sst2 -10.0" in told
    assert "smart on" not in told
    assert "Lower by" not in told
    assert "sst2: no method is 10 points above plain under PGD at radius 0.3 (the best: +0.0)." in told
    assert "No method is better than plain by 1 point" in told
    preset = boards(rows, replace(what, methods={**METHODS, "fgm": ({"preset": "robust"},)}))["tiny", "linear"]
    assert "with its default: none. With other settings: fgm on sst2 -10.0" in " ".join(findings(preset))


def test_the_words_follow_the_numbers():
    told = findings(board())
    assert "Seeds per cell: 3." in told
    assert any("beyond noise (paired t over seeds, Holm, 5 %), with its default: none." in line for line in told)
    assert any("fgm +1.0" in line and "to plain x2" in line for line in told)
    assert any(
        line.startswith("sst2: 10 points or more above plain under PGD") and "fgm +15.0" in line for line in told
    )
    assert any("but not beyond noise. rte: fgm -2.0" in line for line in told)
    one = boards([r for r in by_hand() if r["seed"] == 1], small.protocol())["tiny", "linear"]
    assert "Whether a method hurts cannot be tested yet: that takes two seeds or more." in findings(one)
    other = [{**r, "order": "other"} if r["method"] == "fgm" and r["seed"] == 1 else r for r in by_hand()]
    assert any(
        "did not see the same batches: " in line for line in findings(boards(other, small.protocol())["tiny", "linear"])
    )


def test_robust_scores_that_a_run_lacks_are_left_out():
    assert board().column("sst2", robust("hans")) == {}


def test_without_results_it_says_so(tmp_path):
    page = tmp_path / "evidence.md"
    page.write_text(f"{table.BEGIN}{table.END}")
    table.write(tmp_path / "none.jsonl", Protocol(), page)
    assert "No results yet" in page.read_text()
    assert "No results yet" in (tmp_path / "none.html").read_text()
    with pytest.raises(ValueError, match="no markers"):
        table.between("no page", "text")


def test_the_learning_rate_is_the_best_of_plain_and_of_equals_the_smallest():
    what = small.protocol(rates=(1e-3, 2e-3, 3e-3), tuning_seeds=(101, 102))
    scores = {1e-3: (0.7, 0.9), 2e-3: (0.8, 0.8), 3e-3: (0.9, 0.6)}
    rows = [
        row("plain", "sst2", seed, value, purpose="rates", rate=rate)
        for rate, values in scores.items()
        for seed, value in zip((101, 102), values, strict=True)
    ]
    assert planning.chosen_rate(what, "tiny", "sst2", rows) == 1e-3
    with pytest.raises(planning.NotTuned, match="run phase rates"):
        planning.chosen_rate(what, "tiny", "sst2", rows[:-1])


def test_settings_are_the_most_robust_of_the_nearly_best():
    candidates = ({}, {"step_size": 0.1}, {"step_size": 0.3})
    what = small.protocol(methods={"plain": ({},), "fgm": candidates}, slack=0.005)

    def chosen(*scores):
        rows = [
            row("fgm", "sst2", 101, value, pgd=pgd, purpose="settings", settings=settings)
            for settings, (value, pgd) in zip(candidates, scores, strict=True)
        ]
        return planning.chosen_settings(what, "fgm", rows)

    assert chosen((0.800, 0.3), (0.797, 0.5), (0.790, 0.9)) == {"step_size": 0.1}
    assert chosen((0.800, 0.3), (0.800, 0.3), (0.800, 0.3)) == {}
    assert planning.chosen_settings(what, "plain", []) == {}


def test_the_plan_brings_all_methods_before_the_next_seeds():
    what = small.protocol()
    tuned = [row("plain", t, 101, 0.5, purpose="rates", rate=r) for t in ("sst2", "rte") for r in what.rates]
    tuned += [row("fgm", "sst2", 101, 0.5, purpose="settings", settings=s) for s in what.methods["fgm"]]
    chunks = planning.plan("board", what, "tiny", tuned)
    runs = [run for chunk in chunks for run in chunk]
    linear = [run for run in runs if run.head == "linear"]
    assert runs[: len(linear)] == linear
    assert {run.method for run in runs[len(linear) :]} == {"plain"}  # fgm is not of those that get the other head
    assert [run.seed for run in linear] == [1] * 6 + [2] * 6
    assert all(len({run.rig for run in chunk}) == 1 for chunk in chunks)
    assert [run.method for run in linear[:6]] == ["plain"] * 4 + ["fgm"] * 2
    many = planning.plan("rates", small.protocol(rates=tuple(range(1, 8))), "tiny", [])
    assert [len(chunk) for chunk in many] == [3, 3, 3, 3, 1, 1]
    done = planning.plan(
        "board", what, "tiny", [*tuned, {**tuned[0], "purpose": "board", "seed": 1, "rate": runs[0].rate}]
    )
    assert sum(map(len, done)) == len(runs) - 1
    assert planning.plan("settings", what, "another model", tuned) == []


def test_a_model_with_few_runs_gets_plain_and_the_methods_that_none_beats():
    scores = {"plain": (0.80, 0.5), "fgm": (0.82, 0.5), "pgd": (0.81, 0.6), "sam": (0.805, 0.59)}  # pgd beats sam
    scores |= {"vat": (0.795, 0.7), "smart": (0.78, 0.9)}  # smart loses too much
    what = small.protocol(methods={name: ({},) for name in scores}, few=("few",))
    rows = [row("plain", t, 101, 0.5, purpose="rates", rate=r) for t in ("sst2", "rte") for r in what.rates]
    rows = [{**made, "model": model} for made in rows for model in ("tiny", "few")]
    with pytest.raises(planning.NotTuned, match="plain has 0 of 4 final runs on tiny"):
        planning.plan("board", what, "few", rows)
    for name, (clean_score, attacked) in scores.items():
        rows += [row(name, t, seed, clean_score, pgd=attacked) for t in ("sst2", "rte") for seed in what.seeds]
    assert planning.best_methods(what, rows, list(what.methods), 5) == ["fgm", "pgd", "vat"]
    assert planning.best_methods(what, rows, list(what.methods), 2) == ["fgm", "pgd"]
    runs = [run for chunk in planning.plan("board", what, "few", rows) for run in chunk]
    assert {run.method for run in runs} == {"plain", "fgm", "pgd", "vat"}
    assert {run.head for run in runs} == {"linear"}


def test_a_run_is_known_by_what_its_method_is_made_of():
    what = small.protocol()
    tuned = [row("plain", t, 101, 0.5, purpose="rates", rate=r) for t in ("sst2", "rte") for r in what.rates]
    runs = [run for chunk in planning.plan("rates", what, "tiny", []) for run in chunk]
    for made, left in ((made_as("plain", "{}"), len(runs) - 1), ("of old", len(runs)), (None, len(runs) - 1)):
        done = [{**tuned[0], "made": made}]
        assert sum(map(len, planning.plan("rates", what, "tiny", done))) == left
    assert made_as("fgm", "{}") != made_as("fgm", '{"step_size": 0.5}')
    assert made_as("smart", '{"max_norm": 0.5}') == made_as("smart large", '{"max_norm": 0.5, "preset": "recommended"}')


def test_the_table_shows_final_runs_of_the_chosen_settings_alone():
    candidates = ({"step_size": 0.1}, {"step_size": 0.3})
    what = small.protocol(methods={"plain": ({},), "fgm": candidates})
    final = [row("fgm", "sst2", 1, 0.5, settings=settings) for settings in (*candidates, {"step_size": 0.7})]
    assert planning.of_today(what, final) == final[:2]
    tuned = [
        row("fgm", "sst2", 101, value, purpose="settings", settings=settings)
        for settings, value in zip(candidates, (0.5, 0.6), strict=True)
    ]
    assert planning.of_today(what, [*tuned, *final]) == [*tuned, final[1]]


def test_half_a_table_is_not_for_the_page():
    def titles(rows, **changes):
        return [part.title for part in brief(rows, small.protocol(rounds=((1, 2, 3),), **changes))]

    def without(method, task, seed=None):
        return [r for r in by_hand() if (r["method"], r["task"]) != (method, task) or seed not in (None, r["seed"])]

    assert "tiny, linear head: what the runs say" in titles(by_hand())
    assert titles(without("plain", "rte", 3))[0] == "Under way"
    for half in (without("fgm", "rte"), without("fgm", "rte", 3)):
        (scores,) = [part for part in brief(half, small.protocol(rounds=((1, 2, 3),))) if "scores" in part.title]
        assert [line[0] for line in scores.rows] == ["plain"]  # the method whose runs are not all made is left out
        assert "Under way" in titles(half)
        one_task = small.protocol(rounds=((1, 2, 3),), mean_tasks=("sst2",))
        (scores,) = [part for part in brief(half, one_task) if "clean scores" in part.title]
        assert scores.head == ["method", "sst2", "mean"]  # and so is the task that not every method has
        assert len(scores.rows) == 2


def test_at_a_glance():
    (glance,) = [part for part in brief(by_hand(), small.protocol(rounds=((1, 2, 3),))) if "glance" in part.title]
    assert [line[0] for line in glance.rows] == ["fgm", "plain"]
    assert glance.rows[0][1].startswith("+1.0 [")
    assert glance.rows[0][2].startswith("-1.5 [")  # plain of twice the epochs has 2.5 points more
    assert glance.rows[0][3].startswith("+7.5")
    assert glance.rows[0][4].startswith("+7.5")  # plain was not more robust for it
    assert glance.rows[0][-1] == "2.0"
    assert glance.rows[1] == ["plain", "82.0", "-", "50.0", "-", "-", "1.0"]


def test_a_method_without_a_run_of_every_task_has_its_line_at_a_glance():
    half = [r for r in by_hand() if (r["method"], r["task"]) != ("fgm", "rte")]
    (glance,) = [part for part in parts(half, small.protocol()) if "glance" in part.title]
    assert [line[:2] for line in glance.rows] == [["plain", "82.0"], ["fgm", "-"]]


def test_the_page_is_what_the_runs_say():
    """The committed page is made from the committed runs; `python -m benchmarks.leaderboard table` makes it anew."""
    rows = planning.of_today(Protocol(), journal.read([RESULTS]))
    page = table.EVIDENCE.read_text(encoding="utf-8")
    assert page == table.between(page, table.generated(rows, Protocol(), table.drawn(rows, Protocol())))
    assert json.loads(table.ADVICE.read_text(encoding="utf-8")) == table.measured(rows, Protocol())


def test_defaults_are_what_the_runs_have_chosen():
    rows = journal.read([RESULTS])
    for method in METHODS:
        if "robust" not in method:
            assert planning.chosen_settings(Protocol(), method, rows) == {}, method


def test_the_best_five_are_those_that_the_readme_names():
    named = ", ".join(
        f"`{method}`" for method in planning.methods_of(Protocol(), "granite", journal.read([RESULTS]))[1:]
    )
    assert named in (RESULTS.parents[1] / "leaderboard" / "README.md").read_text(encoding="utf-8")


def test_the_head_with_its_authors_settings_has_its_line_on_the_page():
    own = [{**r, "head": planning.OWN_HEAD, "value": r["value"] + 0.01} for r in by_hand() if r["task"] == "rte"]
    (part,) = [
        each for each in brief([*by_hand(), *own], small.protocol(rounds=((1, 2, 3),))) if "authors' q" in each.title
    ]
    assert (list(part.head), part.rows[0][0][:4]) == (["rte"], "+1.0")


def tune_row(method, settings, seed, wrong, attacked_wrong, labels=(0, 1) * 50):
    """A tuning run that answers the first so many rows wrongly, clean and under PGD."""
    answers = {"labels": journal.packed(list(labels))}
    for kind, count in (("clean", wrong), ("pgd", attacked_wrong)):
        answers[kind] = journal.packed([1 - y if i < count else y for i, y in enumerate(labels)])
    value, pgd = 1 - wrong / 100, 1 - attacked_wrong / 100
    made = made_as(method, written(settings))
    seconds = {"train": 1.0}
    about = {"purpose": "tune", "settings": settings, "answers": answers, "made": made, "seconds": seconds}
    return row(method, "sst2", seed, value, pgd=pgd, **about)


def test_a_tuned_row_is_chosen_as_tune_does():
    """Below plain beyond noise is left out; the most robust of the others is taken; else it is plain training."""
    weak, good, harmful = {"step_size": 0.1}, {"step_size": 0.2}, {"step_size": 0.3}
    what = small.protocol(methods={"plain": ({},), "fgm tuned": (weak, good, harmful)})

    def rows(*wrong):
        names = [("plain", {}), ("fgm tuned", weak), ("fgm tuned", good), ("fgm tuned", harmful)]
        return [tune_row(*each, 101, *both) for each, both in zip(names, wrong, strict=True)]

    usual = rows((10, 60), (11, 45), (9, 30), (30, 5))
    assert planning.tuned_settings(what, "tiny", "sst2", "fgm tuned", usual) == good
    nothing = rows((10, 30), (11, 29), (10, 31), (30, 5))
    assert planning.tuned_settings(what, "tiny", "sst2", "fgm tuned", nothing) is None
    final = [row("plain", "sst2", 1, 0.9)]
    assert [each["method"] for each in planning.with_plain(what, [*nothing, *final])[-2:]] == ["plain", "fgm tuned"]
    assert planning.with_plain(what, [*usual, *final])[-1]["method"] == "plain"
    with pytest.raises(planning.NotTuned, match="phase tune"):
        planning.tuned_settings(what, "tiny", "sst2", "fgm tuned", usual[:-1])


def test_goals_are_told_first():
    def found(gain, attacked):
        rows = [row("plain", task, seed, 0.8 + seed / 1000) for task in ("sst2", "rte") for seed in (1, 2, 3)]
        for name in ("fgm tuned", "vat tuned"):
            rows += [{**r, "method": name, "value": r["value"] + gain + r["seed"] / 9999} for r in rows[:6]]
            for each in rows[-6:]:
                each["robust"] = {"pgd_reference": 0.5 + attacked + each["seed"] / 9999}
        return findings(
            boards(rows, small.protocol(methods=dict.fromkeys(("plain", "fgm tuned", "vat tuned"), ({},))))[
                "tiny", "linear"
            ]
        )

    assert [line.partition(":")[0] for line in found(0.02, 0.2)[:3]] == ["Goal reached"] * 3
    assert [line.partition(":")[0] for line in found(-0.02, 0.1)[:3]] == ["Goal MISSED"] * 3
    assert not findings(board())[0].startswith("Goal")


def test_what_the_authors_set_for_each_task_is_planned_last():
    protocol, rows = Protocol(text_methods={}), journal.read([RESULTS])
    runs = [run for chunk in planning.plan("board", protocol, "xtremedistil", rows) for run in chunk]
    own = [run for run in runs if run.head == planning.OWN_HEAD]
    assert {run.task for run in own} == {"rte", "cola"}
    assert {run.method for run in own} == set(protocol.second_order_methods)
    authors = [run for run in runs if run.method in protocol.authors]
    assert len(authors) == len(protocol.authors) * len(protocol.mean_tasks) * len(protocol.seeds)
    assert runs[-len(own) - len(authors) :] == [*own, *authors]
    lengths = {run.task: json.loads(run.settings)["max_norm"] for run in authors if run.method == "freelb authors"}
    assert lengths == {"rte": 0.14, "mrpc": 0.4, "cola": 0.3, "sst2": 0.6, "stsb": 0.28}
    assert {run.settings for run in authors if run.method == "asa authors"} == {'{"preset": "original", "tau": 0.5}'}
    first, last = authors[0], {**vars(authors[-1]), "settings": {}}
    made = [{**vars(first), "settings": json.loads(first.settings)}, last]
    assert planning.of_today(protocol, made) == made[:1]  # other settings are not theirs


def test_rows_of_the_authors_need_no_run_beyond_the_mean():
    settings = small.protocol(rounds=((1, 2, 3),), mean_tasks=("sst2",), authors={"pgd authors": "no/{}"})
    rows = [*by_hand(), *(row("pgd authors", "sst2", seed, 0.68 + seed / 50 + seed**2 / 1000) for seed in (1, 2, 3))]
    (scores,) = [part for part in brief(rows, settings) if "clean scores" in part.title]
    assert scores.head == ["method", "sst2", "rte", "mean"]
    assert [(line[0], line[2]) for line in scores.rows if line[2] == "-"] == [("pgd authors", "-")]
    told = " ".join(findings(boards(rows, settings)["tiny", "linear"]))
    assert "with its default: none. With other settings: pgd authors on sst2 -9.5" in told


def test_every_candidate_of_the_protocol_can_be_made():
    import toughen

    for method, candidates in Protocol().methods.items():
        if is_tuned(method):  # as many trials as plain training has
            assert len(candidates) == len(Protocol().rates)
        assert len({made_as(method, written(settings)) for settings in candidates}) == len(candidates)
    text_methods = {method: made_as(method, written(settings)) for method, settings in TEXT_METHODS.items()}
    assert len(set(text_methods.values())) == len(text_methods)
    planned = {name for method in TEXT_METHODS for name in method.partition(" ")[0].split("+")}
    assert set(toughen.list_methods()) <= set(METHODS) | planned | {"casing", "temperature"}
    assert Protocol().reference in Protocol().radii
    assert set(Protocol().second_order_methods) <= set(METHODS)
    assert not set(Protocol().tuning_seeds) & set(Protocol().seeds)


def test_methods_on_texts_are_planned_last_on_every_model():
    rows = [row for row in journal.read([RESULTS]) if row["method"] not in TEXT_METHODS and row["task"] != "ag_news"]
    for model in ("xtremedistil", "granite"):
        runs = [run for chunk in planning.plan("board", Protocol(), model, rows) for run in chunk]
        texts = [run for run in runs if run.method in TEXT_METHODS]
        assert {run.method for run in texts} == set(TEXT_METHODS)
        assert {run.seed for run in texts} == {1, 2, 3, 4, 5}
        assert {run.task for run in texts} == {task.name for task in Protocol().tasks}  # AG News waits for its rate
        assert runs[-len(texts) :] == texts
        assert {run.times for run in texts if run.method == gates.REFERENCE} == {1, 2, 3, 8}
    rates = planning.plan("rates", Protocol(), "xtremedistil", rows)
    assert {run.task for chunk in rates for run in chunk} == {"ag_news"}


def gate_rows(gains, spread=0.2):
    """Three seeds of two models on all tasks; each column of the proposed row is so many points above plain's."""
    rows = []
    for model in ("a", "b"):
        for task in Protocol().all_tasks:
            for seed in (1, 2, 3):
                for method, gain in ((gates.REFERENCE, {}), (gates.PROPOSED, gains)):
                    points = {gate.column: 50 + gain.get(gate.column, 0) + spread * seed for gate in gates.GATES}
                    points[""] = 0.3 * seed * len(gain)  # differences vary over seeds
                    scores = {name: (value + points[""]) / 100 for name, value in points.items()}
                    run = Run("board", model, task.name, "linear", method, "{}", seed, 1e-4)
                    told = {"settings": {}, "value": scores["clean"], "robust": scores, "order": "x", "diverged": False}
                    rows.append({**vars(run), **told})
    return rows


def test_gates_say_what_is_missed_first():
    gains = {gate.column: gate.points + 1 for gate in gates.GATES}
    passed = gates.judge(boards(gate_rows(gains), Protocol()), gates.PROPOSED)
    assert len(passed) == len(gates.GATES)
    assert all(": passed. a +" in line for line in passed)
    missed = gates.judge(
        boards(gate_rows({**gains, "characters": 2.0, "pgd_reference": -9.0}), Protocol()), gates.PROPOSED
    )
    assert [line.partition(" (")[0] for line in missed if "MISSED" in line] == [
        "character attack",
        "PGD at the reference radius",
    ]
    assert all("MISSED" in line for line in missed[:2])
    noisy = gates.judge(boards(gate_rows({"typos 0.3": 5.0}, spread=0.0), Protocol()), gates.PROPOSED)
    assert any(line.startswith("typos in 30 %") and "passed" in line for line in noisy)
    assert all(": open. no runs yet." in line for line in gates.judge({}, gates.SECOND))


def test_half_a_line_of_a_killed_process_does_not_spoil_the_next(tmp_path):
    made = journal.Journal(tmp_path / "runs.jsonl")
    made.add({"key": "one"})
    with made.path.open("a") as file:
        file.write('{"key": "tw')
    made.add({"key": "three"})
    assert journal.Journal(made.path).rows == [{"key": "one"}, {"key": "three"}]


def test_area():
    assert area(1.0, (0.1, 0.3), (0.5, 0.1)) == pytest.approx((0.1 * 0.75 + 0.2 * 0.3) / 0.3)


def test_metrics_are_the_known_ones():
    from scipy import stats
    from seqeval.metrics import f1_score
    from sklearn import metrics

    rng = np.random.default_rng(0)
    found, told = rng.integers(0, 2, 50), rng.integers(0, 2, 50)
    assert scoring.matthews(found, told) == pytest.approx(metrics.matthews_corrcoef(told, found))
    assert scoring.f1(found, told) == pytest.approx(metrics.f1_score(told, found))
    assert scoring.accuracy(found, told) == pytest.approx(metrics.accuracy_score(told, found))
    assert scoring.matthews(np.ones(50), told) == 0.0
    assert scoring.f1(np.zeros(50), np.zeros(50)) == 0.0
    values, scores = rng.normal(size=50).round(1), rng.integers(0, 6, 50)
    assert scoring.spearman(values, scores) == pytest.approx(stats.spearmanr(values, scores)[0])
    assert scoring.pearson(values, scores) == pytest.approx(stats.pearsonr(values, scores)[0])
    tags = ["O", "B-a", "I-a", "B-b", "I-b"]
    one, two = ([[tags[i] for i in line] for line in rng.integers(0, 5, (40, 12))] for _ in range(2))
    assert scoring.entity_f1(one, two) == pytest.approx(f1_score(two, one))
