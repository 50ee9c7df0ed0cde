"""Workers, here and in an actor: one takes the next trial after an early stop; a lost actor is replaced."""

import time
from pathlib import Path
from types import SimpleNamespace

from toughen.sweeps.api import run_trials
from toughen.sweeps.cluster import RemoteWorker, ResourceAllocation
from toughen.sweeps.controller import Controller
from toughen.sweeps.folder import open_folder
from toughen.sweeps.loading import load_definition
from toughen.sweeps.progress import SweepProgress
from toughen.sweeps.trials import make, outcome
from toughen.sweeps.worker import Event, Limits, Worker


def test_a_worker_is_used_again_after_an_early_stop(values, tmp_path):
    definition, _ = load_definition(values)
    long, short = (
        make(tmp_path, definition.base, row, 1, {"method.weight": 0.5, "train.epochs": epochs})
        for row, epochs in ((1, 200), (2, 2))
    )
    worker = Worker(Limits("accuracy"))
    worker.start(long.folder)
    try:
        while (event := worker.poll()).kind != "score":
            assert not event.is_end
        assert event.iteration == 1
        worker.stop()
        assert outcome(long.folder, "accuracy").state == "missing"  # stopped by the worker: the controller notes why
        assert list(long.folder.glob("seeds/1/checkpoint-*"))  # it had the time to save itself
        worker.start(short.folder)
        events = []
        while not events or not events[-1].is_end:
            events.append(worker.poll())
        assert [(event.kind, event.iteration) for event in events if event.kind != "alive"] == [
            ("score", 1),
            ("score", 2),
            ("done", 2),
        ]
    finally:
        worker.close()


class LocalRay:
    """Ray's functions on objects of this process. Actors answer from `answers`; an error there is a lost actor."""

    exceptions = SimpleNamespace(RayError=RuntimeError)

    def __init__(self, *answers):
        self.answers, self.calls = list(answers), []

    def remote(self, kind):
        assert kind is Worker
        return self

    def options(self, **options):
        self.calls.append(options)
        return SimpleNamespace(remote=self.actor)

    def actor(self, limits):
        def method(name):
            return SimpleNamespace(remote=lambda *given: self.calls.append((name, *given)) or name)

        return SimpleNamespace(**{name: method(name) for name in ("start", "poll", "stop")})

    def wait(self, waiting, timeout):
        return (waiting, []) if self.answers[0] is not None else (self.answers.pop(0) or [], waiting)

    def get(self, name, timeout=None):
        answer = self.answers.pop(0) if name == "poll" else None
        if isinstance(answer, Exception):
            raise answer
        return answer

    def kill(self, actor):
        self.calls.append("kill")


def remote_worker(monkeypatch, *answers):
    ray = LocalRay(*answers)
    monkeypatch.setattr("toughen.sweeps.cluster.require", lambda *_: ray)
    return RemoteWorker(Limits("accuracy", retries=1), ResourceAllocation(2, 0.5, 4)), ray


def test_a_lost_actor_is_replaced(tmp_path, monkeypatch):
    score = Event("score", 1, 0.5)
    worker, ray = remote_worker(monkeypatch, None, score, RuntimeError("node died"), RuntimeError("node\ndied"))
    worker.start(tmp_path)
    assert [worker.poll().kind, worker.poll()] == ["alive", score]
    assert worker.poll() == Event("retry", error="its worker was lost")
    assert worker.poll() == Event("failed", error="its worker was lost: node died")
    assert outcome(tmp_path, "accuracy").state == "failed"
    started = [{"num_cpus": 2, "num_gpus": 0.5}, ("start", tmp_path), ("poll",)]
    assert ray.calls == [*started, ("poll",), "kill", *started, "kill"]


def test_when_an_actor_is_kept_and_killed(monkeypatch):
    worker, ray = remote_worker(monkeypatch, Event("alive"), None)
    worker.start(Path("a"))
    worker.poll()
    worker.stop()
    worker.start(Path("b"))
    assert [call for call in ray.calls if "kill" in call or "num_cpus" in call] == [{"num_cpus": 2, "num_gpus": 0.5}]
    worker.close()
    assert ray.calls[-2:] == [("stop",), "kill"]
    worker.start(Path("c"))
    assert worker.poll().kind == "alive"
    worker.close()
    assert ray.calls[-2:] == [("poll",), "kill"]


def test_several_workers_share_the_trials(values, tmp_path, monkeypatch):
    """One that has none gives its machine back, and later takes the seeds that early stopping held back."""
    monkeypatch.setattr("toughen.sweeps.api.IDLE", 0.01)
    running, most, closed = set(), [], []

    class Shared:
        def start(self, folder):
            self.folder = folder
            running.add(folder.name)
            most.append(len(running))

        def poll(self):
            time.sleep(0.3)
            running.discard(self.folder.name)
            (self.folder / "results.json").write_text('{"seeds": [{"train_seconds": 1}], "mean": {"accuracy": 0.5}}')
            return Event("done", 1, 0.5)

        def close(self):
            closed.append(set(running))

    one = {"parameters": {"method.weight": [0.5]}, "seeds": [1, 2, 3], "early_terminate": "median"}
    folder = open_folder(tmp_path / "sweep", load_definition({**values, **one})[0], resume=False)
    controller = Controller(folder, "accuracy", SweepProgress(tmp_path / "sweep" / "sweep.log", live=False))
    run_trials(controller, Shared, 2)
    folder.close()
    assert most == [1, 1, 2]
    assert {"001-seed1"} in closed
    assert [row.state for row in controller.rows()] == ["done"]
