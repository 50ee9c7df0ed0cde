"""What a sweep tries next and what it stops early: the samplers and pruners of Optuna over its rows."""

import math
from collections.abc import Mapping, Sequence
from typing import Any

from ..errors import require
from .definition import TIED, Choice, Definition, Range, Settings
from .validation import grid, key_of

MAX_DUPLICATES = 50  # proposals in a row that exist already, before the space counts as used up


class Search:
    """Proposes rows and prunes them. The study is in memory: it is rebuilt from the rows and their run folders."""

    def __init__(self, definition: Definition, rows: Sequence[Settings]) -> None:
        self.definition = definition
        self.study: Any = None  # none for a grid without early stopping, which runs without Optuna
        self._space: dict[str, Any] = {}
        self._known: list[str] = []
        self._open: dict[int, Any] = {}
        if definition.search != "grid" or definition.early is not None:
            self.study = self._make_study()
        if definition.search != "grid":
            self._space = {key: self._distribution(each) for key, each in definition.space.items()}
        # Optuna's own GridSampler shuffles; this one is in the order of the file.
        self._grid = iter(grid(definition) if definition.search == "grid" else ())
        for row in rows:
            if self._space:
                self.study.enqueue_trial(self._to_params(row))
            self._add(row, self._ask())

    def propose(self) -> Settings | None:
        """Return new settings, or None when the search is over."""
        given = self.definition
        if given.search == "grid":
            row = next((row for row in self._grid if key_of(row) not in self._known), None)
            return None if row is None else self._add(row, self._ask())
        number = len(self._known)
        if number >= (given.trials or 0):
            return None
        if given.search == "random":
            # A seed for each draw: a sweep that was interrupted draws the same settings as one that was not.
            self.study.sampler = self._optuna.samplers.RandomSampler(
                seed=(1_000_003 * given.search_seed + number) % 2**32
            )
        for _ in range(MAX_DUPLICATES):
            trial = self._ask()
            settings = self._to_settings(trial.params)
            if key_of(settings) not in self._known:
                return self._add(settings, trial)
            self.study.tell(trial, state=self._optuna.trial.TrialState.FAIL)
        return None

    def should_stop(self, row: int, iteration: int, score: float) -> bool:
        """Record the score of evaluation number `iteration` of a row, and say whether to stop its trial."""
        if self.definition.early is None:
            return False
        self._open[row].report(score, iteration)
        return bool(self._open[row].should_prune())

    def finish(self, row: int, score: float | None, stopped: bool = False) -> None:
        """Record the score of a row; None if it failed."""
        trial = self._open.pop(row, None)
        if trial is None:
            return
        states = self._optuna.trial.TrialState
        if stopped or score is None:
            self.study.tell(trial, state=states.PRUNED if stopped else states.FAIL)
        else:
            self.study.tell(trial, score)

    @property
    def _optuna(self) -> Any:
        return require("optuna", "sweep")

    def _make_study(self) -> Any:
        optuna, given, early = self._optuna, self.definition, self.definition.early
        optuna.logging.set_verbosity(optuna.logging.ERROR)
        pruner = sampler = None
        if early is not None and early.type == "asha":
            pruner = optuna.pruners.SuccessiveHalvingPruner(early.min_iter, early.eta)
        elif early is not None and early.type == "threshold":
            pruner = optuna.pruners.ThresholdPruner(lower=early.lower, n_warmup_steps=early.min_iter)
        elif early is not None:
            pruner = optuna.pruners.MedianPruner(early.min_trials, early.min_iter)  # steps count from 1 here
        if given.search == "tpe":
            sampler = optuna.samplers.TPESampler(seed=given.search_seed, constant_liar=True)
        return optuna.create_study(direction=given.goal, sampler=sampler, pruner=pruner)

    def _ask(self) -> Any:
        return self.study and self.study.ask(self._space)

    def _add(self, settings: Settings, trial: object) -> Settings:
        self._known.append(key_of(settings))
        if trial is not None:
            self._open[len(self._known)] = trial
        return settings

    def _distribution(self, each: Choice | Range) -> Any:
        kinds = self._optuna.distributions
        if isinstance(each, Choice):
            return kinds.CategoricalDistribution(range(len(each.values)))  # indices: values may be of any type
        high = each.high
        if each.step is not None:  # the last value that a step reaches
            high = each.low + each.step * math.floor((each.high - each.low) / each.step + 1e-9)
        if each.is_integer:
            return kinds.IntDistribution(each.low, int(high), log=each.log, step=int(each.step or 1))
        return kinds.FloatDistribution(each.low, high, log=each.log, step=each.step)

    def _to_settings(self, params: Mapping[str, Any]) -> Settings:
        space = self.definition.space.items()
        return self.definition.settings_at(
            {key: each.values[params[key]] if isinstance(each, Choice) else params[key] for key, each in space}
        )

    def _to_params(self, row: Settings) -> dict[str, Any]:
        given = self.definition
        point = {**row, TIED: {key: row[key] for key in (given.tied[0] if given.tied else ())}}
        return {
            key: each.values.index(point[key]) if isinstance(each, Choice) else point[key]
            for key, each in given.space.items()
        }
