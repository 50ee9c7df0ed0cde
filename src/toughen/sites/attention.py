"""WHERE to perturb: which pairs of positions attention sees, in every model that asks transformers' AttentionInterface.

Two implementations of attention are registered under names of our own, one over sdpa and one over the model's eager
function. In a clean pass they hand everything on as it came, so its numbers are the model's own. transformers matches
"sdpa" and "flash" inside such names, so neither word may be part of one.
"""

import sys
from collections.abc import Callable
from dataclasses import dataclass
from inspect import unwrap as undecorated
from typing import Any, cast

import torch
from torch import Tensor, nn

from ..errors import SiteError
from ..outcome import IGNORED, task_of
from ..parts import Detach, Inject, PairView, Place
from .attention_deberta import attach_deberta, disentangled_blocks
from .mask import token_mask

OVER = {"sdpa": "toughen_hide", "eager": "toughen_hide_eager"}
_DOOR = "_toughen_door"


@dataclass(frozen=True)
class AttentionLogits:
    """Attention's additive mask. `layers` chooses some by number, negative ones from the last; None: all.

    `as_published` repeats two habits of ASA's code. Its BERT multiplies a hidden pair's logit by 0 before the mask is
    added, so that a query that has lost all keys attends to all alike; that takes attention written out step by step.
    Its token heads leave labels on padding out of the loss, where today's transformers count them.
    """

    layers: tuple[int, ...] | None = None
    as_published: bool = False

    def attach(self, model: nn.Module, inject: Inject) -> Detach:
        chosen = [place.number for place in self.places(model)]
        base = _base(model)
        if _is_deberta(base):
            return attach_deberta([(n, disentangled_blocks(base)[n]) for n in chosen], inject)
        before = cast(str, base.config._attn_implementation or "eager")
        _register()
        base.set_attn_implementation(OVER[before])
        zero = self.as_published and base.config.model_type == "bert"
        doors = [_Door(attention_blocks(base)[n], n, inject, zero) for n in chosen]
        undo: list[Detach] = [door.close for door in doors]
        if self.as_published and task_of(base) == "tokens":
            undo.append(base.register_forward_pre_hook(_unlabel_padding, with_kwargs=True).remove)

        def detach() -> None:
            for one in undo:
                one()
            base.set_attn_implementation(before)

        return detach

    def places(self, model: nn.Module) -> list[Place]:
        """The chosen layers, or an error that says why this model has none."""
        base = _base(model)
        count = len(disentangled_blocks(base) if _is_deberta(base) else attention_blocks(base))
        wanted = range(count) if self.layers is None else self.layers
        wrong = [n for n in wanted if not -count <= n < count]
        if wrong:
            raise SiteError(f"{type(base).__name__} has layers 0 to {count - 1}, and no layer {wrong[0]}.")
        numbers = sorted({n % count for n in wanted})
        if not numbers:
            raise SiteError("layers=() leaves no layer to perturb. Name one, or leave it out for all of them.")
        config = base.config
        return [Place(n, int(config.hidden_size), int(config.num_attention_heads)) for n in numbers]


def _base(model: nn.Module) -> Any:
    """The transformers model itself, under PEFT's wrapper too."""
    base: Any = cast(Any, model).get_base_model() if hasattr(model, "get_base_model") else model
    if not hasattr(base, "set_attn_implementation") or getattr(base, "config", None) is None:
        raise SiteError(
            f"{type(model).__name__} is not a transformers model, and only those let attention be perturbed. "
            "toughen.smart() and toughen.freelb() work on any model with an input embedding."
        )
    return base


def _is_deberta(base: Any) -> bool:
    return base.config.model_type in ("deberta", "deberta-v2")


def attention_blocks(base: Any) -> list[nn.Module]:
    """The self-attention modules of a model, one a layer, in order."""
    name, config = type(base).__name__, base.config
    if getattr(config, "is_encoder_decoder", False):
        raise SiteError(
            f"{name} is an encoder-decoder: it attends in three ways, and ASA is defined for one stack of layers. "
            "Use toughen.smart() or toughen.freelb(), which perturb the encoder's input embedding."
        )
    blocks = [module for module in base.modules() if _asks_interface(module)]
    if not blocks or not base._can_set_attn_implementation():
        raise SiteError(
            f"{name} computes attention by itself and does not ask transformers' AttentionInterface, so there is no "
            "joint to reach it by. Use toughen.smart() or toughen.freelb(), which perturb the input embedding."
        )
    if len(blocks) != config.num_hidden_layers:
        raise SiteError(
            f"{name} has {len(blocks)} attention modules for {config.num_hidden_layers} layers: layers that share one "
            "(as ALBERT's do) cannot have an adversary each. Use toughen.smart() or toughen.freelb()."
        )
    implementation = config._attn_implementation or "eager"
    if implementation not in (*OVER, *OVER.values()):
        raise SiteError(
            f"{name} runs attention as {implementation!r}, a kernel that takes no mask for single pairs. Call "
            "model.set_attn_implementation('sdpa') first."
        )
    return blocks


