"""A method: four parts put together, refused at once where they do not fit."""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from torch import nn

from .combine.accumulate import Accumulate
from .combine.base import Combine
from .combine.free_replay import FreeReplay
from .combine.sharpness import SharpnessAware
from .combine.single_pass import Add, Average
from .compare import Divergence, DivergenceWithBudget, TaskLossAndDivergence
from .compare.base import Compare
from .compare.ema_teacher import EmaTeacher
from .engine.attached import Attached
from .engine.step import wants
from .engine.validation import require_module
from .errors import MethodError
from .internal.architectures import HeadType
from .options import Dropout, MethodOptions
from .search import Ascent, Zeros
from .search.base import LearnedAdversary, Search
from .search.constraint import Constraint
from .sites import AttentionLogits, NoSite, SecondDropoutMask, Weights
from .sites.base import Site


@dataclass(frozen=True)
class Method:
    """WHERE, HOW, WHAT and how it is combined; every published method is one of these."""

    site: Site
    search: Search
    compare: Compare
    combine: Combine
    search_objective: Compare | None = None  # what the search maximises; `compare` unless said otherwise
    dropout: Dropout = "shared"  # one mask for all passes of a batch, a "fresh" one for each, or "off"
    against: EmaTeacher | None = None  # what the comparison is with; None: the clean pass
    constraint: Constraint | None = None
    options: MethodOptions | None = field(default=None, repr=False, compare=False)  # those it was built from

    def __post_init__(self) -> None:
        for problem in (_dropout, _clean_pass, _steps, _weights, _attention, _dead_start):
            message = problem(self)
            if message:
                raise MethodError(message)

    def __add__(self, other: "Method | MethodSum") -> "MethodSum":
        return MethodSum((self,)) + other if isinstance(other, (Method, MethodSum)) else NotImplemented  # pyright: ignore[reportUnnecessaryIsInstance]

    def attach(
        self,
        model: nn.Module,
        tokenizer: Any = None,
        *,
        seed: int | None = None,
        task: HeadType | None = None,
        total_steps: int | None = None,
    ) -> Attached:
        """Bind the method to a model; `attached.detach()` gives the model back as it was.

        `tokenizer` says which tokens are special. `seed` starts the noise (default: torch's). `task` overrides what
        the head's class name says. `total_steps` is the number of updates, for methods with a schedule.
        """
        require_module(model)
        return Attached((self,), model, tokenizer, seed, task, total_steps)


@dataclass(frozen=True)
class MethodSum:
    """Several methods at once: one clean pass, the regularisers of all added to it.

    One of them may be a method with backward passes of its own, such as FreeLB; the others must add to the clean loss.
    """

    methods: tuple[Method, ...]

    def __post_init__(self) -> None:
        if problem := incompatibility([(type(m.combine).__name__, m) for m in self.methods]):
            raise MethodError(problem)
        if sum(isinstance(m.search, LearnedAdversary) for m in self.methods) > 1:
            raise MethodError("A sum can hold one method with a learnt adversary, and this has several.")
        if len({m.dropout == "off" for m in self.methods}) > 1:
            raise MethodError("In a sum dropout is off for all methods or for none: they share the clean pass.")
        # The method with its own passes leads; the others join its last one.
        ordered = tuple(sorted(self.methods, key=lambda m: isinstance(m.combine, Add)))
        object.__setattr__(self, "methods", ordered)

    def __add__(self, other: "Method | MethodSum") -> "MethodSum":
        return MethodSum(self.methods + (other.methods if isinstance(other, MethodSum) else (other,)))

    def attach(
        self,
        model: nn.Module,
        tokenizer: Any = None,
        *,
        seed: int | None = None,
        task: HeadType | None = None,
        total_steps: int | None = None,
    ) -> Attached:
        """Bind all methods to a model; see `Method.attach`."""
        require_module(model)
        return Attached(_beside(self.methods), model, tokenizer, seed, task, total_steps)


