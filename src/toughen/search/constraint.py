"""A condition on the head: restored before every update, or kept by hooks."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Protocol, runtime_checkable

import torch
from torch import Tensor, nn

from ..errors import MethodError, SiteError
from ..internal.architectures import find_classifier, infer_head_type
from ..sites.base import Detach

SQUARINGS = 12


class Constraint(Protocol):
    def apply(self, model: nn.Module) -> None: ...


@runtime_checkable
class HookedConstraint(Protocol):
    """A constraint that is kept by hooks."""

    def hooks(self, model: nn.Module, trained: Callable[[], bool]) -> Callable[[], Detach]:
        """Return the function that puts them in; `trained` tells whether the model was trained under the method."""
        ...


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


@dataclass(frozen=True)
class DividedLogits:
    """The head's logits are divided by a temperature, in training and in evaluation.

    Weights that are saved, and those of the detached model, hold the division: they are a plain model whose logits are
    those it was trained with.
    """

    temperature: float

    def __post_init__(self) -> None:
        if not self.temperature > 0:
            raise MethodError(f"DividedLogits({self.temperature}): a temperature must be above 0.")

    def apply(self, model: nn.Module) -> None:
        """Nothing is to be restored."""

    def hooks(self, model: nn.Module, trained: Callable[[], bool]) -> Callable[[], Detach]:
        head, temperature, loaded = scaled_head(model), self.temperature, False
        if head.out_features == 1 and infer_head_type(model) == "sequence":
            raise SiteError(
                f"temperature divides logits of classes, and the head of {type(model).__name__} predicts one number."
            )

        def divide(_head: nn.Module, _args: Any, logits: Tensor) -> Tensor:
            return logits / temperature

        def save(_head: nn.Module, state: dict[str, Any], prefix: str, _metadata: Any) -> None:
            state.update({prefix + name: state[prefix + name] / temperature for name, _ in head.named_parameters()})

        def load(_head: nn.Module, state: dict[str, Any], prefix: str, *_others: Any) -> None:
            nonlocal loaded
            names = [prefix + name for name, _ in head.named_parameters() if prefix + name in state]
            state.update({name: state[name] * temperature for name in names})
            loaded = loaded or bool(names)

        def attach() -> Detach:
            if trained() or loaded:
                _scale(head, temperature)
            handles = (
                head.register_forward_hook(divide),
                head.register_state_dict_post_hook(save),
                head.register_load_state_dict_pre_hook(load),
            )

            def detach() -> None:
                for handle in handles:
                    handle.remove()
                if trained() or loaded:  # an untrained head is as it was
                    _scale(head, 1 / temperature)

            return detach

        return attach


@torch.no_grad()
def _scale(head: nn.Linear, factor: float) -> None:
    for weight in head.parameters():
        weight.mul_(factor)


def scaled_head(model: nn.Module) -> nn.Linear:
    """The linear layer that gives the logits, refused where it must not be scaled."""
    classifier = find_classifier(model)
    if classifier is None:
        raise SiteError(
            f"{type(model).__name__} has no linear head outside its backbone, and r4f, spectral and temperature scale "
            "that head. Use toughen.r3f() or toughen.plain()."
        )
    if any(m.weight is classifier.weight for m in model.modules() if isinstance(m, nn.Embedding)):
        raise SiteError(
            f"The head of {type(model).__name__} shares its weights with the input embedding: r4f, spectral and "
            "temperature would scale both. Use toughen.r3f(), which leaves the head alone, or untie them: "
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
