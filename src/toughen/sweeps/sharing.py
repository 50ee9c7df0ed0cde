"""Data made ready once, before any trial starts; trials find the tokens in the cache."""

from collections.abc import Iterable
from typing import TYPE_CHECKING

from ..runs.config import Config

if TYPE_CHECKING:
    from ..tasks import Data


def make_ready(config: Config) -> "Data":
    """Read and tokenise the data of a config as its run will; a second call with the same data finds it."""
    from ..runs.modeling import load_tokenizer
    from ..runs.quiet import quiet
    from ..runs.session import load
    from ..tasks import prepare

    with quiet():
        data = load(config)
        tokenizer = load_tokenizer(config.model)
        length = min(config.data.max_length, int(tokenizer.model_max_length))
        return prepare(data, tokenizer, length, cache_dir=config.data.cache_dir)


def scores_of(data: "Data", scored: str) -> dict[str, bool]:
    """Every score that a run of this data has at its end, and whether it is also taken after each epoch."""
    names = ("loss", *data.task.metrics)
    found = dict.fromkeys(names, True)
    for split in data.splits:
        if split not in ("train", scored):
            found |= {f"{split}_{name}": False for name in names}
    return found


def shared_scores(configs: Iterable[Config]) -> tuple[dict[str, bool], str]:
    """Make all data ready; the scores that all of it has, and the one that selects."""
    known: dict[str, bool] | None = None
    selects = ""
    for config in configs:
        data = make_ready(config)
        scores = scores_of(data, config.data.eval_split)
        known = scores if known is None else {name: each for name, each in known.items() if name in scores}
        selects = selects or data.task.selects
    return known or {}, selects