def _beside(methods: Sequence[Method]) -> list[Method]:
    """The methods of a sum, as they add to the loss of the first: where it is not the clean one, R-Drop cannot put the
    mean of its two passes in that one's place, and would take half a clean loss away that nobody has added. Where one
    of them learns from batches without labels (VAT), the first makes do without its clean loss, too.
    """
    first, *others = methods
    if isinstance(first.combine, Add) and any(getattr(m.combine, "optional_labels", False) for m in others):
        methods = [replace(first, combine=replace(first.combine, optional_labels=True)), *others]
    clean = isinstance(first.combine, (Add, Average)) or isinstance(first.site, NoSite)
    return [
        m
        if clean or not isinstance(m.compare, TaskLossAndDivergence)
        else replace(m, compare=replace(m.compare, replace_clean_loss=False))
        for m in methods
    ]


def incompatibility(named: Sequence[tuple[str, Method]]) -> str | None:
    """Why methods cannot be one sum, by the names they are known by: their own, or those of their Combine."""
    own = [(name, m) for name, m in named if not isinstance(m.combine, Add)]
    names = " and ".join(name for name, _ in own)
    if len(own) > 1:
        return (
            f"A sum can hold one method with backward passes of its own, and {names} have them: leave one out. The "
            "others must add a term to the clean loss (combine=Add), as smart does."
        )
    if own and isinstance(own[0][1].combine, (SharpnessAware, FreeReplay)) and len(named) > 1:
        return f"{names} goes over a whole update again and cannot be summed with other methods: use it alone."
    return None


def _dropout(method: Method) -> str | None:
    if method.dropout not in Dropout.__args__:
        return f"dropout={method.dropout!r} is not known. Choose 'shared', 'fresh' or 'off'."
    if isinstance(method.site, SecondDropoutMask) and method.dropout != "fresh":
        return f"DropoutMask compares two masks, so dropout={method.dropout!r} leaves nothing to compare. Use 'fresh'."
    return None


def _clean_pass(method: Method) -> str | None:
    goals = [goal for goal in (method.compare, method.search_objective) if wants(goal, "needs_clean")]
    if goals and method.against is None and isinstance(method.combine, (Accumulate, FreeReplay)):
        return (
            f"{type(method.combine).__name__} makes no clean pass, but {goals[0]!r} compares with a clean prediction. "
            "Use compare=TaskLoss() (FreeLB), or combine=Add(weight)."
        )
    return None


def _steps(method: Method) -> str | None:
    site, steps = method.site, method.search.steps
    if isinstance(site, (NoSite, SecondDropoutMask)) and steps:
        return f"{site!r} has no perturbation to climb with, but the search wants {steps} steps. Use Noise(Zeros())."
    if isinstance(method.combine, (Accumulate, FreeReplay)) and steps != method.combine.passes - 1:
        return (
            f"{method.combine!r} climbs between its passes: the search must have steps={method.combine.passes - 1}, "
            f"not {steps}."
        )
    if method.search_objective is not None and not steps:
        return (
            "search_objective says what the search maximises, but this search makes no step. Leave it out, or use "
            "Ascent."
        )
    return None


def _weights(method: Method) -> str | None:
    if isinstance(method.site, Weights) != isinstance(method.combine, SharpnessAware):
        return (
            f"Weights are perturbed between two rounds over an update, so site=Weights() and combine=SharpnessAware() "
            f"go together; here are {type(method.site).__name__} and {type(method.combine).__name__}."
        )
    return None


def _attention(method: Method) -> str | None:
    if isinstance(method.site, AttentionLogits) != isinstance(method.search, LearnedAdversary):
        return (
            "Attention pairs are hidden by a learnt adversary, so site=AttentionLogits() and "
            "search=GradientReversalAdversary() go "
            f"together; here are {type(method.site).__name__} and {type(method.search).__name__}."
        )
    if isinstance(method.compare, DivergenceWithBudget) != isinstance(method.search, LearnedAdversary):
        return (
            "A learnt adversary hides everything unless that costs it something, so "
            "search=GradientReversalAdversary() and "
            f"compare=DivergenceWithBudget() go together; here are {type(method.search).__name__} and "
            f"{type(method.compare).__name__}."
        )
    return None


def _dead_start(method: Method) -> str | None:
    search, goal = method.search, method.search_objective or method.compare
    if not isinstance(search, Ascent) or not search.steps or not isinstance(goal, Divergence):
        return None
    still = isinstance(search.init, Zeros) or getattr(search.init, "scale", None) == 0
    if still and method.dropout != "fresh":  # another dropout mask is a start of its own
        return (
            "A divergence from the clean prediction is flat where there is no perturbation, so a search that starts "
            "from zero never moves. Start from noise: init_scale above 0."
        )
    return None
