"""The page: whole, self-contained, escaped; and the comparison behind it."""

import json
import re
import xml.etree.ElementTree as ET
from argparse import ArgumentParser
from dataclasses import replace
from html.parser import HTMLParser

import pytest

from toughen.cli.commands import compare as compare_command
from toughen.cli.commands import report as report_command
from toughen.reports import ReportError, charts, compare_runs, find_runs, read_run, report
from toughen.reports.evaluations import _from_predictions, error_charts, error_summaries, evaluation_table
from toughen.reports.folder import Predictions, is_numeric
from toughen.reports.formatting import format_score
from toughen.reports.page import Page, comparison_section
from toughen.reports.render import Table
from toughen.statistics import mcnemar

from .samples import add_evaluation, make_run

VOID = {"meta", "br", "link", "path", "use", "image", "input"}


class Check(HTMLParser):
    """Tags closed in order, and every address that a browser would fetch."""

    def __init__(self):
        super().__init__()
        self.open, self.fetched, self.tags = [], [], []

    def handle_starttag(self, tag, attrs):
        self.tags.append(tag)
        if tag not in VOID:
            self.open.append(tag)
        for key, value in attrs:
            if key in ("src", "href", "xlink:href", "data", "action", "poster") and not (value or "").startswith(
                ("#", "data:")
            ):
                self.fetched.append(value)
            assert not key.startswith("on"), f"{tag} has {key}"

    def handle_startendtag(self, tag, attrs):
        self.handle_starttag(tag, attrs)
        if tag not in VOID:
            self.open.pop()

    def handle_endtag(self, tag):
        if tag not in VOID:
            assert self.open.pop() == tag


def checked(path) -> tuple[str, Check]:
    text = path.read_text()
    parser = Check()
    parser.feed(text)
    assert parser.open == []
    assert parser.fetched == []
    assert parser.tags.count("script") == 1  # the page's own
    assert "url(http" not in text
    assert "@import" not in text
    return text, parser


@pytest.fixture
def smart(tmp_path):
    folder = make_run(tmp_path / "rte-smart", plain=(0.66, 0.68, 0.69))
    add_evaluation(folder, "typos", 0.61)
    return folder


@pytest.fixture
def freelb(tmp_path):
    return make_run(tmp_path / "rte-freelb", "freelb", (0.71, 0.70, 0.74), step=0.35)


def test_one_run(smart):
    page = report(smart)
    assert page == smart / "report.html"
    text, parser = checked(page)
    assert "71.0 ± 1.0" in text  # 0.70, 0.72, 0.71
    assert "+3.3 ± 2.9" in text
    assert "Take smart: it is better clean; that it is more robust is not shown." in text.partition("<nav")[0]
    assert "71.0 and 67.7 points of accuracy (+3.3, 95 % over seeds +0.5 to +6.2)" in text
    assert "3.00x" in text
    for figure in (
        "loss and its parts",
        "accuracy while training",
        "share from the gradient",
        "confusion",
        "reliability",
    ):
        assert f'aria-label="{figure}' in text
    assert "calibration error" in text
    assert "divergence_dropout" in text
    assert "weight=1.0" in text
    assert "task: rte" in text
    assert parser.tags.count("svg") == 11
    assert "prefers-color-scheme: dark" in text
    assert 'name="viewport"' in text
    assert not list(smart.glob(".report*"))  # nothing unfinished is left


def test_a_page_names_no_folder_of_the_machine(smart):
    config = "task: rte\nmodel: /home/anna/models/tiny\ndata: {train_file: ~/rte/train.csv}\n"
    (smart / "config.yaml").write_text(config)
    results = json.loads((smart / "results.json").read_text())
    results |= {
        "model": "/home/anna/models/tiny",
        "notes": ["read /data/anna/x.csv"],
        "hardware": {"at": "/mnt/anna/a"},
    }
    (smart / "results.json").write_text(json.dumps(results))
    text, _ = checked(report(smart))
    assert "anna" not in text
    assert "~/rte" not in text
    assert "<dd>tiny</dd>" in text


