"""Logits in float32 where layers compute in half precision."""

from types import MethodType

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from ..compare.rowwise import VOCAB_CHUNK
from ..internal.architectures import find_classifier
from ..internal.foreach import at_least_float32, no_autocast
from ..sites.base import Detach


def keep_logits_in_float32(model: nn.Module) -> Detach:
    """Run the layer that gives the logits in float32 under autocast.

    Half-precision logits of two close inputs are often equal. Their divergence and its gradient are then exactly zero,
    and the search finds nothing. Heads over a vocabulary stay as they are: float32 would double their memory, and their
    many tokens are never all equal.
    """
    classifier = find_classifier(model)
    if classifier is None or classifier.out_features > VOCAB_CHUNK or type(classifier).forward is not nn.Linear.forward:
        return lambda: None
    # A bound method: a copy of the model then has its own.
    classifier.forward = MethodType(_linear_in_float32, classifier)

    def detach() -> None:
        del classifier.forward

    return detach


def _linear_in_float32(layer: nn.Linear, x: Tensor) -> Tensor:
    if not torch.is_autocast_enabled(x.device.type):  # weights in half precision: what follows may be, too
        return F.linear(x, layer.weight, layer.bias)
    with no_autocast(x):
        bias = None if layer.bias is None else at_least_float32(layer.bias)  # pyright: ignore[reportUnnecessaryComparison]
        return F.linear(at_least_float32(x), at_least_float32(layer.weight), bias)
