"""What attacks left in a run: read, averaged over seeds, shown, and compared row by row."""

import json
import re

import pytest

from toughen.reports import ReportError, compare_runs, find_runs, read_run, report
from toughen.reports.attack_examples import BYTES, LONGEST, MOST, _differences, attack_examples
from toughen.reports.attacks import robustness
from toughen.reports.comparison import under_attack
from toughen.reports.page import Page, comparison_section
from toughen.reports.run_section import adversarial_checks

from .attack_samples import add_characters, add_embedding, add_noise, interval, summary, write
from .samples import make_run
from .test_page import checked


@pytest.fixture
def folder(tmp_path):
    return make_run(tmp_path / "rte-smart", plain=(0.66, 0.68, 0.69))


def examples(folder):
    run = read_run(folder)
    return attack_examples([(attack.arm, run, attack) for attack in run.attacks])


def test_seeds_are_averaged_and_the_best_model_counts_once(folder):
    for label, value in (("", 0.1), ("seed-1", 0.4), ("seed-2", 0.6), ("baseline-1", 0.2)):
        attacked = {"accuracy": interval(value), "success_rate": interval(0.5), "queries": 10 * value}
        name = "characters" + (f"-{label}" if label else "")
        write(folder, name, summary("characters", "characters", "typos", label, attacked=attacked))
    by_arm = {attack.arm: attack for attack in read_run(folder).attacks}
    assert by_arm["method"].sources == ("characters-seed-1", "characters-seed-2")
    assert by_arm["method"].end[0] == pytest.approx((0.5, 0.47, 0.53))
    assert by_arm["method"].attacked.queries == pytest.approx(5)
    assert by_arm["baseline"].end[0][0] == pytest.approx(0.2)
    assert {attack.key for attack in by_arm.values()} == {"characters"}


def test_checkpoints_are_no_seeds(folder):
    for label, value in (("", 0.4), ("seed-1-checkpoint-10", 0.1)):
        name = "characters" + (f"-{label}" if label else "")
        content = summary("characters", "characters", "typos", label, attacked={"accuracy": interval(value)})
        write(folder, name, content)
    assert [attack.sources for attack in read_run(folder).attacks if attack.key == "characters"] == [("characters",)]


def test_curves_carry_noise_of_the_same_size(folder):
    add_embedding(folder, 3.0)
    (attack,) = read_run(folder).attacks
    assert [point.x for point in attack.points] == [0, 0.01, 0.02, 0.05, 0.1]
    assert attack.points[-1].score == pytest.approx((0.6, 0.57, 0.63))
    assert attack.points[-1].noise == pytest.approx((0.85, 0.82, 0.88))
    assert attack.axis == "radius, share of an embedding's norm"
    assert attack.end[1] == "at 0.1"
    section = robustness([("smart", attack)])
    assert section.rows == [("PGD on embeddings", "smart", attack)]
    text, _ = checked(report(folder))
    cells = re.findall(r">PGD on embeddings .*?</tr>", text, re.S)[-1]
    assert re.findall(r"<td data-sort[^>]*>([\d.]+)", cells)[:3] == ["90.0", "60.0", "30.0"]
    (drawing,) = section.drawings
    assert "smart, attacked" in drawing.svg
    assert "smart, random noise" in drawing.svg


def test_the_page_shows_every_kind(folder):
    for label, lost in (("", 0.2), ("baseline-1", 0.6)):
        add_embedding(folder, 10 * lost, label)
        add_characters(folder, 60, lost, label)
        add_noise(folder, label, lost)
    text, _ = checked(report(folder))
    for words in ("PGD on embeddings", "character changes", "noise suites", "success rate", "words changed"):
        assert words in text
    assert 'aria-label="PGD on embeddings"' in text
    assert "worst: distractors" in text
    assert "Is the attack more than noise?" in text
    assert "keep numbers" in text
    assert (folder / "plots" / "pgd-on-embeddings.svg").is_file()


