"""Layers without padding: between the embedding and the head only real tokens are computed.

Attention then runs over texts laid end to end (FlashAttention's variable lengths, Dao 2023). The number of tokens is
rounded up to one of a few, so that a step has a shape; what is left over are padding tokens that nobody reads.
"""

from collections.abc import Callable, Generator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, ClassVar, cast

import torch
from torch import Tensor, nn

from ..internal.foreach import HALF
from ..sites.base import Detach

NAME = "toughen_packed"  # transformers matches "flash" and "sdpa" inside such names, so neither is part of it
NUM_BUCKETS = 32  # a batch's tokens are rounded up to one of so many numbers
LEAST_TOKENS = 4096  # of a padded batch: below it a step is bound by launches and not by tokens
MAX_FILL = 0.9  # above this share of real tokens the packing costs more than it saves
# Families whose layers know nothing of positions, and the name of their stack of layers.
STACKS = {
    **dict.fromkeys(("bert", "roberta", "xlm-roberta", "electra", "camembert", "ernie"), "encoder"),
    "distilbert": "transformer",
}
_HOLDER = "_toughen_packing"


@dataclass(frozen=True)
class Layout:
    """Where the real tokens of a padded batch are, and where texts end once they lie end to end."""

    rows: int
    length: int
    index: Tensor  # of every packed token: its place in the padded batch
    ends: Tensor  # int32, starting with 0

    def pack(self, hidden: Tensor) -> Tensor:
        return hidden.reshape(self.rows * self.length, -1).index_select(0, self.index).unsqueeze(0)

    def unpack(self, hidden: Tensor) -> Tensor:
        whole = hidden.new_zeros(self.rows * self.length, hidden.shape[-1])
        return whole.index_copy(0, self.index, hidden.squeeze(0)).view(self.rows, self.length, -1)


