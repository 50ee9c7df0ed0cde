"""Which positions of an input may be perturbed."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, TypeAlias, cast

import torch
import torch.nn.functional as F
from torch import Tensor

from ..errors import MethodError, SiteError
from .base import Activation, AttentionActivation, EmbeddedTokens, PerturbationSource

Skip: TypeAlias = tuple[str | int, ...]
"""Positions left alone: "padding", "special" (class, separator, ... tokens), or the positions of a token id."""
TokensOf: TypeAlias = Callable[[], EmbeddedTokens | None]
RECOMMENDED_SKIP: Skip = ("padding", "special")


def check_skip(skip: Skip) -> None:
    """Refuse words that name no kind of position, where the site is made and not in the middle of a pass."""
    if not isinstance(skip, tuple):  # pyright: ignore[reportUnnecessaryIsInstance]  # a lone string is easily written
        raise MethodError(f"skip={skip!r} must be a tuple, e.g. skip=('padding',); () perturbs every position.")
    for what in skip:
        if not isinstance(what, int) and what not in ("padding", "special"):
            raise MethodError(f"skip={skip!r}: {what!r} is not known. Choose 'padding', 'special' or a token's id.")


@dataclass(frozen=True)
class TokenLayout:
    """How a module lays the texts of a batch out, where it is not as the batch has them."""

    time_major: bool = False  # positions before texts
    extra_tokens: Literal["", "before", "behind"] = ""  # where the model may add positions that are no input
    images: Literal["before", "behind"] = "behind"  # where those of images stand, if the batch has any


BATCH_FIRST = TokenLayout()
_IMAGES = ("pixel_values", "image", "visual_embeds")


def perturb_output(
    inject: PerturbationSource, output: Any, skip: Skip, layout: TokenLayout, tokens: TokensOf = lambda: None
) -> Any:
    """Perturb a module's output; of several things the first (Swin's patch embedding returns its size as well)."""
    if isinstance(output, Tensor):
        own = output.transpose(0, 1) if layout.time_major else output
        delta = get_delta(inject, own, skip, layout, tokens).to(output.dtype)
        return output + (delta.transpose(0, 1) if layout.time_major else delta)
    if not _holds_tensor(output):
        raise SiteError(f"The module gives a {type(output).__name__} without a tensor that could be perturbed.")
    if isinstance(output, Mapping):  # transformers' own outputs
        named = cast("Mapping[str, Any]", output)
        name = next(name for name, value in named.items() if _holds_tensor(value))
        return cast(Any, type(named))(**{**named, name: perturb_output(inject, named[name], skip, layout, tokens)})
    items = list(cast("Sequence[Any]", output))
    first = next(number for number, value in enumerate(items) if _holds_tensor(value))
    items[first] = perturb_output(inject, items[first], skip, layout, tokens)
    kind: Any = type(output)
    return kind(*items) if hasattr(kind, "_fields") else kind(items)  # a named tuple takes them one by one


def _holds_tensor(value: Any) -> bool:
    if isinstance(value, Mapping):
        value = list(cast("Mapping[str, Any]", value).values())
    if isinstance(value, (tuple, list)):
        return any(_holds_tensor(each) for each in cast("Sequence[Any]", value))
    return isinstance(value, Tensor) and value.is_floating_point()


def get_delta(
    inject: PerturbationSource, value: Tensor, skip: Skip, layout: TokenLayout, tokens: TokensOf = lambda: None
) -> Tensor:
    """The perturbation of an activation, which is that of the first input in a call over several."""
    delta = inject(0, lambda: Activation(value.detach(), token_mask(inject, value, skip, layout), tokens=tokens()))
    if delta.shape != value.shape and any(
        n not in (1, m) for n, m in zip(delta.shape[::-1], value.shape[::-1], strict=False)
    ):
        raise SiteError(
            f"The model ran on inputs of two shapes in one call, {tuple(delta.shape)} and {tuple(value.shape)} as it "
            "embeds them, and a perturbation fits one. Pad both to one length and run them as one batch."
        )
    return delta


def pair_view(
    inject: PerturbationSource, hidden: Tensor, pairs: Tensor | None, index: int, compute: torch.dtype
) -> AttentionActivation:
    """A view of attention over (batch, length, width) activations; `pairs` are those the model itself attends to."""
    real = token_mask(inject, hidden, ("padding",))
    queries = None if real is None else real.view(hidden.shape[:2])
    if pairs is not None:
        pairs = pairs.expand(-1, -1, hidden.shape[1], -1)  # one row may stand for all queries
    return AttentionActivation(
        to_autocast_dtype(hidden.detach()), index=index, pairs=pairs, queries=queries, compute=compute
    )


def to_autocast_dtype(hidden: Tensor) -> Tensor:
    """The activation in the autocast dtype.

    Under autocast each projection of an attention block makes and keeps a half-precision copy of its input; made here,
    one copy serves them all and the adversary.
    """
    kind = hidden.device.type
    half = torch.is_autocast_enabled(kind) and hidden.dtype == torch.float32
    return hidden.to(torch.get_autocast_dtype(kind)) if half else hidden


def token_mask(
    inject: PerturbationSource, value: Tensor, skip: Skip, layout: TokenLayout = BATCH_FIRST
) -> Tensor | None:
    rows, length = value.shape[0], value.shape[1] if value.dim() > 2 else 0
    has_images = any(name in inject.batch for name in _IMAGES)
    own = min(length, _length(inject.batch)) if layout.extra_tokens or has_images else length
    keep: Tensor | None = None
    for what in skip:
        one = _kept(inject, what, rows, own)
        keep = one if keep is None else keep if one is None else keep & one
    if keep is None:
        return None
    if own < length:
        side = layout.images if has_images else layout.extra_tokens
        keep = F.pad(keep, (length - own, 0) if side == "before" else (0, length - own), value=has_images)
    return keep.view(rows, length, *[1] * (value.dim() - 2))


def _kept(inject: PerturbationSource, what: str | int, rows: int, length: int) -> Tensor | None:
    ids = _fitting(inject.batch, "input_ids", rows, length)
    if what == "padding":
        mask = _fitting(inject.batch, "attention_mask", rows, length)
        if mask is None:
            return None
        # (B, 1, 1, L), as a model's own layers have it: what is added to the logits, 0 where a key is visible.
        additive = inject.batch["attention_mask"].dim() == 4 and mask.is_floating_point()
        return mask.ge(0) if additive else mask.ne(0)
    if what == "special":
        flags = _fitting(inject.batch, "special_tokens_mask", rows, length)
        if flags is not None:
            return flags.eq(0)
        if ids is None or inject.special_ids is None:
            return None
        return ids.unsqueeze(-1).ne(inject.special_ids).all(-1)  # isin sorts long lists (T5's), with a device sync
    return None if ids is None else ids.ne(int(what))


def _length(batch: Mapping[str, Any]) -> int:
    known = (batch.get(key) for key in ("input_ids", "attention_mask"))
    return max((tensor.shape[-1] for tensor in known if isinstance(tensor, Tensor)), default=0)


def _fitting(batch: Mapping[str, Any], key: str, rows: int, length: int) -> Tensor | None:
    """A (rows, length) tensor of the batch; multiple choice keeps its choices in a dimension of their own."""
    tensor = batch.get(key)
    if not isinstance(tensor, Tensor) or tensor.dim() < 2 or tensor.shape[-1] != length:
        return None
    flat = tensor.reshape(-1, length)
    return flat if flat.shape[0] == rows else None