def test_the_same_method_on_two_tasks_has_two_curves(folder, tmp_path):
    other = make_run(tmp_path / "cola-smart", plain=(0.5, 0.6, 0.6), task="cola")
    for each in (folder, other):
        add_embedding(each)
    page = Page(find_runs([folder, other]))
    assert [model for _, model, _ in page.robustness.rows] == ["rte: smart", "cola: smart"]
    assert "cola: smart, attacked" in page.robustness.drawings[0].svg


def test_a_broken_summary_names_its_file(folder):
    write(folder, "characters", {"kind": "characters"})
    with pytest.raises(ReportError, match=r"characters.json is no attack's summary"):
        report(folder)


def test_metrics_without_intervals_and_numbers_that_are_none(folder):
    content = summary("pearson", "noise", "noise", metric="pearson", clean={"value": 0.8, "low": None, "high": None})
    points = [{"x": 0.1, "value": 0.7, "low": None, "high": None, "noise": None}]
    write(folder, "noise", content | {"groups": [{"name": "typos", "points": points}]})
    (attack,) = read_run(folder).attacks
    assert attack.end == ((0.7, 0.7, 0.7), "worst: typos")
    checked(report(folder))


def test_a_model_that_had_nothing_right_was_not_attacked(folder):
    nothing = {"value": None, "low": None, "high": None}
    attacked = {
        "accuracy": interval(0.0),
        "success_rate": nothing,
        "skipped": 9,
        "failed": 0,
        "succeeded": 0,
        "queries": 0,
    }
    write(folder, "flips", summary("flips", "flips", "Word flips", clean=interval(0.0), attacked=attacked))
    (attack,) = read_run(folder).attacks
    assert attack.attacked.success_rate is None
    assert attack.end[0][0] == 0.0
    checked(report(folder))


def test_differences_under_attack_are_paired_by_example(folder):
    add_characters(folder, 100, 0.0)
    add_characters(folder, 100, 1.0, "baseline-1")
    (table,) = compare_runs([read_run(folder)])
    (tests,) = under_attack(table).values()
    test = tests["smart"]
    assert (test.count, test.difference) == (100, pytest.approx(0.9))  # a tenth was wrong from the start
    titles = [drawing.title for drawing in comparison_section(table, "run").drawings]
    assert titles == [
        "accuracy: difference from plain",
        "what is gained, and what it costs",
        "character changes: difference from plain",
    ]
    lines = comparison_section(table, "run").lines
    assert [line.attacks for line in lines] == [[0.0], [0.9]]
    rows = folder / "attacks" / "characters-baseline-1.jsonl"
    rows.write_text(rows.read_text().replace("succeeded", "skipped"))  # wrong from the start is no more right
    assert next(iter(under_attack(table).values()))["smart"].difference == pytest.approx(0.9)


def test_a_limited_look_does_not_stand_for_all_rows(folder):
    add_characters(folder, 100, 0.0)
    add_characters(folder, 100, 1.0, "baseline-1")
    content = summary("characters", "characters", "character changes", attacked={"accuracy": interval(0.25)}, rows=7)
    write(folder, "characters-validation-limit-7", content, [{"index": 0, "original": "a", "status": "failed"}])
    (table,) = compare_runs([read_run(folder)])
    lines = comparison_section(table, "run").lines
    assert [line.attacks for line in lines] == [[0.0], [0.9]]
    assert next(iter(under_attack(table).values()))["smart"].count == 100


def test_models_attacked_under_other_budgets_are_not_held_against_each_other(folder, tmp_path):
    other = make_run(tmp_path / "rte-vat", method="vat")
    add_characters(folder, 100, 0.0)
    add_characters(folder, 100, 1.0, "baseline-1")
    add_characters(other, 100, 0.0)
    few = other / "attacks" / "characters.json"
    content = json.loads(few.read_text())
    few.write_text(json.dumps({**content, "settings": {**content["settings"], "queries": 5, "seed": 1}}))
    (table,) = compare_runs(find_runs([folder, other]))
    assert list(next(iter(under_attack(table).values()))) == ["smart"]
    scores = {line.row.name: line.attacks for line in comparison_section(table, "run").lines}
    assert scores == {"plain": [0.0], "smart": [0.9], "vat": [None]}
    notes = Page(find_runs([folder, other])).robustness.notes
    assert any("not every model was attacked with these settings" in note for note in notes)
    few.write_text(json.dumps({**content, "settings": {**content["settings"], "seed": 1}}))
    assert not Page(find_runs([folder, other])).robustness.notes


