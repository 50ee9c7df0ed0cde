"""WHERE to perturb: which pairs of positions attention sees."""

from dataclasses import dataclass
from inspect import unwrap as undecorated
from typing import Any, ClassVar, cast

from torch import Tensor, nn

from ..errors import SiteError
from ..internal.architectures import IGNORED, infer_head_type, unwrap_peft
from .attention_deberta import attach_deberta, disentangled_blocks
from .attention_interface import WRAPPED_IMPLEMENTATIONS, AttentionHook, register
from .base import Detach, LayerSpec, PerturbationSource
from .locate import text_model_of, transformer_of


@dataclass(frozen=True)
class AttentionLogits:
    """Attention's additive mask. `layers` chooses some by number, negative ones from the last; None: all.

    `original_code` repeats two habits of ASA's code. Its BERT multiplies a hidden pair's logit by 0 before the mask is
    added, so that a query that has lost all keys attends to all alike; that takes attention written out step by step.
    Its token heads leave labels on padding out of the loss, where today's transformers count them.
    """

    target: ClassVar[str] = "attention"

    layers: tuple[int, ...] | None = None
    original_code: bool = False

    def attach(self, model: nn.Module, inject: PerturbationSource) -> Detach:
        chosen = [layer.number for layer in self.layer_specs(model)]
        base = _base(model)
        if _is_deberta(base):
            return attach_deberta([(n, disentangled_blocks(base)[n]) for n in chosen], inject)
        configs = [m.config for m in base.modules() if hasattr(m, "set_attn_implementation")]
        before = [config._attn_implementation for config in configs]  # parts may differ, as DPT's convolutions do
        register()
        base.set_attn_implementation(WRAPPED_IMPLEMENTATIONS[cast(str, base.config._attn_implementation or "eager")])
        zero_logits = self.original_code and base.config.model_type == "bert"
        hooks = [AttentionHook(attention_blocks(base)[n], n, inject, zero_logits) for n in chosen]
        undo: list[Detach] = [hook.close for hook in hooks]
        if self.original_code and infer_head_type(model) == "tokens":
            undo.append(model.register_forward_pre_hook(_unlabel_padding, with_kwargs=True).remove)

        def detach() -> None:
            for one in undo:
                one()
            for config, implementation in zip(configs, before, strict=True):  # the whole before its parts
                config._attn_implementation = implementation

        return detach

    def layer_specs(self, model: nn.Module) -> list[LayerSpec]:
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
        # MobileBERT's layers are narrower inside.
        width = getattr(config, "true_hidden_size", None) or getattr(config, "hidden_size", None)
        heads = getattr(config, "num_attention_heads", None)
        if not isinstance(width, int) or not isinstance(heads, int):
            raise _no_single(base, "hidden_size and num_attention_heads")
        return [LayerSpec(n, width, heads) for n in numbers]


def _base(model: nn.Module) -> Any:
    """The transformers model that has the layers: inside a wrapper, and of text and images the one that reads text."""
    whole = transformer_of(unwrap_peft(model))
    if getattr(getattr(whole, "config", None), "is_encoder_decoder", False):
        raise SiteError(
            f"{type(whole).__name__} is an encoder-decoder: it attends in three ways, and ASA is defined for one stack "
            "of layers. Use toughen.smart() or toughen.freelb(), which perturb the encoder's input embedding."
        )
    base: Any = text_model_of(whole)
    inner = (m for m in base.modules() if hasattr(getattr(m, "config", None), "num_hidden_layers"))
    base = next((m for m in inner if hasattr(m, "set_attn_implementation")), base)
    config = getattr(base, "config", None)
    if not hasattr(base, "set_attn_implementation") or config is None:
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
    blocks = [module for module in base.modules() if _asks_interface(module)]
    if not blocks or not base._can_set_attn_implementation():
        raise SiteError(
            f"{name} computes attention by itself and does not ask transformers' AttentionInterface, so it cannot "
            "be perturbed. Use toughen.smart() or toughen.freelb(), which perturb the input embedding."
        )
    if any("RelativePositionBias" in type(m).__name__ or hasattr(m, "prepare_dynamic_mask") for m in base.modules()):
        raise SiteError(
            f"{name} adds a learnt bias to attention by way of the mask (as BEiT, Swin and Doge do), which the "
            "adversary's mask would replace. Use toughen.smart() or toughen.freelb(), which perturb the input."
        )
    count = getattr(config, "num_hidden_layers", None)
    if not isinstance(count, int):
        raise _no_single(base, "num_hidden_layers")
    if len(blocks) != count:
        stacked = (layer for stack in base.modules() if isinstance(stack, nn.ModuleList) for layer in stack)
        if any(sum(block in blocks for block in layer.modules()) > 1 for layer in stacked):
            why = "some attend to an encoder or another input, and ASA is defined for a text that attends to itself"
        else:
            why = "layers that share one (as ALBERT's do) cannot have an adversary each"
        raise SiteError(
            f"{name} has {len(blocks)} attention modules for {count} layers: {why}. Use toughen.smart() or "
            "toughen.freelb()."
        )
    implementation = config._attn_implementation or "eager"
    if implementation not in (*WRAPPED_IMPLEMENTATIONS, *WRAPPED_IMPLEMENTATIONS.values()):
        raise SiteError(
            f"{name} runs attention as {implementation!r}, a kernel that takes no mask for single pairs. Call "
            "model.set_attn_implementation('sdpa') first."
        )
    return blocks


def _no_single(base: nn.Module, what: str) -> SiteError:
    return SiteError(
        f"{type(base).__name__} is not one stack of equal layers: its config names no single {what}, which ASA needs. "
        "Use toughen.smart() or toughen.freelb()."
    )


def _asks_interface(module: nn.Module) -> bool:
    cross = "CrossAttention" in type(module).__name__ or getattr(module, "is_cross_attention", False)
    code = getattr(undecorated(type(module).forward), "__code__", None)
    return not cross and code is not None and "get_interface" in code.co_names


def _unlabel_padding(_module: nn.Module, args: Any, kwargs: dict[str, Any]) -> tuple[Any, dict[str, Any]] | None:
    labels, mask = kwargs.get("labels"), kwargs.get("attention_mask")
    if not isinstance(labels, Tensor) or not isinstance(mask, Tensor) or labels.shape != mask.shape:
        return None
    return args, {**kwargs, "labels": labels.masked_fill(mask == 0, IGNORED)}
