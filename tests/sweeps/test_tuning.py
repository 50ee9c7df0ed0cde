"""Ray Tune's joints without a cluster: an actor takes the next trial after an early stop; decisions go through."""

from types import SimpleNamespace

import pytest

from toughen.sweeps.loading import load_definition
from toughen.sweeps.trials import make, outcome
from toughen.sweeps.worker import Event, Limits

pytest.importorskip("ray", reason="the extra sweep is not installed")


def test_an_actor_is_used_again_after_an_early_stop(values, tmp_path):
    from toughen.sweeps.tuning import TrialActor

    class Local(TrialActor):
        def setup(self, config):
            super().setup(config, limits=Limits("accuracy"))

    definition, _ = load_definition(values)
    long, short = (
        make(tmp_path, definition.base, row, 1, {"method.weight": 0.5, "train.epochs": epochs})
        for row, epochs in ((1, 200), (2, 2))
    )
    actor = Local({"folder": str(long.folder)})
    try:
        while (result := actor.train())["event"].kind != "score":
            assert not result["done"]
        assert result["event"].iteration == 1
        first = actor.worker.process
        assert actor.reset_config({"folder": str(short.folder)})
        events = []
        while not events or not events[-1].is_end:
            events.append(actor.train()["event"])
        assert [(event.kind, event.iteration) for event in events if event.kind != "alive"] == [
            ("score", 1),
            ("score", 2),
            ("done", 2),
        ]
        assert first.returncode is not None
        assert outcome(long.folder, "accuracy").state == "missing"  # stopped by the actor: the controller notes why
        assert list(long.folder.glob("seeds/1/checkpoint-*"))  # it had the time to save itself
    finally:
        actor.stop()
    assert actor.worker.process is None


def test_decisions_go_through():
    from ray.tune.schedulers import TrialScheduler
    from ray.tune.search import Searcher

    from toughen.sweeps.tuning import Listener, Proposals, Stopping

    told = []
    found = [SimpleNamespace(name="001-seed1", folder="there"), "wait", None]
    controller = SimpleNamespace(
        next_trial=lambda: found.pop(0),
        on_event=lambda trial, event: told.append((trial, event)) or event.score == 0.1,
        on_worker_lost=lambda trial, error: told.append((trial, error)),
        trials={"001-seed1": "trial"},
    )
    proposals = Proposals(controller)
    config = proposals.suggest("a")
    assert config == {"trial": "001-seed1", "folder": "there"}
    assert proposals.suggest("b") is None
    assert proposals.suggest("c") == Searcher.FINISHED
    trial = SimpleNamespace(config=config, get_error=lambda: RuntimeError("node died"))
    scheduler = Stopping(controller)
    assert scheduler.on_trial_result(None, trial, {"event": Event("score", 1, 0.9)}) == TrialScheduler.CONTINUE
    assert scheduler.on_trial_result(None, trial, {"event": Event("score", 2, 0.1)}) == TrialScheduler.STOP
    Listener(controller).on_trial_error(1, [], trial)
    assert told[-1] == ("trial", "its worker was lost: node died")
