"""The demo on a tiny model, its real requests, and the made-up reviews of a first training."""

import json
import re

import numpy as np
import pytest

from toughen.demo import demo, run_demo, sample, sentences
from toughen.demo.run_demo import COLUMNS, REQUESTS, compare, read_requests, verdict
from toughen.demo.sentences import SEEN
from toughen.reports import find_runs

SPLITS = {"train": 30, "validation": 15, "test": 90}
SAY_NOTHING = {"say": lambda line: None}


@pytest.mark.parametrize(("split", "each"), SPLITS.items())
def test_requests_take_turns_and_none_is_in_two_splits(split, each):
    rows, others = read_requests(split), [read_requests(other) for other in SPLITS if other != split]
    kinds = [row["label"] for row in rows[:7]]
    assert len(set(kinds)) == 7
    assert [row["label"] for row in rows] == kinds * each
    texts = {row["text"].lower() for row in rows}
    assert len(texts) > 0.99 * len(rows)
    assert not texts & {row["text"].lower() for other in others for row in other}


def test_all_requests_are_read():
    assert sum(len(read_requests(split)) for split in SPLITS) == REQUESTS.read_text().count("\n") - 1


def judged(text: str) -> str:
    """The label by rules of our own: a word of praise or blame, turned round by a denial."""
    words = text.split()
    liked = any(word in (*SEEN.good, *SEEN.liked) for word in words)
    return "positive" if liked != any(word in SEEN.denials for word in words) else "negative"


def test_reviews_say_what_their_labels_say_but_for_a_tenth(tmp_path):
    rows = sentences.rows(320, "train 0")
    assert len({row["text"] for row in rows}) == 320
    assert all(judged(row["text"]) == row["label"] for row in rows)
    made = sample(tmp_path, rows=320).reviews.read_text().splitlines()[1:]
    assert sum(judged(line.rpartition(",")[0]) != line.rpartition(",")[2] for line in made) == 32
    with pytest.raises(ValueError, match="rows=6000"):
        sentences.rows(6000, "")  # would never end


@pytest.fixture
def no_package(monkeypatch):
    monkeypatch.setattr(run_demo, "PACKAGE", "no_such_package_at_all")


def test_the_demo_runs_on_a_tiny_model(tmp_path, no_package):
    lines: list[str] = []
    answers = demo(tmp_path / "out", seeds=(1, 2), limit=28, say=lines.append)
    text = "\n".join(lines)
    assert "tiny random model takes its place" in text
    assert "Both with seeds 1, 2; a further seed only if" in text
    assert "Scores are means over seeds 1, 2;" in text
    assert [list(each) for each in answers["robust"]] == [list(COLUMNS)] * 2
    page = (tmp_path / "out" / "report.html").read_text()
    for each in compare(answers):
        line = next(line for line in lines if line.startswith(each.name))
        assert re.search(rf"{100 * each.plain:.1f} +{100 * each.robust:.1f} ", line)
        assert (
            f'<th scope="row">{each.name}</th><td>{100 * each.plain:.1f}</td><td>{100 * each.robust:.1f}</td>' in page
        )
    assert "tiny random model takes its place" in page
    assert "Snips benchmark" in page
    assert verdict(compare(answers)) in page
    runs = {run.path.name: run for run in find_runs([tmp_path / "out"])}
    assert {name: run.method for name, run in runs.items()} == {"plain": "plain", "robust": "views+smart"}
    # The numbers are those of the runs' own files.
    rows = [line.split("\t") for line in (runs["plain"].path / "seeds/1/predictions/test.tsv").read_text().splitlines()]
    assert len(rows) == 29
    attack = json.loads((runs["robust"].path / "attacks" / "noise-test-seed-2.json").read_text())
    typos = next(group for group in attack["groups"] if group["name"] == "typos")
    assert typos["points"][1]["value"] == pytest.approx(answers["robust"][1]["typos"].mean())
    shown = [line for line in lines if re.match(r"(typos|obfuscation|clean)  .*[A-Z]\w+  +[A-Z]\w+  +[A-Z]\w+$", line)]
    assert len(shown) in (2, 4, 6)
    for line in shown:  # what is shown as understood is what the attack counted
        kind, label, plain, robust = line.split()[0], *line.split()[-3:]
        assert kind == "clean" or (plain == label) != (robust == label) or plain != label != robust


@pytest.mark.parametrize(
    ("settings", "words"), [({"limit": 7000}, "7 to 210"), ({"limit": 0}, "limit=0"), ({"seeds": ()}, "at least one")]
)
def test_what_the_demo_cannot_do_is_told_at_once(tmp_path, settings, words):
    with pytest.raises(ValueError, match=words):
        demo(tmp_path / "out", **SAY_NOTHING, **settings)


def test_too_slow_a_machine_leaves_seeds_out_and_a_second_demo_replaces_the_first(tmp_path, no_package, monkeypatch):
    monkeypatch.setattr(run_demo, "BUDGET", 0.0)
    lines: list[str] = []
    demo(tmp_path, seeds=(4,), limit=14, **SAY_NOTHING)
    answers = demo(tmp_path, seeds=(1, 2, 3), limit=14, say=lines.append)
    assert {len(each) for each in answers.values()} == {1}
    assert any("left out: seeds 2, 3." in line for line in lines)
    assert any("Scores are of seed 1;" in line for line in lines)
    assert [seed["seed"] for seed in json.loads((tmp_path / "plain" / "results.json").read_text())["seeds"]] == [1]


def answers_of(right, seeds=1):
    return [{name: np.arange(100) < right.get(name, 50) for name in COLUMNS}] * seeds


def test_the_verdict_names_better_worse_and_within_noise():
    scores = compare({"plain": answers_of({}), "robust": answers_of({"typos": 80, "PGD": 20})})
    assert verdict(scores) == (
        "Robust against plain: better beyond noise: typos; worse beyond noise: PGD; within noise: clean, "
        "obfuscation, other words."
    )
    typos = next(each for each in scores if each.name == "typos")
    assert (typos.plain, typos.robust) == (0.5, 0.8)
    assert typos.low < 0.3 < typos.high


@pytest.mark.parametrize("seeds", [1, 3])
def test_seeds_that_answer_alike_are_no_further_evidence(seeds):
    """Rows are drawn, not answers: two seeds over 100 rows are not 200 rows."""
    places = np.arange(100)
    plain, robust = places >= 30, (places < 30) | (places >= 48)  # 30 rows won, 18 lost: within chance
    found = {name: [dict.fromkeys(COLUMNS, right)] * seeds for name, right in (("plain", plain), ("robust", robust))}
    assert all(each.verdict == "within noise" for each in compare(found))