def _asks_interface(module: nn.Module) -> bool:
    cross = "CrossAttention" in type(module).__name__ or getattr(module, "is_cross_attention", False)
    code = getattr(undecorated(type(module).forward), "__code__", None)
    return not cross and code is not None and "get_interface" in code.co_names


def _unlabel_padding(_module: nn.Module, args: Any, kwargs: dict[str, Any]) -> tuple[Any, dict[str, Any]] | None:
    labels, mask = kwargs.get("labels"), kwargs.get("attention_mask")
    if not isinstance(labels, Tensor) or not isinstance(mask, Tensor) or labels.shape != mask.shape:
        return None
    return args, {**kwargs, "labels": labels.masked_fill(mask == 0, IGNORED)}


class _Door:
    """One attention module: remembers what goes in, and gives the mask its attention function asks for."""

    def __init__(self, module: nn.Module, number: int, inject: Inject, zero: bool) -> None:
        self.module, self.number, self.inject, self.zero = module, number, inject, zero
        self.hidden: Tensor | None = None
        self.watch: Callable[[Tensor], None] | None = None  # sees attention's probabilities, for pictures
        setattr(module, _DOOR, self)
        self._hook = module.register_forward_pre_hook(self._see, with_kwargs=True)

    def close(self) -> None:
        self._hook.remove()
        delattr(self.module, _DOOR)

    def _see(self, _module: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        if self.inject.active:
            self.hidden = args[0] if args else kwargs["hidden_states"]

    @torch.compiler.disable()  # pyright: ignore[reportUntypedFunctionDecorator]
    def bias(self, query: Tensor, key: Tensor, pairs: Tensor | None) -> Tensor:
        hidden, self.hidden = self.hidden, None
        if hidden is None or query.shape[2] != key.shape[2]:
            raise SiteError(
                f"Attention of layer {self.number} has {key.shape[2]} keys for {query.shape[2]} queries: a cache or a "
                "learnt prefix (prefix tuning) is at work, which ASA does not know. Train without it."
            )
        real = token_mask(self.inject, hidden, ("padding",))
        queries = None if real is None else real.view(hidden.shape[:2])
        view = PairView(hidden.detach(), place=self.number, pairs=pairs, queries=queries, compute=query.dtype)
        return self.inject(self.number, lambda: view)


def _attend(over: str) -> Callable[..., tuple[Tensor, Tensor | None]]:
    def attention(
        module: nn.Module, query: Tensor, key: Tensor, value: Tensor, attention_mask: Tensor | None, **kw: Any
    ) -> tuple[Tensor, Tensor | None]:
        function, door = _original(module, over), cast("_Door | None", getattr(module, _DOOR, None))
        if door is not None and door.inject.active:
            pairs = _pairs(module, over, query, attention_mask, kw.get("is_causal"))
            bias = door.bias(query, key, pairs)
            if door.zero:
                return _zeroed(module, query, key, value, bias, kw)
            attention_mask = bias
        return function(module, query, key, value, attention_mask, **kw)

    return attention


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
    if over == "sdpa" and causal and length > 1:  # sdpa is told so in place of a mask
        return torch.ones(1, 1, length, length, dtype=torch.bool, device=query.device).tril()
    return None


def _zeroed(
    module: nn.Module, query: Tensor, key: Tensor, value: Tensor, bias: Tensor, kw: dict[str, Any]
) -> tuple[Tensor, Tensor]:
    """Attention whose logits are zeroed where the mask hides, before the mask is added."""
    logits = (query @ key.mT * kw["scaling"]) * (bias >= 0) + bias
    weights = nn.functional.dropout(logits.softmax(-1), p=kw.get("dropout", 0.0), training=module.training)
    return (weights @ value).transpose(1, 2).contiguous(), weights


def _register() -> None:
    from transformers import AttentionInterface
    from transformers.masking_utils import ALL_MASK_ATTENTION_FUNCTIONS, AttentionMaskInterface

    for over, name in OVER.items():
        if name not in ALL_MASK_ATTENTION_FUNCTIONS:
            AttentionInterface.register(name, _attend(over))
            # Without one of its own, a model gets no mask at all under an unknown name, and attends to padding.
            AttentionMaskInterface.register(name, ALL_MASK_ATTENTION_FUNCTIONS[over])