def test_marks_say_what_they_are(smart, freelb, tmp_path):
    add_evaluation(smart, "hans", 0.7)
    text, _ = checked(report([smart, freelb], tmp_path / "both.html"))
    tips = re.findall(r"<title>(.*?)</title>", text.partition("<body>")[2])
    assert any(re.fullmatch(r"freelb: \+4.0, 95 % interval .* to .*", each) for each in tips)
    assert any(each.startswith("rte-smart: 70.0") for each in tips)


@pytest.mark.parametrize(
    ("value", "error", "metric", "text"),
    [
        (0.8625, 0.0177, "accuracy", "86.3 ± 1.8"),
        (0.8625, 0.0012, "f1", "86.25 ± 0.12"),
        (0.8625, 0.123, "f1", "86 ± 12"),
        (0.8625, None, "f1", "86.3"),
        (-0.00001, None, "matthews", "0.0"),
        (0.8625, 0.0177, "loss", "0.8625 ± 0.018"),
        (None, None, "f1", "-"),
    ],
)
def test_a_score_has_the_digits_its_error_allows(value, error, metric, text):
    assert format_score(value, metric, error) == text


def test_drawings_are_files_too(smart):
    report(smart)
    names = sorted(path.name for path in (smart / "plots").iterdir())
    assert "loss-and-its-parts.svg" in names
    assert all(ET.parse(smart / "plots" / name).getroot().tag.endswith("svg") for name in names)


def test_several_runs(smart, freelb, tmp_path):
    text, _ = checked(report([smart, freelb], tmp_path / "both.html"))
    assert re.findall(r"<h2[^>]*>(.*?)</h2>", text) == ["rte: accuracy", "Evaluations", "Runs"]
    assert text.count('<details class="run">') == 2
    assert "2 comparisons" in text


def test_the_same_runs_give_the_same_page(smart):
    assert report(smart).read_text() == report(smart).read_text()


def test_text_from_data_is_escaped(tmp_path):
    folder = make_run(tmp_path / "bad", "smart", plain=(0.6, 0.6, 0.7))
    evil = "<script>alert(1)</script>\"'><img src=x onerror=alert(2)> $x_{1}$"
    results = json.loads((folder / "results.json").read_text())
    results |= {"task": evil, "model": evil, "notes": [evil], "method": {"name": evil, "settings": {evil: evil}}}
    results["versions"] = {evil: evil}
    (folder / "results.json").write_text(json.dumps(results))
    (folder / "config.yaml").write_text(evil)
    add_evaluation(folder, "typos", 0.6)
    content = json.loads((folder / "evaluations" / "typos.json").read_text())
    content |= {"name": evil, "confusion": {"labels": [evil, "b"], "counts": [[1, 2], [3, 4]]}}
    (folder / "evaluations" / "typos.json").write_text(json.dumps(content))
    for file in (folder / "seeds").glob("*/predictions/*.tsv"):
        file.write_text(f"index\tprediction\tlabel\n0\t{evil}\t{evil}\n1\tb\t{evil}\n")
    text, parser = checked(
        report(folder, tables=[Table(f"first {evil}", ("", evil), [(f"row {evil}", f"cell {evil}")])])
    )
    assert "img" not in parser.tags
    assert "<script>alert" not in text
    assert all(f"{what} &lt;script&gt;" in text for what in ("first", "row", "cell"))


def test_what_is_not_there_is_left_out(tmp_path):
    folder = make_run(tmp_path / "bare", scores=(0.5,))
    for file in [folder / "metrics.jsonl", folder / "config.yaml", *(folder / "seeds").glob("*/predictions/*.tsv")]:
        file.unlink()
    text, parser = checked(report(folder))
    assert "svg" not in parser.tags
    assert "Evaluations" not in text
    assert "one seed" in text


def test_broken_logs_do_not_break_the_page(smart):
    with (smart / "metrics.jsonl").open("a") as file:
        file.write('{"seed": 1, "arm": "method", "kind": "train", "step": 110, "loss": NaN}\n["no object"]\n{"half": ')
    checked(report(smart))


