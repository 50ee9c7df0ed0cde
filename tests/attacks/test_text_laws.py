"""What must be true of every attack on texts."""

import json
import math
from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from transformers import AutoConfig, AutoModelForMaskedLM

from toughen.attacks import runner as journal_module
from toughen.attacks import text_attack as texts_module
from toughen.attacks import victim as victim_module
from toughen.attacks.base import attack_classes
from toughen.attacks.runner import Journal, read_records
from toughen.attacks.text_attack import TextAttack
from toughen.attacks.text_search import query_margins, run_all
from toughen.attacks.victim import LabelScorer, Victim
from toughen.evaluation import AttackSettings, Budget, Target, make_attacks, run_attack
from toughen.tasks.calibration import fit_temperature
from toughen.tasks.spec import DataError, Task

from ..tiny import NO_DROPOUT, SMALL, TOKENIZER
from .little_target import TASK, model, said, sentences, target

NAMES = [name for name, attack in attack_classes().items() if issubclass(attack, TextAttack)]


@pytest.fixture(scope="module")
def synonyms(tmp_path_factory):
    words = sorted({word for text in sentences() for word in text.split()})
    table = {word: [words[(place + step) % len(words)] for step in (1, 7, 31)] for place, word in enumerate(words)}
    path = tmp_path_factory.mktemp("synonyms") / "synonyms.json"
    path.write_text(json.dumps(table))
    return path


@pytest.fixture(scope="module", autouse=True)
def sources(tmp_path_factory):
    """Files that some attacks ask for: misspellings, a masked language model, and a judge."""
    home = tmp_path_factory.mktemp("sources")
    words = [f"w{number}" for number in range(5, 100)]
    lines = [f"{word} {words[place - 3]} {word}x" for place, word in enumerate(words)]
    (home / "misspellings.txt").write_text("\n".join(lines))
    torch.manual_seed(0)
    config = AutoConfig.for_model("bert", **{**SMALL, **NO_DROPOUT})
    AutoModelForMaskedLM.from_config(config).save_pretrained(home / "masked_lm")
    TOKENIZER.save_pretrained(home / "masked_lm")
    judge = str(home / "masked_lm")  # without its head
    SOURCES.update(lexicon=home / "misspellings.txt", masked_lm=judge, judge=judge, similarity=0.6)


SOURCES = {}
ONE_WORD = ("homoglyph", "leet", "zero_width", "double")  # `spaced` makes several words of one


def attacked(name, synonyms, victims=None, home=None, queries=60, words=0.5, keep=(), **changes):
    changes = {**SOURCES, "obfuscations": ONE_WORD, **changes}
    settings = AttackSettings(budget=Budget(queries, words), keep=keep, synonyms=synonyms, **changes)
    (attack,) = make_attacks(name, settings)
    return run_attack(attack, victims or target(), home=home)


def rows_of(home, name):
    return [json.loads(line) for line in (home / "attacks" / f"{name}.jsonl").read_text().splitlines()]


@pytest.mark.parametrize("name", NAMES)
def test_more_budget_breaks_more_and_mends_nothing(name, synonyms):
    victims = target()
    for budgets in ([{"queries": q} for q in (0, 3, 12, 40, 200)], [{"words": w} for w in (0.0, 0.1, 0.4, 1.0)]):
        before = None
        for budget in budgets:
            found = attacked(name, synonyms, victims, **{"queries": 200, "words": 1.0, **budget})
            right = found.outcomes["after"].rows
            if before is None:
                assert sum(right) == round(found.summary.clean.value * len(right))  # nothing spent, nothing lost
            else:
                assert all(was or not now for was, now in zip(before, right, strict=True)), budget
            before = right
        assert sum(before) < 10, "the largest budget should break most of 24"


