"""Options of methods: frozen dataclasses that import no torch, each option written and explained once."""

import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from functools import cache
from typing import TYPE_CHECKING, Any, ClassVar, Literal, TypeAlias, TypeVar

from .errors import MethodError, RobustnessWarning, nearest, warn_renamed
from .needs import declared
from .schedules import LinearSchedule, minimum, scheduled

if TYPE_CHECKING:
    from torch import Tensor, nn

    from .method import Method
    from .sites.base import Activation, Site

O = TypeVar("O", bound="MethodOptions")  # noqa: E741
Dropout: TypeAlias = Literal["shared", "fresh", "off"]
Start: TypeAlias = Callable[["Activation"], "Tensor"]
"""A function that gives the starting perturbation of an activation, in place of the random draw."""
TokenTable: TypeAlias = Callable[[Any, "nn.Module"], "Tensor"]
"""A function of tokenizer and model that gives the ids of other words for each token id, in place of synonyms."""
Where: TypeAlias = "Site | str | int | None"
"""A site, the dotted path of a module, or the number of a layer; None: the method's own."""
Schedule: TypeAlias = float | LinearSchedule | Sequence[float]
"""A number, or one that changes over the training: (start, end), (start, end, duration) or a LinearSchedule."""

POSITIVE = ("step_size", "rho", "probe", "radius_schedule")
NOT_NEGATIVE = ("weight", "init_scale", "max_norm", "temperature")
SIZES = (*POSITIVE, *NOT_NEGATIVE, "steps")
OLD_NAMES = {"growth": "radius_schedule", "later": "final_decay", "switch": "switch_at"}


@dataclass(frozen=True)
class MethodOptions:
    """Base of all options. A subclass has a field for each option, with a docstring under it, and `build`.

    Defaults are those of the recommended preset; a row of `PRESETS` holds what another preset changes. A class with
    presets is a `PresetOptions`.

    Examples:
        >>> options = toughen.smart("robust", weight=2.0).options
        >>> options.step_size, options.weight
        (0.03, 2.0)
    """

    name: ClassVar[str]
    """The name it is registered under."""
    PRESETS: ClassVar[Mapping[str, Mapping[str, Any]]] = {}

    def __post_init__(self) -> None:
        for each in fields(self):
            value = getattr(self, each.name)
            if isinstance(value, (list, tuple)):  # the numbers of a schedule, or names and numbers
                value = scheduled(value) if isinstance(each.default, float) else tuple(value)
                object.__setattr__(self, each.name, value)
            _check(each.name, value)

    def build(self) -> "Method":
        """Put the parts together; imports torch."""
        raise NotImplementedError

    @classmethod
    def choose(cls: type[O], *given: Any, **changes: Any) -> O:
        """The options of a preset with single ones changed; None changes nothing."""
        names = [each.name for each in fields(cls)]
        changes = _with_new_names({key: value for key, value in changes.items() if value is not None}, names)
        if unknown := [key for key in changes if key not in names]:
            raise TypeError(f"{cls.name}() got an unexpected keyword argument {unknown[0]!r}.")
        values: Mapping[str, Any] = {}
        if cls.PRESETS:
            preset = given[0] if given else changes.get("preset", "recommended")
            if preset not in cls.PRESETS:
                raise MethodError(f"There is no preset {preset!r}. {nearest(preset, cls.PRESETS)}")
            values = cls.PRESETS[preset]
        options = cls(*given, **{**values, **changes})
        if "step_size" in changes:
            _warn_if_cut(options)
        return options

    @classmethod
    def preset_values(cls, preset: str = "recommended") -> dict[str, Any]:
        """Every option's value in a preset."""
        return {each.name: each.default for each in fields(cls)} | dict(cls.PRESETS.get(preset, {}))

    def changes(self) -> dict[str, Any]:
        """The options that are not the preset's, and the preset's own name unless it is the recommended one."""
        values = self.preset_values(getattr(self, "preset", "recommended"))
        return {key: getattr(self, key) for key, value in values.items() if getattr(self, key) != value}

    def method(self) -> "Method":
        """The method, which remembers these options."""
        made, site = self.build(), getattr(self, "site", None)
        if isinstance(site, (str, int)):
            from .sites import Hidden

            site = Hidden(site, skip=declared(made.site, "skip"))
        return replace(made, site=site or made.site, options=self)

    @property
    def ball_radius(self) -> Schedule:
        """Radius of a ball that cuts steps, in the units of `step_size`; 0 is none."""
        return 0.0


