"""The demo's grammar, and the demo itself on a tiny model."""

import json
import random
import re

import numpy as np
import pytest

from toughen.demo import demo, encoder, run_demo, sentences
from toughen.demo.run_demo import compare_with_plain
from toughen.demo.sentences import SEEN, UNSEEN
from toughen.reports import compare_runs, find_runs

DATA = sentences.make_splits()


def test_the_same_seed_gives_the_same_rows():
    assert sentences.make_splits() == DATA
    assert sentences.make_splits(seed=1) != DATA
    assert {name: len(rows) for name, rows in DATA.items()} == {"train": 320, **dict.fromkeys(sentences.SPLITS, 200)}


@pytest.mark.parametrize("split", list(DATA))
def test_classes_are_even_and_no_text_comes_twice(split):
    rows = DATA[split]
    assert len({row["text"] for row in rows}) == len(rows)
    assert abs(sum(row["label"] == "positive" for row in rows) - len(rows) / 2) <= 0.1 * len(rows)


def judged(text: str) -> str:
    """The label by rules of our own: a word of praise or blame, turned round by a denial."""
    opinion = re.split(r" \. ", text)[-1]
    tokens = re.findall(r"\w+", opinion)
    praise = {*SEEN.good, *SEEN.liked, *UNSEEN.good, *UNSEEN.liked}
    liked = any(word in praise for word in tokens)
    denied = any(re.search(rf"\b{denial}\b", opinion) for denial in (*SEEN.denials, *UNSEEN.denials))
    return "positive" if liked != denied else "negative"


@pytest.mark.parametrize("split", ["clean", "new words", "negation", "longer", "distractors"])
def test_labels_say_what_the_sentence_says(split):
    assert all(judged(row["text"]) == row["label"] for row in DATA[split])


def test_a_tenth_of_the_training_labels_are_wrong():
    assert sum(judged(row["text"]) != row["label"] for row in DATA["train"]) == 32


def test_splits_hold_out_what_they_say():
    seen = {word for row in DATA["train"] for word in row["text"].split()}
    assert not seen & {*UNSEEN.good, *UNSEEN.bad, *UNSEEN.liked, *UNSEEN.hated}
    assert not any(denial in row["text"] for row in DATA["train"] for denial in UNSEEN.denials)
    texts = {row["text"] for row in DATA["train"]}
    assert not any(texts & {row["text"] for row in DATA[split]} for split in sentences.SPLITS)
    mean = {name: sum(len(row["text"].split()) for row in rows) / len(rows) for name, rows in DATA.items()}
    assert mean["longer"] > 2.5 * mean["clean"]
    assert all(any(denial in row["text"] for denial in UNSEEN.denials) for row in DATA["negation"])


def test_a_typo_changes_one_place_of_a_long_word():
    rng = random.Random(0)
    for word in (*SEEN.good, *SEEN.bad):
        slipped = sentences.mistyped(rng, word, True)
        assert slipped[0] == word[0]
        assert abs(len(slipped) - len(word)) <= 1
        assert (slipped != word) == (len(word) > 3)


@pytest.fixture
def no_package(monkeypatch):
    monkeypatch.setattr(encoder, "PACKAGE", "no_such_package_at_all")


def test_the_demo_runs_on_a_tiny_model(tmp_path, no_package):
    lines: list[str] = []
    arms = demo(tmp_path / "out", seeds=(1, 2), limit=48, say=lines.append)
    text = "\n".join(lines)
    assert "tiny random model takes its place" in text
    assert "synthetic" in text
    assert "plain, smart, freelb, each with seeds 1, 2; a further seed only if" in text
    assert "All scores are means over seeds 1, 2." in text
    assert [list(each) for each in arms["smart"]] == [list(sentences.SPLITS)] * 2
    assert re.search(r"method +clean +new words +negation +typos +longer +distractors +cost", text)
    assert re.search(r"plain .* 1\.0x", text)
    page = (tmp_path / "out" / "report.html").read_text()
    assert "tiny random model takes its place" in page
    assert "All texts are synthetic" in page
    runs = find_runs([tmp_path / "out"])
    assert sorted(run.method for run in runs) == ["freelb", "plain", "smart"]
    (found,) = compare_runs(runs)
    assert [row.cost["forward"] for row in found.rows if row.name != "plain"] == [3.0, 3.0]
    assert all(row.over_rows for row in found.rows[1:])
    split = json.loads((tmp_path / "out" / "smart" / "evaluations" / "typos.json").read_text())
    assert split["metrics"]["accuracy"]["value"] == pytest.approx(np.mean([seed["typos"] for seed in arms["smart"]]))


@pytest.mark.parametrize(
    ("settings", "words"), [({"limit": 7000}, "2 to 5000"), ({"limit": 0}, "limit=0"), ({"seeds": ()}, "at least one")]
)
def test_what_the_demo_cannot_do_is_told_at_once(tmp_path, settings, words):
    """There are about 6000 sentences: to look for 7000 different ones would never end."""
    with pytest.raises(ValueError, match=words):
        demo(tmp_path / "out", say=lambda line: None, **settings)


def test_too_slow_a_machine_leaves_seeds_out(tmp_path, no_package, monkeypatch):
    monkeypatch.setattr(run_demo, "BUDGET", 0.0)
    lines: list[str] = []
    arms = demo(tmp_path, seeds=(1, 2, 3), limit=16, say=lines.append)
    assert {len(each) for each in arms.values()} == {1}
    assert any("left out: seeds 2, 3." in line for line in lines)
    assert "All scores are of seed 1." in lines
    assert "All scores are of seed 1." in (tmp_path / "report.html").read_text()
    assert [seed["seed"] for seed in json.loads((tmp_path / "plain" / "results.json").read_text())["seeds"]] == [1]


def test_the_verdict_names_better_and_worse():
    def answers(right):
        return [{split: np.arange(100) < right.get(split, 50) for split in sentences.SPLITS}]

    found = {"plain": answers({}), "smart": answers({"typos": 80, "longer": 20})}
    assert compare_with_plain("smart", found) == (
        "smart against plain, these models on these rows: more right of typos (+0.300) and fewer right of longer "
        "(-0.300); no clear difference elsewhere."
    )
    assert "no split differs" in compare_with_plain("smart", {"plain": found["plain"], "smart": found["plain"]})


@pytest.mark.parametrize("seeds", [1, 3])
def test_seeds_that_answer_alike_are_no_further_evidence(seeds):
    """Rows are drawn, not answers: two seeds over 100 rows are not 200 rows."""
    places = np.arange(100)
    plain, smart = places >= 30, (places < 30) | (places >= 48)  # 30 rows won, 18 lost: within chance
    found = {
        name: [dict.fromkeys(sentences.SPLITS, right)] * seeds for name, right in (("plain", plain), ("smart", smart))
    }
    assert "no split differs" in compare_with_plain("smart", found)


def test_a_second_demo_replaces_the_first(tmp_path, no_package):
    for seed in (1, 2):
        demo(tmp_path, seeds=(seed,), limit=16, say=lambda line: None)
        results = json.loads((tmp_path / "freelb" / "results.json").read_text())
        assert [each["seed"] for each in results["seeds"]] == [seed]
