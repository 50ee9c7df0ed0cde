"""What a sweep leaves and shows: tables, page, drawings, live table, plain lines."""

import csv
import io
import json
import re
from xml.etree import ElementTree

import pytest
from rich.console import Console

from toughen.runs.progress import format_duration
from toughen.sweeps.leaderboard import Row, ranked, table
from toughen.sweeps.outputs import as_csv, as_markdown, write_page, write_tables
from toughen.sweeps.progress import Status, SweepProgress, render
from toughen.sweeps.trials import Outcome, Trial, scores

from .test_decisions import quality

NASTY = "<script>alert(1)</script>"


def row(number, settings, *scores, **more):
    outcomes = {seed: Outcome("done", score, 3, seconds=2.0) for seed, score in enumerate(scores, 1)}
    return Row(number, settings, outcomes | more.get("outcomes", {}))


ROWS = ranked(
    [
        row(1, {"a": 0.05, "b": "x"}, 0.5, 0.7),
        row(2, {"a": 0.1, "b": "x"}, 0.9, 0.8),
        row(3, {"a": 0.05, "b": "y"}, 0.7, outcomes={2: Outcome("failed", error="boom | bang")}),
        row(4, {"a": 0.1, "b": "y"}, outcomes={1: Outcome("stopped", 0.4, 1), 2: Outcome("missing")}),
    ],
    sign=1,
)


def test_a_row_is_the_mean_and_sd_of_its_seeds():
    heads, cells = table(ROWS, ["a", "b"], [1, 2], "accuracy")
    read = list(csv.DictReader(io.StringIO(as_csv(heads, cells))))
    assert [line["row"] for line in read] == ["2", "1", "3", "4"]
    assert [line["rank"] for line in read] == ["1", "2", "", ""]
    assert float(read[0]["accuracy"]) == pytest.approx(0.85)
    assert float(read[0]["sd"]) == pytest.approx(0.0707107)
    assert (read[0]["seed 1"], read[0]["seed 2"]) == ("0.9", "0.8")
    assert [line["seeds"] for line in read] == ["2/2", "2/2", "1/2", "0/2"]
    assert [line["state"] for line in read] == ["done", "done", "partial", "stopped"]
    assert read[2]["error"] == "seed 2: boom | bang"
    assert read[3]["accuracy"] == "0.4"
    text = as_markdown(heads, cells)
    assert text.splitlines()[2] == "| 1 | 2 | 0.1 | x | 0.85 | 0.07071 | 0.9 | 0.8 | 2/2 | done |  |"
    assert r"boom \| bang" in text
    assert as_markdown(["error"], [["boom\nbang"]]).splitlines() == ["| error |", "| --- |", "| boom bang |"]


def test_printed_table_on_a_narrow_terminal(monkeypatch, capsys):
    from types import SimpleNamespace

    from toughen.cli.commands.sweep import _print_summary

    keys = ["method.step_size", "method.init_scale", "method.max_norm", "train.batch_size"]
    rows = ranked([row(1, dict.fromkeys(keys, 0.1), 0.5, 0.7)], sign=1)
    done = SimpleNamespace(
        definition=SimpleNamespace(keys=keys, seeds=[1, 2]), metric="accuracy", rows=rows, failures={}, path="s"
    )
    monkeypatch.setenv("COLUMNS", "80")
    assert _print_summary(done) == 0
    shown = capsys.readouterr().out
    assert "rank" in shown
    assert "accuracy" in shown
    assert re.search(r"^ 1 .* 0\.6000 ± 0\.1414 +2/2 +done", shown, flags=re.M)
    assert shown.endswith("saved s/leaderboard.html, .md, .csv; best.yaml\n")
    done.rows[:] = ranked([row(1, dict.fromkeys(keys, 0.1), outcomes={1: Outcome("failed", error="boom")})], sign=1)
    assert _print_summary(done) == 0
    assert capsys.readouterr().out.endswith("saved s/leaderboard.html, .md, .csv\n")  # there is no best one


def test_equal_scores_share_a_rank():
    rows = ranked([row(1, {"a": 1}, 0.5), row(2, {"a": 2}, 0.9), row(3, {"a": 3}, 0.9)], sign=1)
    assert [(each.number, each.rank) for each in rows] == [(2, 1), (3, 1), (1, 3)]


def test_the_page_links_to_its_trials(pretend):
    controller, _ = pretend(lambda *_: 0.5, parameters={"method.weight": {"values": [0.1, 0.2]}}, seeds=[1])
    trial = controller.folder.path / "trials" / "001-seed1"
    trial.mkdir(parents=True, exist_ok=True)
    (trial / "report.html").write_text("")
    write_page(controller)
    page = (controller.folder.path / "leaderboard.html").read_text()
    assert re.findall(r'<a href="([^#"]*)">', page) == ["trials/001-seed1/report.html"]
    assert "1 other row with the same score" in page
    assert ">error<" not in page  # a column of nothing


def test_a_formula_is_no_formula_in_a_spreadsheet():
    assert as_csv(["a"], [["=1+1"], [-1.5]]) == "a\n'=1+1\n-1.5\n"


