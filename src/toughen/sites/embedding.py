"""WHERE to perturb: the input embedding, as it is or normalised."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, ClassVar

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from .base import Detach, EmbeddedTokens, PerturbationSource
from .hidden import perturb_module
from .locate import (
    embedding_norm,
    embeds_token_types,
    get_module,
    input_embeddings,
    token_layout_of,
    track_encoder_forward,
)
from .token_mask import RECOMMENDED_SKIP, Skip, TokenLayout, check_skip, get_delta


@dataclass(frozen=True)
class WordEmbedding:
    """The output of the model's input embedding (the patch embedding of vision models)."""

    inside_layers: ClassVar[bool] = False
    at_input_embedding: ClassVar[bool] = True

    skip: Skip = RECOMMENDED_SKIP

    def __post_init__(self) -> None:
        check_skip(self.skip)

    def attach(self, model: nn.Module, inject: PerturbationSource) -> Detach:
        undo: list[Detach] = []
        for module in input_embeddings(model):
            reads_input, stop_tracking = track_input(model, module, inject)
            layout = token_layout_of(model, module)
            undo += [perturb_module(module, inject, self.skip, layout, reads_input, _tokens), stop_tracking]

        def detach() -> None:
            for one in undo:
                one()

        return detach


def _tokens(module: nn.Module, args: tuple[Any, ...], layout: TokenLayout) -> EmbeddedTokens | None:
    """The tokens that are embedded, as (batch, length); None where the input is none (patches of an image)."""
    ids = args[0] if args else None
    if not isinstance(ids, Tensor) or ids.dim() != 2 or ids.is_floating_point():
        return None
    return EmbeddedTokens(ids.transpose(0, 1) if layout.time_major else ids, module.forward)


def track_input(
    model: nn.Module, embedding: nn.Module, inject: PerturbationSource
) -> tuple[Callable[[tuple[Any, ...]], bool], Detach]:
    """Whether a call of the embedding, by its arguments, reads the input; and the way to stop watching.

    The decoder may call it too, and some models embed token types with it, or the padding they add (LED).
    """
    running, stop = track_encoder_forward(model, embedding)
    pads = token_layout_of(model, embedding).extra_tokens == "behind"
    shared = embeds_token_types(model, input_embeddings(model))

    @torch.compiler.disable()  # pyright: ignore[reportUntypedFunctionDecorator]  # addresses are not traced
    def same(types: Tensor, args: tuple[Any, ...]) -> bool:
        return bool(args) and isinstance(args[0], Tensor) and args[0].data_ptr() == types.data_ptr()

    def reads_input(args: tuple[Any, ...]) -> bool:
        types = inject.batch.get("token_type_ids") if shared else None
        ids = inject.batch.get("input_ids") if pads else None
        added = isinstance(ids, Tensor) and bool(args) and args[0].shape[-1] < ids.shape[-1]
        return running() and not added and (types is None or not same(types, args))

    return reads_input, stop


@dataclass(frozen=True)
class NormalizedEmbedding:
    """The input of the embedding block's norm, seen at unit scale (SiFT).

    The perturbation is measured on the normalised vector, so that its size means the same for every token and model.
    As a default the model's own function is kept: with delta = 0 the perturbed pass is the clean one. With `replace`
    the normalised vector takes the place of the input in every pass, and the perturbed pass sends no gradient to the
    embedding tables, as the DeBERTa code does (eps 1e-7 there).
    """

    inside_layers: ClassVar[bool] = False

    skip: Skip = RECOMMENDED_SKIP
    replace: bool = False
    path: str | None = None
    eps: float = 1e-7

    def __post_init__(self) -> None:
        check_skip(self.skip)

    def attach(self, model: nn.Module, inject: PerturbationSource) -> Detach:
        norm = embedding_norm(model) if self.path is None else get_module(model, self.path)
        layout = token_layout_of(model, norm)

        def hook(called: nn.Module, args: tuple[Tensor, ...]) -> tuple[Tensor, ...] | None:
            active = inject.active and called is norm  # a copy of the model has its hooks, too
            if not active and not self.replace:
                return None
            value, *rest = args
            unit = F.layer_norm(value, value.shape[-1:], eps=self.eps)
            if not active:
                return (unit, *rest)
            delta = get_delta(inject, unit, self.skip, layout)
            if self.replace:
                # A gradient of 0 in place of none: DDP's find_unused_parameters looks at the last pass alone, and
                # would not wait for the tables' gradient from the clean one.
                return ((unit.detach() + 0 * unit + delta).to(value.dtype), *rest)
            scale = (value.detach().var(-1, unbiased=False, keepdim=True) + self.eps).sqrt()
            return (value + (scale * delta).to(value.dtype), *rest)

        return norm.register_forward_pre_hook(hook).remove