@pytest.mark.parametrize("name", NAMES)
def test_what_is_written_down_holds(name, synonyms, tmp_path):
    victims = target()
    budget = Budget(60, 0.5)
    found = attacked(name, synonyms, victims, home=tmp_path)
    rows = rows_of(tmp_path, name)
    assert [row["index"] for row in rows] == list(range(24))
    for row in rows:
        before, after = row["original"]["text"], row["perturbed"]["text"]
        wrong = victims.rows[row["index"]]["label"] != said(victims.victim.model, before)
        assert (row["status"] == "skipped") == wrong
        # fed again, by hand and one by one
        assert victims.task.labels[said(victims.victim.model, before)] == row["prediction_before"]
        assert victims.task.labels[said(victims.victim.model, after)] == row["prediction_after"]
        if row["status"] == "skipped":
            assert (after, row["queries"], row["changed"]) == (before, 0, [])
            continue
        assert (row["prediction_after"] != row["label"]) == (row["status"] == "succeeded")
        assert row["queries"] <= budget.queries
        old, new = before.split(), after.split()
        assert len(old) == len(new)
        differing = [["text", place] for place in range(len(old)) if old[place] != new[place]]
        assert differing == row["changed"]
        assert len(differing) <= math.ceil(budget.words * len(old))
        assert row["words_changed"] == pytest.approx(len(differing) / len(old))
    told = found.summary.attacked
    counts = {status: sum(row["status"] == status for row in rows) for status in ("skipped", "failed", "succeeded")}
    assert {key: getattr(told, key) for key in counts} == counts
    assert counts["skipped"] == 4
    assert counts["succeeded"] > 5
    assert told.accuracy.value == counts["failed"] / 24
    assert told.success_rate.value == counts["succeeded"] / 20
    assert told.queries == pytest.approx(sum(row["queries"] for row in rows) / 20)
    shares = [row["words_changed"] for row in rows if row["status"] == "succeeded"]
    assert told.words_changed == pytest.approx(sum(shares) / len(shares))
    assert told.examples == f"attacks/{name}.jsonl"
    written = json.loads((tmp_path / "attacks" / f"{name}.json").read_text())
    assert written["attacked"]["accuracy"] == told.accuracy.to_dict()
    assert written["kind"] == written["attack"] == name


@pytest.mark.parametrize("name", NAMES)
def test_words_that_must_stay_do(name, synonyms, tmp_path):
    found = attacked(name, synonyms, home=tmp_path, keep=("numbers",))  # every word here has a number in it
    assert found.summary.attacked.succeeded == 0
    assert all(row["original"] == row["perturbed"] for row in rows_of(tmp_path, name))


class Killed(Exception):
    pass


@pytest.mark.parametrize("name", ["characters", "flips", "bert_attack"])
def test_a_killed_attack_goes_on_and_ends_the_same(name, synonyms, tmp_path, monkeypatch):
    whole = attacked(name, synonyms, home=tmp_path / "whole")
    waves = []

    def killing(*arguments):
        for ended in run_all(*arguments, parallel=4):
            waves.append(len(ended))
            yield ended
            if sum(waves) >= 8:
                raise Killed

    monkeypatch.setattr(texts_module, "run_all", killing)
    with pytest.raises(Killed):
        attacked(name, synonyms, home=tmp_path / "again")
    part = tmp_path / "again" / "attacks" / f"{name}.jsonl.part"
    done = len(part.read_text().splitlines()) - 1
    assert 8 <= done < 24
    with part.open("a") as file:
        file.write('{"index": 99, "sta')  # what a kill in the middle of a line leaves

    searched = []

    def counting(victim, searches):
        searches = list(searches)
        searched.append(len(searches))
        return run_all(victim, searches)

    monkeypatch.setattr(texts_module, "run_all", counting)
    again = attacked(name, synonyms, home=tmp_path / "again")
    assert searched == [24 - done]
    assert not part.exists()
    one, two = ((tmp_path / folder / "attacks" / f"{name}.jsonl").read_text() for folder in ("whole", "again"))
    assert [approximate(line) for line in one.splitlines()] == [approximate(line) for line in two.splitlines()]
    assert again.summary.attacked == whole.summary.attacked


def ids_of(row):
    return TOKENIZER(row["perturbed"]["text"])["input_ids"]


def approximate(line):
    """Batches of other sizes round differently in the last place, and of two unknown words either may come first."""
    row = json.loads(line)
    row["perturbed"] = ids_of(row)
    return {key: round(value, 4) if isinstance(value, float) else value for key, value in row.items()}


def test_a_finished_attack_is_read_again_and_other_settings_start_anew(synonyms, tmp_path):
    first = attacked("characters", synonyms, home=tmp_path)
    victims = target()
    victims.victim.passed = 0
    again = attacked("characters", synonyms, victims, home=tmp_path)
    assert victims.victim.passed == 0
    assert again.summary == first.summary
    assert again.outcomes == first.outcomes
    other = attacked("characters", synonyms, victims, home=tmp_path, queries=2)
    assert victims.victim.passed > 0
    assert other.summary.attacked.queries <= 2
    assert other.summary.notes == ["20 of 20 searches ended because their 2 queries were spent"]


