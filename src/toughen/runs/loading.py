"""The data of a run: its own splits, and sets that a task's models are always scored on too."""

from collections.abc import Mapping

from ..tasks import Data, DataError, Task
from ..tasks import load as load_data
from ..tasks.tokenising import is_labelled
from .config import Config
from .errors import RunError

# Task -> what its models are scored on as well, by the ending of its metrics: accuracy_mm, as run_glue.py writes it.
ALSO: Mapping[str, Mapping[str, str]] = {"mnli": {"mm": "mnli-mm"}}


def load(config: Config) -> Data:
    """The data of a config, checked for what training needs."""
    given = config.data
    columns = [part.strip() for part in given.text_column.split(",")] if given.text_column else None
    data = load_data(
        config.task,
        dir=given.dir,
        train_file=given.train_file,
        validation_file=given.validation_file,
        test_file=given.test_file,
        text_column=columns,
        label_column=given.label_column,
        labels=given.labels,
        head=given.head,
        delimiter=given.delimiter,
        encoding=given.encoding,
        quoting=given.quoting,
        max_line=given.max_line,
        label_separator=given.label_separator,
        on_bad=given.on_bad,
        validation_share=given.validation_share,
        limit=given.limit,
        few_shot=given.few_shot,
        label_noise=given.label_noise,
        imbalance=given.imbalance,
        seed=given.seed,
        cache_dir=given.cache_dir,
    )
    if data.train is None:
        tested = f"; it tests models of {data.task.tests}: use toughen evaluate" if data.task.tests else ""
        raise RunError(f"{data.task.title} has no training rows{tested}.")
    if getattr(data, given.eval_split) is None:
        raise RunError(f"data.eval_split={given.eval_split}: there is none; there are {', '.join(data.splits)}.")
    _check_rows(data, given.eval_split)
    if data.task.primary_metric == "mse":  # the one metric of which less is better: the worst epoch would be kept
        raise RunError(
            f"{data.task.title}: its first metric selects the epoch where it is highest, and mse is better when lower; "
            "put another first, such as pearson."
        )
    return data


def _check_rows(data: Data, split: str) -> None:
    """Refuse a split that would be scored each epoch and has nothing to score: no rows, or no labels."""
    rows = getattr(data, split)
    if not len(rows):
        raise RunError(
            f"{data.task.title} has {len(data.train)} training rows of {len(data.task.labels)} classes, too few to "
            "hold some out: give --data.validation_file, or --data.head regression if the labels are amounts."
        )
    if not is_labelled(rows, data.task):
        raise RunError(f"data.eval_split={split}: it has no labels to score; choose another, or give it labels.")


def also_scored(config: Config, task: Task) -> tuple[dict[str, Data], list[str]]:
    """MNLI's mismatched half, by the ending of its metrics; and a note where it is not to be had."""
    found: dict[str, Data] = {}
    notes: list[str] = []
    given = config.data
    for ending, name in ALSO.get(task.name, {}).items():
        if given.train_file is not None:
            continue  # a person's own files in place of the set's
        try:
            found[ending] = load_data(
                name, dir=given.dir, on_bad=given.on_bad, limit=given.limit, seed=given.seed, cache_dir=given.cache_dir
            )
        except DataError as error:
            notes.append(f"{name} is not scored: {error}")
    return found, notes
