"""What an attack may spend, and which words it must leave alone."""

import math
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from ..errors import nearest
from ..tasks.spec import DataError, Task

KEEPS = ("labels", "stopwords", "numbers")

# Words that carry grammar and little meaning. Negations are not among them: an attack may garble "not".
_GRAMMAR = """
a an the this that these those i me my we our us you your he him his she her it its they them their who whom whose which
what am is are was were be been being do does did have has had will would shall should can could may might must and or
but if then than so as of at by for with about into to from in out on off over under up down again there here when where
why how also just very too
"""
STOPWORDS = frozenset(_GRAMMAR.split())


@dataclass(frozen=True)
class Budget:
    """What an attack may spend on one example.

    `queries` are texts put to the model, the unchanged one not counted; a gradient counts as one. `words` is the share
    of the example's words that may be changed, rounded up: a text of two words may lose one at any share above 0.
    """

    queries: int = 200
    words: float = 0.3

    def __post_init__(self) -> None:
        if self.queries < 0:
            raise DataError(f"queries={self.queries} is no budget; give 0 or more.")
        if not 0 <= self.words <= 1:
            raise DataError(f"words={self.words} is not a share; give a number from 0 to 1.")

    def changes(self, words: int) -> int:
        """How many of so many words may be changed."""
        return math.ceil(self.words * words - 1e-9)


@dataclass(frozen=True)
class Keep:
    """Which words stay as they are: those of the label names, stop-words, numbers."""

    kinds: tuple[str, ...] = KEEPS
    labels: frozenset[str] = field(default_factory=frozenset[str])

    @staticmethod
    def of(kinds: Iterable[str], task: Task) -> "Keep":
        """The constraint for a task, whose label names are cut into words."""
        return Keep(check_keep(kinds), frozenset(re.findall(r"[^\W\d_]+", " ".join(task.labels).lower())))

    def __call__(self, word: str) -> bool:
        """Whether the word must stay."""
        small = word.lower()
        return (
            ("labels" in self.kinds and small in self.labels)
            or ("stopwords" in self.kinds and small in STOPWORDS)
            or ("numbers" in self.kinds and any(letter.isdigit() for letter in word))
        )


def check_keep(kinds: Iterable[str]) -> tuple[str, ...]:
    """The kinds, each one known."""
    return checked(kinds, KEEPS, "keep")


def checked(given: Iterable[str], known: Sequence[str], what: str) -> tuple[str, ...]:
    """Names without repeats, or an error with the nearest known one."""
    names = tuple(dict.fromkeys(given))
    for name in names:
        if name not in known:
            raise DataError(f"{what}: there is no {name!r}. {nearest(name, known)}")
    return names
