"""The clean pass beside the first perturbed one: two branches of a captured step.

At fine-tuning sizes one pass does not fill a GPU. Neither of the two waits for the other, and their backward passes do
not either, so a graph can run them at the same time. What is computed is the same to the last bit. One batch of twice
the size would also compute the search's gradient for the clean rows, which is a quarter more arithmetic for SMART, draw
other dropout masks in attention kernels, and give a loss over both halves.
"""

from collections.abc import Generator, Mapping, Sequence
from contextlib import contextmanager
from functools import cache
from typing import Any

import torch
from torch import Tensor, nn

from ..method import Method
from ..needs import declared

MOST_TOKENS = 8192  # of a padded batch: above, BERT-base has three tiles of 128 x 128 for each unit of an H200


class SideStream:
    """A branch of the step that is being captured, from `fork` to `join`."""

    def __init__(self, device: torch.device) -> None:
        self.device = device
        self.stream: torch.cuda.Stream | None = None

    @contextmanager
    def fork(self) -> Generator[None]:
        """Run what is inside beside what follows. Nobody may read it before `join`."""
        stream = _stream_of(self.device)
        stream.wait_stream(torch.cuda.current_stream(self.device))
        cached = torch.is_autocast_cache_enabled()
        torch.set_autocast_cache_enabled(False)  # the other branch would read a copy that is not yet made
        try:
            with torch.cuda.stream(stream):
                yield
        finally:
            torch.set_autocast_cache_enabled(cached)
        self.stream = stream
        _warn_of_two_streams(False)  # a weight gets gradients from both

    def join(self) -> None:
        """Let what follows wait for the branch; nothing if there is none."""
        if self.stream is not None:
            torch.cuda.current_stream(self.device).wait_stream(self.stream)

    def close(self) -> None:
        """Wait for its backward pass as well."""
        self.join()
        if self.stream is not None:
            _warn_of_two_streams(True)


def _warn_of_two_streams(enabled: bool) -> None:
    setting = getattr(torch.autograd.graph, "set_warn_on_accumulate_grad_stream_mismatch", None)  # since torch 2.10
    if setting is not None:
        setting(enabled)


@cache
def _stream_of(device: torch.device) -> torch.cuda.Stream:
    return torch.cuda.Stream(device)


def side_stream_of(model: nn.Module, methods: Sequence[Method], inputs: Mapping[str, Any]) -> SideStream | None:
    """Return the branch for the clean pass of a micro-batch, or None where both passes had better follow each other."""
    device = next(model.parameters()).device
    capturing = device.type == "cuda" and torch.cuda.is_current_stream_capturing()
    return SideStream(device) if capturing and can_overlap(model, methods, inputs) else None


def can_overlap(model: nn.Module, methods: Sequence[Method], inputs: Mapping[str, Any]) -> bool:
    """Tell whether the clean pass may run beside the first perturbed one, and whether that pays.

    The first method of a sum asks for both; no pass may change what the other reads, as the running mean of a batch
    norm is changed; and views of texts have clean passes of their own.
    """
    first = methods[0]
    tokens = max((value.numel() for value in inputs.values() if isinstance(value, Tensor)), default=0)
    return (
        declared(first.combine, "reads_clean_last")
        and declared(first.site, "target") in ("activations", "attention", "dropout")
        and not any(declared(method.site, "target") == "text" for method in methods)
        and not any(value.is_floating_point() for value in _saved_buffers(model))
        and tokens <= MOST_TOKENS
    )


def _saved_buffers(model: nn.Module) -> list[Tensor]:
    """Return what a model keeps beside its weights; what is not saved follows from its config."""
    return [
        buffer
        for module in model.modules()
        for name, buffer in module.named_buffers(recurse=False)
        if name not in vars(module)["_non_persistent_buffers_set"]
    ]