def test_a_sum_of_methods_has_its_parts(tmp_path):
    folder = make_run(tmp_path / "sum", "smart+rdrop")
    rows = [json.loads(line) for line in (folder / "metrics.jsonl").read_text().splitlines()]
    renamed = [{re.sub("^robust/", "robust/0/", key): value for key, value in row.items()} for row in rows]
    (folder / "metrics.jsonl").write_text("\n".join(map(json.dumps, renamed)))
    text, _ = checked(report(folder))
    assert "regulariser, before its weight (0)" in text
    assert "0/delta_relative" in text


def test_a_folder_that_is_no_run(tmp_path, smart):
    with pytest.raises(ReportError, match=r"nowhere"):
        report(tmp_path / "nowhere")
    (tmp_path / "sweep" / "trials" / "001-seed1").mkdir(parents=True)
    with pytest.raises(ReportError, match=r"sweep .*trials/\*"):
        report(tmp_path / "sweep")
    with pytest.raises(ReportError, match=r"001-seed1 .*results.json"):
        report(tmp_path / "sweep" / "trials" / "001-seed1")
    (smart / "results.json").write_text("{")
    with pytest.raises(ReportError, match=r"results.json .*JSON"):
        report(smart)
    (smart / "results.json").write_text("{}")
    with pytest.raises(ReportError, match=r"results.json .*'method'"):
        report(smart)
    (smart / "results.json").write_text('{"method": {"name": "smart"}, "seeds": []}')
    with pytest.raises(ReportError, match=r"results.json .*'task'"):
        report(smart)


def test_comparison(smart, freelb, tmp_path):
    (table,) = compare_runs([read_run(smart), read_run(freelb)])
    assert [row.name for row in table.rows] == ["plain", "smart", "freelb"]
    plain, first, second = table.rows
    assert plain.over_seeds is None
    assert first.over_seeds.difference == pytest.approx(0.71 - 2.03 / 3)
    assert first.ratio["seconds_per_step"] == pytest.approx(3.0)
    assert first.ratio["forward"] == 3.0
    assert {test.test for test in second.over_rows} == {"McNemar, exact", "paired bootstrap"}
    ours, theirs = (read_run(smart).predictions(2, arm=arm) for arm in ("method", "baseline"))  # the best seed
    assert first.over_rows[0] == mcnemar(ours.answers, theirs.answers, ours.labels)
    (other,) = compare_runs([read_run(smart), read_run(freelb)], metric="f1")
    assert other.rows[0].summary.mean == pytest.approx(2.03 / 3 - 0.01)
    with pytest.raises(ReportError, match=r"'bleu'.* accuracy, f1"):
        compare_runs([read_run(smart)], metric="bleu")


def test_each_run_is_held_against_its_own_plain_baseline(smart, tmp_path):
    other = make_run(tmp_path / "mnli-smart", scores=(0.9, 0.8, 0.9), plain=(0.85, 0.9, 0.95))
    (table,) = compare_runs([read_run(smart), read_run(other)])
    held = {row.name: row.reference for row in table.rows}
    names = ["rte-smart", "mnli-smart"]
    assert held == {f"{n} (plain)": "" for n in names} | {n: f"{n} (plain)" for n in names}
    gains = [row.over_seeds.difference for row in table.rows if row.reference]
    assert gains == pytest.approx([0.1 / 3, -0.1 / 3])
    assert table.reference == "its own plain"


def test_the_first_card_is_the_runs_own_score(tmp_path):
    run = make_run(tmp_path / "worse", scores=(0.5, 0.6), plain=(0.9, 0.9))
    page = Page(find_runs([run]))
    page.render()
    card = page.cards[0]
    assert (card.value, card.note.partition(",")[0]) == ("55.0 ± 7.1", "smart")


