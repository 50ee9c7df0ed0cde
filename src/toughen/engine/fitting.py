"""Puts the hooks of methods into a model."""

from collections.abc import Sequence

from torch import nn

from ..sites import AttentionLogits, Hidden, NormalizedEmbedding, WordEmbedding
from ..sites.base import Detach
from .adversary_state import build
from .checkpointing import CheckpointedLayers
from .features import FeatureHook
from .float32_logits import keep_logits_in_float32
from .idle import warn_if_method_unused
from .several import warn_if_multiple_inputs
from .state import MethodState


def install_hooks(
    model: nn.Module, bound: Sequence[MethodState], seed: int, undo: list[Detach]
) -> tuple[FeatureHook | None, CheckpointedLayers | None]:
    """What watches features and checkpointed layers, if anything does. The ways back are added to `undo` one by one, so
    that whoever calls can take them also when something is refused half-way.
    """
    for one in bound:
        undo.append(one.method.site.attach(model, one.injector))
        one.adversary = one.adversary or build(model, one.injector, one.method.site, seed)
        if one.adversary is not None:
            undo.append(one.adversary.install())
        if isinstance(one.method.site, (WordEmbedding, NormalizedEmbedding, Hidden)):
            undo.append(warn_if_multiple_inputs(model, one.injector))
    watch = FeatureHook(model) if any(one.needs_features for one in bound) else None
    if watch is not None:
        undo.append(watch.detach)
    if any(one.compares_predictions for one in bound):
        undo.append(keep_logits_in_float32(model))
    inside = [one.injector for one in bound if isinstance(one.method.site, (Hidden, AttentionLogits))]
    checkpoints = CheckpointedLayers(model, inside) if inside else None
    if checkpoints is not None:
        undo.append(checkpoints.release)
    undo.append(warn_if_method_unused(model, lambda: bound[0].used))
    return watch, checkpoints
