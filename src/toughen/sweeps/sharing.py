"""Data made ready once, before any trial starts; trials find the tokens in the cache."""

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING

from ..runs.config import Config

if TYPE_CHECKING:
    from ..tasks import Data


def make_ready(configs: Sequence[Config]) -> "dict[str, Data]":
    """Read and tokenise the data that these configs share, as their runs will; refuse models that they cannot have.

    Beside the data itself, under "", what its models are scored on as well, by the ending of its metrics.
    """
    from ..runs.modeling import changed_config, length_of, load_tokenizer
    from ..runs.prepare import load_data, load_extra_eval_sets
    from ..runs.progress import silence_libraries
    from ..tasks import prepare

    config = configs[0]
    with silence_libraries():
        data = load_data(config)
        for each in configs:
            changed_config(each, data.task)
        tokenizer = load_tokenizer(config.model)
        length, *_ = length_of(config, tokenizer)
        sets = {"": data, **load_extra_eval_sets(config, data.task)[0]}
        return {key: prepare(each, tokenizer, length, cache_dir=config.data.cache_dir) for key, each in sets.items()}


def scores_of(sets: "Mapping[str, Data]", scored: str) -> dict[str, bool]:
    """Every score that a run of this data has at its end, and whether it is also taken after each epoch."""
    found: dict[str, bool] = {}
    for key, data in sets.items():
        ending = f"_{key}" if key else ""
        for split, rows in data.splits.items():
            if (split == "train" and split != scored) or "labels" not in rows.column_names:
                continue  # withheld labels leave predictions alone
            prefix = "" if split == scored else f"{split}_"
            found |= {f"{prefix}{name}{ending}": not prefix + ending for name in ("loss", *data.task.metrics)}
    return found


def shared_scores(alike: Iterable[Sequence[Config]]) -> tuple[dict[str, bool], str]:
    """Make all data ready, that of several configs once; the scores that all of it has, and the one that selects."""
    known: dict[str, bool] | None = None
    selects = ""
    for configs in alike:
        sets = make_ready(configs)
        scores = scores_of(sets, configs[0].data.eval_split)
        known = scores if known is None else {name: each for name, each in known.items() if name in scores}
        selects = selects or sets[""].task.selects
    return known or {}, selects
