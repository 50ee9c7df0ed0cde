"""The search for a method: the rule, the rows it may see, and what it leaves."""

import json

import pytest

import toughen
from toughen.errors import DataError, MethodError, UsageError
from toughen.runs import RunFolder
from toughen.runs.errors import RunError
from toughen.runs.launch import launch
from toughen.sweeps import SweepError, trials
from toughen.sweeps.folder import lock_folder
from toughen.sweeps.worker import Event
from toughen.tuning.ladder import THREATS, WORDS, label, ladder, method_rows, parse_methods, plain_rows, threat_named
from toughen.tuning.rule import Candidate, Change, choose

from ..runs.conftest import little as little
from ..tiny import rows, write_csv

SURE, UNSURE, WORSE = Change(0.1, 0.05, 0.15), Change(0.1, -0.05, 0.25), Change(-0.1, -0.15, -0.05)


def candidate(clean=0.8, seconds=1.0, clean_change=UNSURE, robust=0.6, robust_change=SURE):
    return Candidate({}, clean, seconds, clean_change, robust, robust_change)


PLAIN = Candidate({}, 0.8, 1.0, robust=0.5)


def test_the_most_robust_wins():
    less, most = candidate(robust=0.6), candidate(robust=0.7)
    assert choose(PLAIN, [less, most]) is most


def test_below_plain_is_left_out():
    assert choose(PLAIN, [candidate(clean_change=WORSE, robust=0.9)]) is PLAIN


def test_noise_is_no_gain():
    assert choose(PLAIN, [candidate(robust=0.9, robust_change=UNSURE)]) is PLAIN


def test_of_equals_the_cheaper():
    dear, cheap = candidate(seconds=3.0, robust=0.7001), candidate(seconds=2.0, robust=0.7)
    assert choose(PLAIN, [dear, cheap]) is cheap


def test_without_a_threat_the_clean_score_decides():
    plain = Candidate({}, 0.8, 1.0)
    better = candidate(clean=0.9, clean_change=SURE, robust=None, robust_change=None)
    assert choose(plain, [candidate(clean=0.95, robust=None), better]) is better
    assert choose(plain, [candidate(clean=0.95, robust=None)]) is plain


def test_plain_gets_as_many_trials():
    base = plain_rows(10, 2e-5, 3.0)
    assert len({repr(row) for row in base}) == 10
    assert [row["train.epochs"] for row in base] == [3.0] * 8 + [6.0] * 2
    tried = method_rows(3, THREATS["clean"].methods[:2], 5e-5, 3.0)
    assert [(row["method"]["name"], row["train.learning_rate"]) for row in tried] == [
        ("freelb", 5e-5),
        ("r4f", 5e-5),
        ("freelb", 2.5e-5),
    ]


@pytest.mark.parametrize("name", [*THREATS, "all"])
def test_every_method_of_a_ladder_builds(name):
    from toughen.runs.method_config import make_method

    groups = threat_named(name).methods
    assert len({repr(group) for group in groups}) == len(groups) > 4
    for group in groups:
        make_method(group)
        assert parse_methods(label(group)) == [group]


def test_threats_to_texts_are_met_with_edited_texts():
    groups = {name: [label(group) for group in threat_named(name).methods] for name in ("typos", "words", "all")}
    sums = {name: [each for each in some if "+freelb" in each] for name, some in groups.items()}
    assert all("on=both" in each for some in sums.values() for each in some)
    assert sums["typos"][0] == sums["all"][0] == groups["typos"][0] == groups["all"][0]
    assert sums["words"][0].startswith("synonyms+freelb")
    assert {"typos", "views"} <= set(groups["typos"])


def test_words_to_train_with_are_not_those_of_the_attack(tmp_path, monkeypatch):
    """The attack takes neighbours in the model's embedding, the methods a file or WordNet."""
    assert list(WORDS) == ["neighbours"]
    threat, source = threat_named("words"), tmp_path / "words.json"
    source.write_text('{"good": ["fine"]}')
    monkeypatch.setattr("toughen.tuning.ladder.installed_wordnet", lambda: None)
    tried, left_out = ladder(threat, None)
    assert {group["name"] for group in left_out} == {"words", "synonyms", "synonyms+freelb"}
    assert tried == [group for group in threat.methods if group not in left_out]
    tried, left_out = ladder(threat, str(source))
    assert not left_out
    named = [group.get("synonyms") for group in tried[:2]]
    assert named == [{"on": "both", "synonyms": str(source)}, str(source)]
    with pytest.raises(DataError, match=r"gone\.json does not exist"):
        ladder(threat, str(tmp_path / "gone.json"))
    monkeypatch.setattr("toughen.tuning.ladder.installed_wordnet", lambda: tmp_path)
    assert ladder(threat, None) == (list(threat.methods), [])


def test_methods_are_written_as_text():
    assert parse_methods("vat preset=robust; smart+rdrop smart.weight=2") == [
        {"name": "vat", "preset": "robust"},
        {"name": "smart+rdrop", "smart": {"weight": 2}},
    ]
    with pytest.raises(UsageError, match="methods: 'robust'"):
        parse_methods("vat robust")
    with pytest.raises(ValueError, match="smrt"):
        parse_methods("smrt")


class InProcess:
    """A worker that trains in this process."""

    def __init__(self, limits):
        self.limits = limits

    def start(self, folder):
        self.folder = folder
        try:
            launch(RunFolder(folder))
        except DataError as error:
            trials.note_attempt(folder, str(error), last=True)

    def poll(self):
        now = trials.outcome(self.folder, self.limits.metric)
        return Event(now.state, now.iteration, now.score, now.error or "")

    def stop(self):
        pass

    close = stop


