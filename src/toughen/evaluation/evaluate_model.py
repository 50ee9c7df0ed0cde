"""`toughen.evaluate`: score a run or a model folder on any split or file."""

import json
import os
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from .._version import __version__
from ..internal.atomic import write_json
from ..reports.folder import explain_not_a_run
from ..runs.folder import checkpoints_in
from ..tasks import load
from ..tasks import task as task_named
from ..tasks.read.folder import check_apart
from ..tasks.scoring import kept_tokens
from ..tasks.spec import SPLITS, DataError, Head, Task, options_of_caller
from .measures import Evaluation, measure, text_slices
from .outputs import (
    Outputs,
    class_names,
    cut_words_note,
    load_model,
    max_length_note,
    outputs_of,
    unnamed_classes_note,
)

if TYPE_CHECKING:
    from ..attacks.suite import AttackSettings
    from ..attacks.target import Target
    from ..attacks.victim import Precision


@dataclass(frozen=True)
class ModelRef:
    """One model on disk, and what its run says about task and data.

    Args:
        model: The folder of the model.
        task: The task it was trained on, if known.

    Examples:
        >>> toughen.evaluation.model_refs(run)[0].model.name
        'model'
    """

    model: Path
    home: Path
    """The folder that gets `evaluations/`."""
    label: str = ""
    """What tells it from other models of the same home: seed-2, checkpoint-30."""
    task: str | None = None
    data: Mapping[str, Any] = field(default_factory=dict[str, Any])
    """The `data:` group of the run's configuration."""


def model_refs(
    path: "str | os.PathLike[str]", *, all_seeds: bool = False, all_checkpoints: bool = False
) -> list[ModelRef]:
    """Return the models meant by a path: a run's best one, or all its seeds or checkpoints; or a model folder.

    Args:
        path: A run folder, or the folder of a model.
        all_seeds: The models of all seeds, and of their plain baselines.
        all_checkpoints: The models of all kept epochs.

    Returns:
        The models.

    Raises:
        DataError: No model in the folder, or no checkpoints.

    Examples:
        >>> toughen.evaluation.model_refs(run)[0].model.name
        'model'
    """
    folder = Path(path)
    if (folder / "results.json").is_file():
        return _of_run(folder, all_seeds, all_checkpoints)
    if all_checkpoints and (checkpoints := checkpoints_in(folder)):
        return [ModelRef(each, folder, each.name) for each in checkpoints]
    if (folder / "trials").is_dir():
        raise DataError(f"{folder} {explain_not_a_run(folder)}")
    model = folder if (folder / "config.json").is_file() else folder / "model"
    if not (model / "config.json").is_file():
        if not folder.exists() or (folder / "config.yaml").is_file():  # of a run that is not done
            raise DataError(f"{folder} {explain_not_a_run(folder)}")
        raise DataError(f"{folder} is neither a run (results.json) nor a model folder (config.json); give one of them.")
    if all_checkpoints:
        raise DataError(f"{folder} has no checkpoint-* folder; train with --train.keep_checkpoints true.")
    return [_below_run(model) or ModelRef(model, folder)]


def _below_run(model: Path) -> ModelRef | None:
    """Return a model in a run's folder (RUN/seeds/1/checkpoint-30) with what the run says; None elsewhere."""
    seed = model.absolute().parent
    if (seed / "began.json").is_file():
        return ModelRef(model, seed, "", *_settings(seed))
    run, variant = seed.parent.parent, {"seeds": "seed", "baseline": "baseline"}.get(seed.parent.name)
    if variant is None or not (run / "began.json").is_file():
        return None
    label = f"{variant}-{seed.name}" + (f"-{model.name}" if model.name != "model" else "")
    return ModelRef(model, run, label, *_settings(run))


