"""A method: four parts put together, refused at once where they do not fit."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from .combine.base import Combine
from .compare.base import Compare
from .compare.ema_teacher import EmaTeacher
from .errors import MethodError
from .needs import declared
from .options import Dropout, MethodOptions
from .search.base import Search
from .search.constraint import Constraint
from .sites.base import Site

if TYPE_CHECKING:
    from torch import nn

    from .engine.attached import Attached
    from .internal.architectures import HeadType


class _Attachable:
    @property
    def _adapted(self) -> Sequence[Method]:
        raise NotImplementedError

    def attach(
        self,
        model: nn.Module,
        tokenizer: object = None,
        *,
        seed: int | None = None,
        task: HeadType | None = None,
        total_steps: int | None = None,
    ) -> Attached:
        """Bind the method or methods to a model; `attached.detach()` gives the model back as it was.

        Args:
            model: A transformers model, or any module that returns a loss and logits.
            tokenizer: Says which tokens are special, so that they are left alone.
            seed: Starts the noise; by default torch's own seed.
            task: What the head predicts, where its class name does not say it: "tokens", "choices", "span" and so on.
            total_steps: The number of updates, for methods with a schedule.

        Returns:
            The bound method, whose `backward` stands in place of `loss.backward()`.

        Raises:
            MethodError: The model already has a method attached, or is not a module.
            SiteError: The model has no place that this method perturbs.

        Examples:
            >>> with toughen.smart().attach(model, tokenizer) as attached:
            ...     loss = attached.backward(model, batch)
        """
        from .engine.attached import Attached

        return Attached(self._adapted, model, tokenizer, seed, task, total_steps)


@dataclass(frozen=True)
class Method(_Attachable):
    """Where a model is perturbed, how, what is compared, and how that is combined with the loss.

    Every published method is one of these. Parts that do not fit together are refused when the method is made.

    Args:
        site: Where the model is perturbed.
        search: How the perturbation is found.
        compare: What is compared: a divergence from the clean prediction, or the task loss.
        combine: How the comparison enters the update.
        search_objective: What the search maximizes; by default `compare`.
        dropout: One mask for all passes of a batch ("shared"), one for each ("fresh"), or none ("off").
        reference: What the comparison is with; by default the clean pass.
        constraint: What holds for the weights after every update.
        options: The options that the method was built from.

    Raises:
        MethodError: Parts that do not fit together, with the reason.

    Examples:
        >>> from dataclasses import replace
        >>> from toughen.compare import Divergence
        >>> method = replace(toughen.smart(), compare=Divergence("js"))
        >>> attached = method.attach(model, tokenizer)
    """

    site: Site
    search: Search
    compare: Compare
    combine: Combine
    search_objective: Compare | None = None
    dropout: Dropout = "shared"
    reference: EmaTeacher | None = None
    constraint: Constraint | None = None
    options: MethodOptions | None = field(default=None, repr=False, compare=False)

    def __post_init__(self) -> None:
        for problem in (_dropout, _targets, _tokens, _clean_pass, _steps, _dead_start):
            message = problem(self)
            if message:
                raise MethodError(message)

    @property
    def objective(self) -> Compare:
        """What the search maximises."""
        return self.search_objective or self.compare

    @property
    def comparisons(self) -> tuple[Compare, ...]:
        """The comparison, and the search's objective if it has one of its own."""
        return (self.compare,) if self.search_objective is None else (self.search_objective, self.compare)

    def needs(self, need: str) -> bool:
        """Whether one of its comparisons declares this need."""
        return any(declared(each, need) for each in self.comparisons)

    @property
    def _adapted(self) -> Sequence[Method]:
        return (self,)

    def __add__(self, other: Method | MethodSum) -> MethodSum:
        return MethodSum((self,)) + other if isinstance(other, (Method, MethodSum)) else NotImplemented  # pyright: ignore[reportUnnecessaryIsInstance]


@dataclass(frozen=True)
class MethodSum(_Attachable):
    """Several methods at once: one clean pass, the regularisers of all added to it.

    One of them may be a method with backward passes of its own, such as FreeLB; the others must add to the clean loss.

    Args:
        methods: The methods; `a + b` makes the sum of two.

    Raises:
        MethodError: Methods that cannot share one update, with the reason.

    Examples:
        >>> full_smart = toughen.smart("paper") + toughen.bregman(1.0)
        >>> attached = full_smart.attach(model, tokenizer, total_steps=100)
    """

    methods: tuple[Method, ...]

    def __post_init__(self) -> None:
        if problem := incompatibility([(type(m.combine).__name__, m) for m in self.methods]):
            raise MethodError(problem)
        if sum(declared(m.search, "acts_on") == "attention" for m in self.methods) > 1:
            raise MethodError("A sum can hold one method with a learnt adversary, and this has several.")
        if len({m.dropout == "off" for m in self.methods}) > 1:
            raise MethodError("In a sum dropout is off for all methods or for none: they share the clean pass.")
        if sum(getattr(m.site, "on", "clean") != "clean" for m in self.methods) > 1:
            raise MethodError("Only one method of a sum may set on=; leave it out of the others.")
        # The method with its own passes leads; the others join its last one. Without one the clean loss is that of the
        # first, which reads the clean text.
        ordered = tuple(sorted(self.methods, key=_rank))
        object.__setattr__(self, "methods", ordered)

    def __add__(self, other: Method | MethodSum) -> MethodSum:
        return MethodSum(self.methods + (other.methods if isinstance(other, MethodSum) else (other,)))

    @property
    def _adapted(self) -> Sequence[Method]:
        return _adapted(self.methods)


