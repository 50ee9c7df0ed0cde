"""Drawings: colours by name, names of their own, small whatever the run's size."""

import json
import re
import xml.etree.ElementTree as ET

from toughen.reports import read_run, report
from toughen.reports.charts import Difference, attention, bars, confusion, forest, lines, scatter, spectrum
from toughen.reports.drawing import COLOURS
from toughen.reports.page import IN_FULL
from toughen.reports.run_section import MOST, downsample, late_mean

from .attack_samples import add_characters
from .samples import make_run
from .test_page import checked


def test_colours_are_the_pages_or_a_files_own():
    drawing = lines("loss", {"a": [(0, 1), (1, 2)], "b": [(0, 2), (1, 1)]})
    inline, file = drawing.inline(3), drawing.file()
    assert not any(stand_in in inline or stand_in in file for stand_in in COLOURS)
    assert {"var(--c0)", "var(--c1)", "var(--soft)", "var(--rule)"} <= set(re.findall(r"var\(--\w+\)", inline))
    assert "var(" not in file
    assert ET.fromstring(file).tag == "{http://www.w3.org/2000/svg}svg"


def test_two_drawings_on_a_page_share_no_name():
    drawing = lines("loss", {"a": [(0, 1), (1, 2)]})
    first, second = (set(re.findall(r'id="([^"]+)"', drawing.inline(number))) for number in (0, 1))
    assert first
    assert not first & second
    text = drawing.inline(7)
    assert set(re.findall(r'(?:url\(#|href="#)([^")]+)', text)) <= set(re.findall(r'id="([^"]+)"', text))


def test_late_is_the_last_half_of_training(tmp_path):
    folder = make_run(tmp_path / "run")
    rows = [{"step": n, "arm": "method", "kind": "train", "robust/term": float(n > 5)} for n in range(1, 11)]
    (folder / "metrics.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    assert late_mean(read_run(folder), "term") == 1.0


def test_names_from_data_stay_text():
    evil = "</text><script>alert(1)</script> $x_{1}$ & more"
    for drawing in (
        lines(evil, {evil: [(0, 1)], "b": [(1, 1)]}, x=evil, y=evil),
        bars(evil, {evil: {evil: (0.5, 0.4, 0.6), "b": (0.1, 0.0, 0.2)}}),
        confusion(evil, [evil, "b"], [[1, 2], [3, 4]]),
        forest(evil, [Difference(evil, 0.1, 0.0, 0.2)], x=evil),
        scatter(evil, {evil: (2.0, Difference(evil, 0.1))}, x=evil, y=evil),
        attention(evil, [evil, "b"], [[1, 0], [0, 1]], [[0, 1], [1, 0]], [[0, 0]]),
        spectrum(evil, {evil: {"mean": [1.0, 0.0], "low": [1.0, 0.0], "high": [1.0, 0.0]}}),
    ):
        assert "<script" not in drawing.svg
        ET.fromstring(drawing.file())  # well formed


def test_long_logs_are_thinned():
    points = [(float(step), float(step % 10)) for step in range(100_000)]
    thin = downsample(points)
    assert len(thin) <= MOST + 1
    assert thin[-1] == points[-1]
    assert abs(sum(value for _, value in thin) / len(thin) - 4.5) < 0.1
    assert downsample(points[:MOST]) == points[:MOST]


def test_a_run_of_any_size_fits_a_page(tmp_path):
    folder = make_run(tmp_path / "long", scores=(0.7,) * 100)
    add_characters(folder, 4000, texts=["<&> " * 800])
    rows = [{"kind": "train", "arm": "method", "seed": 1, "step": n, "loss": 1 / (n + 1)} for n in range(20_000)]
    (folder / "metrics.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    (folder / "config.yaml").write_text("x: " + "<y> " * 500_000)
    text, _ = checked(report(folder))
    assert len(text.encode()) < 1_000_000
    assert "loss and its parts" in text
    assert "letters in all" in text


def test_many_runs_fit_a_page(tmp_path):
    for number in range(60):
        method = "plain" if not number else "smart"
        make_run(tmp_path / "runs" / f"run-{number:03}", method, scores=(0.6 + number / 1000, 0.6))
    text, _ = checked(report(tmp_path / "runs", tmp_path / "all.html"))
    assert len(text.encode()) < 1_000_000
    assert text.count("<tr data-item") == 60
    assert text.count('<details class="run">') == IN_FULL
    assert "run-059: rte, smart" in text
