"""The protocol as data: tasks, methods with their candidates, seeds, rates, attacks. README.md says it in words."""

import hashlib
import json
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, fields, replace
from functools import cache
from pathlib import Path
from typing import Any

from toughen.recipes import config

Settings = Mapping[str, Any]


@dataclass(frozen=True)
class TaskPlan:
    """How one task is trained and tested."""

    name: str
    metric: str
    epochs: int
    edges: tuple[int, ...]
    """Padded lengths of batches; texts are cut at the last."""
    held_rows: int
    """Training rows that tuning runs are scored on, and not trained on: the development set is never tuned on."""
    train_rows: int | None = None
    dev_rows: int | None = None
    attacked_rows: int = 500
    sets: tuple[str, ...] = ()
    """Other sets of `toughen.tasks` that a model of this task can answer."""
    set_rows: int = 1500
    second_order: bool = True
    """Whether the second-order head exists for this kind of task."""


def ball(radius: float, **others: Any) -> dict[str, Any]:
    """One step to the rim of a ball, from noise of a tenth of it; in units of the embedding's norm."""
    return {"step_size": radius, "init_scale": radius / 10, "max_norm": radius, **others}


def climb(radius: float) -> dict[str, Any]:
    """Several steps of half the radius."""
    return {"step_size": radius / 2, "init_scale": radius / 5, "max_norm": radius}


# The library's default stands first; settings that are not named are those of the recommended preset. Defaults of today
# are what the runs have chosen; what they were before is written out, for its runs count.
METHODS: Mapping[str, tuple[Settings, ...]] = {
    "plain": ({},),
    "spectral": ({},),
    "smart": ({}, ball(0.03), ball(0.03, weight=3.0)),
    "smart robust": ({"preset": "robust"},),
    "smart+spectral": ({},),
    "alum": ({}, ball(0.03)),
    "sift": ({}, ball(0.03), ball(0.03, weight=3.0)),
    "sift robust": ({"preset": "robust"},),
    "bregman": ({}, {"weight": 1.0}, {"weight": 3.0}),
    "smart+bregman": ({},),
    "freelb": ({}, climb(0.003), climb(0.01), climb(0.03)),
    "freeat": ({}, climb(0.003), {"steps": 3}, {"steps": 3, **climb(0.01)}),
    "fgm": ({}, {"step_size": 0.01}, {"step_size": 0.03}),
    "pgd": ({}, {"step_size": 0.002, "init_scale": 0.0005, "max_norm": 0.003}, climb(0.01)),
    "vat": ({}, {"max_norm": 0.03, "probe": 0.003}),
    "vat robust": ({"preset": "robust"},),
    "vat+spectral robust": ({"vat": {"preset": "robust"}},),
    "r3f": ({}, {"init_scale": 0.3, "weight": 1.0}, {"weight": 1.0}),
    "r4f": ({}, {"init_scale": 0.1}),
    "rdrop": ({}, {"weight": 0.3}, {"weight": 3.0}),
    "creat": ({}, ball(0.01), ball(0.03)),
    "asa": ({}, {"weight": 1.0}, {"weight": 1.0, "tau": 0.3}, {"tau": 0.7}, {"tau": 1.0}),
    "neftune": ({}, {"alpha": 5.0}, {"alpha": 10.0}),
    "sam": ({}, {"rho": 0.05}, {"rho": 0.1}),
    "asam": ({}, {"rho": 0.5}, {"rho": 1.0}),
    "awp": ({}, {"max_norm": 3e-4}, {"max_norm": 1e-3}, {"max_norm": 1e-2}),
}

