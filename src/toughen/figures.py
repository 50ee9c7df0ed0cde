"""Is it adversarial? What the last step did, as tensors that nobody has read yet."""

from collections.abc import Sequence

import torch
import torch.nn.functional as F
from torch import Tensor

from .batch import Batch
from .compare import Divergence
from .rng import Replay


def figures(batches: Sequence[Batch]) -> dict[str, Tensor]:
    """Figures of the last micro-batch. With several methods, keys start with their number."""
    found: dict[str, Tensor] = {}
    for number, batch in enumerate(batches):
        prefix = f"{number}/" if len(batches) > 1 else ""
        found |= {prefix + key: value for key, value in _figures(batch).items()}
    return found


@torch.no_grad()
def _figures(batch: Batch) -> dict[str, Tensor]:
    found = dict(batch.seen)
    found["forwards"] = torch.tensor(float(batch.step.forwards))
    found["backwards"] = torch.tensor(float(batch.step.backwards))
    perturbation = batch.perturbation
    for place, delta in perturbation.at.items():
        end = "" if len(perturbation.at) == 1 else f"_{place}"
        if place not in perturbation.views:  # a learnt search: what it answers with is no vector
            found["visible" + end] = delta.detach().mean()
            continue
        view, start = perturbation.views[place], perturbation.starts[place]
        size = delta.detach().flatten(1).norm(dim=1)
        found["delta_norm" + end] = size.mean()
        whole = view.masked(view.value.to(delta.dtype)).flatten(1).norm(dim=1)
        found["delta_relative" + end] = (size / whole.clamp(min=1e-30)).mean()  # a text may have nothing to perturb
        found["delta_from_gradient" + end] = from_gradient(delta.detach(), start)
    if perturbation.skipped is not None:
        found["skipped"] = perturbation.skipped
    return found


def from_gradient(delta: Tensor, start: Tensor) -> Tensor:
    """1 - cosine of the final and the starting perturbation: 0 is random noise, 1 or more came from the gradient."""
    return 1 - F.cosine_similarity(delta.flatten(1), start.flatten(1), dim=1).mean()


@torch.no_grad()
def probe(batches: Sequence[Batch]) -> dict[str, Tensor]:
    """Divergences of the last micro-batch from a clean pass: under another dropout mask, and under the perturbation."""
    if not batches:
        return {}
    step, compare = batches[0].step, Divergence()
    before = Replay(step.device)
    try:
        step.rewind()  # the mask the perturbation was found under
        clean, other = step.probe(), step.probe()
        found = {"divergence_dropout": compare(other, clean, [])}
        for number, batch in enumerate(batches):
            if batch.perturbation.at:
                prefix = f"{number}/" if len(batches) > 1 else ""
                step.rewind()
                found[prefix + "divergence_perturbation"] = compare(batch.under_perturbation(step.probe), clean, [])
        return found
    finally:
        before.restore()
