"""The first lines of a run: what is about to be trained on what."""

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from .._version import __version__
from ..tasks import Data
from .config import Config
from .method_config import settings_of


def introduction(
    config: Config,
    data: Data,
    tokenizer: Any,
    lengths: tuple[int, int | None],
    precision: str,
    world: int,
    notes: Sequence[str],
) -> Iterator[str]:
    """`toughen 0.1 · smart (weight 5) · RTE 2490/277/3000 · roberta-base · cuda bf16 · 3 seeds`, then the data.

    `lengths` are the tokens that texts are cut at, and those the model reads at most.
    """
    length, longest = lengths
    rows = "/".join(f"{len(split)}" for split in data.splits.values())
    seeds = f"{len(config.seed)} seed{'s' * (len(config.seed) > 1)}" + (" + plain" if config.baseline else "")
    where = f"{_device()} {precision}" + (f" x {world}{' sharded' * config.train.shard}" if world > 1 else "")
    model = Path(config.model).name if Path(config.model).is_dir() else config.model
    model += f" + {config.head.name} head" if config.head.name else ""
    told = [f"toughen {__version__}", _method(config), f"{data.task.title} {rows}", model, where, seeds]
    yield " · ".join(told)
    report = data.report(tokenizer, length, longest)
    cut = report.truncated.get("train", 0.0)
    told = [f"{cut:.1%} of the texts cut at {length} tokens" if cut else f"no text is cut at {length} tokens"]
    balance = report.balance.get("train", {})
    if data.task.head == "classes" and len(balance) <= 5:
        whole = sum(balance.values())
        told.append(" / ".join(f"{label} {count / whole:.1%}" for label, count in balance.items()))
    else:
        told.append(f"{len(data.task.labels)} classes" if data.task.head == "classes" else data.task.head)
    if config.data.train_file and not config.data.text_column:  # a guess
        told.append(f"text: {' and '.join(map(repr, data.task.columns))}")
    yield " · ".join(told)
    yield from (f"! {line}" for line in (*data.doubts, *report.warnings, *notes))


def _method(config: Config) -> str:
    if "repr" in config.method:
        return config.method_name
    told: list[str] = []
    for part, given in settings_of(config.method).items():
        changed = [f"{key} {value:g}" if isinstance(value, float) else f"{key} {value}" for key, value in given.items()]
        kept = [each for each in changed if each != "preset recommended"]
        told.append(f"{part} ({', '.join(kept)})" if kept else part)
    return " + ".join(told)


def _device() -> str:
    import torch

    return torch.accelerator.current_accelerator().type if torch.accelerator.is_available() else "cpu"  # pyright: ignore[reportOptionalMemberAccess]
