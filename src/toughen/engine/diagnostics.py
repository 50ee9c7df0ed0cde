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
from ..search.base import SubstitutesWords
from .step import MethodStep

WINDOW = 50  # updates whose texts are counted together
MOST_MISSING = 0.05  # the share of texts without a gradient that is still normal
MOST_WITHOUT_CANDIDATE = 0.5  # the same of texts in which no word can change


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
    metrics["forwards"] = torch.tensor(float(batch.passes.counts.forwards))
    metrics["backwards"] = torch.tensor(float(batch.passes.counts.backwards))
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
        if isinstance(batch.method.search, SubstitutesWords):
            metrics |= {name + end: value for name, value in batch.method.search.metrics(delta, view).items()}
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
                if batch.passes is not passes:  # it perturbs views of the texts
                    passes = batch.passes
                    passes.rewind()
                    clean = passes.predict()
                passes.rewind()
                found[prefix + "divergence_perturbation"] = compare(batch.under_perturbation(passes.predict), clean, [])
        return found
    finally:
        before.restore()


class CountMonitor:
    """Adds counts over a window of updates and looks at the sums, which may warn once. No device sync."""

    def __init__(self) -> None:
        self.counts: Tensor | None = None
        self._read: tuple[Tensor, Any] | None = None  # a copy on its way to the CPU
        self._warned = False

    def add(self, counts: Tensor | None) -> None:
        if counts is None:
            return
        if self.counts is None:
            self.counts = counts.clone()
        else:
            self.counts += counts  # in place: a CUDA graph goes on with the memory it knows

    def warn(self, updates: int) -> None:
        """Look at the last window's counts before an update."""
        if self.counts is None or self._warned:
            return
        if self._read is not None and (self._read[1] is None or self._read[1].query()):
            message = self.message(*self._read[0].tolist())
            self._read = None
            if message is not None:
                self._warned = True
                warnings.warn(message, RobustnessWarning, stacklevel=2)
        if updates and updates % WINDOW == 0:
            self._read = self._copy(self.counts)
            self.counts.zero_()

    def message(self, *counts: int) -> str | None:
        """Say what is wrong with a window's counts, if something is."""
        raise NotImplementedError

    def _copy(self, counts: Tensor) -> tuple[Tensor, Any]:
        if counts.device.type != "cuda":
            return counts.to("cpu", copy=True), None
        copy, arrived = counts.to("cpu", non_blocking=True), torch.cuda.Event()
        arrived.record()
        return copy, arrived


class GradientMonitor(CountMonitor):
    """Counts the texts whose search found no gradient, and warns where they are many."""

    def message(self, *counts: int) -> str | None:
        texts, zero, not_finite = counts
        if zero + not_finite <= MOST_MISSING * texts:
            return None
        return (
            f"The search had no gradient for {(zero + not_finite) / texts:.0%} of the texts in {WINDOW} updates (zero: "
            f"{zero / texts:.0%}, not finite: {not_finite / texts:.0%}), so these keep their random start. In half "
            "precision train in float32, or set a larger radius (max_norm, step_size, init_scale)."
        )


class EditMonitor(CountMonitor):
    """Counts the words of texts and those that were edited, and warns where none were."""

    def message(self, *counts: int) -> str | None:
        words, edited = counts
        if edited:
            return None
        return (
            f"None of {words} words was edited in {WINDOW} updates, so the views of the texts are the texts. Casing "
            "changes nothing for a tokenizer that makes all letters small, typos nothing in characters without spaces "
            "(Chinese), synonyms only words in their list. Choose other families, or another list."
        )


class CandidateMonitor(CountMonitor):
    """Counts the texts and those in which no word has a candidate, and warns where they are many."""

    def message(self, *counts: int) -> str | None:
        texts, without = counts
        if without <= MOST_WITHOUT_CANDIDATE * texts:
            return None
        return (
            f"No word could change in {without / texts:.0%} of the texts in {WINDOW} updates: none of their words has "
            "a candidate, so they were trained on as they are. Are the synonyms of the texts' language, and in the "
            'case of the vocabulary? synonyms="vocabulary" takes the words with the most similar embeddings.'
        )
