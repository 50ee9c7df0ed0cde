"""A condition the weights keep, restored before every update."""

from dataclasses import dataclass
from typing import Protocol

import torch
from torch import Tensor, nn

from ..errors import SiteError
from ..outcome import without_adapters


class Constraint(Protocol):
    def apply(self, model: nn.Module) -> None: ...


@dataclass(frozen=True)
class SpectralHead:
    """The last linear layer has spectral norm 1 (R4F).

    The weights themselves are scaled before every update instead of being re-parametrised, so that the checkpoint
    stays a plain one.
    """

    iterations: int = 10

    @torch.no_grad()
    def apply(self, model: nn.Module) -> None:
        weight = head(model).weight
        weight.div_(spectral_norm(weight.detach(), self.iterations).to(weight.dtype))


def head(model: nn.Module) -> nn.Linear:
    """The linear layer that gives the logits: the last one that is not inside the backbone."""
    model = without_adapters(model)
    backbone = getattr(model, "base_model", None)
    inside = set(backbone.modules()) if isinstance(backbone, nn.Module) and backbone is not model else set[nn.Module]()
    found = [m for m in model.modules() if isinstance(m, nn.Linear) and m not in inside]
    if not found:
        raise SiteError(
            f"{type(model).__name__} has no linear head outside its backbone, and r4f constrains that head."
        )
    if any(m.weight is found[-1].weight for m in model.modules() if isinstance(m, nn.Embedding)):
        raise SiteError(
            f"The head of {type(model).__name__} shares its weights with the input embedding: r4f would scale both. "
            "Use toughen.r3f(), which leaves the head alone, or untie them: config.tie_word_embeddings=False."
        )
    return found[-1]


def spectral_norm(weight: Tensor, iterations: int) -> Tensor:
    """The largest singular value by power iteration, from the row of largest norm: the same on every process."""
    matrix = weight.to(torch.promote_types(weight.dtype, torch.float32))
    v = matrix.index_select(0, matrix.norm(dim=1).argmax(keepdim=True)).squeeze(0)  # no device sync
    for _ in range(iterations):
        u = nn.functional.normalize(matrix @ v, dim=0)
        v = nn.functional.normalize(matrix.mT @ u, dim=0)
    return (matrix @ v).norm().clamp(min=1e-12)
