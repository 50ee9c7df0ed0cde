"""Data made ready once, before any trial starts; trials find the tokens in the cache."""

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

from ..runs.config import Config

if TYPE_CHECKING:
    from ..tasks import Data


def make_ready(configs: Sequence[Config]) -> "Data":
    """Read and tokenise the data that these configs share, as their runs will; refuse models that they cannot have."""
    from ..runs.loading import load
    from ..runs.modeling import changed_config, length_of, load_tokenizer
    from ..runs.quiet import quiet
    from ..tasks import prepare

    config = configs[0]
    with quiet():
        data = load(config)
        for each in configs:
            changed_config(each, data.task)
        tokenizer = load_tokenizer(config.model)
        length, *_ = length_of(config, tokenizer)
        return prepare(data, tokenizer, length, cache_dir=config.data.cache_dir)


def scores_of(data: "Data", scored: str) -> dict[str, bool]:
    """Every score that a run of this data has at its end, and whether it is also taken after each epoch."""
    names = ("loss", *data.task.metrics)
    found = dict.fromkeys(names, True)
    for split in data.splits:
        if split not in ("train", scored):
            found |= {f"{split}_{name}": False for name in names}
    return found


def shared_scores(alike: Iterable[Sequence[Config]]) -> tuple[dict[str, bool], str]:
    """Make all data ready, that of several configs once; the scores that all of it has, and the one that selects."""
    known: dict[str, bool] | None = None
    selects = ""
    for configs in alike:
        data = make_ready(configs)
        scores = scores_of(data, configs[0].data.eval_split)
        known = scores if known is None else {name: each for name, each in known.items() if name in scores}
        selects = selects or data.task.selects
    return known or {}, selects
