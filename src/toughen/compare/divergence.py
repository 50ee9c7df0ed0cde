"""WHAT to compare: two predictions of the same input."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar, Literal, TypeAlias

import torch
from torch import Tensor

from ..errors import MethodError, nearest
from .model_outputs import ModelOutputs
from .rowwise import Pointwise, Reduction, distance

DivergenceKind: TypeAlias = Literal["kl", "reverse_kl", "symmetric_kl", "js", "sift_cross_entropy", "mtdnn_stable_kl"]
DetachedSide: TypeAlias = Literal["nothing", "clean", "targets"]


def _kl(target: Tensor, source: Tensor, stop: bool) -> Tensor:
    """KL(target || source), element by element; `stop` sends no gradient to the target."""
    target = target.detach() if stop else target
    return target.exp() * (target - source)


def _symmetric_kl(p: Tensor, q: Tensor) -> Tensor:
    """KL(p || q) + KL(q || p), element by element."""
    return (p.exp() - q.exp()) * (p - q)


def _js(p: Tensor, q: Tensor) -> Tensor:
    """Jensen-Shannon divergence, element by element."""
    middle = torch.logaddexp(p, q) - 0.6931471805599453
    return 0.5 * (p.exp() * (p - middle) + q.exp() * (q - middle))


def _sift_cross_entropy(perturbed: Tensor, clean: Tensor) -> Tensor:
    """SiFT's "symmetric_kl": both cross-entropies with fixed targets. Its gradient is that of the symmetric KL with
    fixed targets, its value is larger by both entropies.
    """
    return -clean.exp().detach() * perturbed - perturbed.exp().detach() * clean


def mtdnn_stable_kl(perturbed: Tensor, clean: Tensor, epsilon: float = 1e-6) -> Tensor:
    """mt-dnn's "stable_kl": p times the difference of log-odds, twice, only p = perturbed with gradient. Not a KL."""
    p, y = perturbed.exp(), clean.detach().exp()

    def logit(x: Tensor) -> Tensor:
        return -(1.0 / (x + epsilon) - 1 + epsilon).detach().log()

    return 2 * p * (logit(p) - logit(y))


def pointwise(kind: DivergenceKind, detach: DetachedSide) -> Pointwise:
    """Return the summand of a divergence, from log-probabilities of the perturbed and the clean pass."""
    fixed = detach == "targets"
    kinds: dict[DivergenceKind, Pointwise] = {
        "kl": lambda perturbed, clean: _kl(clean, perturbed, fixed),
        "reverse_kl": lambda perturbed, clean: _kl(perturbed, clean, fixed),
        "symmetric_kl": (lambda p, q: _kl(q, p, True) + _kl(p, q, True)) if fixed else _symmetric_kl,
        "js": _js,
        "sift_cross_entropy": _sift_cross_entropy,
        "mtdnn_stable_kl": mtdnn_stable_kl,
    }
    return kinds[kind]


@dataclass(frozen=True)
class Divergence:
    """How far the perturbed prediction is from the clean one, as the head asks for it.

    Distributions are compared by `kind`; multi-label heads label by label; regression by squared error; tokens, spans
    and language models only where there is something to predict. `kl` is KL(clean || perturbed).

    `detach` says what gets no gradient: "nothing"; the "clean" side; or the "targets", that is in each KL the
    distribution it is taken under, as most published code has it.
    """

    kind: DivergenceKind = "symmetric_kl"
    detach: DetachedSide = "nothing"
    reduction: Reduction = "mean"

    def __post_init__(self) -> None:
        for value, known in ((self.kind, DivergenceKind), (self.detach, DetachedSide), (self.reduction, Reduction)):
            if value not in known.__args__:
                raise MethodError(f"Divergence: {value!r} is not known. {nearest(value, known.__args__)}")

    needs_clean: ClassVar[bool] = True
    from_predictions: ClassVar[bool] = True  # it depends on a pass through its predictions alone

    @property
    def least_at_clean(self) -> bool:
        """Whether it is least where both predictions are the same, as all but mt-dnn's form are."""
        return self.kind != "mtdnn_stable_kl"

    def __call__(self, perturbed: ModelOutputs, clean: ModelOutputs | None, deltas: Sequence[Tensor]) -> Tensor:
        if clean is None:
            raise MethodError(f"{self!r} compares with a clean prediction, and this method makes none.")
        clean = clean.detach() if self.detach == "clean" else clean  # here, for squared errors as well
        function = pointwise(self.kind, self.detach)
        pairs = zip(perturbed.predictions, clean.predictions, strict=True)
        terms = [distance(function, b, c, self.reduction) for b, c in pairs]
        terms = [t if b.weight == 1 else b.weight * t for t, b in zip(terms, perturbed.predictions, strict=True)]
        if len(terms) == 1:
            return terms[0]
        return torch.stack(terms).mean() if self.reduction == "mean" else torch.stack(terms).sum()
