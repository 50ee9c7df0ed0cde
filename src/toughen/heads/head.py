"""The second-order classification head: pooled words and the class token, fused into logits."""

from collections.abc import Iterable, Mapping
from typing import Any, cast

import torch
from torch import Tensor, nn

from ..internal.foreach import no_autocast
from .pooling import POOLINGS
from .settings import HeadSettings, head_settings


class SecondOrderHead(nn.Module):
    """Compute logits from all tokens of the last layer, after SoT (Xie et al. 2021) and its text counterpart MGCrP.

    `dim` is the width of the tokens. Everything else is a field of `HeadSettings`, given singly, by `preset`, or as one
    record. Parameters: `pool.covariance.projection`, `pool.normalize.start`, `word_fc`, `class_fc`.

    Args:
        dim: The width of the tokens.
        num_labels: The number of logits.
        settings: All options at once.
        preset: The name of a preset, or several.
        changes: Single options on top of the preset.

    Examples:
        >>> import torch
        >>> head = toughen.heads.SecondOrderHead(16, 3, q=4, k=4)
        >>> tuple(head(torch.randn(2, 5, 16), class_vector=torch.randn(2, 16)).shape)
        (2, 3)
    """

    def __init__(
        self,
        dim: int,
        num_labels: int,
        settings: HeadSettings | None = None,
        *,
        preset: str | Iterable[str] | None = None,
        **changes: Any,
    ) -> None:
        super().__init__()
        chosen = settings or head_settings(preset, **changes)
        self.settings = chosen
        self.dropout = nn.Dropout(chosen.dropout)
        self.class_dropout = nn.Dropout(chosen.class_dropout)
        # A part without a role in the fusion is not made: unused parameters stop distributed training.
        self.pool = POOLINGS[chosen.pooling](dim, chosen) if chosen.pooling != "class" else None
        self.word_fc = self.class_fc = None
        if self.pool is not None:
            extra = dim if chosen.fusion == "concat" else 0
            self.word_fc = nn.Linear(extra + self.pool.width, num_labels)
        if self.pool is None or chosen.fusion in ("sum_fc", "sum_loss"):
            self.class_fc = nn.Linear(dim, num_labels)

    def forward(
        self,
        tokens: Tensor,
        mask: Tensor | None = None,
        *,
        class_index: Tensor | None = None,
        class_vector: Tensor | None = None,
    ) -> Tensor | tuple[Tensor, Tensor]:
        """Compute logits (B, labels) of tokens (B, N, dim), or (class logits, word logits) if `fusion="sum_loss"`.

        `mask` (B, N) is 0 for padding and whatever else must stay out. The class token is position 0, or `class_index`
        (B,), or none of the tokens but `class_vector` (B, dim).
        """
        if not self.settings.masked:
            mask = None
        vector = class_vector
        if vector is None:
            vector, tokens, mask = self._without_class(tokens, mask, class_index)
        if self.settings.class_dropout:
            vector = self.class_dropout(vector)
        pooled = None if self.pool is None else self.dropout(self.pool(tokens, mask))
        # In the precision of the weights: autocast would round all that goes in, by a dozen casts that save no time.
        with no_autocast(tokens):
            return self._logits(vector, pooled)

    def _logits(self, vector: Tensor, pooled: Tensor | None) -> Tensor | tuple[Tensor, Tensor]:
        word_fc, class_fc = self.word_fc, self.class_fc
        if pooled is None or word_fc is None:
            return _linear(cast(nn.Linear, class_fc), vector)
        if self.settings.fusion == "concat":
            return _linear(word_fc, torch.cat([vector, pooled.to(vector.dtype)], dim=1))
        word_logits = _linear(word_fc, pooled)
        if class_fc is None:
            return word_logits
        class_logits = _linear(class_fc, vector)
        return (class_logits, word_logits) if self.settings.fusion == "sum_loss" else word_logits + class_logits

    def _without_class(
        self, tokens: Tensor, mask: Tensor | None, index: Tensor | None
    ) -> tuple[Tensor, Tensor, Tensor | None]:
        """(class vector, tokens, mask of the words): the class token is a word only for `aggre_all`."""
        vector = tokens[:, 0] if index is None else _at(tokens, index)
        if self.settings.fusion == "aggre_all":
            return vector, tokens, mask
        if mask is None and index is None:
            return vector, tokens[:, 1:], None
        # With a mask the class token is masked, not cut out: a slice would copy every hidden state.
        if index is None:
            words = torch.triu(cast(Tensor, mask)[:, None], 1)[:, 0]  # drops the first column, in one launch
        else:
            words = (tokens.new_ones(tokens.shape[:2]) if mask is None else mask).scatter(1, index[:, None], 0)
        return vector, tokens, words

    @classmethod
    def from_original(cls, state_dict: Mapping[str, Tensor], **changes: Any) -> "SecondOrderHead":
        """Load a head from a checkpoint of the authors' text or vision code; the weights give its sizes."""
        dim, num_labels, settings = original_sizes(state_dict)
        head = cls(dim, num_labels, head_settings(**{**settings, **changes}))
        weights = rename_original(state_dict)
        head.to(next(value.dtype for value in weights.values() if value.is_floating_point()))
        kept = head.state_dict().keys()
        head.load_state_dict({name: value for name, value in weights.items() if name in kept})
        return head