# Written down before their first run, without candidates: nothing is chosen among them. `TRAINED_ON` is the source of
# synonyms that training may read; the other source attacks alone. Former runs of plain were not attacked on texts, so
# plain is run once more beside these.
PLAIN_TEXTS = "plain texts"
TRAINED_ON, ATTACKED_WITH = "wordnet", "counterfitted"
_BOTH = {"on": "both"}
_VIEWS = {"families": ["typos", "obfuscation", "synonyms"], "synonyms": TRAINED_ON}
TEXT_METHODS: Mapping[str, Settings] = {
    PLAIN_TEXTS: {},
    "freelb robust": {"preset": "robust"},
    "freelb plus": {"preset": "plus"},
    "typos": {},
    "typos augmentation": {"preset": "augmentation"},
    "obfuscation": {},
    "synonyms": {"synonyms": TRAINED_ON},
    "words": {"synonyms": TRAINED_ON},
    "words hull": {"preset": "hull", "synonyms": TRAINED_ON},
    "words a2t": {"preset": "a2t", "synonyms": TRAINED_ON},
    "freelb+typos robust": {"freelb": {"preset": "robust"}, "typos": _BOTH},
    "freelb+views robust": {
        "freelb": {"preset": "robust"},
        "views": {"families": ["typos", "synonyms"], "synonyms": TRAINED_ON, **_BOTH},
    },
    # Added when three seeds of the rows above had been seen on xtremedistil, and no run of MiniLM or granite.
    "views": _VIEWS,
    "vat+views robust": {"vat": {"preset": "robust"}, "views": _VIEWS},
}
# Chosen for each model and task by the rule of `toughen tune`: as many candidates as plain training has rates.
TUNED: Mapping[str, tuple[Settings, ...]] = {
    "freelb tuned": (climb(0.003), climb(0.01), climb(0.03), climb(0.1)),
    "vat tuned": ({}, {"preset": "robust"}, {"max_norm": 0.06, "probe": 0.006}, {"preset": "robust", "weight": 3.0}),
    "smart tuned": ({}, {"preset": "robust"}, ball(0.06), ball(0.03, weight=3.0)),
    "sift tuned": ({}, {"preset": "robust"}, ball(0.06), ball(0.03, weight=3.0)),
    "fgm tuned": ({}, {"step_size": 0.01}, {"step_size": 0.03}, {"step_size": 0.1}),
    "r4f tuned": ({}, {"init_scale": 0.03}, {"init_scale": 0.1}, {"init_scale": 0.1, "weight": 3.0}),
    "rdrop tuned": ({}, {"weight": 0.3}, {"weight": 3.0}, {"weight": 5.0}),
    "smart+spectral tuned": (
        {},
        {"smart": {"preset": "robust"}},
        {"smart": ball(0.06)},
        {"smart": ball(0.03, weight=3.0)},
    ),
}

TASKS = (
    TaskPlan("rte", "accuracy", 8, (64, 128), held_rows=400, sets=("advglue-rte", "hans")),
    TaskPlan("mrpc", "accuracy", 6, (64, 96), held_rows=500, sets=("paws-qqp",)),
    TaskPlan("cola", "matthews", 6, (16, 32), held_rows=1000),
    TaskPlan("sst2", "accuracy", 4, (16, 32, 64), held_rows=1000, train_rows=8000, sets=("advglue-sst2",)),
    TaskPlan("stsb", "spearman", 5, (32, 64, 128), held_rows=700),
    TaskPlan("wnut17", "entity_f1", 6, (32, 64), held_rows=500, attacked_rows=250, second_order=False),
    TaskPlan("dream", "accuracy", 4, (256,), held_rows=300, train_rows=1500, dev_rows=500, attacked_rows=100),
)
# Only of the methods above; its rows come last.
AG_NEWS = TaskPlan("ag_news", "accuracy", 3, (32, 64, 128), held_rows=500, train_rows=8000)