def test_a_kill_between_rows_and_summary_loses_nothing_and_mixes_no_settings(synonyms, tmp_path, monkeypatch):
    first = attacked("characters", synonyms, home=tmp_path)
    with monkeypatch.context() as patch:
        patch.setattr("toughen.attacks.runner.AttackSummary", lambda **_: pytest.fail("killed"))
        with pytest.raises(pytest.fail.Exception):
            attacked("characters", synonyms, home=tmp_path, queries=2)
    victims = target()
    victims.victim.passed = 0
    assert attacked("characters", synonyms, victims, home=tmp_path, queries=2).summary.attacked.queries <= 2
    assert victims.victim.passed == 0  # all examples were done, and none is done again
    again = attacked("characters", synonyms, home=tmp_path)
    assert again.summary.attacked == first.summary.attacked
    assert not list((tmp_path / "attacks").glob("*.part"))


def test_an_unfinished_attack_of_other_settings_is_not_gone_on_with(tmp_path):
    file = tmp_path / "x.jsonl"
    journal = Journal(file, "one")
    journal.add([{"index": 3, "a": "é"}, {"index": 1}])
    assert Journal(file, "one").missing(4) == [0, 2]
    other = Journal(file, "two")
    assert other.missing(4) == [0, 1, 2, 3]
    other.add([{"index": 0, "b": 1}])
    assert Journal(file, "two").missing(4) == [1, 2, 3]  # nor is it taken for one of the settings before
    assert other.finish() == [{"index": 0, "b": 1}]
    other.close()
    assert read_records(file) == [{"index": 0, "b": 1}]
    assert [path.name for path in tmp_path.iterdir()] == ["x.jsonl"]


@pytest.mark.parametrize("half", ['{"index": 2', '{"index": 2}'])
def test_rows_are_on_the_disk_at_once_and_half_a_line_does_not_spoil_the_next(tmp_path, monkeypatch, half):
    file, synced, fsync = tmp_path / "x.jsonl", [], journal_module.os.fsync
    monkeypatch.setattr(journal_module.os, "fsync", lambda number: synced.append(fsync(number)))
    journal = Journal(file, "one")
    journal.add([{"index": 0}])
    part = tmp_path / "x.jsonl.part"
    assert part.read_text() == '{"key": "one"}\n{"index": 0}\n'
    assert synced
    with part.open("a") as out:
        out.write(half)
    again = Journal(file, "one")
    assert again.missing(3) == [1, 2]
    again.add([{"index": 1}])
    assert Journal(file, "one").missing(3) == [2]


def test_other_rows_labels_lengths_or_numbers_are_another_attack(tmp_path):
    own = target(4)
    rows = [{**row, "text": row["text"] + " w9"} for row in own.rows]
    short = Victim(own.victim.model, TOKENIZER, TASK, max_length=8)
    others = (
        own,
        replace(own, rows=rows),
        replace(own, labels=(own.labels + 1) % 3),
        replace(own, victim=short),
        target(4, precision="bf16"),
    )
    (attack,) = make_attacks("noise", AttackSettings(strengths=(1.0,), noise=("contractions",)))
    assert len({run_attack(attack, each, home=tmp_path).summary.key for each in others}) == len(others)


@pytest.mark.parametrize(("lead", "changes"), [(-1.0, 1), (0.5, 0), (2.0, 1)])
def test_float32_has_the_last_word(lead, changes, monkeypatch):
    """A search in half precision is believed only where the exact pass says so, and by more than a tie."""
    victims = target(4, precision="bf16")
    (attack,) = make_attacks("characters", AttackSettings(keep=()))
    state = attack._state(victims, 0, lambda word: False)
    state.apply({state.text.positions[0]: "other"}, 0.1)
    assert state.success
    logits = np.zeros((1, 3))
    logits[0, (state.label + 1) % 3] = lead * victims.tie
    logits[0, (state.label + 2) % 3] = -9
    monkeypatch.setattr(victims.victim, "exact", lambda rows: logits)
    (row,) = attack._records(victims, [state])
    assert row["status"] == ("succeeded" if lead > 1 else "failed")
    assert len(row["changed"]) == changes
    assert (row["prediction_after"] == row["label"]) == (row["status"] == "failed")