def test_a_mean_over_seeds_of_different_budgets_is_told(folder):
    for label, queries in (("seed-1", 5), ("seed-2", 200)):
        content = summary("characters", "characters", "typos", label, attacked={"accuracy": interval(0.5)})
        write(folder, f"characters-{label}", {**content, "settings": {"queries": queries}})
    (attack,) = read_run(folder).attacks
    assert attack.notes == ("characters: a mean over seeds under different settings",)


def test_an_attack_on_the_best_model_under_other_settings_is_told_beside_its_seeds(folder):
    for label in ("", "seed-1", "seed-2"):
        write(folder, f"own{label and '-' + label}", summary("own", "search", "Own", label, attacked=None))
    (own,) = [attack for attack in read_run(folder).attacks if attack.key == "own"]
    assert not own.notes
    write(folder, "own", summary("own", "search", "Own", settings={"queries": 999}))
    (own,) = [attack for attack in read_run(folder).attacks if attack.key == "own"]
    assert own.notes == ("own: all seeds are shown; the best model alone under other settings is not",)


def test_other_texts_are_not_paired(folder):
    add_characters(folder, 100, 0.0)
    add_characters(folder, 100, 1.0, "baseline-1", texts=["quite other words"])
    (table,) = compare_runs([read_run(folder)])
    assert under_attack(table) == {}


def test_examples_of_every_outcome_few_enough_for_a_page(folder):
    add_characters(folder, 5000, 0.5)
    shown, total = examples(folder)
    count = len(shown)
    assert total == 5000
    assert count == MOST
    by_status = [each.status for each in shown]
    shares = {"fooled": 0.7, "held": 0.2, "wrong already": 0.1}
    assert {word: by_status.count(word) for word in shares} == {
        w: pytest.approx(s * count, abs=1) for w, s in shares.items()
    }
    numbers = [each.index for each in shown if each.status == "fooled"]
    assert numbers == sorted(numbers)
    assert numbers[-1] > 4900  # from the whole of the rows, not the first


def test_long_texts_are_fewer_but_of_every_outcome(folder):
    add_characters(folder, 500, 0.5, texts=["<b> & " * 300])
    shown, _ = examples(folder)
    assert len(shown) < MOST
    assert sum(each.size for each in shown) < 1.05 * BYTES
    assert {each.status for each in shown} == {"fooled", "held", "wrong already"}


def test_changed_words_are_marked_on_both_sides(folder):
    row = {"index": 3, "status": "succeeded", "label": "pos", "prediction_before": "pos", "prediction_after": "neg"}
    row |= {
        "original": {"a": "the film was good", "b": "so it is"},
        "perturbed": {"a": "the fi1m was go od", "b": "so it is"},
    }
    row |= {"changed": [["a", 1], ["a", 3], ["a", 4]], "queries": 5}
    row |= {"probability_before": 0.9, "probability_after": 0.2}  # of the true label
    write(folder, "characters", summary("characters", "characters", "typos"), [row])
    ((example,), _) = examples(folder)
    first, second = example.texts
    assert first.before == [("the ", False), ("film", True), (" was ", False), ("good", True)]
    assert first.after == [("the ", False), ("fi1m", True), (" was ", False), ("go od", True)]
    assert second.same
    assert second.before == [("so it is", False)]
    assert (example.before, example.after) == ("pos 0.90", "neg (pos 0.20)")


