"""Put a mask into attention through transformers' AttentionInterface.

Two implementations of attention are registered under names of our own, one over sdpa and one over the model's eager
function. In a clean pass they hand everything on as it came, so its numbers are the model's own. transformers matches
"sdpa" and "flash" inside such names, so neither word may be part of one.

Over sdpa a kernel of our own takes its place where it can (`kernels.attention`): torch's gives the gradient of a mask
that heads share once for each head. It then runs in clean passes with dropout as well: no other kernel drops the same
pairs, and two passes over a batch are to have one dropout mask.
"""

import sys
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from typing import Any, cast

import torch
from torch import Tensor, nn
from torch.nn.attention import SDPBackend, sdpa_kernel

from ..errors import SiteError
from ..kernels.attention import attend, fits
from .base import PerturbationSource
from .token_mask import pair_view, to_autocast_dtype

WRAPPED_IMPLEMENTATIONS = {"sdpa": "toughen_hide", "eager": "toughen_hide_eager"}
_HOOK_ATTRIBUTE = "_toughen_attention_hook"


class AttentionHook:
    """One attention module: remembers what goes in, and gives the mask its attention function asks for."""

    def __init__(self, module: nn.Module, number: int, inject: PerturbationSource, zero_logits: bool) -> None:
        self.module, self.number, self.inject, self.zero_logits = module, number, inject, zero_logits
        self.hidden: Tensor | None = None
        setattr(module, _HOOK_ATTRIBUTE, self)
        self._hook = module.register_forward_pre_hook(self._see, with_kwargs=True)

    def close(self) -> None:
        self._hook.remove()
        delattr(self.module, _HOOK_ATTRIBUTE)

    def _see(self, _module: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """Under autocast the block gets its input as its projections want it, once: they would make a copy each."""
        if not self.inject.active and not torch.is_grad_enabled():
            return None
        hidden = to_autocast_dtype(args[0] if args else kwargs["hidden_states"])
        if self.inject.active:
            self.hidden = hidden
        return ((hidden, *args[1:]), kwargs) if args else (args, {**kwargs, "hidden_states": hidden})

    @torch.compiler.disable()  # pyright: ignore[reportUntypedFunctionDecorator]
    def graph_break(self) -> None:
        """Break a compiled layer in a clean pass where `bias` does in a perturbed one.

        Compiled code draws the random numbers of each piece at once: other pieces would have another dropout.
        """

    @torch.compiler.disable()  # pyright: ignore[reportUntypedFunctionDecorator]
    def bias(self, query: Tensor, key: Tensor, pairs: Tensor | None) -> Tensor:
        hidden, self.hidden = self.hidden, None
        if hidden is None:
            raise SiteError(
                f"Layer {self.number} asks for attention more than once in a pass (as DiffLlama's do), and its "
                "adversary has one mask. Use toughen.smart() or toughen.freelb(), which perturb the input embedding."
            )
        if query.shape[2] != key.shape[2]:
            raise SiteError(
                f"Attention of layer {self.number} has {key.shape[2]} keys for {query.shape[2]} queries: a cache or a "
                "learnt prefix (prefix tuning) is in use, which ASA does not know. Train without it."
            )
        view = pair_view(self.inject, hidden, pairs, self.number, query.dtype)
        return self.inject(self.number, lambda: view)


def register() -> None:
    """Make the two implementations known to transformers."""
    from transformers import AttentionInterface
    from transformers.masking_utils import ALL_MASK_ATTENTION_FUNCTIONS, AttentionMaskInterface

    for over, name in WRAPPED_IMPLEMENTATIONS.items():
        if name not in ALL_MASK_ATTENTION_FUNCTIONS:
            AttentionInterface.register(name, _attention(over))
            # Without one of its own, a model gets no mask at all under an unknown name, and attends to padding.
            AttentionMaskInterface.register(name, ALL_MASK_ATTENTION_FUNCTIONS[over])


def _attention(over: str) -> Callable[..., tuple[Tensor, Tensor | None]]:
    def attention(
        module: nn.Module, query: Tensor, key: Tensor, value: Tensor, attention_mask: Tensor | None, **kw: Any
    ) -> tuple[Tensor, Tensor | None]:
        function, hook = _original(module, over), cast("AttentionHook | None", getattr(module, _HOOK_ATTRIBUTE, None))
        if hook is None:
            return function(module, query, key, value, attention_mask, **kw)
        if not hook.inject.active:
            if kw.get("dropout") and torch.compiler.is_compiling():
                hook.graph_break()
            if kw.get("dropout") and not hook.zero_logits and _use_kernel(over, query, key, value, attention_mask, kw):
                given = attention_mask is not None
                mask = attention_mask if given else _pairs(module, over, query, None, kw.get("is_causal"))
                return _attend(query, key, value, mask, kw)
            return function(module, query, key, value, attention_mask, **kw)
        bias = hook.bias(query, key, _pairs(module, over, query, attention_mask, kw.get("is_causal")))
        if hook.zero_logits:
            return _zeroed(module, query, key, value, bias, kw)
        if _use_kernel(over, query, key, value, bias, kw):
            return _attend(query, key, value, bias, kw)
        if bias.requires_grad and not (query.requires_grad or key.requires_grad or value.requires_grad):
            query = query.detach().requires_grad_()  # fused kernels look at these alone before they prepare a backward
        with _kernels(bias):
            return function(module, query, key, value, bias, **kw)

    return attention


def _use_kernel(over: str, query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None, kw: dict[str, Any]) -> bool:
    """Whether our kernel does what sdpa would here, where nothing is asked of it that we do not know."""
    strange = any(kw.get(name) is not None for name in ("softcap", "position_bias", "cache"))
    return over == "sdpa" and not strange and fits(query, key, value, mask)


def _attend(
    query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None, kw: dict[str, Any]
) -> tuple[Tensor, Tensor | None]:
    scale = kw.get("scaling")
    scale = query.shape[-1] ** -0.5 if scale is None else float(scale)
    return attend(query, key, value, mask, scale, float(kw.get("dropout") or 0.0)), None


def _kernels(bias: Tensor) -> AbstractContextManager[Any]:
    """Those that give the mask a gradient. cuDNN's, which newer builds prefer on Hopper, is not known to."""
    if not bias.is_cuda:
        return nullcontext()
    return sdpa_kernel([SDPBackend.EFFICIENT_ATTENTION, SDPBackend.MATH])


def _original(module: nn.Module, over: str) -> Callable[..., Any]:
    """What the model would have called: sdpa's function, or the eager one that stands in the model's own file."""
    if over == "eager":
        return cast(Any, sys.modules[type(module).__module__]).eager_attention_forward
    from transformers.modeling_utils import ALL_ATTENTION_FUNCTIONS

    return ALL_ATTENTION_FUNCTIONS[over]


def _pairs(module: nn.Module, over: str, query: Tensor, mask: Tensor | None, causal: bool | None) -> Tensor | None:
    """Which pairs the model itself attends to, as True and False, from any of the forms its mask may have."""
    length = query.shape[2]
    if mask is not None:
        return (mask if mask.dtype == torch.bool else mask >= 0)[..., -length:]
    causal = getattr(module, "is_causal", True) if causal is None else causal
    if over == "sdpa" and causal and length > 1:  # sdpa then gets is_causal in place of a mask
        return torch.ones(1, 1, length, length, dtype=torch.bool, device=query.device).tril()
    return None


def _zeroed(
    module: nn.Module, query: Tensor, key: Tensor, value: Tensor, bias: Tensor, kw: dict[str, Any]
) -> tuple[Tensor, Tensor]:
    """Attention whose logits are zeroed where the mask hides, before the mask is added."""
    logits = (query @ key.mT * kw["scaling"]) * (bias >= 0) + bias
    weights = nn.functional.dropout(logits.softmax(-1), p=kw.get("dropout", 0.0), training=module.training)
    return (weights.to(value.dtype) @ value).transpose(1, 2).contiguous(), weights
