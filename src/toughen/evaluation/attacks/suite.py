"""Several attacks on one model, in turn."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ...tasks.scoring import kept_tokens
from ...tasks.spec import Task
from ..outputs import Outputs
from .running import Attacked, run_attack
from .settings import AttackSettings, make_attacks
from .target import Attack, Target
from .victim import Victim
from .words import Row


@dataclass(frozen=True)
class Suite:
    """The attacks asked for, made once for all models: a wrong name or a missing file is told before anything runs."""

    attacks: Sequence[Attack]
    settings: AttackSettings
    progress: bool = False

    @staticmethod
    def of(names: "str | Sequence[str]", settings: AttackSettings | None, limit: int | None, progress: bool) -> "Suite":
        told = settings or AttackSettings()
        return Suite(make_attacks(names, told, limit), told, progress)

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
        )