def _rank(method: Method) -> tuple[bool, bool]:
    return declared(method.combine, "adds_regularizer"), declared(method.site, "target") != "text"


def _adapted(methods: Sequence[Method]) -> Sequence[Method]:
    """Adapt the methods of a sum to each other.

    If the first has no clean task loss, R-Drop must contribute only its divergence: its usual averaging would subtract
    half of a clean loss that was never added. If one of them learns from batches without labels (VAT), the first makes
    do without its clean loss, too.
    """
    first, *others = methods
    optional = any(declared(m.combine, "optional_labels") for m in others)
    if optional and declared(first.combine, "adds_regularizer"):
        methods = [replace(first, combine=replace(first.combine, optional_labels=True)), *others]  # pyright: ignore[reportArgumentType]
    if declared(first.combine, "includes_clean_loss") or declared(first.site, "target") == "none":
        return methods
    return [
        replace(m, compare=replace(m.compare, replace_clean_loss=False))  # pyright: ignore[reportArgumentType]
        if getattr(m.compare, "replace_clean_loss", False)
        else m
        for m in methods
    ]


def incompatibility(named: Sequence[tuple[str, Method]]) -> str | None:
    """Why methods cannot be one sum, by the names they are known by: their own, or those of their Combine."""
    own = [(name, m) for name, m in named if not declared(m.combine, "adds_regularizer")]
    names = " and ".join(name for name, _ in own)
    if len(own) > 1:
        return (
            f"A sum can hold one method with backward passes of its own, and {names} have them: leave one out. The "
            "others must add a term to the clean loss (combine=Add), as smart does."
        )
    if own and declared(own[0][1].combine, "num_rounds") > 1 and len(named) > 1:
        return f"{names} goes over a whole update again and cannot be summed with other methods: use it alone."
    return None


def _dropout(method: Method) -> str | None:
    if method.dropout not in Dropout.__args__:
        return f"dropout={method.dropout!r} is not known. Choose 'shared', 'fresh' or 'off'."
    if declared(method.site, "target") == "dropout" and method.dropout != "fresh":
        return (
            f"{type(method.site).__name__} compares two masks, so dropout={method.dropout!r} leaves nothing to "
            "compare. Use 'fresh'."
        )
    return None


# For these targets the site and the named parts must all be made for it, or none.
_TOGETHER = {
    "weights": (("combine",), "Weights are perturbed between two rounds over an update"),
    "attention": (("search", "compare"), "Attention pairs are hidden by a learnt adversary, which has to pay for it"),
}


def _targets(method: Method) -> str | None:
    for target, (names, reason) in _TOGETHER.items():
        parts = [method.site, *(getattr(method, name) for name in names)]
        made_for = [declared(method.site, "target"), *(declared(part, "acts_on") for part in parts[1:])]
        if 0 < made_for.count(target) < len(parts):
            words = [f"{name}={type(part).__name__}" for name, part in zip(("site", *names), parts, strict=True)]
            return f"{reason}, so {_example(target)} go together; here are {' and '.join(words)}."
    return None


def _tokens(method: Method) -> str | None:
    if declared(method.search, "candidates") is None or declared(method.site, "at_input_embedding"):
        return None
    return (
        f"{type(method.search).__name__} puts other words in a word's place, which are known where the model embeds "
        f"them: use site=WordEmbedding(), not {method.site!r}."
    )


def _example(target: str) -> str:
    if target == "weights":
        return "site=Weights() and combine=SharpnessAware()"
    return "site=AttentionLogits(), search=GradientReversalAdversary() and compare=DivergenceWithBudget()"


def _clean_pass(method: Method) -> str | None:
    if method.reference is not None or declared(method.combine, "makes_clean_pass"):
        return None
    goal = next((goal for goal in method.comparisons if declared(goal, "needs_clean")), None)
    if goal is None:
        return None
    return (
        f"{type(method.combine).__name__} makes no clean pass, but {goal!r} compares with a clean prediction. Use "
        "compare=TaskLoss() (FreeLB), or combine=Add(weight). A comparison of your own that reads the perturbed pass "
        "alone says so: needs_clean = False."
    )


def _steps(method: Method) -> str | None:
    site, combine, steps = method.site, method.combine, method.search.steps
    if declared(site, "target") in ("none", "dropout", "text") and steps:
        return f"{site!r} has no perturbation to search for, but the search wants {steps} steps. Use Noise(Zeros())."
    if declared(combine, "ascends_between_passes") and steps != getattr(combine, "passes", 1) - 1:
        return (
            f"{combine!r} steps between its passes: the search must have steps={getattr(combine, 'passes', 1) - 1}, "
            f"not {steps}."
        )
    if method.search_objective is not None and not steps:
        return (
            "search_objective says what the search maximises, but this search makes no step. Leave it out, or use "
            "Ascent."
        )
    return None


def _dead_start(method: Method) -> str | None:
    flat = declared(method.objective, "least_at_clean") and declared(method.search, "starts_at_clean")
    if flat and method.search.steps and method.dropout != "fresh":  # another dropout mask is a start of its own
        return (
            "A divergence from the clean prediction is flat where there is no perturbation, so a search that starts "
            "from zero never moves. Start from noise: init_scale above 0."
        )
    return None