def test_an_unfinished_run_among_others_is_left_out_with_a_line(smart, freelb, tmp_path, capsys):
    unfinished = tmp_path / "began"
    unfinished.mkdir()
    (unfinished / "config.yaml").write_text("task: rte\n")
    for command in (compare_command, report_command):
        parser = ArgumentParser()
        command.add(parser)
        words = [str(smart), str(unfinished), str(freelb)]
        words += ["--out", str(tmp_path / "page.html")] if command is report_command else []
        assert command.run(parser.parse_args(words)) == 0
        assert f"! {unfinished} is left out" in capsys.readouterr().out
    with pytest.raises(ReportError, match="has no results yet; continue with: toughen train --resume"):
        find_runs([unfinished])
    told: list[str] = []
    assert [run.path for run in find_runs([tmp_path], told)] == [freelb, smart]
    assert told == [
        f"{unfinished} is left out: it has no results yet; continue with: toughen train --resume {unfinished}"
    ]
    with pytest.raises(ReportError, match="no finished run"):
        find_runs([unfinished, unfinished], [])


def test_class_names_with_a_point_are_no_amounts(smart, tmp_path):
    for file in smart.glob("*/*/predictions/validation.tsv"):
        file.write_text(file.read_text().replace("not_entailment", "sci.med").replace("entailment", "comp.graphics"))
    (smart / "model").mkdir(exist_ok=True)
    (smart / "model" / "config.json").write_text('{"id2label": {"0": "comp.graphics", "1": "sci.med"}}')
    run = read_run(smart)
    (table,) = compare_runs([run])
    assert table.rows[1].over_rows
    drawings = error_charts(run, error_summaries(run))
    confusions = ["confusion, validation", "confusion, validation, plain baseline"]
    assert [each.title for each in drawings] == ["reliability", *confusions]
    assert is_numeric(["3", "2.5"])
    assert is_numeric(["-1.5e-05"])
    assert not is_numeric(["3", "v1.0", "sci.med"])


def test_rows_of_a_confusion_are_labels_and_columns_answers():
    summary = _from_predictions(Predictions(["a", "b", "b", "b"], ["a", "a", "a", "b"], None), None)
    assert (summary.labels, summary.counts) == (["a", "b"], [[1, 2], [0, 1]])


def test_by_method_pools_runs(tmp_path):
    make_run(tmp_path / "a", scores=(0.70, 0.72))
    make_run(tmp_path / "b", scores=(0.74,))
    make_run(tmp_path / "c", "plain", scores=(0.60, 0.61))
    make_run(tmp_path / "d", "plain", scores=(0.9,), task="cola")
    tables = compare_runs(find_runs([tmp_path]), by="method")
    assert [table.rows[0].task for table in tables] == ["rte", "cola"]
    assert [(row.name, row.summary.count) for row in tables[0].rows] == [("plain", 2), ("smart", 3)]
    # Seed 1 ran twice: its mean is compared.
    assert tables[0].rows[1].over_seeds.difference == pytest.approx((0.72 - 0.60 + 0.72 - 0.61) / 2)
    names = [row.name for row in compare_runs(find_runs([tmp_path]))[0].rows]
    assert names == ["plain", "a", "b"]


def test_files_of_one_name_with_other_answers_are_other_tasks(tmp_path):
    kinds = {
        "a": {"head": "classes", "labels": ["neg", "pos"]},
        "b": {"head": "classes", "labels": ["pos", "neg"]},
        "c": {"head": "classes", "labels": list("uvwxyz")},
        "d": {"head": "regression", "labels": []},
    }
    for name, began in kinds.items():
        folder = make_run(tmp_path / name, method=f"m{name}", task="train")
        (folder / "began.json").write_text(json.dumps(began))
    tables = compare_runs(find_runs([tmp_path]))
    assert [[row.name for row in table.rows] for table in tables] == [["ma", "mb"], ["mc"], ["md"]]
    titles = [table.rows[0].task for table in tables]
    assert titles == ["train (neg, pos)", "train (u, v ... 6 classes)", "train (regression)"]


