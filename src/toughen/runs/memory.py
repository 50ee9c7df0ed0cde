"""Memory that ran out: smaller micro-batches at the same update, remembered in the run folder.

Processes that train together fall back together. One that ran out cannot tell the others, who wait for its gradients
inside a collective call, so it writes memory.json and ends; torchrun ends the others, and the run goes on from its last
checkpoint with the size that stands there. A resumed run knows it, too, and ends on the same bits.
"""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from .config import Config
from .errors import RunError
from .files import write_json

FILE = "memory.json"


def known(run: Path) -> dict[str, dict[str, Any]]:
    """What each arm of a run learnt about memory; empty while there was enough."""
    file = run / FILE
    return json.loads(file.read_text(encoding="utf-8")) if file.is_file() else {}


def notes(run: Path) -> list[str]:
    """Every fallback in a line, for results.json."""
    return [note for arm in known(run).values() for note in arm["notes"]]


def rows_of_a_pass(run: Path, config: Config, arm: str, world: int) -> tuple[int, int]:
    """Rows of a training pass and of an evaluation pass on one device."""
    train, share = config.train, config.train.batch_size // world
    wanted = min(train.micro_batch or share, share)
    if share % wanted:
        raise RunError(f"train.micro_batch={wanted} does not divide the {share} rows of a device's share of an update.")
    micro = int(known(run).get(arm, {}).get("rows", wanted))
    return micro, max(train.eval_batch_size * micro // wanted, 1)


def fall_back(run: Path, config: Config, arm: str, world: int, micro: int) -> str:
    """Note that `micro` rows a pass are too many; gives the line to tell."""
    share = config.train.batch_size // world
    smaller = next((rows for rows in range(micro // 2, 0, -1) if share % rows == 0), 0)
    if not smaller:
        raise RunError(
            f"out of memory with one row of {config.data.max_length} tokens at a time; lower data.max_length, add "
            "--peft, or give --trainer.gradient_checkpointing true"
            + (" or --train.shard true." if world > 1 and not config.train.shard else ".")
        )
    note = f"out of memory with {micro} rows a pass: {smaller} a pass, the update as before"
    before: Mapping[str, Any] = known(run).get(arm, {"notes": []})
    if before.get("rows") != smaller:  # several processes may run out at once; all write the same
        write_json(run / FILE, {**known(run), arm: {"rows": smaller, "notes": [*before["notes"], note]}})
    return note
