"""A condition the weights keep, restored before every update."""

from dataclasses import dataclass
from typing import Protocol

import torch
from torch import Tensor, nn

from ..errors import SiteError
from ..internal.architectures import find_classifier

SQUARINGS = 12


class Constraint(Protocol):
    def apply(self, model: nn.Module) -> None: ...


@dataclass(frozen=True)
class SpectralNormHead:
    """The last linear layer has spectral norm 1 (R4F, `spectral`).

    The weights themselves are scaled before every update instead of being re-parametrised, so that the checkpoint
    stays a plain one.
    """

    @torch.no_grad()
    def apply(self, model: nn.Module) -> None:
        weight = scaled_head(model).weight
        weight.div_(spectral_norm(weight.detach()).to(weight.dtype))


def scaled_head(model: nn.Module) -> nn.Linear:
    """The linear layer that gives the logits, refused where it must not be scaled."""
    classifier = find_classifier(model)
    if classifier is None:
        raise SiteError(
            f"{type(model).__name__} has no linear head outside its backbone, and r4f and spectral scale that head. "
            "Use toughen.r3f() or toughen.plain()."
        )
    if any(m.weight is classifier.weight for m in model.modules() if isinstance(m, nn.Embedding)):
        raise SiteError(
            f"The head of {type(model).__name__} shares its weights with the input embedding: r4f and spectral would "
            "scale both. Use toughen.r3f(), which leaves the head alone, or untie them: "
            "config.tie_word_embeddings=False."
        )
    return classifier


def spectral_norm(weight: Tensor) -> Tensor:
    """The largest singular value, by 2 ** SQUARINGS power iterations at once on the smaller Gram matrix."""
    matrix = weight.to(torch.promote_types(weight.dtype, torch.float32))
    matrix = matrix if matrix.shape[0] <= matrix.shape[1] else matrix.mT
    power = matrix @ matrix.mT
    for _ in range(SQUARINGS):
        power = power / power.abs().amax().clamp(min=1e-30)
        power = power @ power
    column = power.norm(dim=0).argmax(keepdim=True)
    vector = nn.functional.normalize(power.index_select(1, column), dim=0)
    return (vector.mT @ matrix).norm().clamp(min=1e-12)