def test_a_run_without_the_metric_is_named(tmp_path):
    runs = [make_run(tmp_path / name) for name in "ab"]
    for entry in (results := json.loads((runs[1] / "results.json").read_text()))["seeds"]:
        del entry["metrics"]["accuracy"]
    (runs[1] / "results.json").write_text(json.dumps(results))
    (table,) = compare_runs(find_runs(runs))
    assert [row.name for row in table.rows] == ["a"]
    assert "Left out, as they have no accuracy: b." in table.notes


def test_folders_of_the_same_name_are_two_runs(tmp_path):
    for parent, score in (("one", 0.5), ("two", 0.9)):
        add_evaluation(make_run(tmp_path / parent / "rte", scores=(score, score + 0.02)), "typos", score)
    runs = find_runs([tmp_path / "one" / "rte", tmp_path / "two"])
    assert [run.name for run in runs] == ["one/rte", "two/rte"]
    (table,) = compare_runs(runs)
    assert [(row.name, row.summary.count) for row in table.rows] == [("one/rte", 2), ("two/rte", 2)]
    assert compare_runs([read_run(run.path) for run in runs])[0].rows[1].name == "two/rte"
    assert [scores[0].value for _, scores in evaluation_table(runs).rows] == [0.5, 0.9]
    checked(report([run.path for run in runs], tmp_path / "page.html"))


def test_p_values_are_sorted_as_numbers_and_those_that_are_none_at_the_end(smart, freelb, tmp_path):
    one = make_run(tmp_path / "one", "vat", scores=(0.7,))  # one seed: no p over seeds
    runs = [smart, freelb, one]
    (table,) = compare_runs(find_runs(runs))
    text, _ = checked(report(runs, tmp_path / "page.html"))
    rows = re.findall(r'<tr data-item.*?<th scope="row">(.*?)</th>(.*?)</tr>', text, re.S)
    cells = {name: re.findall(r'<td data-sort="(.*?)".*?>(.*?)</td>', row)[4] for name, row in rows}
    assert float(cells["smart"][0]) == pytest.approx(table.rows[1].over_seeds.p, rel=1e-4)
    assert re.fullmatch(r"0\.\d{3}", cells["smart"][1])
    assert cells["vat"] == ("", "-")
    assert cells["plain"] == ("", "")


def test_a_filter_has_the_name_to_the_letter(tmp_path):
    """The value of an option without one is its text with blanks put together, and would match nothing."""
    for index, name in enumerate(("a  model", "other")):
        folder = make_run(tmp_path / name, scores=(0.7 + index / 10, 0.72), plain=(0.6, 0.61))
        results = json.loads((folder / "results.json").read_text())
        (folder / "results.json").write_text(json.dumps(results | {"model": name}))
    text, _ = checked(report([tmp_path], tmp_path / "page.html"))
    assert 'data-model="a  model"' in text
    assert '<option value="a  model">' in text


def test_a_folder_named_like_another_method(tmp_path):
    for name, method in (("freelb", "smart"), ("other", "smart"), ("third", "freelb")):
        make_run(tmp_path / name, method, scores=(0.7, 0.72))
    (table,) = compare_runs(find_runs([tmp_path]))
    assert [(row.name, row.summary.count) for row in table.rows] == [
        ("freelb (smart)", 2),
        ("other", 2),
        ("third (freelb)", 2),
    ]


def test_a_score_that_was_not_finite_is_left_out(smart):
    results = json.loads((smart / "results.json").read_text())
    results["seeds"][1]["metrics"]["accuracy"] = None
    (smart / "results.json").write_text(json.dumps(results))
    run = read_run(smart)
    assert run.scores() == {1: 0.70, 3: 0.71}
    assert run.best().seed == 3
    checked(report(smart))


def test_of_an_error_the_smallest_is_the_best(tmp_path):
    for name, value in (("a", 0.5), ("b", 0.2)):
        folder = make_run(tmp_path / name)
        content = {"metric": "mse", "metrics": {"mse": {"value": value}}}
        (folder / "evaluations").mkdir(exist_ok=True)
        (folder / "evaluations" / "own.json").write_text(json.dumps(content))
    table = evaluation_table(find_runs([tmp_path]))
    assert table.best[table.names.index("own")] == 0.2