@dataclass(frozen=True)
class Protocol:
    """Everything that is decided before the first run."""

    tasks: tuple[TaskPlan, ...] = TASKS
    methods: Mapping[str, tuple[Settings, ...]] = field(default_factory=lambda: {**METHODS, **TUNED})
    text_methods: Mapping[str, Settings] = field(default_factory=lambda: TEXT_METHODS)
    """Rows of their own on all models, of files that were prepared with texts; they come after all other runs."""
    text_epochs: tuple[int, ...] = (2, 3, 8)
    """Plain training beside them for so many times the epochs: a view costs two steps, both texts of FreeLB eight."""
    text_tasks: tuple[TaskPlan, ...] = (AG_NEWS,)
    """Further tasks of these rows."""
    rates: tuple[float, ...] = (5e-5, 1e-4, 2e-4, 3e-4)
    batch_size: int = 32
    warm_up: float = 0.1
    weight_decay: float = 0.01
    clip: float = 1.0
    tuning_model: str = "xtremedistil"
    """Settings are chosen on this model and kept for the others; learning rates are chosen on each."""
    tuning_tasks: tuple[str, ...] = ("rte", "cola", "sst2")
    tuning_seeds: tuple[int, ...] = (101, 102)
    slack: float = 0.005
    """Candidates this near to the best clean score count as equal; among them the most robust is taken."""
    rounds: tuple[tuple[int, ...], ...] = ((1, 2, 3), (4, 5))
    """Evaluation seeds; all methods get those of one round before any gets those of the next."""
    mean_tasks: tuple[str, ...] = ("rte", "mrpc", "cola", "sst2", "stsb")
    more_epochs: tuple[int, ...] = (2, 3)
    """Plain training for so many times the epochs: what the compute of a robust method buys without it."""
    second_order_methods: tuple[str, ...] = ("plain", "smart", "sift", "freelb", "asa", "rdrop")
    """Of these the second-order head is trained as well: plain shows the head alone, one of each kind the sum."""
    own_heads: tuple[str, ...] = ("rte", "cola")
    """Of these the second-order head is trained with its authors' q, k and dropout for the task, too."""
    authors: Mapping[str, str] = field(
        default_factory=lambda: {"freelb authors": "freelb/{}-roberta-large", "asa authors": "asa/{}-bert-base"}
    )
    """Methods with their authors' settings for each task of the mean, by the recipe that has them. Not tuned."""
    few: tuple[str, ...] = ("granite",)
    """Models on which only plain and the `best` methods are trained, with the linear head."""
    best: int = 5
    large: tuple[str, ...] = ("mpnet", "nomic", "deberta")
    """Models of the papers' size, on which only plain and the `best_large` rows are trained, with the linear head."""
    best_large: int = 6
    radii: tuple[float, ...] = (0.01, 0.02, 0.05)
    reference: float = 0.02
    steps: int = 7
    strengths: tuple[float, ...] = (0.1, 0.3)
    """Shares of words with a typo."""
    noise: tuple[tuple[str, float], ...] = (("misspellings", 0.5), ("casing", 0.5), ("obfuscation", 0.5))
    """Other noise with its share of words; misspellings if a lexicon is given. Older runs have none of these, nor
    attacks on texts: what they have in common stays comparable, so the digest names neither."""
    text_rows: int = 100
    """Development rows that searches over texts attack."""
    text_queries: int = 100
    text_words: float = 0.3
    pack: bool = False
    """Leave padding out of the layers in training: no score depends on it, so the digest does not name it."""
    data_seed: int = 0
    """Draws subsets, held-out rows, attacked rows and typos: the same for every run."""

    @property
    def seeds(self) -> tuple[int, ...]:
        return tuple(seed for part in self.rounds for seed in part)

    def narrowed(self, tasks: Iterable[str]) -> "Protocol":
        """Only these tasks, in the protocol's order."""
        wanted = set(tasks)
        if unknown := wanted - {task.name for task in self.all_tasks}:
            raise SystemExit(f"{', '.join(sorted(unknown))}: no task of the protocol.")
        tasks, more = (tuple(task for task in some if task.name in wanted) for some in (self.tasks, self.text_tasks))
        return replace(self, tasks=tasks, text_tasks=more)

    @property
    def all_tasks(self) -> tuple[TaskPlan, ...]:
        return (*self.tasks, *self.text_tasks)

    @property
    def all_methods(self) -> list[str]:
        return [*self.methods, *self.authors, *self.text_methods]

    def digest(self, task: str) -> str:
        """Of all that the scores of a task depend on, beside what a run's key says: runs of two must not be mixed."""
        common = (self.batch_size, self.warm_up, self.weight_decay, self.clip, self.data_seed)
        tests = (self.radii, self.reference, self.steps, self.strengths)
        return hashlib.sha256(repr((self.task(task), common, tests)).encode()).hexdigest()[:8]

    def is_default(self, method: str) -> bool:
        """Whether a row is a method as the library gives it when nothing else is asked for."""
        return method in self.methods and not self.methods[method][0] and not is_tuned(method)

    def authors_settings(self, method: str, task: str) -> Settings:
        """Return what the authors' recipe for a task says of its method."""
        return {
            key: value for key, value in config(self.authors[method].format(task))["method"].items() if key != "name"
        }

    def task(self, name: str) -> TaskPlan:
        return next(task for task in self.all_tasks if task.name == name)


