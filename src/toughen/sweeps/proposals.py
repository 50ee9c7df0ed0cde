"""Which settings to try next: all of a grid, random ones, or those that a tree-structured Parzen estimator proposes."""

import random
from collections.abc import Mapping, Sequence
from typing import Any, Protocol

from ..errors import require
from .checking import grid, key_of
from .definition import Definition, Settings
from .space import Choice, Range

TRIES = 50  # draws that may hit a setting already there, before the space counts as used up
TIED = "tied"


class Proposer(Protocol):
    """Gives settings one after the other; knows those of an earlier start."""

    def propose(self) -> Settings | None:
        """New settings, or nothing when the search is over."""
        ...

    def told(self, row: int, score: float | None, stopped: bool = False) -> None:
        """How a row of settings did; None where it failed."""
        ...


def proposer(definition: Definition, rows: Sequence[Settings]) -> Proposer:
    """The proposer of a sweep that has `rows` already."""
    if definition.search == "grid":
        return _Listed(grid(definition), rows)
    return _Random(definition, rows) if definition.search == "random" else _Parzen(definition, rows)


class _Listed:
    def __init__(self, rows: Sequence[Settings], known: Sequence[Settings]) -> None:
        there = {key_of(row) for row in known}
        self._left = [row for row in rows if key_of(row) not in there]

    def propose(self) -> Settings | None:
        return self._left.pop(0) if self._left else None

    def told(self, row: int, score: float | None, stopped: bool = False) -> None:
        pass


class _Random:
    """Draw number n depends on n alone: a sweep that was interrupted goes on as it would have."""

    def __init__(self, definition: Definition, rows: Sequence[Settings]) -> None:
        self.definition, self._known = definition, [key_of(row) for row in rows]

    def propose(self) -> Settings | None:
        number = len(self._known)
        if number >= (self.definition.trials or 0):
            return None
        dice = random.Random(f"{self.definition.search_seed}/{number}")
        for _ in range(TRIES):
            drawn = {key: each.draw(dice) for key, each in self.definition.parameters.items()}
            settings = {**drawn, **(dice.choice(self.definition.tied) if self.definition.tied else {})}
            if key_of(settings) not in self._known:
                self._known.append(key_of(settings))
                return settings
        return None

    def told(self, row: int, score: float | None, stopped: bool = False) -> None:
        pass


class _Parzen:
    """Optuna's TPE sampler. The study lives in memory: rows of an earlier start are asked for again by name."""

    def __init__(self, definition: Definition, rows: Sequence[Settings]) -> None:
        self.definition = definition
        self.optuna: Any = require("optuna", "sweep")
        self.optuna.logging.set_verbosity(self.optuna.logging.ERROR)
        sampler = self.optuna.samplers.TPESampler(seed=definition.search_seed, constant_liar=True)
        self.study = self.optuna.create_study(direction=definition.goal, sampler=sampler)
        self._space = {key: self._distribution(each) for key, each in definition.parameters.items()}
        if definition.tied:
            self._space[TIED] = self._distribution(Choice(definition.tied))
        self._asked: dict[int, Any] = {}
        self._known: list[str] = []
        for row in rows:
            self.study.enqueue_trial(self._numbers(row))
            self._take(self.study.ask(self._space), row)

    def _distribution(self, each: Choice | Range) -> Any:
        kinds = self.optuna.distributions
        if isinstance(each, Choice):
            return kinds.CategoricalDistribution(range(len(each.values)))  # numbers: values may be of any kind
        if each.whole:
            return kinds.IntDistribution(each.low, each.high, log=each.log, step=int(each.step or 1))
        return kinds.FloatDistribution(each.low, each.high, log=each.log, step=each.step)

    def _settings(self, params: Mapping[str, Any]) -> Settings:
        space = self.definition.parameters
        chosen = {
            key: each.values[params[key]] if isinstance(each, Choice) else params[key] for key, each in space.items()
        }
        return {**chosen, **(self.definition.tied[params[TIED]] if self.definition.tied else {})}

    def _numbers(self, row: Settings) -> dict[str, Any]:
        space = self.definition.parameters
        found = {
            key: each.values.index(row[key]) if isinstance(each, Choice) else row[key] for key, each in space.items()
        }
        tied = [place for place, each in enumerate(self.definition.tied) if all(row[k] == v for k, v in each.items())]
        return found | ({TIED: tied[0]} if tied else {})

    def _take(self, trial: Any, settings: Settings) -> None:
        self._asked[len(self._known) + 1] = trial
        self._known.append(key_of(settings))

    def propose(self) -> Settings | None:
        if len(self._known) >= (self.definition.trials or 0):
            return None
        for _ in range(TRIES):
            trial = self.study.ask(self._space)
            settings = self._settings(trial.params)
            if key_of(settings) not in self._known:
                self._take(trial, settings)
                return settings
            self.study.tell(trial, state=self.optuna.trial.TrialState.FAIL)
        return None

    def told(self, row: int, score: float | None, stopped: bool = False) -> None:
        trial, states = self._asked.pop(row, None), self.optuna.trial.TrialState
        if trial is None:
            return
        if score is None:
            self.study.tell(trial, state=states.FAIL)
        elif stopped:
            trial.report(score, 1)  # TPE takes a stopped trial's last score, after all that finished
            self.study.tell(trial, state=states.PRUNED)
        else:
            self.study.tell(trial, score)