@dataclass(frozen=True)
class PresetOptions(MethodOptions):
    """Options of a method with presets."""

    preset: str = "recommended"
    """Named settings, those of a paper or its code; single options go over them."""


@dataclass(frozen=True, kw_only=True)
class DropoutOptions(MethodOptions):
    """Options of a method that makes several passes over a batch."""

    dropout: Dropout = "shared"
    """One dropout mask for all passes of a batch (shared), one for each (fresh), or none (off)."""


@dataclass(frozen=True, kw_only=True)
class RegularizerOptions(DropoutOptions):
    """Options of a method that adds a term to the clean loss."""

    weight: float = 1.0
    """Weight of the added term in the loss."""


@dataclass(frozen=True, kw_only=True)
class SiteOptions(MethodOptions):
    """Options of a method that perturbs activations."""

    site: Where = None
    """A site, the dotted path of a module, or a layer's number; by default the input embedding's output."""


@dataclass(frozen=True, kw_only=True)
class AscentOptions(SiteOptions, DropoutOptions):
    """Options of a method that searches by gradient ascent."""

    step_size: float = 0.01
    """Length of one ascent step; in the recommended presets a share of the embedding's norm."""
    init_scale: float = 0.001
    """Size of the starting noise, in the same units."""
    max_norm: float = 0.01
    """Radius of the ball the perturbation stays in, which cuts longer steps; 0 is no ball."""
    steps: int = 1
    """Steps of the search."""
    radius_schedule: Schedule = 1.0
    """Factor on all lengths of the search; [start, end] or [start, end, duration] if it grows over the training."""
    init: Start | None = None
    """A function that gives the starting perturbation, in place of the random draw."""

    @property
    def ball_radius(self) -> Schedule:
        return self.max_norm


def _with_new_names(changes: dict[str, Any], names: Sequence[str]) -> dict[str, Any]:
    for old, new in OLD_NAMES.items():
        if new not in names:
            continue
        if old in changes and new in changes:
            raise MethodError(f"{old} is the old name of {new}: give one of them.")
        if old in changes:
            warn_renamed(old, new)
            changes[new] = changes.pop(old)
    return changes


def _warn_if_cut(options: MethodOptions) -> None:
    """A longer step has no effect where the ball cuts it; what a preset says is as published."""
    changed = options.changes()
    step, radius = (minimum(scheduled(value)) for value in (getattr(options, "step_size", 0.0), options.ball_radius))
    if step > radius > 0 and ("step_size" in changed or "max_norm" in changed):
        warnings.warn(
            f"step_size={step:g} is above max_norm={radius:g}, at which steps are cut: raise max_norm as well.",
            RobustnessWarning,
            stacklevel=4,
        )


def _check(name: str, value: Any) -> None:
    """Refuse a size that cannot be; every method says the same about it."""
    if isinstance(value, LinearSchedule):
        value = minimum(value)
    if name in SIZES and isinstance(value, str):
        raise MethodError(f"{name}={value!r}: it must be a number.")
    if name == "steps" and isinstance(value, float):
        raise MethodError(f"steps={value}: it must be a whole number.")
    if name in POSITIVE and value is not None and not value > 0:
        raise MethodError(f"{name}={value}: it must be above 0.")
    if name in NOT_NEGATIVE and value is not None and not value >= 0:
        raise MethodError(f"{name}={value}: it cannot be negative.")
    if name == "steps" and value is not None and value < 1:
        raise MethodError(f"steps={value}: at least one is needed.")


def attribute_docs(record: type) -> dict[str, str]:
    """What stands under each field of a dataclass, those it inherits among them."""
    return {name: text for each in reversed(record.__mro__[:-1]) for name, text in _own_attribute_docs(each).items()}


@cache
def _own_attribute_docs(record: type) -> dict[str, str]:
    from docstring_parser.attrdoc import AttributeDocstrings  # comes with jsonargparse

    try:
        return {name: text for name, (text, *_) in AttributeDocstrings().get_attr_docs(record).items()}
    except TypeError:  # a notebook's class is in no file
        return {}
