"""A picture of what the adversary hides: clean and adversarial attention of a text, side by side."""

from collections.abc import Generator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn

from ..engine.attached import Attached
from ..errors import MethodError, require
from ..internal.architectures import infer_head_type
from ..internal.atomic import atomic_path
from ..internal.rng import without_dropout
from ..sites.attention_interface import WRAPPED_IMPLEMENTATIONS
from .drawing import plain


class Attention(NamedTuple):
    """One layer's attention, each (batch, heads, queries, keys)."""

    clean: Tensor
    adversarial: Tensor
    visible: Tensor  # True where the adversary leaves a pair visible; one for all heads or one for each


def attention_maps(attached: Attached, batch: Mapping[str, Any], *, sample: bool = False) -> dict[int, Attention]:
    """Return clean and adversarial attention by perturbed layer, without dropout."""
    asking = {**batch, "output_attentions": True}
    with torch.no_grad(), without_dropout(attached.model), _weights_shown(attached.model):
        clean = attached.model(**asking).attentions
        output, masks = attached.perturbed_forward(asking, sample=sample)
    if not clean or clean[0] is None:
        raise MethodError(f"{type(attached.model).__name__} returns no attention weights, so there is nothing to draw.")
    return {
        layer: Attention(clean[layer], output.attentions[layer], mask if mask.dim() == 4 else mask.unsqueeze(1))
        for layer, mask in masks.items()
    }


def draw_attention(
    attached: Attached,
    tokenizer: Any,
    text: str | Sequence[str],
    path: str | Path,
    *,
    layer: int = -1,
    head: int | None = None,
    sample: bool = False,
) -> Path:
    """Draw one layer's attention to a text, as it is and under the adversary, with hidden pairs crossed out.

    Args:
        attached: A method with a learned adversary (`asa`) on a model.
        tokenizer: The model's tokenizer.
        text: A text, or a pair of texts.
        path: The file; its ending says PNG, SVG or PDF.
        layer: The number of the layer.
        head: The number of the head; by default the mean of all.
        sample: Draw the adversary's mask instead of the likelier choice for each pair.

    Returns:
        The path of the picture.

    Raises:
        MethodError: A layer without an adversary, a head that is not there, or a model that gives no attention.

    Examples:
        >>> from pathlib import Path
        >>> with toughen.asa().attach(model, tokenizer) as attached:
        ...     toughen.draw_attention(attached, tokenizer, "w10 w20", Path(folder) / "attention.svg").name
        'attention.svg'
    """
    texts = (text,) if isinstance(text, str) else tuple(text)
    batch: dict[str, Any] = dict(tokenizer(*texts, return_tensors="pt"))
    device = next(attached.model.parameters()).device
    batch = {key: value.to(device) for key, value in batch.items()}
    ids = batch["input_ids"][0].tolist()
    if infer_head_type(attached.model) == "choices":  # which reads (batch, choices, length)
        batch = {key: value.unsqueeze(1) for key, value in batch.items()}
    maps = attention_maps(attached, batch, sample=sample)
    layers = sorted(maps)
    number = layers[layer] if -len(layers) <= layer < 0 else layer
    if number not in maps:
        raise MethodError(f"layer={layer} has no adversary. Those that have: {', '.join(map(str, layers))}.")
    chosen = maps[number]
    heads = chosen.clean.shape[1]
    if head is not None and not -heads <= head < heads:
        raise MethodError(f"head={head}: layer {number} has heads 0 to {heads - 1}; leave it out for their mean.")
    visible = chosen.visible[0]
    if head is None:
        clean, perturbed, visible = chosen.clean[0].mean(0), chosen.adversarial[0].mean(0), visible.any(0)
    else:
        clean, perturbed, visible = (part[0][head if len(part[0]) > 1 else 0] for part in chosen)
    hidden = ~visible & (clean > 0)  # not what the model itself never looks at
    which = "mean of heads" if head is None else f"head {head}"
    figures: Any = require("matplotlib.figure", "plot")
    names = [plain(token) for token in tokenizer.convert_ids_to_tokens(ids)]
    size = max(3.0, 0.32 * len(names) + 1.2)
    figure = figures.Figure(figsize=(2 * size, size + 0.6), layout="constrained")
    parts = {"clean": clean.float().cpu(), "adversarial": perturbed.float().cpu()}
    top = max(float(weights.max()) for weights in parts.values())
    for axes, (name, weights) in zip(figure.subplots(1, 2), parts.items(), strict=True):
        image = axes.imshow(weights.numpy(), cmap="Blues", vmin=0, vmax=top)
        axes.set(title=name, xlabel="attended to", ylabel="from")
        axes.set_xticks(range(len(names)), names, rotation=90, fontsize=8)
        axes.set_yticks(range(len(names)), names, fontsize=8)
        if name == "adversarial":
            rows, columns = (each.numpy() for each in torch.nonzero(hidden.cpu(), as_tuple=True))
            axes.scatter(columns, rows, marker="x", s=12, color="tab:red", linewidths=0.8)
            figure.colorbar(image, ax=axes, shrink=0.8)
    figure.suptitle(f"layer {number}, {which}")
    path = Path(path)
    with atomic_path(path) as unfinished:
        figure.savefig(unfinished, format=path.suffix.lstrip(".") or "png")
    return path


@contextmanager
def _weights_shown(model: nn.Module) -> Generator[None]:
    """Run attention step by step: nothing else returns its weights."""
    # What the method switched: the model, one under adapters, or the backbone under a head.
    switched = (module for module in model.modules() if hasattr(module, "set_attn_implementation"))
    names = ((module, getattr(getattr(module, "config", None), "_attn_implementation", None)) for module in switched)
    base: Any = next((module for module, name in names if name == WRAPPED_IMPLEMENTATIONS["sdpa"]), None)
    if base is not None:
        base.set_attn_implementation(WRAPPED_IMPLEMENTATIONS["eager"])
    try:
        yield
    finally:
        if base is not None:
            base.set_attn_implementation(WRAPPED_IMPLEMENTATIONS["sdpa"])
