"""Which trials are stopped early: Optuna's pruners, the same on every engine and after every interruption."""

from typing import Any

from ..errors import require
from .definition import Definition


class Stopper:
    """Sees the scores of trials as they come and says which of them is not worth going on with."""

    def __init__(self, definition: Definition) -> None:
        self.early = definition.early
        self._trials: dict[int, Any] = {}
        if self.early is None:
            return
        self.optuna: Any = require("optuna", "sweep")
        self.optuna.logging.set_verbosity(self.optuna.logging.ERROR)
        pruners = self.optuna.pruners
        if self.early.type == "asha":
            pruner = pruners.SuccessiveHalvingPruner(self.early.min_iter, self.early.eta)
        else:
            # Its first step is 0, ours is 1.
            pruner = pruners.MedianPruner(self.early.min_trials, self.early.min_iter)
        self.study = self.optuna.create_study(direction=definition.goal, pruner=pruner)

    def sees(self, row: int, iteration: int, score: float) -> bool:
        """Whether to stop the trial of this row after its evaluation number `iteration`."""
        if self.early is None:
            return False
        if row not in self._trials:
            self._trials[row] = self.study.ask()
        trial = self._trials[row]
        trial.report(score, iteration)
        return bool(trial.should_prune())

    def ended(self, row: int, score: float | None, stopped: bool = False) -> None:
        """The trial of this row is over."""
        trial = self._trials.pop(row, None)
        if trial is None:
            return
        states = self.optuna.trial.TrialState
        if stopped or score is None:
            self.study.tell(trial, state=states.PRUNED if stopped else states.FAIL)
        else:
            self.study.tell(trial, score)
