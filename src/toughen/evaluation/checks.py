"""What a scan runs: attacks of the registry with options that fit into two minutes on a CPU."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from ..tasks.spec import DataError

if TYPE_CHECKING:
    from ..attacks.base import Attack
    from ..attacks.target import Target

QUERIES = 50  # of a search on one row


@dataclass(frozen=True)
class Check:
    """One line of a scan: an attack with its options."""

    name: str
    title: str
    attack: str
    options: Mapping[str, Any]
    passes: float
    """About how many passes over the rows it takes, for the time that is left."""
    source: str = ""
    """The option of the attack that `scan` hands on: a file of the user's."""
    searched: bool = True
    """Whether it looks for the worst change; else it makes one at random."""


def _noise(kind: str, title: str, source: str = "") -> Check:
    return Check(kind, title, "noise", {"noise": (kind,), "strengths": (0.3,)}, 1, source, searched=False)


CHECKS = (
    _noise("typos", "typos in 30 % of the words"),
    _noise("casing", "other case in 30 % of the words"),
    _noise("obfuscation", "obfuscated letters in 30 % of the words"),
    _noise("misspellings", "natural misspellings in 30 % of the words", "lexicon"),
    Check("characters", f"typos, searched with {QUERIES} queries", "characters", {"queries": QUERIES}, 20),
    Check("synonyms", f"synonyms, searched with {QUERIES} queries", "synonyms", {"queries": QUERIES}, 20, "synonyms"),
    Check("pgd", "embeddings moved by 2 % of their length (PGD)", "embedding", {"radii": (0.02,), "steps": 7}, 15),
)
"""In the order in which they run and are shown. A new attack joins with a row."""


def make_checks(sources: Mapping[str, Any]) -> "tuple[list[tuple[Check, Attack]], dict[str, str]]":
    """Return the attack of every check, and why a check has none; a bad file that was named is an error."""
    from ..attacks.base import attack_classes

    made: list[tuple[Check, Attack]] = []
    left_out: dict[str, str] = {}
    for check in CHECKS:
        own = {check.source: sources[check.source]} if check.source else {}
        try:
            made.append((check, attack_classes()[check.attack](**check.options, **own)))
        except DataError as problem:
            if own and own[check.source] is not None:
                raise
            left_out[check.name] = str(problem)
    return made, left_out


def misfit(attack: "Attack", target: "Target") -> str:
    """Return why an attack is not for this model or task; "" if it is."""
    from ..attacks.runner import check_weights

    try:
        attack.check(target.task)
        check_weights(attack, target)
    except DataError as problem:
        return str(problem)
    return ""
