"""The perturbation of one micro-batch, and the way it gets into the forward pass."""

from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import Any, cast

import torch
from torch import Tensor, nn

from ..errors import StepError
from ..internal.foreach import half_dtype
from ..internal.rng import NoiseGenerators
from ..schedules import TrainingProgress
from ..search.base import LearnedAdversary, Search
from ..sites.base import Activation, AttentionActivation, CandidateTable


def per_example(rows: Tensor, like: Tensor) -> Tensor:
    """Shape one value per example, ready to broadcast over `like`."""
    return rows.view(-1, *[1] * (like.dim() - 1))


@dataclass
class Perturbation:
    """One delta for each place of the site, born in the first perturbed pass."""

    at: dict[int, Tensor] = field(default_factory=dict[int, Tensor])
    views: dict[int, Activation] = field(default_factory=dict[int, Activation])
    starts: dict[int, Tensor] = field(default_factory=dict[int, Tensor])
    gradient_rows: list[Tensor] = field(default_factory=list[Tensor])  # of each step: texts, zero, not finite
    keys: dict[int, Tensor] = field(default_factory=dict[int, Tensor])  # what a learnt search draws from
    further: dict[tuple[int, int], int] = field(default_factory=dict[tuple[int, int], int])  # places of later inputs

    def place(self, index: int, number: int) -> int:
        """Return where the delta of a site's activation is kept, for the `number`-th input of the pass."""
        return index if number == 0 else self.further.setdefault((number, index), max((index, *self.at)) + 1)

    @property
    def deltas(self) -> list[Tensor]:
        return list(self.at.values())

    def ascend(self, search: Search, gradients: Sequence[Tensor | None]) -> None:
        grads = [grad for grad in gradients if grad is not None]
        if len(grads) < len(self.at):
            raise StepError(
                "No gradient came back to the perturbation: the last loss was not back-propagated before the next one "
                "was asked for, or checkpointed layers ran without gradients (use_reentrant=True). For those use "
                "model.gradient_checkpointing_enable({'use_reentrant': False}). Layers that compute their own backward "
                "pass (Reformer's) cannot be perturbed inside: use toughen.smart(), at the embedding."
            )
        views = [self.views[index] for index in self.at]
        old = [delta.detach() for delta in self.deltas]
        sizes = [torch.linalg.vector_norm(grad.flatten(1), 1, dim=1) for grad in grads]  # before the search writes over
        new = search.ascend(old, grads, views)
        for index, size, before, after, view in zip(list(self.at), sizes, old, new, views, strict=True):
            finite = size < torch.inf  # a sum of magnitudes; NaN is not below it either
            self.at[index] = torch.where(per_example(finite, before), after, before).detach().requires_grad_()
            self.gradient_rows += [torch.stack([view.texts, view.texts & (size == 0), view.texts > finite])]

    @property
    def gradient_counts(self) -> Tensor | None:
        """Over all steps of the search: texts to perturb, those with a zero gradient, those with one not finite."""
        return torch.cat(self.gradient_rows, 1).sum(1) if self.gradient_rows else None

    def point_outward(self, gradients: Sequence[Tensor | None]) -> list[Tensor | None]:
        """Reverse the gradients that point back to the clean input.

        A divergence is least there, so it grows along the perturbation. Half precision resolves the direction of its
        gradient, but near the clean input rounding decides the sign.
        """
        pairs = [(delta, grad) for delta, grad in zip(self.deltas, gradients, strict=True) if grad is not None]
        if not pairs:
            return list(gradients)
        slopes = dict[int, Tensor]()  # of the inputs of a pass, those with as many rows are of the same examples
        for delta, grad in pairs:
            slope = (delta.detach() * grad).flatten(1).sum(1)
            slopes[len(slope)] = slopes[len(slope)] + slope if len(slope) in slopes else slope
        return [
            None if grad is None else torch.where(per_example(slopes[len(grad)] < 0, grad), -grad, grad)
            for grad in gradients
        ]

    def release(self) -> None:
        """Let go of the graph; what is reported stays."""
        self.at = {index: delta.detach() for index, delta in self.at.items()}
        for view in self.views.values():
            view.memory.clear()

    def project_final(self, search: Search) -> None:
        """Project for the last pass, which needs no gradient of the perturbation."""
        for index, delta in self.at.items():
            self.at[index] = search.project_final(delta.detach(), self.views[index])


