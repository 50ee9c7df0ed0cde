"""The settings of attacks, the attacks made from them, and a run of several attacks on a model."""

from collections.abc import Generator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..errors import nearest
from ..tasks.spec import DataError
from .attacked_text import Budget
from .base import Attack, attack_classes, attack_options, check_names, option_fields
from .runner import AttackResult, run_attack, say

if TYPE_CHECKING:
    from .target import Target
    from .victim import Precision

ALL = "all"


@dataclass(frozen=True, init=False)
class AttackSettings:
    """Options of all attacks by name, such as `keep=(), radii=(0.1, 0.2)`; each attack takes those that it has.

    `budget` gives `queries` and `words` together. `toughen evaluate --help` lists all options.

    Args:
        budget: Queries and changed words of an attack on a text.
        options: Options of attacks by name.

    Examples:
        >>> toughen.evaluation.AttackSettings(radii=(0.02,)).options
        {'radii': (0.02,)}
    """

    options: Mapping[str, Any]
    precision: "Precision"
    """Of searches over texts: bf16 on a GPU, fp32 elsewhere. What is reported is always judged in fp32."""

    def __init__(self, budget: Budget | None = None, *, precision: "Precision" = "auto", **options: Any) -> None:
        known = attack_options()
        if unknown := [name for name in options if name not in known]:
            raise DataError(f"no attack has an option {unknown[0]!r}. {nearest(unknown[0], known)}")
        object.__setattr__(self, "options", {**(vars(budget) if budget else {}), **options})
        object.__setattr__(self, "precision", precision)


def attack_names(given: "str | Sequence[str]") -> tuple[str, ...]:
    """Return the attacks of "characters,embedding" or of a list; "all" are all."""
    names = [name.strip() for name in given.split(",")] if isinstance(given, str) else list(given)
    names = [name for name in names if name]
    known = tuple(attack_classes())
    return known if names == [ALL] else check_names(names, known, "attack")


def make_attacks(
    given: "str | Sequence[str]", settings: AttackSettings | None = None, limit: int | None = None
) -> list[Attack]:
    """Return the attacks of these names, under these settings. `limit` cuts the rows of the attack `sets`.

    Args:
        given: Names of attacks, also as one text with commas.
        settings: Their options.
        limit: Rows of each challenge set at most.

    Returns:
        An attack for each name.

    Raises:
        DataError: An unknown name, or an option out of range.

    Examples:
        >>> [attack.name for attack in toughen.evaluation.make_attacks("noise,embedding")]
        ['noise', 'embedding']
    """
    values = {"limit": limit, **(settings or AttackSettings()).options}
    classes = [attack_classes()[name] for name in attack_names(given)]
    return [
        kind(**{n: values[n] for n in (each.name for each in option_fields(kind)) if n in values}) for kind in classes
    ]


@dataclass(frozen=True)
class Suite:
    """Attacks made once for all models, so that a wrong name or a missing file is an error before anything runs."""

    attacks: Sequence[Attack]
    precision: "Precision" = "auto"
    progress: bool = False
    every: bool = False
    """Whether "all" was asked for: then attacks that do not fit are left out, else they are an error."""

    @staticmethod
    def of(given: "str | Sequence[str]", settings: AttackSettings | None, limit: int | None, progress: bool) -> "Suite":
        settings, every = settings or AttackSettings(), given in (ALL, [ALL], (ALL,))
        attacks: list[Attack] = []
        for name in attack_names(given):
            with _leave_out_misfits(every, progress):
                attacks += make_attacks(name, settings, limit)
        return Suite(attacks, settings.precision, progress, every)

    def run(
        self, target: "Target", *, home: Path | None, label: str, model: Path, where: str
    ) -> tuple[AttackResult, ...]:
        fitting: list[Attack] = []
        for attack in self.attacks:
            with _leave_out_misfits(self.every, self.progress):
                attack.check(target.task)
                fitting.append(attack)
        return tuple(
            run_attack(attack, target, home=home, label=label, model=model, where=where, progress=self.progress)
            for attack in fitting
        )


@contextmanager
def _leave_out_misfits(every: bool, verbose: bool) -> Generator[None]:
    """Say why an attack is left out, if all were asked for; else raise."""
    try:
        yield
    except DataError as problem:
        if not every:
            raise
        say(f"left out: {problem}", verbose)