@pytest.fixture
def data(little, tmp_path):
    return {
        "train_file": str(write_csv(tmp_path / "train.csv", rows(160))),
        "validation_file": str(write_csv(tmp_path / "dev.csv", rows(20, seed=1))),
        "cache_dir": str(tmp_path / "cache"),
    }


@pytest.fixture
def tune(little, data, tmp_path, monkeypatch):
    monkeypatch.setattr("toughen.sweeps.api.Worker", InProcess)
    monkeypatch.setattr("toughen.runs.launch.write_page", lambda *_: None)

    def run(name="tune", **changes):
        options = {"data": data, "train": {**little.train, "epochs": 1}, "selection_share": 0.4, "engine": "serial"}
        given = {"model": little.model, "threat": "embedding", "trials": 3, "methods": "freelb max_norm=0.01; vat"}
        return toughen.tune(output_dir=tmp_path / name, **{**options, **given, **changes})

    return run


def test_a_search(tune, data, tmp_path, capsys):
    done = tune()
    held = json.loads((tmp_path / "tune/plain/trials/001-seed1/began.json").read_text())["rows"]
    assert held == {"train": 96, "validation": 64}
    kept = json.loads((tmp_path / "tune/selection.json").read_text())["candidates"]
    assert [each["settings"]["method"]["name"] for each in kept] == ["plain", "freelb"]
    assert done.lines[0].name == "plain"
    assert done.sentence in capsys.readouterr().out
    assert done.config.model
    assert not done.config.data.select_on_train
    final = json.loads((tmp_path / "tune/final/plain/began.json").read_text())["rows"]
    assert final == {"train": 160, "validation": 20}

    # Nothing runs twice when it goes on.
    before = (tmp_path / "tune/plain/trials/001-seed1/results.json").stat().st_mtime_ns
    again = toughen.tune(resume=tmp_path / "tune", engine="serial")
    assert again == done
    assert (tmp_path / "tune/plain/trials/001-seed1/results.json").stat().st_mtime_ns == before

    # Development and test rows that say the opposite change nothing of the selection.
    flipped = [{**row, "label": {"pos": "neg", "neg": "pos"}[row["label"]]} for row in rows(20, seed=1)]
    poisoned = str(write_csv(tmp_path / "poison.csv", flipped))
    tune("other", data={**data, "validation_file": poisoned, "test_file": poisoned})
    first, second = (json.loads((tmp_path / name / "selection.json").read_text()) for name in ("tune", "other"))
    for each in (*first["candidates"], *second["candidates"]):
        each.pop("seconds")
    assert first == second


def test_refusals(tune, data, tmp_path):
    with pytest.raises(RunError, match="selection rows are too few"):
        tune(selection_share=0.1)
    assert not (tmp_path / "tune").exists()
    with pytest.raises(UsageError, match="trials=1"):
        tune(trials=1)
    with pytest.raises(UsageError, match=r"threat='typo'.*typos"):
        tune(threat="typo")
    with pytest.raises(MethodError, match="max_nrm"):
        tune(methods="freelb max_nrm=0.01")
    with pytest.raises(UsageError, match="synonyms: of the threat's own list"):
        tune(synonyms="words.json")
    amounts = [{**row, "label": str(number / 10)} for number, row in enumerate(rows(160))]
    numbers = {name: str(write_csv(tmp_path / f"{name}.csv", amounts)) for name in ("train_file", "validation_file")}
    with pytest.raises(DataError, match="neighbours"):
        tune(threat="words", data={**data, **numbers})
    assert not (tmp_path / "tune").exists()
    with pytest.raises(RunError, match=r"no tune\.yaml"):
        toughen.tune(resume=tmp_path)
    (tmp_path / "full").mkdir()
    (tmp_path / "full/mine.txt").write_text("mine")
    with pytest.raises(RunError, match="already exists; choose another --output_dir"):
        tune("full")


def test_methods_that_all_fail_are_no_reason_for_plain_training(tune, tmp_path, monkeypatch):
    """The error names the cause, and what is done stays: the search goes on once the cause is gone."""
    source = tmp_path / "words.json"
    with pytest.raises(RunError, match=r"methods: no method trained; .*words\.json does not exist"):
        tune(threat="clean", trials=2, methods=[{"name": "synonyms", "synonyms": str(source)}])
    assert not (tmp_path / "tune/final").exists()
    source.write_text('{"film": ["movie"], "movie": ["film"]}')
    before = (tmp_path / "tune/plain/trials/001-seed1/results.json").stat().st_mtime_ns
    assert toughen.tune(resume=tmp_path / "tune", engine="serial").lines[0].name == "plain"
    assert (tmp_path / "tune/plain/trials/001-seed1/results.json").stat().st_mtime_ns == before


def test_two_at_once_are_refused(tune, tmp_path):
    tune(threat="clean", methods="vat", trials=2)
    lock = lock_folder(tmp_path / "tune")
    try:
        with pytest.raises(SweepError, match="is being run already"):
            toughen.tune(resume=tmp_path / "tune")
    finally:
        lock.close()


def test_minutes_end_the_search(tune, tmp_path, capsys):
    done = tune(threat="clean", minutes=1e-6, trials=6)
    assert len(json.loads((tmp_path / "tune/selection.json").read_text())["candidates"]) == 2
    assert done.lines
