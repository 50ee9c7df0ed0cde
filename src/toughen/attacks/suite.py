"""Several attacks on one model, in turn."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ..evaluation.outputs import Outputs
from ..tasks.scoring import kept_tokens
from ..tasks.spec import DataError, Task
from .progress import say
from .running import Attacked, run_attack
from .settings import ALL, NAMES, AttackSettings, make_attacks
from .target import Attack, Target
from .victim import Victim
from .words import Row


@dataclass(frozen=True)
class Suite:
    """The attacks asked for, made once for all models: a wrong name or a missing file is told before anything runs."""

    attacks: Sequence[Attack]
    settings: AttackSettings
    progress: bool = False
    every: bool = False
    """Whether all were asked for: then those that do not fit are left out, and an error otherwise."""

    @staticmethod
    def of(names: "str | Sequence[str]", settings: AttackSettings | None, limit: int | None, progress: bool) -> "Suite":
        told = settings or AttackSettings()
        if names not in (ALL, [ALL], (ALL,)):
            return Suite(make_attacks(names, told, limit), told, progress)
        attacks = [attack for name in NAMES for attack in _made(name, told, limit, progress)]
        return Suite(attacks, told, progress, every=True)

    def target(
        self,
        model: Any,
        tokenizer: Any,
        task: Task,
        rows: Sequence[Row],
        outputs: Outputs,
        *,
        max_length: int | None = None,
        batch_size: int | None = None,
        **about: Any,
    ) -> Target:
        """A model with its rows, and what it says of them unchanged."""
        if not self.every:
            for attack in self.attacks:
                attack.check(task)
        precision = self.settings.precision
        victim = Victim(model, tokenizer, task, max_length=max_length, batch_size=batch_size, precision=precision)
        logits, labels = outputs.logits, outputs.labels
        if task.head == "tokens":
            logits, labels = kept_tokens(logits, labels)
        return Target(victim, rows, logits, labels, **about)

    def run(self, target: Target, *, home: Path | None, label: str, model: Path, where: str) -> tuple[Attacked, ...]:
        return tuple(
            run_attack(attack, target, home=home, label=label, model=model, where=where, progress=self.progress)
            for attack in self.attacks
            if not self.every or self._fits(attack, target.task)
        )

    def _fits(self, attack: Attack, task: Task) -> bool:
        try:
            attack.check(task)
        except DataError as problem:
            say(f"left out: {problem}", self.progress)
            return False
        return True


def _made(name: str, settings: AttackSettings, limit: int | None, speak: bool) -> list[Attack]:
    """The attack, or a word on what it lacks."""
    try:
        return make_attacks(name, settings, limit)
    except DataError as problem:
        say(f"left out: {problem}", speak)
        return []