def layout(mask: Tensor, tokens: int) -> Layout:
    """Lay out a batch with this attention mask for `tokens` packed tokens, which all real ones must fit in."""
    mask = mask.reshape(-1, mask.shape[-1]).bool()
    rows, length = mask.shape
    order = torch.sort(~mask.flatten(), stable=True).indices[:tokens]
    ends = torch.nn.functional.pad(mask.sum(1, dtype=torch.int32).cumsum(0, dtype=torch.int32), (1, 0))
    # Padding that fills up the number of tokens is cut into texts of its own, none longer than the others may be. What
    # lies in no text the kernel leaves as it finds it, in the backward pass too: gradients would be what memory held.
    most = -(-_bucket_size(mask.numel()) // length)  # texts; there is less padding than a step
    spare = torch.arange(1, most + 1, device=mask.device, dtype=torch.int32) * length
    ends = torch.cat([ends, (ends[-1] + spare).clamp(max=tokens)])
    return Layout(rows, length, order, ends)


def round_up_tokens(real: int, padded: int) -> int:
    """Return the number of tokens that a batch of `padded` is computed with if `real` are no padding."""
    step = _bucket_size(padded)
    return min(-(-real // step) * step, padded)


def _bucket_size(padded: int) -> int:
    return max(-(-padded // NUM_BUCKETS), 8)


def real_tokens(batch: Mapping[str, Any], pad: int | None = None) -> int | None:
    """Count the tokens that are no padding, by a mask on the CPU only: a GPU would have to wait.

    Return None if packing is unsafe: with left padding (these models read position 0), with the token `pad` as a real
    one in a full batch (without a mask it would be treated as padding), and with a mask of pairs (B, 1, L, L), which
    gives a decoder its direction.
    """
    mask, ids, embeds = (batch.get(name) for name in ("attention_mask", "input_ids", "inputs_embeds"))
    if not isinstance(mask, Tensor) or mask.device.type != "cpu" or not mask[..., 0].all():
        return None
    tokens = ids if isinstance(ids, Tensor) else embeds[..., 0] if isinstance(embeds, Tensor) else mask
    if mask.shape != tokens.shape:
        return None
    real = int(mask.count_nonzero())
    full = real == mask.numel() and pad is not None and isinstance(ids, Tensor)
    return None if full and bool((ids == pad).any()) else real


def padding_token(model: nn.Module) -> int | None:
    return getattr(getattr(model, "config", None), "pad_token_id", None)


def tokens_to_compute(batch: Mapping[str, Any], real: int | None) -> int | None:
    """Return the number of tokens to compute a batch with; None where padding had better stay in."""
    padded = cast(Tensor, batch["attention_mask"]).numel() if real is not None else 0
    if real is None or padded < LEAST_TOKENS:
        return None
    tokens = round_up_tokens(real, padded)
    return tokens if tokens < MAX_FILL * padded else None


def drop_full_mask(batch: Mapping[str, Any], real: int | None) -> Mapping[str, Any]:
    """Drop the mask of a batch without padding: attention without one is faster."""
    if real is None or real < cast(Tensor, batch["attention_mask"]).numel():
        return batch
    return {name: value for name, value in batch.items() if name != "attention_mask"}


class Packing:
    """A model whose layers can leave padding out, inside `of(batch)`; elsewhere it runs as it always did."""

    active: ClassVar["Packing | None"] = None

    def __init__(self, model: nn.Module) -> None:
        found = find_stack(model)
        if found is None or not _can_pack(found[0].config):
            raise ValueError(f"{type(model).__name__}: no known stack of layers to leave padding out of.")
        self.base, self.stack = found
        self.layout: Layout | None = None
        self.unpadded = False  # the batch has no padding
        self._undo: list[Detach] = []
        self.attach()

    def attach(self) -> None:
        if self._undo:
            return
        _register()
        before = self.base.config._attn_implementation
        self.base.set_attn_implementation(NAME)
        self._undo.append(lambda: self.base.set_attn_implementation(before))
        for module in self.stack.modules():
            setattr(module, _HOLDER, self)
        hooks = [
            self.stack.register_forward_pre_hook(self._pack, with_kwargs=True),
            self.stack.register_forward_hook(self._unpack),
        ]
        self._undo += [hook.remove for hook in hooks]

    def detach(self) -> None:
        for undo in reversed(self._undo):
            undo()
        self._undo.clear()
        for module in self.stack.modules():
            if hasattr(module, _HOLDER):
                delattr(module, _HOLDER)

    @contextmanager
    def of(self, batch: Mapping[str, Any], tokens: int | None) -> Generator[None]:
        """Passes over this batch with so many tokens; None leaves the padding in."""
        mask = batch.get("attention_mask")
        self.unpadded = mask is None
        if isinstance(mask, Tensor) and tokens is not None:
            self.layout = layout(mask, tokens)
        before, Packing.active = Packing.active, self
        try:
            yield
        finally:
            self.layout, self.unpadded, Packing.active = None, False, before

    def _pack(self, _module: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        if self.layout is None:
            return None
        if args:
            return (self.layout.pack(args[0]), *args[1:]), kwargs
        return args, {**kwargs, "hidden_states": self.layout.pack(kwargs["hidden_states"])}

    def _unpack(self, _module: nn.Module, _args: Any, output: Any) -> Any:
        if self.layout is None:
            return None
        if isinstance(output, tuple):
            return (self.layout.unpack(cast(Tensor, output[0])), *cast("tuple[Any, ...]", output[1:]))
        output.last_hidden_state = self.layout.unpack(output.last_hidden_state)
        return output


def packing_of(model: nn.Module, half: bool) -> Packing | None:
    """Pack where it pays: families we know, on a CUDA device, in `half` precision. float32 has no such kernel."""
    found = find_stack(model) if half and next(model.parameters()).is_cuda else None
    return Packing(model) if found is not None and _can_pack(found[0].config) else None


def find_stack(model: nn.Module) -> tuple[Any, nn.Module] | None:
    """Return the model that has the layers, and its stack of them; None for unknown families."""
    for module in model.modules():
        config: Any = getattr(module, "config", None)
        name = STACKS.get(getattr(config, "model_type", ""))
        stack = getattr(module, name, None) if name else None
        if isinstance(stack, nn.Module) and hasattr(module, "set_attn_implementation"):
            return module, stack
    return None


def _can_pack(config: Any) -> bool:
    return config._attn_implementation in ("sdpa", NAME) and not getattr(config, "is_decoder", False)


def _register() -> None:
    from transformers import AttentionInterface
    from transformers.masking_utils import ALL_MASK_ATTENTION_FUNCTIONS, AttentionMaskInterface

    if NAME not in ALL_MASK_ATTENTION_FUNCTIONS:
        AttentionInterface.register(NAME, _attention)
        usual: Callable[..., Tensor | None] = ALL_MASK_ATTENTION_FUNCTIONS["sdpa"]

        def mask(*args: Any, **kwargs: Any) -> Tensor | None:
            active = Packing.active
            needless = active is not None and (active.unpadded or active.layout is not None)
            return None if needless else usual(*args, **kwargs)

        AttentionMaskInterface.register(NAME, mask)


def _attention(
    module: nn.Module, query: Tensor, key: Tensor, value: Tensor, attention_mask: Tensor | None, **kw: Any
) -> tuple[Tensor, Tensor | None]:
    packing = cast("Packing | None", getattr(module, _HOLDER, None))
    if packing is None or packing.layout is None:
        from transformers.modeling_utils import ALL_ATTENTION_FUNCTIONS

        usual: Callable[..., tuple[Tensor, None]] = ALL_ATTENTION_FUNCTIONS["sdpa"]
        return usual(module, query, key, value, attention_mask, **kw)
    texts, dropout, scale = packing.layout, float(kw.get("dropout", 0.0)), kw.get("scaling")
    if query.is_cuda and query.dtype in HALF:
        laid = [one.squeeze(0).transpose(0, 1) for one in (query, key, value)]  # (tokens, heads, width)
        kernel: Any = torch.ops.aten._flash_attention_forward
        ends, longest = texts.ends, texts.length
        out = kernel(*laid, ends, ends, longest, longest, dropout, False, False, scale=scale)[0]
        return out.unsqueeze(0), None
    number = torch.bucketize(torch.arange(query.shape[2], device=query.device), texts.ends, right=True)
    same = number[:, None] == number[None]
    kernel = torch.nn.functional.scaled_dot_product_attention
    out = kernel(query, key, value, attn_mask=same, dropout_p=dropout, scale=scale)
    return out.transpose(1, 2).contiguous(), None