def test_half_precision_proposes_and_float32_decides():
    """Of each query the best of half precision, all its equals and all that look wrong are asked again."""
    half = {"a": -3.0, "b": -2.0, "c": -2.0, "d": 1.0, "e": 0.5, "f": -9.0, "g": -1.0, "h": -1.5}
    exact = {"b": -2.5, "c": -1.9, "d": -4.0, "e": 0.1, "g": -2.0, "h": -1.6}
    asked = []

    def answers(table, rows):
        return np.array([[0.0, table[row["text"]]] for row in rows])

    def ask_exactly(rows):
        asked.append([row["text"] for row in rows])
        return answers(exact, rows)

    task = Task("two", "two", "sentence", "classes", ("text",), ("a", "b"))
    victim = SimpleNamespace(
        half=True, scorer=LabelScorer(task), scores=lambda rows: answers(half, rows), exact=ask_exactly
    )
    queries = [([{"text": text} for text in texts], 0) for texts in ("abc", "def", "", "gh")]
    assert query_margins(victim, queries) == [[-3.0, -2.5, -1.9], [-4.0, 0.1, -9.0], [], [-2.0, -1.6]]
    assert asked == [list("bcdeg"), ["h"]]  # h is the best once g is known


@pytest.mark.parametrize("scale", [50.0, 0.02])
@pytest.mark.parametrize("name", NAMES)
def test_the_scale_of_the_logits_changes_nothing(name, scale, synonyms, tmp_path):
    """Confidence is no robustness (Raina et al. 2024): the same predictions, the same outcome."""
    scaled = model()
    with torch.no_grad():
        for parameter in scaled.classifier.parameters():
            parameter *= scale
    plain, other = target(), target(net=scaled)
    assert other.temperature == pytest.approx(scale * plain.temperature, rel=1e-3)
    assert other.tie == pytest.approx(scale * plain.tie, rel=1e-3)
    for home, victims in ((tmp_path / "plain", plain), (tmp_path / "scaled", other)):
        attacked(name, synonyms, victims, home=home)
    for one, two in zip(rows_of(tmp_path / "plain", name), rows_of(tmp_path / "scaled", name), strict=True):
        assert [one[key] for key in SAME] == [two[key] for key in SAME]
        assert ids_of(one) == ids_of(two)


SAME = ("status", "prediction_before", "prediction_after", "queries", "words_changed")


def test_the_temperature_is_the_likeliest_and_finite_where_all_is_right():
    leads = np.array([3.0, 1.0, 0.5, 2.0, -0.7, 4.0])
    fitted = fit_temperature(leads)
    padded = np.append(leads, (np.median(np.abs(leads)), -np.median(np.abs(leads))))

    def loss(temperature):
        return np.logaddexp(0, -padded / temperature).sum()

    assert loss(fitted) < min(loss(0.99 * fitted), loss(1.01 * fitted))
    for other in (np.abs(leads), -leads, np.ones(3), np.linspace(1, 2, 50)):
        assert 0 < fit_temperature(other) < np.inf
        assert fit_temperature(50 * other) == pytest.approx(50 * fit_temperature(other))
    assert fit_temperature([0.0, 0.0]) == fit_temperature([]) == 1.0


def test_a_model_that_draws_at_test_time_is_refused():
    victims = target(4, net=model(hidden_dropout_prob=0.3))
    (attack,) = make_attacks("characters", AttackSettings())
    run_attack(attack, victims)
    victims.victim.model.train()
    with pytest.raises(DataError, match=r"two answers.*eval\(\)"):
        run_attack(attack, victims)


def test_a_label_that_classes_are_folded_onto_is_all_of_them():
    scorer = LabelScorer(Task("two", "two", "sentence", "classes", ("text",), ("yes", "no"), class_map=(0, 1, 1)))
    logits = np.log([0.4, 0.25, 0.35])
    assert [scorer.predicted_class(logits[order]) for order in ([0, 1, 2], [1, 0, 2], [2, 1, 0])] == [0, 1, 1]
    assert [scorer.probability(logits, label) for label in (0, 1)] == pytest.approx([0.4, 0.6])
    lead = math.log(0.4 / 0.35)
    assert [scorer.margin(logits, label) for label in (0, 1)] == pytest.approx([-lead, lead])


def test_only_the_columns_that_were_named_are_changed():
    pair = Task("pair", "pair", "pair", "classes", ("premise", "hypothesis"), ("a", "b"))
    row = {"premise": "one two", "hypothesis": "three", "label": 0}
    victim = SimpleNamespace(scorer=LabelScorer(pair), task=pair)
    victims = Target(victim, [row], np.eye(2), [0])
    for columns, free in ((("hypothesis",), 1), ((), 3)):
        (attack,) = make_attacks("characters", AttackSettings(columns=columns))
        state = attack._state(victims, 0, lambda word: False)
        assert list(state.text.positions) == [("premise", 0), ("premise", 1), ("hypothesis", 0)][-free:]


