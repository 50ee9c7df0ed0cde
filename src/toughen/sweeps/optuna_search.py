"""The samplers and pruners of Optuna over the rows of a sweep."""

import math
from collections.abc import Mapping, Sequence
from typing import Any, Protocol

from ..errors import require
from .definition import Definition, Settings
from .space import Choice, Range
from .validation import grid, key_of

MAX_DUPLICATES = 50  # proposals in a row that exist already, before the space counts as used up
TIED = "tied"


class Sampler(Protocol):
    """Proposes settings one after the other; knows those of an earlier start."""

    def propose(self) -> Settings | None:
        """New settings, or None when the search is over."""
        ...

    def finish(self, row: int, score: float | None, stopped: bool = False) -> None:
        """Record the score of a row; None if it failed."""
        ...


def make_sampler(definition: Definition, rows: Sequence[Settings]) -> Sampler:
    """Make the sampler of a sweep that has tried `rows` already."""
    return (GridSampler if definition.search == "grid" else OptunaSampler)(definition, rows)


class GridSampler:
    """Lists the grid in the order of the file. Optuna's own shuffles it, and would be needed for every grid."""

    def __init__(self, definition: Definition, rows: Sequence[Settings]) -> None:
        known = {key_of(row) for row in rows}
        self._left = (row for row in grid(definition) if key_of(row) not in known)

    def propose(self) -> Settings | None:
        return next(self._left, None)

    def finish(self, row: int, score: float | None, stopped: bool = False) -> None:
        pass


class OptunaSampler:
    """Asks Optuna's RandomSampler or TPESampler; the study is in memory, rows of earlier starts are added to it."""

    def __init__(self, definition: Definition, rows: Sequence[Settings]) -> None:
        self.definition = definition
        self.optuna, self.study = _make_study(definition)
        if definition.search == "tpe":
            self.study.sampler = self.optuna.samplers.TPESampler(seed=definition.search_seed, constant_liar=True)
        self._space = {key: self._distribution(each) for key, each in definition.parameters.items()}
        if definition.tied:
            self._space[TIED] = self._distribution(Choice(definition.tied))
        self._open: dict[int, Any] = {}
        self._known: list[str] = []
        for row in rows:
            self.study.enqueue_trial(self._to_params(row))
            self._add(self.study.ask(self._space), row)

    def propose(self) -> Settings | None:
        number, seed = len(self._known), self.definition.search_seed
        if number >= (self.definition.trials or 0):
            return None
        if self.definition.search == "random":
            # A seed for each draw: a sweep that was interrupted draws the same settings as one that was not.
            self.study.sampler = self.optuna.samplers.RandomSampler(seed=(1_000_003 * seed + number) % 2**32)
        for _ in range(MAX_DUPLICATES):
            trial = self.study.ask(self._space)
            settings = self._to_settings(trial.params)
            if key_of(settings) not in self._known:
                self._add(trial, settings)
                return settings
            self.study.tell(trial, state=self.optuna.trial.TrialState.FAIL)
        return None

    def finish(self, row: int, score: float | None, stopped: bool = False) -> None:
        trial = self._open.pop(row, None)
        if trial is not None and stopped and score is not None:
            trial.report(score, 1)  # TPE ranks a stopped trial by its last score, after all that finished
        _finish(self.study, trial, score, stopped)

    def _add(self, trial: Any, settings: Settings) -> None:
        self._known.append(key_of(settings))
        self._open[len(self._known)] = trial

    def _distribution(self, each: Choice | Range) -> Any:
        kinds = self.optuna.distributions
        if isinstance(each, Choice):
            return kinds.CategoricalDistribution(range(len(each.values)))  # indices: values may be of any type
        high = each.high
        if each.step is not None:  # the last value that a step reaches
            high = each.low + each.step * math.floor((each.high - each.low) / each.step + 1e-9)
        if each.whole:
            return kinds.IntDistribution(each.low, int(high), log=each.log, step=int(each.step or 1))
        return kinds.FloatDistribution(each.low, high, log=each.log, step=each.step)

    def _to_settings(self, params: Mapping[str, Any]) -> Settings:
        space = self.definition.parameters.items()
        found = {key: each.values[params[key]] if isinstance(each, Choice) else params[key] for key, each in space}
        return {**found, **(self.definition.tied[params[TIED]] if self.definition.tied else {})}

    def _to_params(self, row: Settings) -> dict[str, Any]:
        space = self.definition.parameters.items()
        found = {key: each.values.index(row[key]) if isinstance(each, Choice) else row[key] for key, each in space}
        tied = [index for index, each in enumerate(self.definition.tied) if all(row[k] == v for k, v in each.items())]
        return found | ({TIED: tied[0]} if tied else {})


class Pruner:
    """Decides by Optuna's pruner which trials stop early; the same on every engine and after every interruption."""

    def __init__(self, definition: Definition) -> None:
        self.early = early = definition.early
        self._open: dict[int, Any] = {}
        if early is None:
            return
        optuna, self.study = _make_study(definition)
        if early.type == "asha":
            self.study.pruner = optuna.pruners.SuccessiveHalvingPruner(early.min_iter, early.eta)
        else:
            self.study.pruner = optuna.pruners.MedianPruner(early.min_trials, early.min_iter)  # steps count from 1 here

    def should_stop(self, row: int, iteration: int, score: float) -> bool:
        """Record the score of evaluation number `iteration` of a row, and say whether to stop its trial."""
        if self.early is None:
            return False
        if row not in self._open:
            self._open[row] = self.study.ask()
        self._open[row].report(score, iteration)
        return bool(self._open[row].should_prune())

    def finish(self, row: int, score: float | None, stopped: bool = False) -> None:
        """Record the end of the trial of a row."""
        if self.early is not None:
            _finish(self.study, self._open.pop(row, None), score, stopped)


def _make_study(definition: Definition) -> tuple[Any, Any]:
    optuna: Any = require("optuna", "sweep")
    optuna.logging.set_verbosity(optuna.logging.ERROR)
    return optuna, optuna.create_study(direction=definition.goal)


def _finish(study: Any, trial: Any, score: float | None, stopped: bool) -> None:
    """Close a trial of a study: stopped, failed, or with its score."""
    states = require("optuna.trial", "sweep").TrialState
    if trial is None:
        return
    if score is None or stopped:
        study.tell(trial, state=states.PRUNED if stopped else states.FAIL)
    else:
        study.tell(trial, score)
