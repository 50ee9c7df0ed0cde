"""Read checkpoints of the authors' heads: their parameter names and ours."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor

TEXT_BLOCK = "representation.conv_dr_block."
BATCH_NORM = ("weight", "bias", "running_mean", "running_var")


def is_text(state_dict: Mapping[str, Tensor]) -> bool:
    """Tell whether these are weights of the text head (1x1 convolutions) and not of the vision head (one linear)."""
    if TEXT_BLOCK + "0.0.weight" in state_dict:
        return True
    if "representation.wr.weight" in state_dict:
        return False
    raise ValueError(
        f"neither {TEXT_BLOCK}0.0.weight (text) nor representation.wr.weight (vision) is in the state dict; "
        "strip the prefix of the head first, e.g. 'bert.pooler.'."
    )


def sizes(state_dict: Mapping[str, Tensor]) -> tuple[int, int, dict[str, Any]]:
    """(width of the tokens, number of labels, head settings) that fit the weights; the rest is the preset's."""
    labels, pooled = state_dict["visual_fc.weight"].shape
    if is_text(state_dict):
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


def rename(state_dict: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """Rename the weights to our names; two projections become rows of one, q-side first."""
    ours = {
        "word_fc.weight": state_dict["visual_fc.weight"],
        "word_fc.bias": state_dict["visual_fc.bias"],
        "class_fc.weight": state_dict["cls_fc.weight"],
        "class_fc.bias": state_dict["cls_fc.bias"],
    }
    projection, start = "pool.covariance.projection.weight", "pool.normalize.start"
    if not is_text(state_dict):
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
