"""Notices that one pass reads several inputs, of which only the first has a perturbation of its own."""

import warnings
from typing import Any

import torch
from torch import nn

from ..errors import RobustnessWarning, SiteError
from ..sites.base import Detach
from ..sites.locate import input_embedding, track_encoder_forward
from .perturbation import Injector


def warn_if_multiple_inputs(model: nn.Module, injector: Injector) -> Detach:
    """Warn once if a perturbed pass embeds two inputs of one shape, as a model of pairs does that runs twice.

    The same tensor may come again: some Trainers make a second pass for their outputs. Inputs of two shapes are refused
    by the site. Under torch.compile nothing is said.
    """
    try:
        embedding = input_embedding(model)
    except SiteError:
        return lambda: None
    reading, stop_watching = track_encoder_forward(model, embedding)

    def look(called: nn.Module, args: Any) -> None:
        if torch.compiler.is_compiling() or not injector.active or called is not embedding or not args or not reading():
            return
        first, now = injector.read, args[0]
        if first is None:
            injector.read = now
        elif first.shape == now.shape and first.data_ptr() != now.data_ptr():
            handle.remove()
            warnings.warn(
                f"{type(model).__name__} read several inputs in one pass, and all get the perturbation and the mask of "
                "the first: for the others it is no better than noise. Run them as one batch, and split its output.",
                RobustnessWarning,
                stacklevel=2,
            )

    handle = embedding.register_forward_pre_hook(look)

    def detach() -> None:
        handle.remove()
        stop_watching()

    return detach