def _linear(layer: nn.Linear, x: Tensor) -> Tensor:
    weight: Any = layer.weight  # of a quantised layer anything; such a layer knows by itself what it takes
    known = isinstance(weight, Tensor) and weight.is_floating_point()
    return layer(x.to(weight.dtype) if known else x)


def _at(tokens: Tensor, index: Tensor) -> Tensor:
    """Select the token at `index` (B,) of each row."""
    # gather, not indexing: the backward of indexing sorts.
    return tokens.gather(1, index[:, None, None].expand(-1, 1, tokens.shape[2])).squeeze(1)


TEXT_BLOCK = "representation.conv_dr_block."
BATCH_NORM = ("weight", "bias", "running_mean", "running_var")


def _is_text(state_dict: Mapping[str, Tensor]) -> bool:
    """Tell whether these are weights of the text head (1x1 convolutions) and not of the vision head (one linear)."""
    if TEXT_BLOCK + "0.0.weight" in state_dict:
        return True
    if "representation.wr.weight" in state_dict:
        return False
    raise ValueError(
        f"neither {TEXT_BLOCK}0.0.weight (text) nor representation.wr.weight (vision) is in the state dict; "
        "strip the prefix of the head first, e.g. 'bert.pooler.'."
    )


def original_sizes(state_dict: Mapping[str, Tensor]) -> tuple[int, int, dict[str, Any]]:
    """(width of the tokens, number of labels, head settings) that fit the weights; the rest is the preset's."""
    labels, pooled = state_dict["visual_fc.weight"].shape
    if _is_text(state_dict):
        q, dim = state_dict[TEXT_BLOCK + "0.0.weight"].shape[:2]
        k = state_dict[TEXT_BLOCK + "1.0.weight"].shape[0]
        return dim, labels, {"preset": "original-text", "q": q, "k": k}
    rows, dim = state_dict["representation.wr.weight"].shape
    # rows = 2 * heads * w, and the pooled width is heads * w^2, plus dim if the class token is concatenated.
    for fusion, extra in (("sum_fc", 0), ("concat", dim)):
        w = 2 * (pooled - extra) // rows
        if w > 0 and rows % (2 * w) == 0 and rows // (2 * w) * w * w + extra == pooled:
            start = state_dict.get("representation.norm.weight")
            if start is None or start.shape[0] == w:
                settings = {"q": w, "k": w, "heads": rows // (2 * w), "fusion": fusion}
                return dim, labels, {"preset": "original-vision", **settings}
    raise ValueError(f"{rows} projected channels fit no number of heads for {pooled} inputs of visual_fc.")


def rename_original(state_dict: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """Rename the weights to our names; two projections become rows of one, q-side first."""
    ours = {
        "word_fc.weight": state_dict["visual_fc.weight"],
        "word_fc.bias": state_dict["visual_fc.bias"],
        "class_fc.weight": state_dict["cls_fc.weight"],
        "class_fc.bias": state_dict["cls_fc.bias"],
    }
    projection, start = "pool.covariance.projection.weight", "pool.normalize.start"
    if not _is_text(state_dict):
        ours[projection] = state_dict["representation.wr.weight"]
        if "representation.norm.weight" in state_dict:
            ours[start] = state_dict["representation.norm.weight"]
        return ours
    sides = [state_dict[f"{TEXT_BLOCK}{side}.0.weight"].flatten(1) for side in (0, 1)]
    ours[projection] = torch.cat(sides)
    for name in BATCH_NORM:
        both = [state_dict[f"{TEXT_BLOCK}{side}.1.{name}"] for side in (0, 1)]
        ours[f"pool.covariance.batch_norm.{name}"] = torch.cat(both)
    tracked = state_dict.get(TEXT_BLOCK + "0.1.num_batches_tracked", torch.tensor(0))
    ours["pool.covariance.batch_norm.num_batches_tracked"] = tracked
    if "normalization.weight" in state_dict:
        ours[start] = state_dict["normalization.weight"]
    return ours
