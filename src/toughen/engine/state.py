"""One method on a model, and what it carries from one update to the next."""

from collections.abc import Callable, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, field
from typing import cast

from torch import Tensor, nn

from ..method import Method
from ..schedules import TrainingProgress
from ..search.base import SubstitutesWords
from ..sites.base import Detach
from .adversary_state import Adversary
from .diagnostics import CandidateMonitor, EditMonitor, GradientMonitor
from .ema_weights import EmaWeights
from .label_variance import RunningLabelVariance
from .perturbation import Injector
from .step import MethodStep, SharedPasses
from .text_views import ViewMaker
from .validation import warn_if_below_resolution


@dataclass
class MethodState:
    """One method of a sum on the model."""

    method: Method
    injector: Injector
    ema: EmaWeights | None = None
    adversary: Adversary | None = None
    view_maker: ViewMaker | None = None
    used: bool = False  # whether a loss was ever asked for
    constrain: Callable[[], Detach] | None = None  # puts the constraint's hooks in
    gradients: GradientMonitor = field(default_factory=GradientMonitor)
    edits: EditMonitor = field(default_factory=EditMonitor)
    candidates: CandidateMonitor = field(default_factory=CandidateMonitor)
    label_variance: RunningLabelVariance | None = field(init=False)

    def __post_init__(self) -> None:
        self.label_variance = RunningLabelVariance() if self.method.needs("needs_label_variance") else None

    def open_window(self, model: nn.Module, progress: TrainingProgress) -> None:
        """Prepare an update, before its first micro-batch."""
        self.used = True
        for monitor in (self.gradients, self.edits, self.candidates):
            monitor.warn(progress.updates)
        if progress.updates == 1 and self.injector.half is not None:
            warn_if_below_resolution(model, self.method, self.injector.half)
        if self.adversary is not None:
            self.adversary.warn_if_not_training(progress.updates)
        if self.method.constraint is not None:
            self.method.constraint.apply(model)
        teacher = self.method.reference
        if teacher is None:
            return
        if self.ema is None:
            self.ema = EmaWeights(model)
        elif progress.updates:
            self.ema.update(teacher.decay_at(progress.updates - 1, progress.total))

    def finish(self, step: MethodStep) -> None:
        """Count the texts and words of a micro-batch, and let go of its graphs."""
        self.gradients.add(step.perturbation.gradient_counts)
        self.edits.add(step.edit_counts)
        if hasattr(self.method.search, "count_texts"):
            for view in step.perturbation.views.values():
                self.candidates.add(cast(SubstitutesWords, self.method.search).count_texts(view))
        step.perturbation.release()

    def restart(self) -> None:
        """Forget past weights and labels, before a new training."""
        self.ema = None
        self.gradients, self.edits, self.candidates = GradientMonitor(), EditMonitor(), CandidateMonitor()
        self.label_variance = None if self.label_variance is None else RunningLabelVariance()

    def step(
        self, passes: SharedPasses, last: bool, window: Sequence[MethodStep], views: Mapping[str, Tensor]
    ) -> MethodStep:
        """Start a micro-batch; a teacher predicts first."""
        with nullcontext() if self.ema is None else self.ema.applied():
            teacher = None if self.ema is None else passes.predict()
        return MethodStep(self.method, passes, self.injector, last, window, teacher, self.label_variance, views=views)

    def state_dict(self, number: int) -> dict[str, Tensor]:
        parts = {"mean": self.ema, "adversary": self.adversary, "spread": self.label_variance}
        return {
            f"{part}/{number}/{name}": value
            for part, owner in parts.items()
            if owner is not None
            for name, value in owner.state_dict().items()
        }

    def load_state_dict(self, number: int, model: nn.Module, state: Mapping[str, Tensor]) -> None:
        mean = under(f"mean/{number}/", state)
        if mean:
            self.ema = EmaWeights(model)
            self.ema.load_state_dict(mean)
        if self.adversary is not None:
            self.adversary.load_state_dict(under(f"adversary/{number}/", state))
        if self.label_variance is not None:
            self.label_variance.load_state_dict(under(f"spread/{number}/", state))


def under(prefix: str, state: Mapping[str, Tensor]) -> dict[str, Tensor]:
    return {key.removeprefix(prefix): value for key, value in state.items() if key.startswith(prefix)}