def test_an_evaluation_that_was_not_finite_is_no_zero(smart):
    add_evaluation(smart, "broken", 0.5)
    content = json.loads((smart / "evaluations" / "broken.json").read_text())
    content["metrics"]["accuracy"] = {"value": None, "low": None, "high": None}
    (smart / "evaluations" / "broken.json").write_text(json.dumps(content))
    table = evaluation_table(find_runs([smart]))
    assert table.names == ["broken", "typos"]
    (_, (broken, typos)) = table.rows[0]
    assert broken is None
    assert typos.value == 0.61
    checked(report(smart))


@pytest.mark.parametrize(
    ("file", "text"),
    [
        ("evaluations/typos.json", '{"rows": 3}'),
        ("model/config.json", '{"id2label": {"0": "a"'),
        ("seeds/2/predictions/validation.tsv", "index\tprediction\tlabel\tprobabilities\n0\ta\ta\t[0.9, 0."),
    ],
)
def test_a_file_that_is_cut_off_is_named(smart, file, text):
    (smart / file).parent.mkdir(exist_ok=True)
    (smart / file).write_text(text)
    with pytest.raises(ReportError, match=file):
        report(smart)


def test_a_log_cut_inside_a_letter(smart):
    with (smart / "metrics.jsonl").open("ab") as file:
        file.write('{"note": "naïve'.encode()[:-4])
    (smart / "config.yaml").write_bytes(b"name: na\xefve\n")
    checked(report(smart))


def arguments(command, *words):
    parser = ArgumentParser()
    command.add(parser)
    return parser.parse_args(list(map(str, words)))


def test_commands(smart, freelb, tmp_path, capsys, monkeypatch):
    monkeypatch.setenv("COLUMNS", "200")
    html = tmp_path / "cmp.html"
    assert compare_command.run(arguments(compare_command, smart, freelb, "--html", html)) == 0
    printed = capsys.readouterr().out
    assert "0.7100 ± 0.0100" in printed
    assert "McNemar, exact p = " in printed
    assert "Difference from plain" in printed
    assert "3.00x" in printed
    (table,) = compare_runs(find_runs([smart]))
    same = replace(table.rows[1], over_rows=(mcnemar("ab", "ab", "ab"),))
    said = compare_command._details(replace(table, rows=(table.rows[0], same)))
    assert said[-1].endswith("rows of one seed: McNemar, exact: no row divides the two.")
    checked(html)
    assert report_command.run(arguments(report_command, smart, "--out", tmp_path / "x.html")) == 0
    assert (tmp_path / "x.html").is_file()


def test_a_loss_with_two_names_is_drawn_once(tmp_path):
    folder = make_run(tmp_path / "plain", "plain")
    rows = [json.loads(line) for line in (folder / "metrics.jsonl").read_text().splitlines()]
    same = [row | {"robust/term": row["loss"], "robust/loss_clean": row["loss"]} for row in rows if "loss" in row]
    (folder / "metrics.jsonl").write_text("\n".join(map(json.dumps, same)))
    text, _ = checked(report(folder))
    assert "regulariser" not in text


def test_of_a_loss_less_is_better(tmp_path):
    for name, score in (("plain", 0.9), ("smart", 0.4)):
        folder = make_run(tmp_path / name, name, scores=(score, score + 0.01))
        results = json.loads((folder / "results.json").read_text())
        for seed in results["seeds"]:
            seed["metrics"]["mse"] = seed["metrics"]["accuracy"]
        (folder / "results.json").write_text(json.dumps(results | {"metric": "mse"}))
    (table,) = compare_runs(find_runs([tmp_path]))
    assert table.best.name == "smart"
    assert 'class="up">-0.5' in report([tmp_path], tmp_path / "x.html").read_text()


