"""WHERE to perturb: the text itself, before it is embedded."""

from dataclasses import dataclass
from typing import ClassVar, Literal, TypeAlias

from ..errors import MethodError, nearest
from ..text.views import FAMILIES
from .virtual import Hookless

SeenText: TypeAlias = Literal["clean", "view", "both"]


@dataclass(frozen=True)
class EditedText(Hookless):
    """The text: the perturbed pass reads an edited copy of the batch, a view.

    `families` are the kinds of edits, of which each text gets one; `rate` is the largest share of its words that are
    edited. Of `worst_of` views the one whose prediction moves most is taken. `on` says which texts the other methods
    of a sum perturb.
    """

    target: ClassVar[str] = "text"

    families: tuple[str, ...] = ("typos",)
    rate: float = 0.4
    synonyms: str | None = None
    worst_of: int = 1
    on: SeenText = "clean"

    def __post_init__(self) -> None:
        if not self.families:
            raise MethodError(f"families=(): name at least one of {', '.join(FAMILIES)}.")
        for family in self.families:
            if family not in FAMILIES:
                raise MethodError(
                    f"families={list(self.families)}: there is no {family!r}. {nearest(family, FAMILIES)}"
                )
        if not 0 < self.rate <= 1:
            raise MethodError(f"rate={self.rate}: a share of words lies above 0 and up to 1.")
        if self.worst_of < 1:
            raise MethodError(f"worst_of={self.worst_of}: at least one view is needed.")
        if self.on not in SeenText.__args__:
            raise MethodError(f"on={self.on!r} is not known. Choose 'clean', 'view' or 'both'.")