def _of_run(run: Path, all_seeds: bool, all_checkpoints: bool) -> list[ModelRef]:
    task, data = _settings(run)
    if not all_seeds and not all_checkpoints:
        if not (run / "model" / "config.json").is_file():
            raise DataError(f"{run} has no model: its folder model/ is missing.")
        return [ModelRef(run / "model", run, "", task, data)]
    refs: list[ModelRef] = []
    for arm, folder in (("seed", "seeds"), ("baseline", "baseline")):
        homes = [each for each in (run / folder).glob("*") if each.is_dir()]
        for home in sorted(homes, key=lambda each: (len(each.name), each.name)):
            models = checkpoints_in(home) if all_checkpoints else [home / "model"]
            for model in models:
                if (model / "config.json").is_file():
                    label = f"{arm}-{home.name}" + (f"-{model.name}" if all_checkpoints else "")
                    refs.append(ModelRef(model, run, label, task, data))
    if not refs:
        kind = "checkpoint (train with --train.keep_checkpoints true)" if all_checkpoints else "model of a seed"
        raise DataError(f"{run} keeps no {kind}.")
    return refs


def _settings(run: Path) -> tuple[str | None, dict[str, Any]]:
    """Return the registered task, None for own files; and the data group of the configuration."""
    import yaml

    try:
        file = next(run / name for name in ("results.json", "began.json") if (run / name).is_file())
        results: Any = json.loads(file.read_text(encoding="utf-8"))
        text = (run / "config.yaml").read_text(encoding="utf-8") if (run / "config.yaml").is_file() else ""
        config: Any = yaml.safe_load(text) or {}
    except (ValueError, yaml.YAMLError) as error:
        raise DataError(f"{run} is a broken run: {' '.join(str(error).split())}") from None
    data = config.get("data") or {}
    return (None if data.get("train_file") else results.get("task")), data


# The run's own settings that say how its files are read.
_OWN_FILE = ("text_column", "label_column", "delimiter", "encoding", "quoting", "max_line", "label_separator")
_READING = (
    *("dir", "train_file", "validation_file", "test_file", *_OWN_FILE, "labels", "head"),
    *("on_bad", "validation_share", "select_on_train", "limit", "seed", "cache_dir"),
)

# Options of `load` that are ours as well.
KNOWN = ("task", "dir", "text_column", "label_column", "delimiter", "encoding", "on_bad", "limit")
_HEADS: dict[str, Head] = {"regression": "regression", "multi_label_classification": "multilabel"}  # by `problem_type`


