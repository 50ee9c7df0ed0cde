"""What can be said about a method and a model before the first step."""

import warnings
from collections.abc import Iterable, Sequence
from typing import Any

import torch
from torch import Tensor, nn

from ..errors import MethodError, RobustnessWarning
from ..internal.foreach import HALF, local_shard
from ..internal.rng import has_batch_norm, has_dropout
from ..search import Absolute, Ascent, Noise, Normal, RawGradient, Uniform
from ..sites import Hidden, NormalizedEmbedding, NoSite, SecondDropoutMask, WordEmbedding
from ..sites.locate import input_embedding
from .step import Recipe


def check_accumulate(micro_batches: int) -> int:
    """The number of micro-batches of an update; by none the loss cannot be shared."""
    if micro_batches < 1:
        raise MethodError(f"accumulate={micro_batches}: an update has at least one micro-batch.")
    return micro_batches


def refuse_detached(hooks: Sequence[Any]) -> None:
    """Without its hooks a method would train plainly, or say that the batch never came by them."""
    if not hooks:
        raise MethodError("the method was detached from its model; put it back with attached.attach() before a step.")


def require_module(model: Any) -> None:
    """A method is attached to a module, and not to its name or its tokenizer."""
    if not isinstance(model, nn.Module):
        raise MethodError(f"a method is attached to a model, and {type(model).__name__} is none; load it first.")


def warn_incompatible(model: nn.Module, method: Recipe) -> None:
    if isinstance(method.site, SecondDropoutMask) and not has_dropout(model):
        _warn(
            f"R-Drop compares two dropout masks, and {type(model).__name__} has no dropout: both passes are the same "
            "and the term is 0. Set a dropout rate in the config, or use toughen.r3f(), which compares under noise."
        )
    if not isinstance(method.site, NoSite) and has_batch_norm(model):
        _warn(
            f"{type(model).__name__} has BatchNorm: every pass of the method, perturbed ones too, updates its running "
            "statistics. Put it in eval mode, or replace it by LayerNorm."
        )
    if isinstance(method.site, WordEmbedding):
        _warn_if_below_resolution(model, method)


def warn_at_start(model: nn.Module, methods: Iterable[Recipe], updates: int) -> None:
    """What the first step shows, and no error would."""
    if not updates:
        _warn_if_frozen(model)
        _warn_if_half(model)
        if any(method.dropout != "off" for method in methods):
            _warn_if_in_eval_mode(model)


def _warn_if_in_eval_mode(model: nn.Module) -> None:
    """`from_pretrained` leaves a model so, and a loop without `train()` goes on without dropout."""
    if not model.training and has_dropout(model):
        _warn(f"{type(model).__name__} is in eval mode, so its dropout is off: call model.train() first.")


def _warn_if_frozen(model: nn.Module) -> None:
    """Plain training fails there; a loss of the perturbation has a gradient all the same, and nothing would be said."""
    if not any(weight.requires_grad for weight in model.parameters()):
        _warn(
            f"{type(model).__name__} has no trainable weight, so nothing is learnt. Unfreeze some of them "
            "(weight.requires_grad_()), or add adapters before the method is attached."
        )


def _warn_if_half(model: nn.Module) -> None:
    """`from_pretrained` keeps the dtype of the file, so this is seldom what a person chose."""
    kind = next((weight.dtype for weight in model.parameters() if weight.requires_grad and weight.dtype in HALF), None)
    if kind is not None:
        _warn(
            f"The trained weights of {type(model).__name__} are in {_name(kind)}: small updates are rounded away, "
            "and so are the small gradients of a perturbation. from_pretrained takes the dtype of the file: load the "
            "model with dtype=torch.float32, and train under autocast (Trainer: bf16=True)."
        )


