"""The controller as Ray Tune's searcher, scheduler and callback, and the trainable. Needs the extra `sweep`."""

from pathlib import Path
from typing import Any, cast

from ray import tune
from ray.tune.schedulers import FIFOScheduler, TrialScheduler
from ray.tune.search import Searcher

from .controller import Controller
from .trials import Trial
from .worker import Event, Worker

HEARTBEAT = 1.0  # seconds a step lasts at most: Tune cannot stop an actor within a step


class TrialActor(tune.Trainable):
    """Runs one trial after the other. A step ends with each event of the trial."""

    def setup(self, config: dict[str, Any], **given: Any) -> None:
        self.worker = Worker(given["limits"])
        self.worker.start(Path(config["folder"]))

    def reset_config(self, new_config: dict[str, Any]) -> bool:
        self.worker.stop()
        self.worker.start(Path(new_config["folder"]))
        return True

    def step(self) -> dict[str, Any]:
        event = self.worker.poll(HEARTBEAT)
        return {"event": event, "done": event.is_end}

    def cleanup(self) -> None:
        self.worker.close()


class Proposals(Searcher):
    """The searcher: Tune asks it for the next trial."""

    def __init__(self, controller: Controller) -> None:
        super().__init__()
        self.controller = controller

    def suggest(self, trial_id: str) -> dict[str, Any] | None:
        found = self.controller.next_trial()
        if found is None:
            return cast("None", Searcher.FINISHED)  # a string, though Tune's types do not allow it
        if found == "wait":
            return None
        return {"trial": found.name, "folder": str(found.folder)}

    def on_trial_complete(self, trial_id: str, result: dict[str, Any] | None = None, error: bool = False) -> None:
        pass

    # The sweep's folder holds all state: Tune's checkpoint of it is never read.
    def save(self, checkpoint_path: str) -> None:
        pass

    def restore(self, checkpoint_path: str) -> None:
        pass


class Stopping(FIFOScheduler):
    """The scheduler: passes every event to the controller, which decides on stops."""

    def __init__(self, controller: Controller) -> None:
        super().__init__()
        self.controller = controller

    def on_trial_result(self, tune_controller: Any, trial: Any, result: dict[str, Any]) -> str:
        stop = self.controller.on_event(_of(self.controller, trial), result["event"])
        return TrialScheduler.STOP if stop else TrialScheduler.CONTINUE

    def on_trial_complete(self, tune_controller: Any, trial: Any, result: dict[str, Any]) -> None:
        event: Event = result["event"]
        if event.is_end:
            self.controller.on_event(_of(self.controller, trial), event)


class Listener(tune.Callback):
    """The callback: reports lost workers and nodes to the controller."""

    def __init__(self, controller: Controller) -> None:
        self.controller = controller

    def on_trial_recover(self, iteration: int, trials: list[Any], trial: Any, **info: Any) -> None:
        self.controller.on_event(_of(self.controller, trial), Event("retry", error="its worker was lost"))

    def on_trial_error(self, iteration: int, trials: list[Any], trial: Any, **info: Any) -> None:
        error = " ".join(str(trial.get_error() or "").split())[-300:]
        self.controller.on_worker_lost(_of(self.controller, trial), f"its worker was lost: {error}")


def _of(controller: Controller, trial: Any) -> Trial:
    return controller.trials[trial.config["trial"]]
