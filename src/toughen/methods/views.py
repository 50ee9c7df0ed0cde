from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar, Literal

from ..errors import MethodError
from ..options import Dropout, PresetOptions, RegularizerOptions
from ..registry import register_method

if TYPE_CHECKING:
    from ..method import Method


@dataclass(frozen=True, kw_only=True)
class ViewOptions(RegularizerOptions):
    """Options of methods that read an edited copy of the text beside the text itself."""

    rate: float = 0.4
    """Largest share of words that are edited; each text draws its own share from 0 to this."""
    learn: Literal["prediction", "label", "both"] = "prediction"
    """What edited texts learn: the fixed clean prediction (self-teaching), their label (augmentation), or both."""
    worst_of: int = 1
    """Draw so many copies of each text and take the one whose prediction moves most; each costs a forward pass."""
    on: Literal["clean", "view", "both"] = "clean"
    """Which texts the other methods of a sum perturb: the clean ones, the edited ones (view), or both in one batch."""
    dropout: Dropout = "fresh"

    @property
    def kinds(self) -> tuple[str, ...]:
        """The kinds of edits."""
        return (self.name,)

    def build(self) -> "Method":
        from ..parts import Add, Divergence, EditedText, Method, TaskLoss, TaskLossAndDivergence, no_perturbation

        site = EditedText(self.kinds, self.rate, getattr(self, "synonyms", None), self.worst_of, self.on)
        kl = Divergence("kl", detach="clean")
        if self.learn == "both":
            compare, combine = TaskLossAndDivergence(kl, self.weight), Add(1.0)
        elif self.learn in ("prediction", "label"):
            compare, combine = kl if self.learn == "prediction" else TaskLoss(), Add(self.weight)
        else:
            raise MethodError(f"learn={self.learn!r} is not known. Choose 'prediction', 'label' or 'both'.")
        return Method(site, no_perturbation(), compare, combine, dropout=self.dropout)


@register_method("typos")
@dataclass(frozen=True, kw_only=True)
class Typos(PresetOptions, ViewOptions):
    """Typing errors (Zhuang and Zuccon, SIGIR 2022): a copy with typos must predict what the clean text does.

    Self-teaching as in CharacterBERT-DR: the loss is that of the clean text plus `weight` times KL(clean || edited),
    with the clean prediction fixed. Words get a swapped, missing, additional or neighbouring letter, one in ten a
    second one; the first letter seldom changes. Numbers, negations and the names of labels stay as they are. The rates
    and what is kept are ours.

    Presets:
        recommended: self-teaching.
        augmentation: edited texts learn their label, the baseline of character augmentation (as in Raina et al., ACL
            2024; edits and rates are those above).
    """

    PRESETS: ClassVar = {"recommended": {}, "augmentation": {"learn": "label"}}


@register_method("obfuscation")
@dataclass(frozen=True, kw_only=True)
class Obfuscation(ViewOptions):
    """As `typos`, with words written to pass a filter. Ours.

    Look-alike and invisible letters, digits for letters, doubled letters, spaces between letters.
    """


@register_method("casing")
@dataclass(frozen=True, kw_only=True)
class Casing(ViewOptions):
    """As `typos`, with the case of words changed; for tokenizers that keep capital letters. Ours."""


@dataclass(frozen=True, kw_only=True)
class SynonymOptions(ViewOptions):
    """Options of methods that replace words by synonyms."""

    synonyms: str | None = None
    """JSON file {word: [words]}, or folder of WordNet; none: an installed package with WordNet."""


@register_method("synonyms")
@dataclass(frozen=True, kw_only=True)
class Synonyms(SynonymOptions):
    """As `typos`, with words replaced by one of their first eight synonyms. Ours.

    Examples:
        >>> import json, pathlib
        >>> file = pathlib.Path("synonyms.json")
        >>> _ = file.write_text(json.dumps({"w10": ["w11", "w12"]}))  # {"good": ["fine", "nice"]} in a real one
        >>> with toughen.synonyms(synonyms=str(file)).attach(model, tokenizer) as attached:
        ...     loss = attached.backward(model, batch)
    """


@register_method("views")
@dataclass(frozen=True, kw_only=True)
class Views(SynonymOptions):
    """As `typos`, with several kinds of edits: each text draws one of the `families`. Ours."""

    families: Sequence[str] = ("typos", "obfuscation", "casing")
    """Kinds of edits: typos, obfuscation, casing, synonyms."""

    @property
    def kinds(self) -> tuple[str, ...]:
        return tuple(self.families)
