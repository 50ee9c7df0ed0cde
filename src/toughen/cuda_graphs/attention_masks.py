"""Attention masks that do not depend on what is in a batch."""

from collections.abc import Callable, Generator
from contextlib import contextmanager
from typing import Any

SKIPS = ("allow_is_bidirectional_skip", "allow_is_causal_skip")


@contextmanager
def explicit_attention_masks() -> Generator[None]:
    """Let transformers make a mask for every batch, also for one without padding.

    It would look for padding otherwise, and leave the mask out where there is none. A captured step cannot look; a step
    that is run before it must take the same way, or other kernels and other random numbers are noted than are captured.
    """
    from transformers.masking_utils import ALL_MASK_ATTENTION_FUNCTIONS

    table: Any = ALL_MASK_ATTENTION_FUNCTIONS
    usual: dict[str, Callable[..., Any]] = {name: table[name] for name in list(table)}
    for name, function in usual.items():
        table[name] = _always(function)  # of this table alone, over what is registered for all
    try:
        yield
    finally:
        for name in usual:
            del table[name]


def _always(usual: Callable[..., Any]) -> Callable[..., Any]:
    def mask(*args: Any, **kwargs: Any) -> Any:
        return usual(*args, **{name: False if name in SKIPS else value for name, value in kwargs.items()})

    return mask
