"""The next batch is copied to the device while the step runs."""

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import torch
from torch import Tensor

from .capture import on_device


def prefetch(
    batches: Iterable[Mapping[str, Any]], device: torch.device | str, ahead: int = 2
) -> Iterator[dict[str, Any]]:
    """Yield batches on the device; `ahead` of them are being copied.

    From pinned memory (`DataLoader(pin_memory=True)`) the copy overlaps with the step; on a CPU this is a plain loop.

    Args:
        batches: Batches, such as a DataLoader's.
        device: Where they go.
        ahead: How many are being copied.

    Returns:
        An iterator over the batches on the device.

    Examples:
        >>> for batch in toughen.cuda_graphs.prefetch(batches, "cpu"):
        ...     output = model(**batch)
    """
    device = torch.device(device)
    if device.type != "cuda":
        for batch in batches:
            yield _copy_async(batch, device)
        return
    stream, waiting = torch.cuda.Stream(device), list[tuple[dict[str, Any], Any]]()
    for batch in batches:
        with torch.cuda.stream(stream):
            moved = _copy_async(batch, device)
        waiting.append((moved, stream.record_event()))
        if len(waiting) > ahead:
            yield _wait(*waiting.pop(0), device)
    for left in waiting:
        yield _wait(*left, device)


def _copy_async(batch: Mapping[str, Any], device: torch.device) -> dict[str, Any]:
    if not hasattr(batch, "items"):
        raise TypeError(
            f"prefetch: the loader makes batches that are a {type(batch).__name__}; give it a collate_fn that makes "
            "dictionaries with the names of the model's inputs."
        )
    return {name: on_device(value, device) for name, value in batch.items()}


def _wait(batch: dict[str, Any], copied: Any, device: torch.device) -> dict[str, Any]:
    current = torch.cuda.current_stream(device)
    current.wait_event(copied)
    for value in batch.values():
        if isinstance(value, Tensor):
            value.record_stream(current)  # its memory is not given away while the step still reads it
    return batch