def warn_if_below_resolution(model: nn.Module, method: Recipe, half: torch.dtype) -> None:
    """An absolute perturbation that the first layer rounds away, as most of the papers' are under autocast."""
    size = absolute_size(method)
    weight: Any = getattr(input_embedding(model), "weight", None) if isinstance(method.site, WordEmbedding) else None
    if size is None or not isinstance(weight, Tensor) or weight.dtype in HALF:  # those were warned about at the start
        return
    felt = share_felt(size, local_shard(weight.detach()), half)
    if felt < 0.5:
        _warn(
            f"A perturbation of {size:g} changes {felt:.0%} of the embedding's elements in {_name(half)}; the others "
            "are rounded back. Train in float32, or use a radius in units of the embedding (the default preset)."
        )


def share_felt(size: float, values: Tensor, half: torch.dtype) -> float:
    """The share of values that become another number of half precision when `size` is added."""
    moved = (values + size).to(half) != values.to(half)
    return float(moved.float().mean())


def _name(dtype: torch.dtype) -> str:
    return str(dtype).removeprefix("torch.")


def _warn_if_below_resolution(model: nn.Module, method: Recipe) -> None:
    """An absolute perturbation below the resolution of a half-precision embedding is rounded away."""
    size = absolute_size(method)
    weight: Any = getattr(input_embedding(model), "weight", None)
    if size is None or not isinstance(weight, Tensor) or weight.dtype not in HALF:
        return
    typical = float(weight.detach().float().square().mean().sqrt())
    if size < torch.finfo(weight.dtype).eps * typical:
        _warn(
            f"A perturbation of {size:g} is lost in a {str(weight.dtype).removeprefix('torch.')} embedding (typical "
            f"value {typical:.2g}). Load the model with dtype=torch.float32 and train under autocast, or use a radius "
            "in units of the embedding (the default preset)."
        )


def absolute_size(method: Recipe) -> float | None:
    """The size of an element of the perturbation where it is given in absolute numbers."""
    search = method.search
    if not isinstance(search, (Ascent, Noise)) or not isinstance(search.units, Absolute):
        return None
    start = search.init.scale if isinstance(search.init, (Normal, Uniform)) else 0.0
    if isinstance(search, Noise) or isinstance(search.shape, RawGradient):  # a raw gradient's size is known to nobody
        return start or None
    radius = getattr(search.project, "radius", None)
    step = search.step_size if radius is None else min(search.step_size, radius)
    return max(start, step) if search.shape.p == float("inf") else None


def _warn(message: str) -> None:
    warnings.warn(message, RobustnessWarning, stacklevel=5)


def special_ids(model: nn.Module, tokenizer: Any) -> Tensor | None:
    """Ids of the tokens that carry no text: the tokenizer's, else those the model's config knows."""
    ids = list(getattr(_tokenizer(tokenizer), "all_special_ids", ()) or ())
    if not ids:
        config = getattr(model, "config", None)
        names = ("pad_token_id", "bos_token_id", "eos_token_id", "cls_token_id", "sep_token_id")
        known = [getattr(config, name, None) for name in names]
        ids = [one for value in known for one in (value if isinstance(value, list) else [value]) if one is not None]
    return torch.tensor(sorted(set(ids))) if ids else None


def _tokenizer(given: Any) -> Any:
    """The tokenizer itself, also of a processor that has one beside other parts."""
    return getattr(given, "tokenizer", given)


def warn_if_special_unknown(model: nn.Module, method: Recipe, tokenizer: Any) -> None:
    """Many encoders' configs do not name their class and separator tokens."""
    site = method.site
    masked = isinstance(site, (WordEmbedding, NormalizedEmbedding, Hidden)) and "special" in site.skip
    config = getattr(model, "config", None)
    text = getattr(model, "main_input_name", "input_ids") == "input_ids"
    known = any(getattr(config, name, None) is not None for name in ("bos_token_id", "eos_token_id", "cls_token_id"))
    told = hasattr(_tokenizer(tokenizer), "all_special_ids")
    if masked and text and not told and not known and config is not None:
        _warn(
            "Special tokens are to be left alone, and nobody says which they are, so they are perturbed like words. "
            "Give the tokenizer: method.attach(model, tokenizer), or a 'special_tokens_mask' in the batch."
        )