def page_of(folder, head, rows):
    """The page of a run whose predictions are these, (answer, label), of a test set; plain answers the other way."""
    run = make_run(folder, plain=(0.6, 0.6, 0.6))
    (run / "began.json").write_text(json.dumps({"head": head}))
    for file in run.glob("*/*/predictions"):
        turned = file.parent.parent.name == "baseline"
        lines = [f"{n}\t{row[turned]}\t{row[1]}" for n, row in enumerate(rows)]
        (file / "test.tsv").write_text("index\tprediction\tlabel\n" + "\n".join(lines) + "\n")
    return checked(report(run))[0]


def test_every_head_has_errors_to_read(tmp_path):
    rows = [("entailment", "entailment"), ("entailment", "not_entailment")] * 10
    text = page_of(tmp_path / "classes", "classes", rows)
    assert 'aria-label="confusion, test"' in text
    assert 'aria-label="confusion, test, plain baseline"' in text
    classes = re.findall(r'<tr><th scope="row">(?:not_)?entailment</th>(.*?)</tr>', text, flags=re.S)
    assert re.findall(r">([\d.]+)<", classes[0]) == ["10", "50.0", "100.0", "66.7", *["100.0"] * 3]
    text = page_of(tmp_path / "amounts", "regression", [("1", "2"), ("3", "3"), ("5", "7")])
    assert 'aria-label="answers beside labels"' in text
    assert "root mean square error 1.291, mean absolute error 1" in text
    text = page_of(tmp_path / "tokens", "tokens", [('["O", "B-X"]', '["O", "O"]'), ('["B-X"]', '["B-X"]')])
    assert 'aria-label="confusion, test"' in text
    assert '<th scope="row">B-X</th>' in text
    text = page_of(tmp_path / "several", "multilabel", [('["a", "b"]', '["a"]'), ("[]", '["b"]')])
    assert '<th scope="row">a</th>' in text
    many = [(f"class {(n + n % 2) % 50}", f"class {n % 50}") for n in range(200)]
    text = page_of(tmp_path / "many", "classes", many)
    assert "class 1 taken for class 2 (4)" in text
    assert 'aria-label="confusion' not in text
    assert text.count('<tr><th scope="row">class ') == 40


def test_seeds_and_baselines_are_rows_of_the_evaluations(tmp_path):
    run = make_run(tmp_path / "run")
    for name, value in (("validation", 0.7), ("validation-seed-1", 0.7), ("typos-baseline-2", 0.5), ("seed-2", 0.8)):
        add_evaluation(run, name, value)
    found = evaluation_table([read_run(run)])
    assert found.names == ["validation", "typos"]
    rows = {name: [score and score.value for score in scores] for name, scores in found.rows}
    assert rows == {
        "run": [0.7, None],
        "run, seed 2": [0.8, None],
        "run, plain baseline, seed 2": [None, 0.5],
        "run, seed 1": [0.7, None],
    }


def test_axes_do_not_magnify_noise(tmp_path, monkeypatch):
    limits = []
    monkeypatch.setattr("matplotlib.axes.Axes.set_ylim", lambda _, *given: limits.append(given))
    charts.lines("x", {"a": [(1, 0.870), (2, 0.871)]})
    charts.lines("x", {"a": [(1, 0.1), (2, 0.9)]})
    assert limits == [pytest.approx((0.8705 - 0.0871, 0.8705 + 0.0871))]


def test_slices_are_one_table(smart):
    add_evaluation(smart, "validation", 0.7)
    text = report(smart).read_text()
    assert text.count('aria-label="slices of') == 1


def test_only_differences_beyond_chance_are_coloured(tmp_path):
    for name, scores in (("plain", (0.5, 0.51, 0.52)), ("smart", (0.6, 0.62, 0.61)), ("vat", (0.4, 0.9, 0.5))):
        make_run(tmp_path / name, name, scores=scores)
    (table,) = compare_runs(find_runs([tmp_path]))
    lines = comparison_section(table, "run", draw=False).lines
    assert {line.row.name: line.direction for line in lines} == {"plain": "", "smart": "up", "vat": ""}
