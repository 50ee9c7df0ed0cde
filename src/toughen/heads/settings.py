"""Hold all options of a second-order head in one frozen record, and the published ones by name."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, fields, replace
from typing import Any, Literal, get_args, get_type_hints

from .covariance import Activation, Center, Norm
from .normalize import Side, Start, check_power_method

Pooling = Literal["cross_covariance", "covariance", "average", "class"]
Fusion = Literal["sum_fc", "concat", "aggre_all", "sum_loss"]
Normalization = Literal["svpn", "isqrt", "none"]


@dataclass(frozen=True)
class HeadSettings:
    """Configure a `SecondOrderHead`: all options between the backbone's tokens and the logits.

    Args:
        q: The rows of a matrix.
        k: Its columns.
        heads: How many matrices there are.
        norm: "none", "batch" or "layer", before the activation.
        activation: "relu" or "none".
        bias: Whether the projections have one.
        center: The mean that is removed: "channel", "scalar" or "none".
        normalization: Of the matrix: "svpn", "isqrt" or "none".
        alpha: The power of the singular values.
        singular_values: How many of them svPN raises.
        start: The start vector of svPN; see `SVPN`.
        side: The side of the matrix that it multiplies.
        exact: Decompose the matrix instead of the power method.

    Examples:
        >>> toughen.heads.HeadSettings(q=24, k=24).fusion
        'sum_fc'
    """

    pooling: Pooling = "cross_covariance"
    """`cross_covariance` (MGCrP), `covariance` (with `normalization="isqrt"`: iSQRT-COV), `average`, or `class`."""
    q: int = 112
    k: int = 48
    heads: int = 1
    fusion: Fusion = "sum_fc"
    """How the pooled words meet the class token: summed logits, one linear layer on both, the class token as one word
    more, or two logits with a loss each."""
    dropout: float = 0.5
    """On the pooled vector."""
    class_dropout: float = 0.0
    """On the class token."""
    masked: bool = True
    """False lets padding into mean and covariance, as the published code does."""
    skip_special: bool = False
    """Keep special tokens ([SEP], </s>, ...) out of mean and covariance, like padding."""
    norm: Norm = "none"
    activation: Activation = "relu"
    bias: bool = True
    center: Center = "channel"
    normalization: Normalization = "svpn"
    alpha: float = 0.5
    singular_values: int = 1
    iterations: int = 1
    """Of the power method (svPN) or of Newton-Schulz (iSQRT, where 5 is usual)."""
    start: Start = "learned"
    side: Side = "rows"
    eps: float = 0.0
    """Guard added to a power of the singular value; the published code has 1e-5. Zero is exact and needs no guard."""
    exact: bool = False

    def __post_init__(self) -> None:
        for name, hint in get_type_hints(HeadSettings).items():
            if (allowed := get_args(hint)) and getattr(self, name) not in allowed:
                raise ValueError(f"{name}={getattr(self, name)!r} is unknown. Use one of {', '.join(allowed)}.")
        if min(self.q, self.k, self.heads) < 1:
            raise ValueError(f"q={self.q}, k={self.k}, heads={self.heads}: each must be at least 1.")
        for name in ("dropout", "class_dropout"):
            if not 0 <= getattr(self, name) < 1:
                raise ValueError(f"{name}={getattr(self, name)} is no probability below 1.")
        if self.pooling == "cross_covariance" and self.normalization == "isqrt":
            raise ValueError(
                "isqrt is the square root of a symmetric matrix, but a cross-covariance is not symmetric. "
                "Use pooling='covariance', or normalization='svpn'."
            )
        if self.skip_special and not self.masked:
            raise ValueError("skip_special leaves tokens out by the mask, and masked=False ignores it. Choose one.")
        if self.normalization == "svpn" and "covariance" in self.pooling:
            check_power_method(self.alpha, self.singular_values, 2 if self.exact else self.iterations, self.side)
            columns = self.k if self.pooling == "cross_covariance" else self.q
            if self.singular_values > min(self.q, columns):
                raise ValueError(f"singular_values={self.singular_values}, but the matrix is {self.q}x{columns}.")


_ORIGINAL: dict[str, Any] = {"bias": False, "masked": False, "eps": 1e-5}
_VISION: dict[str, Any] = {
    **_ORIGINAL,
    **{"norm": "none", "activation": "none", "center": "scalar", "side": "columns", "heads": 6},
}

PRESETS: Mapping[str, Mapping[str, Any]] = {
    # The authors' README, BERT-base: (q, k) and the dropout of each GLUE task.
    "mnli": {"q": 112, "k": 48, "dropout": 0.7},
    "qnli": {"q": 112, "k": 48, "dropout": 0.5},
    "rte": {"q": 56, "k": 32, "dropout": 0.8},
    "cola": {"q": 96, "k": 48, "dropout": 0.5},
    # The authors' code to the number: BatchNorm and padding included (text), one scalar mean (vision).
    "original-text": {**_ORIGINAL, "norm": "batch", "activation": "relu"},
    "original-vision": {**_VISION, "q": 24, "k": 24, "dropout": 0.5},
    "sot-tiny": {**_VISION, "q": 14, "k": 14, "dropout": 0.0},
    "sot-small": {**_VISION, "q": 24, "k": 24, "dropout": 0.5},
    "sot-base": {**_VISION, "q": 38, "k": 38, "dropout": 0.7},
    # The two alternatives the authors compare with.
    "isqrt": {"pooling": "covariance", "normalization": "isqrt", "iterations": 5, "q": 64, "activation": "none"},
    "average": {"pooling": "average"},
}


def head_settings(preset: str | Iterable[str] | None = None, **changes: Any) -> HeadSettings:
    """Make settings from one or several presets (later ones win) and single changes on top; `wr_dim=w` is q = k = w.

    Args:
        preset: The name of a preset, or several.
        changes: Options of `HeadSettings`.

    Returns:
        The settings.

    Raises:
        ValueError: An unknown preset, or a value out of range.
        TypeError: An unknown option.

    Examples:
        >>> toughen.heads.head_settings(wr_dim=24).q
        24
    """
    names = [preset] if isinstance(preset, str) else list(preset or ())
    values: dict[str, Any] = {}
    for name in names:
        if name not in PRESETS:
            raise ValueError(f"preset {name!r} is unknown. Use one of {', '.join(PRESETS)}.")
        values.update(PRESETS[name])
    if (wr_dim := changes.pop("wr_dim", None)) is not None:
        values.update(q=wr_dim, k=wr_dim)
    values.update({key: value for key, value in changes.items() if value is not None})
    known = {field.name for field in fields(HeadSettings)}
    if unknown := sorted(set(values) - known):
        raise TypeError(f"unknown head setting {', '.join(unknown)}. Known: {', '.join(sorted(known))}, wr_dim.")
    return replace(HeadSettings(), **values)