@dataclass(frozen=True)
class Run:
    """One training with its tests."""

    purpose: str
    """`rates`, `settings` and `tune` choose on held-out training rows; `board` is what the table shows."""
    model: str
    task: str
    head: str
    method: str
    settings: str
    """As JSON with sorted keys, so that runs can be told apart and compared."""
    seed: int
    rate: float
    times: int = 1
    """Epochs as a multiple of the task's."""

    @property
    def key(self) -> str:
        return "/".join(str(part) for part in vars(self).values())

    @property
    def known_by(self) -> tuple[Any, ...]:
        return known_by({**vars(self), "made": self.made})

    @property
    def made(self) -> str:
        former = self.purpose in ("rates", "settings")  # what was chosen stays chosen
        return made_as(self.method, self.settings, former=former)

    @property
    def rig(self) -> tuple[str, str, str, str]:
        """What can stay on the device from one run to the next."""
        return (self.task, self.head, self.method, self.settings)


def is_tuned(method: str) -> bool:
    """Whether a row's settings are chosen for each model and task."""
    return method.endswith(" tuned")


def written(settings: Settings) -> str:
    return json.dumps(dict(settings), sort_keys=True)


def make(method: str, settings: str) -> Any:
    """A method of the library by its name in the table, whose first word is the library's."""
    import toughen

    return toughen.create_method(method.partition(" ")[0], **json.loads(settings))


def updates_of(method: Any) -> int:
    """Updates that a method makes of every batch. FreeAT makes several, and is trained on so many times fewer batches:
    its authors divide the epochs, and all methods then make the same number of updates.
    """
    from toughen.combine.free_replay import FreeReplay

    combine = getattr(method, "methods", (method,))[0].combine  # a sum cannot hold it
    return combine.passes if isinstance(combine, FreeReplay) else 1


def _ascends_divergence(method: Any) -> bool:
    return getattr(method.search_objective or method.compare, "least_at_clean", False)


@cache
def made_as(method: str, settings: str, *, former: bool = False) -> str:
    """A digest of a method with all its settings, also those of its defaults, which may be others one day.

    `former` is the digest of the runs in which half precision left half of the texts a random start.
    """
    made = make(method, settings)
    told = re.sub(r"\d+\.\d+(e-\d+)?", lambda number: f"{float(number[0]):.12g}", repr(made))
    if updates_of(made) > 1:
        told += ", as many times fewer batches"
    if not former and any(
        part.search.steps and _ascends_divergence(part) for part in getattr(made, "methods", (made,))
    ):
        told += ", logits in float32"
    digest = hashlib.sha256(told.encode()).hexdigest()[:8]
    return _recorded().get(digest, digest)


@cache
def _recorded() -> dict[str, str]:
    """Digests of runs made before classes got other names, by what the same method's digest is now."""
    path = Path(__file__).parent.parent / "results" / "digests.json"
    return json.loads(path.read_text()) if path.is_file() else {}


def made_of(row: Mapping[str, Any]) -> str:
    return row.get("made") or made_as(row["method"], written(row["settings"]), former=True)


def known_by(row: Mapping[str, Any]) -> tuple[Any, ...]:
    """What tells a run from others. Its method is known by what it is made of, however its settings were written."""
    return tuple(made_of(row) if each.name == "settings" else row[each.name] for each in fields(Run))
