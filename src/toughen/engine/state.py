"""One method on a model, and what it carries from one update to the next."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from torch import Tensor, nn

from ..compare.model_outputs import ModelOutputs
from ..schedules import TrainingProgress
from .adversary_state import Adversary
from .diagnostics import GradientMonitor
from .ema_weights import EmaWeights
from .label_variance import RunningLabelVariance
from .perturbation import Injector
from .step import Recipe, Step, wants
from .validation import warn_if_below_resolution


@dataclass
class MethodState:
    """One method of a sum on the model."""

    method: Recipe
    injector: Injector
    mean: EmaWeights | None = None
    adversary: Adversary | None = None
    used: bool = False  # whether a loss was ever asked for
    gradients: GradientMonitor = field(default_factory=GradientMonitor)
    spread: RunningLabelVariance | None = field(init=False)

    def __post_init__(self) -> None:
        self.spread = RunningLabelVariance() if wants(self.method.compare, "needs_label_variance") else None

    @property
    def needs_features(self) -> bool:
        """Whether the search or the comparison looks at hidden states."""
        return any(wants(goal, "needs_features") for goal in (self.method.search_objective, self.method.compare))

    @property
    def compares_predictions(self) -> bool:
        """Whether the search or the comparison compares a prediction with a clean one."""
        return any(wants(goal, "needs_clean") for goal in (self.method.search_objective, self.method.compare))

    def open_window(self, model: nn.Module, clock: TrainingProgress) -> None:
        """Before the first micro-batch of an update."""
        self.used = True
        self.gradients.warn_if_missing(clock.updates)
        if clock.updates == 1 and self.injector.half is not None:
            warn_if_below_resolution(model, self.method, self.injector.half)
        if self.adversary is not None:
            self.adversary.warn_if_still(clock.updates)
        if self.method.constraint is not None:
            self.method.constraint.apply(model)
        teacher = self.method.against
        if teacher is None:
            return
        if self.mean is None:
            self.mean = EmaWeights(model)
        elif clock.updates:
            self.mean.update(teacher.decay_at(clock.updates - 1, clock.total))

    def restart(self) -> None:
        """Before a training that starts anew: no past weights, no labels of another training."""
        self.mean = None
        self.gradients = GradientMonitor()
        self.spread = None if self.spread is None else RunningLabelVariance()

    def teach(self, step: Step) -> ModelOutputs | None:
        if self.mean is None:
            return None
        with self.mean.in_place():
            return step.probe()

    def state_dict(self, number: int) -> dict[str, Tensor]:
        parts = {"mean": self.mean, "adversary": self.adversary, "spread": self.spread}
        return {
            f"{part}/{number}/{name}": value
            for part, owner in parts.items()
            if owner is not None
            for name, value in owner.state_dict().items()
        }

    def load_state_dict(self, number: int, model: nn.Module, state: Mapping[str, Tensor]) -> None:
        mean = under(f"mean/{number}/", state)
        if mean:
            self.mean = EmaWeights(model)
            self.mean.load_state_dict(mean)
        if self.adversary is not None:
            self.adversary.load_state_dict(under(f"adversary/{number}/", state))
        if self.spread is not None:
            self.spread.load_state_dict(under(f"spread/{number}/", state))


def under(prefix: str, state: Mapping[str, Tensor]) -> dict[str, Tensor]:
    return {key.removeprefix(prefix): value for key, value in state.items() if key.startswith(prefix)}