@options_of_caller(*KNOWN)
def evaluate(
    path: "str | os.PathLike[str]",
    *,
    task: str | Task | None = None,
    split: str = "validation",
    file: "str | os.PathLike[str] | None" = None,
    dir: "str | os.PathLike[str] | None" = None,
    text_column: str | None = None,
    label_column: str | None = None,
    delimiter: str | None = None,
    encoding: str | None = None,
    on_bad: Literal["error", "skip"] | None = None,
    max_length: int | None = None,
    limit: int | None = None,
    batch_size: int | None = None,
    samples: int = 1000,
    all_seeds: bool = False,
    all_checkpoints: bool = False,
    attack: str | Sequence[str] = (),
    settings: "AttackSettings | None" = None,
    progress: bool = False,
    write: bool = True,
) -> list[Evaluation]:
    """Score a run's model (or all its seeds or checkpoints) or a model folder; write evaluations/<name>.json.

    A run knows its task, data and length. `task` and `dir` evaluate on another set, such as HANS for an MNLI model;
    `file` on a person's own rows. Summaries of attacks and attacked examples go to attacks/. An interrupted attack goes
    on when it is called again.

    Args:
        path: A run folder, or a folder with a model.
        task: Another task than the run's own.
        split: Which part of the data.
        file: Own rows.
        dir: The folder of named tasks on this machine.
        text_column: The column of texts in the file.
        label_column: The column of labels.
        delimiter: Of a table; inferred if omitted.
        encoding: Of a file that is not UTF-8.
        on_bad: Rows that cannot be used: "error" stops, "skip" leaves them out.
        max_length: Tokens at which texts are cut.
        limit: The number of rows at most.
        batch_size: Rows that go through the model at once.
        samples: Bootstrap samples over rows, for the 95 % intervals.
        all_seeds: Score every seed of the run, and its plain baseline.
        all_checkpoints: Score every kept checkpoint.
        attack: Attacks to run as well, such as "characters,embedding", or "all"; docs/evaluation.md lists them.
        settings: The budgets of the attacks.
        progress: Say how far the attacks are.
        write: Write files; False only returns what was found.

    Returns:
        One evaluation for each model, with its attacks in `attacks`.

    Raises:
        DataError: No model in the folder, rows that cannot be used, or an unknown attack.

    Examples:
        >>> (found,) = toughen.evaluate(run, attack="noise", limit=8)
        >>> sorted(found.metrics["accuracy"])
        ['high', 'low', 'value']
    """
    check_counts(batch_size=batch_size, samples=samples, max_length=max_length, limit=limit)
    suite = None
    if attack:  # a clean evaluation imports nothing of attacks
        from ..attacks.suite import Suite

        suite = Suite.of(attack, settings, limit, progress)
    reading = {"text_column": text_column, "label_column": label_column, "delimiter": delimiter, "encoding": encoding}
    reading["on_bad"] = on_bad
    evaluations: list[Evaluation] = []
    for model_ref in model_refs(path, all_seeds=all_seeds, all_checkpoints=all_checkpoints):
        data = read_rows(model_ref, task, split, file, dir, reading, limit)
        clean = clean_pass(model_ref, data, split, file, limit, max_length, batch_size, samples)
        evaluation, name = clean.evaluation, clean.evaluation.name
        home = model_ref.home if write else None
        if home is not None and (problem := _write_or_note(home, evaluation)):
            evaluation, home = replace(evaluation, notes=[*evaluation.notes, problem]), None
        if suite is not None:
            about = {"split": split, "samples": samples, **_sets(model_ref, task, dir, reading)}
            target = clean.target(data.task, batch_size=batch_size, precision=suite.precision, **about)
            where = name.removesuffix(f"-{model_ref.label}") if model_ref.label else name
            where = "" if where == "validation" else where
            attacks = suite.run(target, home=home, label=model_ref.label, model=model_ref.model, where=where)
            evaluation = replace(evaluation, attacks=attacks)
        evaluations.append(evaluation)
    return evaluations


def check_split(split: str) -> None:
    """Refuse a split that no set has."""
    if split not in SPLITS:
        raise DataError(f"there is no split {split!r}: give one of {', '.join(SPLITS)}.")


def check_counts(**counts: int | None) -> None:
    """Refuse a count that is not at least 1."""
    for name, count in counts.items():
        if count is not None and count < 1:
            raise DataError(f"{name}={count}: it must be at least 1.")


def read_split(
    path: "str | os.PathLike[str]", split: str, dir: "str | os.PathLike[str] | None" = None
) -> tuple[Task, Any]:
    """Return a run's task and the rows of one of its splits, whether they have labels or not.

    `test_mm` is the test split of MNLI's mismatched half, under the name that a run gives it.

    Args:
        path: A run folder.
        split: "train", "validation" or "test".
        dir: The folder of named tasks on this machine.

    Returns:
        The task and its rows.

    Raises:
        DataError: A folder that is not a run, or an unknown split.

    Examples:
        >>> task, rows = toughen.evaluation.read_split(run, "validation")
        >>> task.columns
        ('text',)
    """
    from ..runs.prepare import EXTRA_EVAL_SETS

    [model_ref] = model_refs(path)
    if not model_ref.data and model_ref.task is None:
        raise DataError(f"{os.fspath(path)} is not a run, so its data is unknown; give the rows as a file.")
    split, _, ending = split.partition("_")
    halves = EXTRA_EVAL_SETS.get(task_named(model_ref.task).name, {}) if model_ref.task else {}
    if ending and ending not in halves:
        raise DataError(f"{split}_{ending} is a split of MNLI, which {os.fspath(path)} is not trained on.")
    data = read_rows(model_ref, halves.get(ending), split, None, dir, {}, None)
    return data.task, getattr(data, split)