class Injector:
    """What a site calls: it gives the current perturbation, and starts it where there is none yet."""

    def __init__(
        self,
        search: Search,
        noise: NoiseGenerators,
        special_ids: Tensor | None,
        progress: TrainingProgress | None = None,
        candidates: CandidateTable | None = None,
    ) -> None:
        self.search, self.noise, self.progress = search, noise, progress or TrainingProgress()
        self.candidates = candidates
        self.special_ids = special_ids
        self.batch: Mapping[str, Any] = {}
        self.current: Perturbation | None = None
        self.with_gradients = True  # the mode that the perturbed pass began in
        self.inputs: list[Tensor] = []  # of the pass: a loss may call the model on several
        self.number = 0  # which of them the model reads now
        self.first_input: Tensor | None = None  # what the model embedded first in this call
        self.module: nn.Module | None = None  # the weights of a learnt search
        self.half: torch.dtype | None = None  # the half precision of the last pass, if it has one
        self.stochastic = True  # whether a learnt search draws, or gives what is most likely
        self.on_sample: Callable[[int, Tensor], None] | None = None  # sees every answer of a learnt search

    @property
    def active(self) -> bool:
        return self.current is not None

    @contextmanager
    def perturbing(self, perturbation: Perturbation) -> Generator[None]:
        """Run a perturbed pass."""
        self.current, self.with_gradients = perturbation, torch.is_grad_enabled()
        try:
            yield
        finally:
            self.current = self.first_input = None
            self.inputs, self.number = [], 0

    def enter_call(self, given: Tensor | None) -> None:
        """Note which input a call of the model reads; the same tensor may come again, and is perturbed as before."""
        self.first_input = None
        if given is None:
            return
        known = (
            n for n, one in enumerate(self.inputs) if one.shape == given.shape and one.data_ptr() == given.data_ptr()
        )
        self.number = next(known, len(self.inputs))
        if self.number == len(self.inputs):
            self.inputs.append(given)

    def set_batch(self, batch: Mapping[str, Any]) -> None:
        """Set the inputs of the coming passes, from which masks are made."""
        self.batch = batch
        ids = batch.get("input_ids")
        if self.special_ids is not None and isinstance(ids, Tensor) and self.special_ids.device != ids.device:
            self.special_ids = self.special_ids.to(ids.device)

    def __call__(self, index: int, view: Callable[[], Activation]) -> Tensor:
        assert self.current is not None
        if self.module is not None:
            return self._propose(index, view())
        place = self.current.place(index, self.number)
        delta = self.current.at.get(place)
        return self._start(view(), place) if delta is None else delta

    @torch.compiler.disable()  # pyright: ignore[reportUntypedFunctionDecorator]  # random draws are not traced
    def _start(self, view: Activation, place: int) -> Tensor:
        assert self.current is not None
        device = view.value.device
        if self.candidates is not None:
            self.candidates = self.candidates.to(device)
        given = {"random": self.noise.on(device), "progress": self.progress, "candidates": self.candidates}
        view = replace(view, index=place, **given)
        with torch.no_grad():
            delta = self.search.start(view)
        delta = delta.requires_grad_() if self.search.steps else delta
        self.half = half_dtype(view.value)
        self.current.views[place] = view
        self.current.starts[place] = delta.detach()
        self.current.at[place] = delta
        return delta

    @torch.compiler.disable()  # pyright: ignore[reportUntypedFunctionDecorator]
    def _propose(self, index: int, view: Activation) -> Tensor:
        """Ask a learnt search. A checkpointed layer asks again in its backward pass, and must get the same answer."""
        current, search, module = self.current, cast(LearnedAdversary, self.search), self.module
        assert current is not None
        assert module is not None
        assert isinstance(view, AttentionActivation)
        keys = current.keys
        if self.stochastic and index not in keys:
            keys[index] = self.noise.key(view.value.device)
        view = replace(view, noise_key=keys.get(index), progress=self.progress)
        delta, counted = search.propose(module, view)
        current.at.setdefault(index, counted)
        if self.on_sample is not None:
            self.on_sample(index, delta)
        return delta
