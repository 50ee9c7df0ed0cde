"""What one forward pass predicted, in one form for every kind of head."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Literal, TypeAlias, cast

import torch
from torch import Tensor, nn

from ..errors import StepError
from ..internal.architectures import IGNORED, HeadType

ScoreType: TypeAlias = Literal["multiclass", "multilabel", "regression"]


@dataclass(frozen=True, slots=True)
class Prediction:
    """A block of scores. `kind` says what a row is: one distribution, independent labels, or real numbers."""

    scores: Tensor  # (..., columns)
    kind: ScoreType
    mask: Tensor | None = None  # (...): 1 for a row that counts, 0 for padding and unlabelled positions; None: all
    weight: float = 1.0  # in a divergence, beside the other blocks of scores


@dataclass(frozen=True, slots=True)
class ModelOutputs:
    """A forward pass: its task loss if there were labels, its predictions, and features if a method asked for them."""

    loss: Tensor | None
    predictions: tuple[Prediction, ...]
    features: Tensor | None = None
    label_variance: Tensor | None = (
        None  # variance of the labels so far, where they are real numbers and a method asked for it
    )

    def detach(self) -> "ModelOutputs":
        return ModelOutputs(
            None if self.loss is None else self.loss.detach(),
            tuple(Prediction(p.scores.detach(), p.kind, p.mask, p.weight) for p in self.predictions),
            None if self.features is None else self.features.detach(),
            self.label_variance,
        )


def parse_output(
    output: Any, batch: Mapping[str, Any], task: HeadType = "sequence", config: Any = None
) -> ModelOutputs:
    """A model's output as an `ModelOutputs`. Accepts a ModelOutput, a mapping, or a tuple of (loss, logits)."""
    if isinstance(output, ModelOutputs):
        return output
    loss, get = _fields(output)
    labels: Tensor | None = batch.get("labels")
    if task == "span":
        padding = batch.get("attention_mask")
        start, end = (_span(get(key), padding) for key in ("start_logits", "end_logits"))
        return ModelOutputs(loss, (start, end))
    scores = get("logits")
    if task == "segmentation":  # (B, classes, height, width), coarser than the labels: all of them count
        return ModelOutputs(loss, (Prediction(scores.movedim(1, -1), "multiclass"),))
    if task == "regression":  # real numbers in any shape: of sentences the rule below finds them
        return ModelOutputs(loss, (Prediction(scores, "regression"),))
    if task == "ctc":  # of speech: its letters are labels of no frame in particular
        return ModelOutputs(loss, (Prediction(scores, "multiclass"),))
    if task in ("tokens", "masked_lm", "seq2seq_lm", "causal_lm") or (task == "sequence" and scores.dim() == 3):
        return ModelOutputs(loss, (Prediction(scores, "multiclass", _labelled(scores, labels, batch, task)),))
    if task == "token_binary":  # of each token whether it was replaced: (B, L), each a label of its own
        return ModelOutputs(loss, (Prediction(scores.unsqueeze(-1), "multilabel", _unpadded(scores.shape, batch)),))
    if scores.dim() == 1:  # with labels DeBERTa's regression gives its one column as (B,), not (B, 1)
        scores = scores.unsqueeze(-1)
    kind: ScoreType = "multiclass" if task == "choices" else _sentence_kind(scores, labels, config)
    return ModelOutputs(loss, (Prediction(scores, kind),))


def _fields(output: Any) -> tuple[Tensor | None, Callable[[str], Tensor]]:
    if isinstance(output, Mapping):
        named = cast("Mapping[str, Any]", output)
        return named.get("loss"), lambda name: field(named, name)
    if hasattr(output, "logits"):
        return getattr(output, "loss", None), lambda name: getattr(output, name)
    if isinstance(output, tuple) and output:
        loss, *scores = cast("tuple[Any, ...]", output)
        if loss is not None and loss.dim():  # a batch without labels has no loss: the scores come first
            loss, scores = None, [loss, *scores]
        ordered = dict(zip(("start_logits", "end_logits"), scores, strict=False)) | {"logits": scores[0]}
        return loss, lambda name: field(ordered, name)
    raise TypeError(
        f"Cannot read a {type(output).__name__} as a model output: return a ModelOutput, a mapping with 'logits', "
        "or a tuple (loss, logits)."
    )


def loss_alone(output: Any) -> Tensor | None:
    """The loss of an output without predictions: a mapping, a tuple that begins with it, or the loss itself."""
    if isinstance(output, Mapping):
        output = cast("Mapping[str, Any]", output).get("loss")
    elif isinstance(output, tuple) and output:
        output = cast("tuple[Any, ...]", output)[0]
    loss = getattr(cast(Any, output), "loss", cast(Any, output))
    return loss if isinstance(loss, Tensor) and loss.dim() == 0 else None


def field(output: Mapping[str, Any], *names: str) -> Tensor:
    """What an output has under the first of these names that it knows."""
    for name in names:
        if name in output:
            return output[name]
    only = f", only {', '.join(output)}" if output else ""
    raise StepError(
        f"The model's output has no {names[0]!r}{only}. This method reads predictions: take a class with one head, "
        "such as AutoModelForSequenceClassification, return a mapping of 'loss' and 'logits', or use a method that "
        "needs the loss alone: toughen.freelb(), fgm() or pgd()."
    )


def _sentence_kind(scores: Tensor, labels: Tensor | None, config: Any) -> ScoreType:
    """The rule of transformers' own heads: `problem_type` if set, else the number and type of the labels."""
    problem = getattr(config, "problem_type", None)
    if problem == "regression" or (problem is None and scores.shape[-1] == 1):
        return "regression"
    soft = str(getattr(config, "model_type", "")).startswith("deberta")  # it learns shares of classes from such labels
    if problem == "multi_label_classification" or (
        problem is None
        and not soft
        and labels is not None
        and labels.is_floating_point()
        and labels.shape == scores.shape
    ):
        return "multilabel"
    return "multiclass"


def _labelled(scores: Tensor, labels: Tensor | None, batch: Mapping[str, Any], task: HeadType) -> Tensor | None:
    """Which positions count: the labelled ones, else those that are not padding."""
    rows = scores.shape[:-1]
    if labels is not None and labels.dim() == 2:
        counts = labels.ne(IGNORED)
        if counts.shape[1] < rows[1]:  # a prefix (prompt tuning, image tokens) comes before the labelled positions
            counts = nn.functional.pad(counts, (rows[1] - counts.shape[1], 0))
        if task == "causal_lm":  # position t predicts label t + 1; the last one predicts nothing
            counts = torch.cat([counts[:, 1:], torch.zeros_like(counts[:, :1])], dim=1)
        return counts
    return _unpadded(rows, batch)


def _unpadded(rows: torch.Size, batch: Mapping[str, Any]) -> Tensor | None:
    mask: Tensor | None = batch.get("attention_mask")
    return mask.bool() if mask is not None and mask.shape == rows else None


def _span(scores: Tensor, padding: Tensor | None) -> Prediction:
    """Start or end positions: one distribution over the tokens of an example, padding left out."""
    if padding is not None and padding.shape == scores.shape:
        scores = scores.masked_fill(padding == 0, torch.finfo(torch.float16).min)
    return Prediction(scores, "multiclass")