@dataclass(frozen=True)
class CleanPass:
    """A model and its outputs on unchanged rows."""

    model: Any
    tokenizer: Any
    rows: list[dict[str, Any]]
    outputs: Outputs
    evaluation: Evaluation
    reads: dict[str, Any]
    """How it reads texts: the tokens that they are cut at, and whether they are padded to as many."""
    seconds: float
    """Of the forward passes, with tokenising."""

    def target(
        self, task: Task, *, batch_size: int | None = None, precision: "Precision" = "auto", **about: Any
    ) -> "Target":
        """Return the model and its answers to these rows as the target of attacks."""
        from ..attacks.target import Target
        from ..attacks.victim import Victim

        reads: dict[str, Any] = {**self.reads, "batch_size": batch_size, "precision": precision}
        logits, labels = self.outputs.logits, self.outputs.labels
        if task.head == "tokens":
            logits, labels = kept_tokens(logits, labels)
        return Target(Victim(self.model, self.tokenizer, task, **reads), self.rows, logits, labels, **about)


def clean_pass(
    model_ref: ModelRef,
    data: Any,
    split: str,
    file: Any,
    limit: int | None,
    max_length: int | None,
    batch_size: int | None,
    samples: int,
) -> CleanPass:
    """Load a model and measure it on the rows of a split."""
    rows = getattr(data, split)
    model, tokenizer = load_model(model_ref.model, data.task)
    reads: dict[str, Any] = {
        "max_length": max_length or model_ref.data.get("max_length"),
        "pad_to_max_length": bool(model_ref.data.get("pad_to_max_length")),
    }
    began = time.perf_counter()
    outputs = outputs_of(model, tokenizer, data.task, rows, **reads, batch_size=batch_size or 64)
    seconds = time.perf_counter() - began
    plain = [dict(row) for row in rows]
    kept = {column: rows[column] for column in data.task.extra_columns if column in rows.column_names}
    evaluation = measure(
        data.task,
        outputs,
        name=rows_name(model_ref, data.task, split, file, limit if len(plain) == limit else None),
        split=split,
        columns={**kept, **text_slices(data.task, plain)},
        samples=samples,
        model=os.fspath(model_ref.model),
        source=os.fspath(file) if file else None,
        notes=[
            *(doubt.for_caller(KNOWN) for doubt in data.doubts),
            *unnamed_classes_note(model.config, data.task),
            *cut_words_note(data.task, plain, outputs),
            *max_length_note(max_length, model, tokenizer),
        ],
    )
    return CleanPass(model, tokenizer, plain, outputs, evaluation, reads, seconds)


def _write_or_note(home: Path, evaluation: Evaluation) -> str:
    """Write the evaluation, or return why not: the scores of a model in a read-only folder are still wanted."""
    try:
        content = {"toughen": __version__, **evaluation.to_dict()}
        write_json(home / "evaluations" / f"{evaluation.name}.json", content)
    except OSError as error:
        return f"not kept, as {home / 'evaluations'} cannot be written to: {error.strerror}"
    return ""


def read_rows(
    model_ref: ModelRef,
    task: str | Task | None,
    split: str,
    file: object,
    dir: object,
    reading: dict[str, Any],
    limit: int | None,
) -> Any:
    """Return the data of a split: of the run itself, of another task or folder, or of a file."""
    check_split(split)
    chosen = task or model_ref.task
    own = selected_options(model_ref.data, _READING)
    if file is not None:
        settings: dict[str, Any] = {
            **selected_options(own, _OWN_FILE),
            **selected_options(reading, tuple(reading)),
            f"{split}_file": file,
            "limit": limit,
        }
        if chosen is None:
            learned = _labels_from_config(model_ref)
            return load(**settings, **{key: own.get(key) or learned[key] for key in ("labels", "head")})
        return load(chosen, **settings)
    if chosen is None and not own.get("train_file"):
        raise DataError(f"{model_ref.model} does not say its task: give task= (--task), or file= (--file).")
    other = task is not None and (model_ref.task is None or task_named(task) != task_named(model_ref.task))
    settings = {key: own[key] for key in ("dir", "cache_dir") if key in own} if other else own
    if dir is not None:
        settings["dir"] = dir
    elif other and task is not None and model_ref.task is not None and "dir" in settings:
        check_apart(Path(settings["dir"]), task_named(task), task_named(model_ref.task))
    if settings.get("train_file"):
        settings |= selected_options(reading, ("delimiter", "encoding", "on_bad"))
    settings["limit"] = limit or settings.get("limit")
    data = load(chosen, **settings)
    if getattr(data, split) is None:
        raise DataError(f"{data.task.name!r} has no split {split!r}; it has {', '.join(data.splits)}.")
    if limit is None and not other and dir is None:
        _same_rows(model_ref, split, len(getattr(data, split)))
    # Only this split is tokenised.
    return replace(data, **{name: None for name in SPLITS if name != split})