@pytest.mark.parametrize(
    ("before", "after", "gone", "come"),
    [
        ("a b c", "a x c", {1}, {1}),
        ("a b c", "a b c d", set(), {3}),
        ("b c", "a b c", set(), {0}),
        ("a b c d", "a c d", {1}, set()),
        ("a b c d e", "a x c y y e", {1, 3}, {1, 3, 4}),
        ("a a a", "a a", {2}, set()),
        ("", "a", set(), {0}),
        ("w " * 900 + "x", "w " * 901 + "y", set(range(900, 901)), {900, 901}),
        ("p " + "w " * 900 + "x", "q " + "w " * 901 + "y", set(range(902)), set(range(903))),
    ],
)
def test_what_went_and_what_came(before, after, gone, come):
    assert _differences(before.split(), after.split()) == (gone, come)


def test_of_a_long_text_the_words_around_a_change_are_kept(folder):
    words = [f"word{number}" for number in range(2000)]
    changed = [*words[:1500], "OTHER", *words[1501:]]
    row = {"index": 0, "status": "succeeded", "original": {"text": " ".join(words)}}
    row |= {"perturbed": {"text": " ".join(changed)}, "changed": [["text", 1500]]}
    write(folder, "characters", summary("characters", "characters", "typos"), [row])
    ((example,), _) = examples(folder)
    after = example.texts[0].after
    assert ("OTHER", True) in after
    assert after[0][0].startswith("… word1488 ")
    assert sum(len(text) for text, _ in after) < LONGEST


def test_white_space_alone(folder):
    row = {"index": 0, "status": "failed", "original": {"text": "a  b"}, "perturbed": {"text": "a b"}, "changed": []}
    write(folder, "noise", summary("noise", "noise", "noise"), [row])
    ((example,), _) = examples(folder)
    assert example.texts[0].only_spaces


def test_a_line_separator_inside_a_text_ends_no_row(folder):
    row = {"index": 0, "status": "failed", "original": {"text": "a\u2028b"}, "perturbed": {"text": "a\u2028c"}}
    write(folder, "noise", summary("noise", "noise", "noise"), [])
    (folder / "attacks" / "noise.jsonl").write_text(json.dumps(row, ensure_ascii=False) + "\n" + '{"cut')
    assert examples(folder)[1] == 1


def answers(folder, **figures) -> list[str]:
    rows = [{"kind": "train", "arm": "method", "seed": 1, "step": step, **figures} for step in range(4)]
    (folder / "metrics.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    return [check.answer for check in adversarial_checks(read_run(folder))]


def test_is_it_adversarial(folder):
    assert answers(folder, **{"robust/delta_from_gradient": 0.02}) == ["no"]
    assert answers(folder, **{"robust/delta_from_gradient_0": 0.3, "robust/delta_from_gradient_1": 0.5}) == ["partly"]
    assert answers(folder, **{"robust/1/delta_from_gradient": 0.9}) == ["yes"]
    both = {"robust/divergence_perturbation": 0.3, "robust/divergence_dropout": 0.1}
    assert answers(folder, **both) == ["yes"]
    assert answers(folder, **both | {"robust/divergence_dropout": 1.0}) == ["partly"]
    assert answers(folder, **both | {"robust/divergence_perturbation": 1e-6}) == ["no"]
    assert answers(folder, **both | {"robust/divergence_dropout": 0.0}) == ["yes"]
    assert answers(folder, **{"robust/budget": 0.9}) == ["yes"]
    assert answers(folder, **{"robust/budget": 1.0}) == ["no"]
    assert answers(folder, **{"robust/budget": 812.0}) == []  # a number of pairs, not a share
    assert answers(folder, loss=1.0) == []


def test_seeds_that_share_no_strength_have_no_mean(folder):
    """One seed was attacked again with other strengths; the kind of noise that they share is still shown."""
    for label, xs in (("seed-1", (0.1, 0.3)), ("seed-2", (0.2,))):
        groups = [
            {"name": "typos", "points": [{"x": x, **interval(0.9 - x)} for x in xs]},
            {"name": "casing", "points": [{"x": 0.5, **interval(0.7)}]},
        ]
        write(folder, f"noise-{label}", summary("noise", "noise", "noise suites", label, groups=groups))
    (attack,) = read_run(folder).attacks
    assert list(attack.groups) == ["casing"]
    assert attack.end[1] == "worst: casing"
    checked(report(folder))
