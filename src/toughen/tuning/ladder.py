"""What a search tries: learning rates for plain training, and for each threat methods with their strengths."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from ..errors import UsageError, nearest
from ..runs.method_config import describe_method
from ..sweeps.definition import Settings
from ..sweeps.validation import flat
from ..text.synonyms import installed_wordnet, load_synonyms

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


def on_both(text: str, other: Group) -> Group:
    """Edit texts, and let another method perturb the clean and the edited ones."""
    name = str(other["name"])
    return {"name": f"{text}+{name}", text: {"on": "both"}, name: {k: v for k, v in other.items() if k != "name"}}


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


_VAT: Group = {"name": "vat", "preset": "robust"}
_SMART: Group = {"name": "smart", "preset": "robust"}
_EMBEDDING: Sequence[Group] = (
    _VAT,
    freelb(0.01),
    _SMART,
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
    {"name": "typos"},
    _VAT,
)
_TYPOS: Sequence[Group] = (
    on_both("typos", freelb(0.03)),
    {"name": "typos"},
    on_both("typos", freelb(0.01)),
    {"name": "typos", "rate": 0.6},
    {"name": "views"},
    on_both("typos", _SMART),
    _VAT,
    freelb(0.01),
)
_WORDS: Sequence[Group] = (
    on_both("synonyms", freelb(0.03)),
    {"name": "words"},
    on_both("synonyms", freelb(0.01)),
    {"name": "words", "preset": "hull"},
    {"name": "synonyms"},
    _VAT,
    freelb(0.03),
    _SMART,
    freelb(0.01),
)
PGD = {"embedding": "radius 0.02"}
TYPOS = {"noise": "typos 0.3"}
WORDS = {"neighbours": "after"}
READ_SYNONYMS = ("synonyms", "words")
"""Methods that take their words from a file, a folder or an installed WordNet."""

THREATS: Mapping[str, Threat] = {
    "clean": Threat("clean", methods=_CLEAN),
    "embedding": Threat("under PGD", PGD, {"radii": (0.02,)}, _EMBEDDING),
    "typos": Threat("under typos", TYPOS, {"noise": ("typos",), "strengths": (0.3,)}, _TYPOS),
    # The words of the attack are neighbours in the model's own embedding; no method of the list is trained with those.
    "words": Threat("under other words", WORDS, {"queries": 100}, _WORDS),
}


def threat_named(name: str) -> Threat:
    """Return a threat; `all` is the mean of all that attack."""
    if name in THREATS:
        return THREATS[name]
    if name != "all":
        raise UsageError(f"threat={name!r} is not known. {nearest(name, [*THREATS, 'all'])}", ("threat",))
    some = [each for each in THREATS.values() if each.points]
    # What held up under everything in pilots comes first, then each threat's first, each one's second, ...
    each_turn = zip(*(each.methods for each in some), strict=False)
    turns = [(on_both("typos", freelb(0.03)), on_both("typos", _VAT)), *each_turn]
    return Threat(
        "under attack (mean)",
        {attack: point for each in some for attack, point in each.points.items()},
        {key: value for each in some for key, value in each.options.items()},
        list({repr(group): group for groups in turns for group in groups}.values()),
    )


def ladder(threat: Threat, synonyms: str | None) -> tuple[list[Group], list[Group]]:
    """Return the methods to try, and those that are left out because there is no source of synonyms."""
    if synonyms is not None:
        load_synonyms(synonyms)  # refuses what is not there, or none
    known = synonyms is not None or installed_wordnet() is not None
    given = {} if synonyms is None else {"synonyms": synonyms}
    tried: list[Group] = []
    left: list[Group] = []
    for group in threat.methods:
        name, *others = str(group["name"]).split("+")
        reads = name in READ_SYNONYMS
        own = {**group, **({name: {**group[name], **given}} if others else given)} if reads else group
        (tried if known or not reads else left).append(own)
    return tried, left


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
    options = ((key, f"{value:g}" if isinstance(value, float) else value) for key, value in flat(method))
    return " ".join([str(method["name"]), *(f"{key}={value}" for key, value in options if key != "name")])
