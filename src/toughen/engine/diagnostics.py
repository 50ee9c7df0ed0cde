"""Is it adversarial? What the last step did, as tensors that nobody has read yet."""

import warnings
from collections.abc import Sequence
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from ..compare import Divergence
from ..errors import RobustnessWarning
from ..internal.rng import RngSnapshot
from .perturbation import Perturbation
from .step import MethodStep

WINDOW = 50  # updates whose texts are counted together
MOST_MISSING = 0.05  # the share of texts without a gradient that is still normal


def step_metrics(batches: Sequence[MethodStep]) -> dict[str, Tensor]:
    """Figures of the last micro-batch. With several methods, keys start with their number."""
    found: dict[str, Tensor] = {}
    for number, batch in enumerate(batches):
        prefix = f"{number}/" if len(batches) > 1 else ""
        found |= {prefix + key: value for key, value in _metrics_of(batch).items()}
    return found


@torch.no_grad()
def _metrics_of(batch: MethodStep) -> dict[str, Tensor]:
    metrics = dict(batch.metrics)
    metrics["forwards"] = torch.tensor(float(batch.passes.forwards))
    metrics["backwards"] = torch.tensor(float(batch.passes.backwards))
    perturbation = batch.perturbation
    for place, delta in perturbation.at.items():
        end = "" if len(perturbation.at) == 1 else f"_{place}"
        if place not in perturbation.views:  # a learnt search: what it answers with is no vector
            metrics["visible" + end] = delta.detach().mean()
            continue
        view, start = perturbation.views[place], perturbation.starts[place]
        size = delta.detach().flatten(1).norm(dim=1)
        metrics["delta_norm" + end] = size.mean()
        norm = view.masked(view.value.to(delta.dtype)).flatten(1).norm(dim=1)
        metrics["delta_relative" + end] = (size / norm.clamp(min=1e-30)).mean()  # a text may have nothing to perturb
        metrics["delta_from_gradient" + end] = gradient_fraction(delta.detach(), start)
    if perturbation.gradient_counts is not None:
        _, metrics["zero_gradient"], metrics["skipped"] = perturbation.gradient_counts
    return metrics


def gradient_fraction(delta: Tensor, start: Tensor) -> Tensor:
    """1 - cosine of the final and the starting perturbation: 0 is random noise, 1 or more came from the gradient."""
    return 1 - F.cosine_similarity(delta.flatten(1), start.flatten(1), dim=1).mean()


@torch.no_grad()
def measure_divergence(batches: Sequence[MethodStep]) -> dict[str, Tensor]:
    """Divergences of the last micro-batch from a clean pass: under another dropout mask, and under the perturbation."""
    if not batches:
        return {}
    passes, compare = batches[0].passes, Divergence()
    before = RngSnapshot(passes.device)
    try:
        passes.rewind()  # the mask the perturbation was found under
        clean, other = passes.predict(), passes.predict()
        if not clean.predictions:
            return {}
        found = {"divergence_dropout": compare(other, clean, [])}
        for number, batch in enumerate(batches):
            if batch.perturbation.at:
                prefix = f"{number}/" if len(batches) > 1 else ""
                passes.rewind()
                found[prefix + "divergence_perturbation"] = compare(batch.under_perturbation(passes.predict), clean, [])
        return found
    finally:
        before.restore()


class GradientMonitor:
    """Counts the texts whose search found no gradient, and warns once where they are many. No device sync."""

    def __init__(self) -> None:
        self.counts: Tensor | None = None  # texts, zero gradients, gradients that are not finite
        self._read: tuple[Tensor, Any] | None = None  # a copy on its way to the CPU
        self._warned = False

    def add(self, perturbation: Perturbation) -> None:
        counts = perturbation.gradient_counts
        if counts is None:
            return
        if self.counts is None:
            self.counts = counts.clone()
        else:
            self.counts += counts  # in place: a CUDA graph goes on with the memory it knows

    def warn_if_missing(self, updates: int) -> None:
        """Warn before an update if many texts had no gradient."""
        if self.counts is None or self._warned:
            return
        if self._read is not None and (self._read[1] is None or self._read[1].query()):
            self._warn(*self._read[0].tolist())
            self._read = None
        if updates and updates % WINDOW == 0:
            self._read = self._copy(self.counts)
            self.counts.zero_()

    def _copy(self, counts: Tensor) -> tuple[Tensor, Any]:
        if counts.device.type != "cuda":
            return counts.to("cpu", copy=True), None
        copy, arrived = counts.to("cpu", non_blocking=True), torch.cuda.Event()
        arrived.record()
        return copy, arrived

    def _warn(self, texts: int, zero: int, not_finite: int) -> None:
        if zero + not_finite <= MOST_MISSING * texts:
            return
        self._warned = True
        warnings.warn(
            f"The search had no gradient for {(zero + not_finite) / texts:.0%} of the texts in {WINDOW} updates (zero: "
            f"{zero / texts:.0%}, not finite: {not_finite / texts:.0%}), so these keep their random start. In half "
            "precision train in float32, or set a larger radius (max_norm, step_size, init_scale).",
            RobustnessWarning,
            stacklevel=2,
        )
