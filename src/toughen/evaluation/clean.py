"""`toughen.evaluate`: a run or a model on any split or file."""

import json
import os
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from .._version import __version__
from ..internal.atomic import write_json

from ..tasks import load, task as task_named  # isort: skip
from ..tasks.read.folder import check_apart
from ..tasks.spec import SPLITS, DataError, Head, Task, options_of_caller
from .measures import Evaluation, measure
from .outputs import class_names, cut_words, load_model, outputs_of, shorter, unnamed
from .slices import text_slices
from .subjects import Subject, subjects_of

if TYPE_CHECKING:
    from ..attacks.settings import AttackSettings

# The run's own settings that say how its files are read.
_OWN_FILE = ("text_column", "label_column", "delimiter", "encoding", "quoting", "max_line", "label_separator")
_READING = (
    *("dir", "train_file", "validation_file", "test_file", *_OWN_FILE, "labels", "head"),
    *("on_bad", "validation_share", "limit", "seed", "cache_dir"),
)

# Options of `load` that are ours as well.
KNOWN = ("task", "dir", "text_column", "label_column", "limit")
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
    `file` on a person's own rows. Intervals are percentile bootstraps over rows, `samples` of them.

    `attack` names attacks to run as well ("characters,embedding", or "all"): embedding, characters, flips, synonyms,
    neighbours, noise, sets. `settings` are their budgets; summaries and attacked examples go to attacks/, and into
    `attacks` of what is returned. An interrupted attack goes on when it is called again.
    """
    if batch_size is not None and batch_size < 1:
        raise DataError(f"batch_size={batch_size}: it must be at least 1.")
    if samples < 1:
        raise DataError(f"samples={samples}: an interval needs at least 1, and 1000 for two digits.")
    suite = _suite(attack, settings, limit, progress) if attack else None
    columns = {"text_column": text_column, "label_column": label_column}
    found: list[Evaluation] = []
    for subject in subjects_of(path, all_seeds=all_seeds, all_checkpoints=all_checkpoints):
        data = _data(subject, task, split, file, dir, columns, limit)
        rows = getattr(data, split)
        model, tokenizer = load_model(subject.model, data.task)
        length = max_length or subject.data.get("max_length")
        outputs = outputs_of(model, tokenizer, data.task, rows, max_length=length, batch_size=batch_size or 64)
        plain = [dict(row) for row in rows]
        kept = {column: rows[column] for column in data.task.extra_columns if column in rows.column_names}
        name = _name(subject, data.task, split, file, limit if len(plain) == limit else None)
        evaluation = measure(
            data.task,
            outputs,
            name=name,
            split=split,
            columns={**kept, **text_slices(data.task, plain)},
            samples=samples,
            model=os.fspath(subject.model),
            source=os.fspath(file) if file else None,
            notes=[
                *(doubt.for_caller(KNOWN) for doubt in data.doubts),
                *unnamed(model.config, data.task),
                *cut_words(data.task, plain, outputs),
                *shorter(max_length, model, tokenizer),
            ],
        )
        home = subject.home if write else None
        if home is not None and (problem := _not_kept(home, evaluation)):
            evaluation, home = replace(evaluation, notes=[*evaluation.notes, problem]), None
        if suite is not None:
            about: dict[str, Any] = {"split": split, "samples": samples, "max_length": length, "batch_size": batch_size}
            about |= _sets(subject, task, dir, columns)
            target = suite.target(model, tokenizer, data.task, plain, outputs, **about)
            where = name.removesuffix(f"-{subject.label}") if subject.label else name
            where = "" if where == "validation" else where
            attacks = suite.run(target, home=home, label=subject.label, model=subject.model, where=where)
            evaluation = replace(evaluation, attacks=attacks)
        found.append(evaluation)
    return found


def _not_kept(home: Path, evaluation: Evaluation) -> str:
    """Write it down, or say why not: of a model that is not one's own the scores are still wanted."""
    try:
        told = {"toughen": __version__, **evaluation.to_dict()}
        write_json(home / "evaluations" / f"{evaluation.name}.json", told)
    except OSError as error:
        return f"not kept, as {home / 'evaluations'} cannot be written to: {error.strerror}"
    return ""