def selected_options(
    settings: Mapping[str, Any], keys: Sequence[str] = ("text_column", "label_column")
) -> dict[str, Any]:
    """Return those of the settings that are set, the columns of the text by name: "premise, hypothesis" are two."""
    selected = {key: settings[key] for key in keys if settings.get(key) is not None}
    if isinstance(selected.get("text_column"), str):
        selected["text_column"] = [name.strip() for name in selected["text_column"].split(",")]
    return selected


def _sets(model_ref: ModelRef, task: str | Task | None, dir: Any, reading: dict[str, Any]) -> dict[str, Any]:
    """Return where the attack `sets` finds other sets, and how it reads own files."""
    folder = dir or model_ref.data.get("dir")
    # The form of the run's own files; a published set has a form of its own.
    files = {} if task or model_ref.task else selected_options(model_ref.data, _OWN_FILE)
    return {"dir": Path(folder) if folder else None, "reading": {**files, **selected_options(reading, tuple(reading))}}


def _same_rows(model_ref: ModelRef, split: str, rows: int) -> None:
    """Refuse a made development set of a file that has changed: rows the model was trained on may be in it now."""
    if split != "validation" or model_ref.data.get("validation_file"):
        return
    before = _run_manifest(model_ref).get("rows", {}).get(split, rows)
    if before != rows:
        raise DataError(
            f"{model_ref.home} held out {before} rows and would now hold out {rows}: its training file has changed, so "
            "they may include rows it learned from. Give file= (--file)."
        )


def _labels_from_config(model_ref: ModelRef) -> dict[str, Any]:
    """Return label names in the order the model learned them, and its head; None where only the file can say it."""
    from transformers import AutoConfig

    config: Any = AutoConfig.from_pretrained(model_ref.model)
    names = class_names(config)
    default_names = all(name == f"LABEL_{number}" for number, name in enumerate(names))
    head = _run_manifest(model_ref).get("head") or _head(config)
    # Classes are read from the file: numbers or lists there get an error that names them.
    return {
        "labels": None if default_names or head == "regression" else names,
        "head": None if head == "classes" else head,
    }


def _head(config: Any) -> Head | None:
    kind = str((config.architectures or [""])[0])
    if "TokenClassification" in kind:
        return "tokens"
    if "MultipleChoice" in kind:
        return "choices"
    if config.num_labels == 1:
        return "regression"
    return _HEADS.get(getattr(config, "problem_type", None) or "")


def _run_manifest(model_ref: ModelRef) -> dict[str, Any]:
    """Return what the run noted of its data when it began; nothing of a plain model."""
    file = model_ref.home / "began.json"
    return json.loads(file.read_text(encoding="utf-8")) if file.is_file() else {}


def rows_name(model_ref: ModelRef, task: Task, split: str, file: Any, limit: int | None) -> str:
    """Return the name of an evaluation: file, or other set and split; a limit that cut rows off; which model.

    With the limit in its name, scores of a few rows never overwrite those of all.
    """
    other = task.name != model_ref.task and model_ref.task is not None
    first = f"{task.name}-{split}" if other else split
    if file:
        path = Path(file)
        stem = Path(path.stem).stem if path.suffix == ".gz" else path.stem
        # A split's name would overwrite what is known of the run's own rows.
        first = f"file-{stem}" if stem in SPLITS else stem
    return "-".join(part for part in (first, f"limit-{limit}" if limit else "", model_ref.label) if part)
