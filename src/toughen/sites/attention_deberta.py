"""DeBERTa (v1, v2, v3) computes attention by itself; its relative-position bias is where a mask can be added."""

from collections.abc import Callable, Sequence
from typing import Any, cast

import torch
from torch import Tensor, nn

from ..errors import SiteError
from .base import Detach, PerturbationSource
from .token_mask import pair_view

_BIASES = ("disentangled_attention_bias", "disentangled_att_bias")  # v2 and v3, v1


def disentangled_blocks(base: nn.Module) -> list[nn.Module]:
    """The attention modules, one a layer, in order; an error where their position bias is not in use."""
    blocks = [m for m in base.modules() if type(m).__name__ == "DisentangledSelfAttention"]
    for block in blocks:
        if not getattr(block, "relative_attention", False) or getattr(block, "talking_head", False):
            raise SiteError(
                f"{type(base).__name__} is reached through its relative-position bias, and this config has "
                "relative_attention off or talking heads on. Use toughen.smart() or toughen.freelb()."
            )
    return blocks


def attach_deberta(blocks: Sequence[tuple[int, nn.Module]], inject: PerturbationSource) -> Detach:
    undo = [detach for number, block in blocks for detach in _wrap(number, block, inject)]

    def detach() -> None:
        for one in undo:
            one()

    return detach


def _wrap(number: int, block: nn.Module, inject: PerturbationSource) -> list[Detach]:
    """Hooks on one module: what goes in is remembered, the mask is added to its position bias."""
    name = next(name for name in _BIASES if hasattr(block, name))
    original: Callable[..., Tensor] = getattr(block, name)
    seen: dict[str, Tensor] = {}

    def see(_module: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        if inject.active:
            seen["hidden"] = args[0] if args else kwargs["hidden_states"]
            seen["mask"] = args[1] if len(args) > 1 else kwargs["attention_mask"]

    @torch.compiler.disable()  # pyright: ignore[reportUntypedFunctionDecorator]
    def ask(query: Tensor) -> Tensor:
        hidden, pairs = seen.pop("hidden"), seen.pop("mask").bool()
        view = pair_view(inject, hidden, pairs, number, query.dtype)
        return inject(number, lambda: view)

    def biased(query: Tensor, *args: Any, **kwargs: Any) -> Tensor:
        bias = original(query, *args, **kwargs)
        if not inject.active:
            return bias
        mask = ask(query)
        if query.dim() == 3:  # v2 and v3 fold heads into the batch
            mask = mask.expand(-1, query.shape[0] // mask.shape[0], -1, -1).flatten(0, 1)
        return bias + mask

    setattr(block, name, biased)
    hook = block.register_forward_pre_hook(see, with_kwargs=True)
    return [hook.remove, lambda: cast(Any, block).__dict__.pop(name)]
