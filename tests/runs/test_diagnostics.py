"""What a run keeps of its adversary and its head, and that nothing of it can end a run."""

import json

import pytest

from toughen.reports import report
from toughen.runs import diagnostics
from toughen.runs import train_seed as single
from toughen.runs.api import resume

pytestmark = pytest.mark.usefixtures("no_page")
SHORT = {"batch_size": 8, "learning_rate": 3e-3, "max_steps": 4, "log_steps": 2}


def kept(run, name: str, arm: str = "seeds"):
    file = run.path / arm / "1" / "diagnostics" / f"{name}.json"
    return json.loads(file.read_text()) if file.is_file() else None


def test_masks_of_the_adversary(start):
    run = start("asa", train=SHORT, baseline=True)
    told = kept(run, "attention")
    assert set(told["hidden_by_layer"]) == {"0", "1"}
    assert told["layer"] == int(max(told["hidden_by_layer"], key=told["hidden_by_layer"].get))
    assert 0 < max(told["hidden_by_layer"].values()) < 0.3  # about a tenth, after four steps
    assert len(told["texts"]) == diagnostics.SHOWN
    for text in told["texts"]:
        size = len(text["tokens"])
        assert text["tokens"][0] == "[CLS]"
        assert "[PAD]" not in text["tokens"]
        for name in ("clean", "adversarial"):
            assert [len(row) for row in text[name]] == [size] * size
            assert [sum(row) for row in text[name]] == pytest.approx([1.0] * size, abs=0.02)
        for row, column in text["hidden"]:
            assert text["adversarial"][row][column] == 0
            assert text["clean"][row][column] > 0
    assert (run.path / "seeds" / "1" / "diagnostics" / "attention.json").stat().st_size < 20_000
    assert kept(run, "attention", "baseline") is None
    assert kept(run, "spectrum") is None
    page = report(run.path).read_text()
    assert "What the adversary hides" in page
    assert 'aria-label="attention, layer' in page


def test_a_run_that_ended_before_scoring_still_shows_its_trained_adversary(start, tmp_path, monkeypatch):
    whole = start("asa", train=SHORT)

    def killed(*_):
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(single, "finish_seed", killed)
        with pytest.raises(KeyboardInterrupt):
            start("asa", "cut", train=SHORT)
    assert kept(resume(tmp_path / "cut"), "attention") == kept(whole, "attention")


def test_spectrum_of_the_head(start):
    run = start("plain", train=SHORT, head={"name": "second-order", "q": 6, "k": 4})
    told = kept(run, "spectrum")
    assert len(told["before"]["mean"]) == 4
    assert kept(run, "attention") is None
    assert 'aria-label="singular values of the second-order head"' in report(run.path).read_text()


def test_a_failure_is_told_and_ends_nothing(start, monkeypatch):
    def broken(*_):
        raise RuntimeError("no attention today")

    monkeypatch.setattr(diagnostics, "_attention", broken)
    run = start("asa", train=SHORT)
    assert run.results.seeds
    assert "no attention today" in (run.path / "train.log").read_text()
    assert kept(run, "attention") is None


def test_nothing_is_kept_of_other_methods(finished):
    assert not list(finished.path.rglob("diagnostics"))