def test_page_is_self_contained_and_escaped(pretend):
    methods = {"method.weight": {"values": [0.1, 0.2, 0.3]}, "train.batch_size": {"values": [8, 16]}}
    method = {"data.text_column": {"values": ["text", NASTY]}}
    controller, _ = pretend(quality, parameters={**methods, **method}, seeds=[1, 2])
    write_tables(controller)
    write_page(controller)
    page = (controller.folder.path / "leaderboard.html").read_text()
    assert NASTY not in page
    assert "&lt;script&gt;" in page
    assert not re.search(r'(?:src|href)="(?!#)', page)
    assert "http://" not in page.replace("http://www.w3.org/1999/xlink", "").replace("http://www.w3.org/2000/svg", "")
    drawings = re.findall(r"<svg.*?</svg>", page, flags=re.S)
    for drawing in drawings:
        ElementTree.fromstring(drawing.replace("<svg", '<svg xmlns:xlink="http://www.w3.org/1999/xlink"', 1))
    titles = re.findall(r'<svg[^>]*aria-label="([^"]*)"', page)
    assert titles[0] == "Parallel coordinates: accuracy by setting"
    assert "Heat map: accuracy by method.weight and train.batch_size" in titles
    assert len(drawings) == 4  # three pairs of settings
    assert "91.80 ± 0.71" in page
    assert "Take method.weight=0.3, train.batch_size=8, data.text_column=text: accuracy 91.80 ± 0.71. 3 other" in page


def test_no_heat_map_of_holes(pretend):
    tied = [{"method.weight": weight, "method.init_scale": weight} for weight in (0.1, 0.2, 0.3, 0.4)]
    controller, _ = pretend(quality, parameters={"train.batch_size": {"values": [8, 16]}}, tied=tied)
    write_page(controller)
    page = (controller.folder.path / "leaderboard.html").read_text()
    assert "by train.batch_size and method.weight" in page
    assert "by method.weight and method.init_scale" not in page


def test_a_page_without_any_score(pretend):
    def breaks(config, seed, iteration):
        raise ArithmeticError("broken")

    controller, _ = pretend(breaks)
    write_tables(controller)
    write_page(controller)
    page = (controller.folder.path / "leaderboard.html").read_text()
    assert "What failed" in page
    assert "no row is done" in page
    assert ">error<" in page
    assert not (controller.folder.path / "best.yaml").exists()


STATUS = Status(8, 3, 1, 1, [("004-seed1", "accuracy 0.7000 after 2"), ("005-[red]seed1", "")], ROWS[0], 83.0)


def test_the_live_table():
    console = Console(file=io.StringIO(), width=100, force_terminal=True, color_system=None)
    console.print(render(STATUS))
    text = console.file.getvalue()
    assert "5/8 trials · running 2 · failed 1 · stopped early 1 · best 0.8500 ± 0.0707" in text
    assert "ETA 1:23" in text
    words = " ".join(text.split())
    assert "004-seed1 accuracy 0.7000 after 2" in words
    assert "005-[red]seed1 starting" in words  # a name, not markup


def test_live_status_on_a_terminal(tmp_path, monkeypatch):
    monkeypatch.setenv("FORCE_COLOR", "1")
    monkeypatch.setattr("sys.stdout", out := io.StringIO())
    with SweepProgress(tmp_path / "sweep.log", live=True) as progress:
        progress.started(Trial(1, 1, {"train.epochs": 2}, tmp_path / "001-seed1"), STATUS)
        progress.line("[red]text[/red], not markup")
    assert "5/8 trials" in out.getvalue()
    assert "[red]text[/red], not markup" in out.getvalue()
    assert out.getvalue().rindex("\x1b[?25h") > out.getvalue().index("\x1b[?25l")  # the cursor is shown again
    assert "started" not in (tmp_path / "sweep.log").read_text()


def test_plain_lines_without_a_terminal(tmp_path, capsys):
    with SweepProgress(tmp_path / "sweep.log") as progress:
        progress.started(Trial(1, 1, {"train.epochs": 2}, tmp_path / "001-seed1"), STATUS)
        progress.ended(Trial(1, 1, {}, tmp_path / "001-seed1"), Outcome("failed"), "boom", STATUS)
    said = capsys.readouterr().out
    assert said.splitlines()[:2] == ["001-seed1: started (train.epochs=2)", "! 001-seed1: boom"]
    assert "failed 1" in said.splitlines()[2]
    assert "\x1b" not in said
    assert "boom" in (tmp_path / "sweep.log").read_text()


def test_a_score_that_is_no_number_keeps_its_place(tmp_path):
    rows = [{"arm": "method", "eval_loss": value} for value in (1.0, None, float("nan"), 2.0)]
    (tmp_path / "metrics.jsonl").write_text("".join(f"{json.dumps(row)}\n" for row in rows))
    assert str(scores(tmp_path, "loss")) == "[1.0, nan, nan, 2.0]"


def test_a_clock_that_people_read():
    assert [format_duration(each) for each in (None, 5, 83, 3700)] == ["-", "0:05", "1:23", "1:01:40"]
