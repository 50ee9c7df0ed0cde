"""The sentence that a report begins with."""

import json

import pytest

from toughen.reports import compare_runs, read_run, report, sentence
from toughen.reports.verdict import Part, Verdict, verdict
from toughen.statistics import PairedTestResult

from .attack_samples import interval, summary, write
from .samples import make_run


def part(low, high, sign=1):
    return Part("clean", "accuracy", 0.8, 0.7, PairedTestResult("paired t over seeds", 3, 0.1, 0.1, low, high), sign)


@pytest.mark.parametrize(
    ("attacked", "clean", "begins"),
    [
        (part(0.01, 0.2), part(-0.1, 0.1), "take smart: it is more robust, with no clear loss"),
        (part(0.01, 0.2), part(0.01, 0.1), "take smart: it is more robust, and better clean"),
        (part(0.01, 0.2), part(-0.1, -0.01), "smart is more robust and worse when clean"),
        (part(-0.1, 0.2), part(0.01, 0.1), "take smart: it is better clean; that"),
        (part(-0.1, -0.01), part(0.01, 0.1), "smart is better clean and less robust"),
        (part(-0.1, 0.2), part(-0.1, 0.1), "no clear difference"),
        (None, part(-0.1, 0.1), "no clear difference"),
        (part(-0.1, -0.01), part(-0.1, 0.1), "take plain: smart is worse under attack"),
        (part(-0.1, 0.1), part(-0.1, -0.01), "take plain: smart is worse when clean"),
        (None, part(0.01, 0.1, sign=-1), "take plain: smart is worse when clean"),
    ],
)
def test_the_intervals_decide(attacked, clean, begins):
    attacks = (part(-0.1, 0.1), attacked) if attacked else ()
    assert Verdict("smart", "plain", clean, attacks, 2.0).decision.startswith(begins)


def test_attacks_that_disagree_are_all_told():
    attacks = (part(0.01, 0.2), part(-0.2, -0.1), *[part(-0.1, 0.1)] * 4)
    found = Verdict("smart", "plain", part(-0.1, 0.1), attacks, None)
    assert found.decision.startswith("smart is more robust to some attacks and less to others")
    assert found.sentence.endswith("-10.0); and 4 more attacks.")


@pytest.mark.parametrize(
    ("metric", "words"),
    [
        ("accuracy", "clean: 86.3 and 84.0 points of accuracy (+2.3, 95 % over seeds -0.2 to +4.8)"),
        ("spearman", "clean: 86.3 and 84.0 points of spearman (+2.3, 95 % over seeds -0.2 to +4.8)"),
        ("loss", "clean: 0.863 and 0.84 of loss (+0.023, 95 % over seeds -0.002 to +0.048)"),
    ],
)
def test_shares_are_in_points_and_losses_as_they_are(metric, words):
    test = PairedTestResult("paired t over seeds", 3, 0.023, 0.1, -0.002, 0.048)
    assert Part("clean", metric, 0.863, 0.84, test).words == words


def add_curve(folder, label, right, split="", radius=0.02):
    """PGD at one radius on 60 rows, of which the first `right` stay right."""
    score = interval(right / 60)
    curve = {"axis": "radius", "unit": "", "points": [{"x": 0.0, **interval(0.9)}, {"x": radius, **score}]}
    content = summary("embedding", "embedding", "PGD", label, curve=curve, settings={"radii": [radius]})
    write(folder, f"embedding{split}-{label}", content)
    rows = [{"index": n, "text": f"t{n}", "label": 1, "answers": [int(n < right)]} for n in range(60)]
    lines = "".join(json.dumps(row) + "\n" for row in rows)
    (folder / "attacks" / f"embedding{split}-{label}.rows.jsonl").write_text(lines)


def test_a_report_begins_with_the_decision(tmp_path):
    run = make_run(tmp_path / "run", plain=(0.66, 0.68, 0.69))
    assert "Nothing was attacked" in sentence(compare_runs([read_run(run)])[0])
    for seed in (1, 2):
        add_curve(run, f"seed-{seed}", 50)
        add_curve(run, f"baseline-{seed}", 30)
        add_curve(run, f"seed-{seed}", 3, "-test", 0.1)  # another budget, which says nothing
        add_curve(run, f"baseline-{seed}", 3, "-test", 0.1)
    (table,) = compare_runs([read_run(run)])
    found = verdict(table)
    mild, hard = found.attacked
    assert (mild.score, mild.reference, mild.test.difference) == pytest.approx((50 / 60, 0.5, 1 / 3))
    assert (mild.answer, hard.answer, found.under_attack) == ("better", "open", "better")
    assert (mild.name, hard.name) == ("under PGD at 0.02", "under PGD at 0.1")
    assert found.cost == pytest.approx(3.0)
    text = report(run).read_text()
    assert found.sentence in text
    assert text.index(found.sentence) < text.index('class="cards"')


def test_the_difference_is_that_of_the_interval_and_plain_runs_are_no_method(tmp_path):
    make_run(tmp_path / "a", scores=(0.60, 0.62, 0.61), plain=(0.66, 0.68, 0.69))
    make_run(tmp_path / "b", "plain", scores=(0.9,))
    (table,) = compare_runs([read_run(tmp_path / "a"), read_run(tmp_path / "b")])
    assert verdict(table).method == "smart"
    part = Part("clean", "accuracy", 0.9, 0.6, PairedTestResult("paired bootstrap", 9, 0.1, 0.1, 0.0, 0.2))
    assert part.difference == "+10, 95 % over rows +0 to +20"  # means of other seeds differ by more


def test_a_run_alone_says_how_to_get_more(tmp_path):
    (table,) = compare_runs([read_run(make_run(tmp_path / "run"))])
    assert "smart reaches 71.0 ± 1.0 points of accuracy" in sentence(table)
    assert "--baseline" in sentence(table)