def test_answers_that_are_kept_make_room_and_long_texts_make_small_batches(monkeypatch):
    victims = target(6)
    rows, victim = victims.rows, victims.victim
    monkeypatch.setattr(victim_module, "_CACHE_SIZE", 3)
    for some in (slice(0, 2), slice(1, 5), slice(0, 6)):
        np.testing.assert_allclose(victim.scores(rows[some]), victims.logits[some], atol=1e-5)
    long = Victim(model(), TOKENIZER, TASK, max_length=64, batch_size=4)
    rows = [{"text": " ".join(["w7"] * count)} for count in (62, 5, 62, 5, 62)]
    assert [sorted(positions) for positions, _ in long.batches(rows)] == [[1, 3], [0, 2], [4]]


def test_half_precision_reports_only_what_float32_says(synonyms, tmp_path):
    victims = target(precision="bf16")
    assert victims.victim.half
    np.testing.assert_array_equal(victims.logits, target().logits)
    assert not np.array_equal(victims.victim.scores(victims.rows), victims.logits)
    attacked("characters", synonyms, victims, home=tmp_path)
    for row in rows_of(tmp_path, "characters"):
        answer = said(victims.victim.model, row["perturbed"]["text"])
        assert victims.task.labels[answer] == row["prediction_after"]


def test_each_text_is_asked_once(synonyms):
    victims = target()
    rows = [dict(victims.rows[0])] * 5
    victims.victim.passed = 0
    assert len(victims.victim.scores(rows)) == 5
    victims.victim.scores(rows)
    assert victims.victim.passed == 1


@pytest.mark.parametrize("head", ["regression", "multilabel", "tokens"])
def test_tasks_without_a_class_are_refused(head, synonyms):
    labels = () if head == "regression" else ("a", "b")
    metric = {"regression": "pearson", "multilabel": "f1_micro", "tokens": "token_accuracy"}[head]
    column = "tokens" if head == "tokens" else "text"
    task = Task("other", "other", "sentence", head, (column,), labels, (metric,))
    (attack,) = make_attacks("characters", AttackSettings())
    with pytest.raises(DataError, match="class changes; 'other' is"):
        attack.check(task)


def test_bad_settings_are_told_in_a_line(synonyms):
    with pytest.raises(DataError, match=r"attack: there is no 'charcters'. Did you mean 'characters'"):
        make_attacks("charcters", AttackSettings())
    with pytest.raises(DataError, match=r"keep: there is no 'stopword'"):
        make_attacks("characters", AttackSettings(keep=("stopword",)))
    with pytest.raises(DataError, match=r"edits: there is no 'swop'. Did you mean 'swap'"):
        make_attacks("characters", AttackSettings(edits=("swop",)))
    with pytest.raises(DataError, match="not a share"):
        Budget(words=30)
    with pytest.raises(DataError, match="no budget"):
        Budget(queries=-1)
    (attack,) = make_attacks("characters", AttackSettings(columns=("hypothesis",)))
    with pytest.raises(DataError, match="no text column 'hypothesis'; it has text"):
        attack.check(target(3).task)
    (attack,) = make_attacks("characters", AttackSettings(columns=("choices",)))
    with pytest.raises(DataError, match="'choices' is a list"):
        attack.check(Task("x", "x", "choices", "choices", ("context", "question", "choices"), ("0", "1")))
    with pytest.raises(DataError, match="candidates=0: give at least 1"):
        make_attacks("neighbours", AttackSettings(candidates=0))
    with pytest.raises(DataError, match=r"'candidate'\..* 'candidates'"):
        AttackSettings(candidate=3)
    with pytest.raises(DataError, match="--masked_lm"):
        make_attacks("bert_attack")
    with pytest.raises(DataError, match=r"masked_lm: \./none is no folder"):
        make_attacks("bert_attack", AttackSettings(masked_lm="./none"))
    with pytest.raises(DataError, match="similarity=2"):
        make_attacks("textfooler", AttackSettings(synonyms=synonyms, similarity=2))
    with pytest.raises(DataError, match="--lexicon"):
        make_attacks("misspellings")
    with pytest.raises(DataError, match="--lexicon"):
        make_attacks("noise", AttackSettings(noise=("misspellings",)))
    assert len(make_attacks("all", AttackSettings(synonyms=synonyms, **SOURCES))) == 12
