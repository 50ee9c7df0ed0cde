"""What a search tries: learning rates for plain training, and for each threat methods with their strengths."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from ..errors import UsageError, nearest
from ..runs.method_config import describe_method
from ..sweeps.definition import Settings

Group = Mapping[str, Any]
"""The `method:` group of a config."""

RATES = (1.0, 2.5, 5.0, 1.5, 0.5, 10.0, 3.5, 15.0)
"""Learning rates as multiples of the config's: 2e-5 to 3e-4 and 1e-5 for the default of 2e-5."""
OTHER_RATES = (0.5, 2.0)
"""Multiples of plain's best rate for a second lap over the methods."""


def _round(value: float) -> float:
    return float(f"{value:.6g}")


def freelb(radius: float) -> Group:
    """FreeLB in a ball of this share of the embedding's norm; step and start keep their share of the ball."""
    return {"name": "freelb", "max_norm": radius, "step_size": _round(radius / 2), "init_scale": _round(radius / 5)}


@dataclass(frozen=True)
class Threat:
    """What a model should hold up under: the attacks that measure it, and the methods that may help."""

    title: str
    """As a sentence names it: "under PGD"."""
    points: Mapping[str, str] = field(default_factory=dict[str, str])
    """Attack -> the point of its outcome that counts."""
    options: Mapping[str, Any] = field(default_factory=dict[str, Any])
    """Settings of these attacks."""
    methods: Sequence[Group] = ()
    """In the order in which they are tried, so that a short search has the likeliest."""


_EMBEDDING: Sequence[Group] = (
    {"name": "vat", "preset": "robust"},
    freelb(0.01),
    {"name": "smart", "preset": "robust"},
    freelb(0.03),
    {"name": "sift", "preset": "robust"},
    {"name": "vat"},
    freelb(0.003),
    {"name": "sift"},
    {"name": "smart"},
)
_CLEAN: Sequence[Group] = (
    freelb(0.01),
    {"name": "r4f"},
    {"name": "vat"},
    freelb(0.03),
    {"name": "smart"},
    freelb(0.003),
    {"name": "rdrop"},
    {"name": "sift"},
    {"name": "vat", "preset": "robust"},
)
PGD = {"embedding": "radius 0.02"}
TYPOS = {"noise": "typos 0.3"}
WORDS = {"neighbours": "after"}

THREATS: Mapping[str, Threat] = {
    "clean": Threat("clean", methods=_CLEAN),
    "embedding": Threat("under PGD", PGD, {"radii": (0.02,)}, _EMBEDDING),
    "typos": Threat("under typos", TYPOS, {"noise": ("typos",), "strengths": (0.3,)}, _EMBEDDING),
    "words": Threat("under other words", WORDS, {"queries": 100}, _EMBEDDING),
}


def threat_named(name: str) -> Threat:
    """Return a threat; `all` is the mean of all that attack."""
    if name in THREATS:
        return THREATS[name]
    if name != "all":
        raise UsageError(f"threat={name!r} is not known. {nearest(name, [*THREATS, 'all'])}", ("threat",))
    some = [each for each in THREATS.values() if each.points]
    turns = zip(*(each.methods for each in some), strict=False)  # each threat's first, then each one's second
    return Threat(
        "under attack (mean)",
        {attack: point for each in some for attack, point in each.points.items()},
        {key: value for each in some for key, value in each.options.items()},
        list({repr(group): group for groups in turns for group in groups}.values()),
    )


def parse_methods(given: str | Sequence[str | Group]) -> list[Group]:
    """Return the methods of a list; as text, "vat preset=robust; freelb max_norm=0.01"."""
    listed = [each for each in given.split(";") if each.strip()] if isinstance(given, str) else given
    groups = [_parse(each) if isinstance(each, str) else dict(each) for each in listed]
    for group in groups:
        for name in str(group["name"]).split("+"):
            describe_method(name.strip())  # refuses what is not known
    return groups


def _parse(text: str) -> Group:
    import yaml

    name, *options = text.split()
    pairs = [option.partition("=") for option in options]
    if wrong := [option for option, (_, equals, _) in zip(options, pairs, strict=True) if not equals]:
        raise UsageError(
            f"methods: {wrong[0]!r} is no option; write NAME option=value, and ; between two.", ("methods",)
        )
    group: dict[str, Any] = {"name": name}
    for key, _, value in pairs:
        part, _, option = key.rpartition(".")
        (group.setdefault(part, {}) if part else group)[option] = yaml.safe_load(value)
    return group


def plain_rows(trials: int, rate: float, epochs: float) -> list[Settings]:
    """Return what plain training tries: learning rates, then the same for twice the epochs."""
    laps = [(times, factor) for times in (1, 2) for factor in RATES]
    return [_row({"name": "plain"}, rate * factor, epochs * times) for times, factor in laps[:trials]]


def method_rows(trials: int, methods: Sequence[Group], rate: float, epochs: float) -> list[Settings]:
    """Return what the methods try: each at plain's best rate, then at rates beside it."""
    laps = [(factor, group) for factor in (1.0, *OTHER_RATES) for group in methods]
    return [_row(group, rate * factor, epochs) for factor, group in laps[:trials]]


def _row(method: Group, rate: float, epochs: float) -> Settings:
    return {"method": dict(method), "train.learning_rate": _round(rate), "train.epochs": epochs}


def label(method: Group) -> str:
    """Write a method as `--methods` takes it: `freelb max_norm=0.01`."""
    return " ".join([str(method["name"]), *(f"{key}={value}" for key, value in _options(method))])


def _options(method: Group, prefix: str = "") -> Iterator[tuple[str, Any]]:
    for key, value in method.items():
        if isinstance(value, Mapping):
            yield from _options(value, f"{key}.")  # pyright: ignore[reportUnknownArgumentType]
        elif key != "name":
            yield f"{prefix}{key}", f"{value:g}" if isinstance(value, float) else value