def _data(
    subject: Subject, task: str | Task | None, split: str, file: Any, dir: Any, columns: dict[str, Any], limit: Any
) -> Any:
    if limit is not None and limit < 1:
        raise DataError(f"limit={limit} leaves no rows; give 1 or more.")
    if split not in SPLITS:
        raise DataError(f"there is no split {split!r}: give one of {', '.join(SPLITS)}.")
    chosen = task or subject.task
    own = _given(subject.data, _READING)
    if file is not None:
        settings: dict[str, Any] = {**_given(own, _OWN_FILE), **_given(columns), f"{split}_file": file, "limit": limit}
        if chosen is None:
            learnt = _learnt(subject)
            return load(**settings, **{key: own.get(key) or learnt[key] for key in ("labels", "head")})
        return load(chosen, **settings)
    if chosen is None and not own.get("train_file"):
        raise DataError(f"{subject.model} does not say its task: give task= (--task), or file= (--file).")
    other = task is not None and (subject.task is None or task_named(task) != task_named(subject.task))
    settings = {key: own[key] for key in ("dir", "cache_dir") if key in own} if other else own
    if dir is not None:
        settings["dir"] = dir
    elif other and task is not None and subject.task is not None and "dir" in settings:
        check_apart(Path(settings["dir"]), task_named(task), task_named(subject.task))
    settings["limit"] = limit or settings.get("limit")
    data = load(chosen, **settings)
    if getattr(data, split) is None:
        raise DataError(f"{data.task.name!r} has no split {split!r}; it has {', '.join(data.splits)}.")
    if limit is None and not other and dir is None:
        _same_rows(subject, split, len(getattr(data, split)))
    # Only this split is tokenised.
    return replace(data, **{name: None for name in SPLITS if name != split})


def _given(settings: Mapping[str, Any], keys: Sequence[str] = ("text_column", "label_column")) -> dict[str, Any]:
    """Those of the settings that are set, the columns of the text by name: "premise, hypothesis" are two."""
    found = {key: settings[key] for key in keys if settings.get(key) is not None}
    if isinstance(found.get("text_column"), str):
        found["text_column"] = [name.strip() for name in found["text_column"].split(",")]
    return found


def _sets(subject: Subject, task: str | Task | None, dir: Any, columns: dict[str, Any]) -> dict[str, Any]:
    """Where the attack `sets` finds other sets, and how it reads files of one's own."""
    folder = dir or subject.data.get("dir")
    # The form of the run's own files; a published set has a form of its own.
    files = {} if task or subject.task else _given(subject.data, _OWN_FILE)
    return {"dir": Path(folder) if folder else None, "reading": {**files, **_given(columns)}}


def _same_rows(subject: Subject, split: str, rows: int) -> None:
    """Refuse a made development set of a file that has changed: rows the model was trained on may be in it now."""
    if split != "validation" or subject.data.get("validation_file"):
        return
    before = _began(subject).get("rows", {}).get(split, rows)
    if before != rows:
        raise DataError(
            f"{subject.home} held out {before} rows and now it would be {rows}: its training file has changed, and "
            "rows it learnt from may be among them. Give file= (--file)."
        )


def _suite(attack: "str | Sequence[str]", settings: "AttackSettings | None", limit: int | None, progress: bool) -> Any:
    """Imported where it is wanted: a clean evaluation needs none of it."""
    from ..attacks.suite import Suite

    return Suite.of(attack, settings, limit, progress)


def _learnt(subject: Subject) -> dict[str, Any]:
    """Label names in the order the model learned them, and its head; None where only the file can say it."""
    from transformers import AutoConfig

    config: Any = AutoConfig.from_pretrained(subject.model)
    names = class_names(config)
    unnamed = all(name == f"LABEL_{number}" for number, name in enumerate(names))
    head = _began(subject).get("head") or _head(config)
    # Classes are found in the file: amounts or lists instead are told as what they are.
    return {"labels": None if unnamed or head == "regression" else names, "head": None if head == "classes" else head}


def _head(config: Any) -> Head | None:
    kind = str((config.architectures or [""])[0])
    if "TokenClassification" in kind:
        return "tokens"
    if "MultipleChoice" in kind:
        return "choices"
    if config.num_labels == 1:
        return "regression"
    return _HEADS.get(getattr(config, "problem_type", None) or "")


def _began(subject: Subject) -> dict[str, Any]:
    """What the run noted of its data when it began; nothing of a plain model."""
    file = subject.home / "began.json"
    return json.loads(file.read_text(encoding="utf-8")) if file.is_file() else {}


def _name(subject: Subject, task: Task, split: str, file: Any, limit: int | None) -> str:
    """Of the file, or of the set where it is another than the run's, and the split; then which model.

    A limit that cut rows off is said, so that a look at a few rows never goes over what is known of all of them.
    """
    other = task.name != subject.task and subject.task is not None
    first = _stem(Path(file)) if file else (f"{task.name}-{split}" if other else split)
    return "-".join(part for part in (first, f"limit-{limit}" if limit else "", subject.label) if part)


def _stem(file: Path) -> str:
    """Its name without endings; never a split's, which would go over what is known of the run's own rows."""
    stem = Path(file.stem).stem if file.suffix == ".gz" else file.stem
    return f"file-{stem}" if stem in SPLITS else stem
