"""Trainers of sentence-transformers: methods edit or perturb the first text of each row, and compare scores."""

from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, field, replace
from importlib import import_module
from typing import Any, cast

import torch
import torch.nn.functional as F
from torch import Tensor

from ..compare.model_outputs import ModelOutputs, Prediction
from ..errors import MethodError, StepError
from ..internal.foreach import no_autocast
from ..method import Method, MethodSum
from ..needs import declared
from ..sites import EditedText
from .hf import RobustTrainer

REST, COLUMN, IDS = "toughen_columns", "toughen_column", "_input_ids"
SCALE = 20.0  # of cosines, where the loss names none: that of sentence-transformers' ranking losses
OTHER_WAY = 0.2  # weight of the KL of documents to queries, and 0.8 of queries to documents (DST, sigma)
EMBEDDERS, RERANKERS = "SentenceTransformerTrainer", "CrossEncoderTrainer"
_UNFIT_LOSSES: Mapping[str, str] = {
    **dict.fromkeys(
        ("CachedMultipleNegativesRankingLoss", "CachedGISTEmbedLoss", "CachedMultipleNegativesSymmetricRankingLoss"),
        "it makes its gradients itself, in parts; use MultipleNegativesRankingLoss or GISTEmbedLoss",
    ),
    **dict.fromkeys(
        ("MatryoshkaLoss", "Matryoshka2dLoss", "AdaptiveLayerLoss"),
        "it cuts the vectors of a pass several times; train without a method, or with the loss inside it alone",
    ),
    **dict.fromkeys(
        ("DenoisingAutoEncoderLoss", "ContrastiveTensionLoss", "ContrastiveTensionLossInBatchNegatives"),
        "it trains a second model beside the encoder",
    ),
}
_DRAWS_ITS_PAIRS = "it draws other pairs in every pass; use BinaryCrossEntropyLoss or a loss over lists"
_UNFIT_RERANKER_LOSSES: Mapping[str, str] = dict.fromkeys(
    ("MultipleNegativesRankingLoss", "CachedMultipleNegativesRankingLoss"), _DRAWS_ITS_PAIRS
)


@dataclass(frozen=True)
class FirstTextCollator:
    """Shows the first text of each row as a batch's own input ids, and keeps all other columns beside it.

    The batches of embedding models have ids already; those of rerankers have texts, of which the first gets some.
    """

    collate: Callable[[Any], dict[str, Any]]
    tokenizer: Any
    valid_label_columns: Sequence[str] = field(default=())  # the Trainer asks its collator for them

    def __call__(self, rows: Any) -> dict[str, Any]:
        batch = self.collate(rows)
        name = next((name.removesuffix(IDS) for name in batch if name.endswith(IDS)), None)
        if name is not None:
            start = f"{name}_"
            own = {key.removeprefix(start): value for key, value in batch.items() if key.startswith(start)}
            others = {key: value for key, value in batch.items() if not key.startswith(start)}
            return {**own, REST: {COLUMN: name, **others}}
        texts = next((name for name, value in batch.items() if _is_text(value)), None)
        if texts is None:
            raise StepError(f"No column of the batch ({', '.join(batch)}) is text, and methods edit or perturb text.")
        ids = self.tokenizer(batch[texts], add_special_tokens=False, padding=True, return_tensors="pt")
        own = {name: ids[name] for name in ("input_ids", "attention_mask")}
        return {**own, REST: {COLUMN: texts, IDS: own["input_ids"].clone(), **batch}}


def _is_text(value: Any) -> bool:
    return isinstance(value, list) and bool(value) and isinstance(value[0], str)


class SentenceTrainer(RobustTrainer):
    """Runs a method over the losses of sentence-transformers.

    What is compared are the scores of a batch: of an embedding model the matrix of first texts and all others, row by
    row and column by column (DST, Tasawong et al., ACL 2023), or the vectors if a row has one text; of a reranker the
    score of each pair.
    """

    def _attach(self, model: Any) -> None:
        self._own: Any = self.accelerator.unwrap_model(model)
        kinds = {kind.__name__ for kind in type(self).__mro__}
        if not kinds & {EMBEDDERS, RERANKERS}:
            raise MethodError(
                f"{type(self).__name__}: of sentence-transformers, robust() takes {EMBEDDERS} and {RERANKERS}."
            )
        self._reranks = RERANKERS in kinds
        if self._fast is True:
            raise MethodError(
                "fast=True: steps with the losses of sentence-transformers are not captured; leave it out."
            )
        method = self._method
        for one in method.methods if isinstance(method, MethodSum) else (method,):
            if reason := misfit(one):
                raise MethodError(f"{type(self).__name__}: {reason}")
        for loss in self._losses_of_class():
            unfit = _UNFIT_RERANKER_LOSSES if self._reranks else _UNFIT_LOSSES
            for part in loss.modules():
                if reason := unfit.get(type(part).__name__):
                    raise MethodError(f"loss={type(part).__name__} does not go with a method: {reason}.")
        super()._attach(model)
        longest = getattr(self._own, "max_seq_length", None)
        for states in self.attached.states:
            if states.view_maker is not None and not self._reranks:
                states.view_maker = replace(states.view_maker, longest=longest)

    def _eager_reason(self) -> str | None:
        return "the losses of sentence-transformers run Python of their own"

    def _losses_of_class(self) -> list[Any]:
        losses: Any = cast(Any, self).loss
        return list(cast("dict[str, Any]", losses).values()) if isinstance(losses, dict) else [losses]

    def get_train_dataloader(self) -> Any:
        collate: Any = self.data_collator
        labels = getattr(collate, "valid_label_columns", ())
        self.data_collator = cast(Any, FirstTextCollator(collate, self._tokenizer, labels))
        try:
            return super().get_train_dataloader()
        finally:
            self.data_collator = collate

    def _forward(self, model: Any, inputs: Mapping[str, Any], num_items_in_batch: Any) -> ModelOutputs:
        """Run one pass of the loss over a text: the clean one, or a view of it."""
        rest: dict[str, Any] = dict(inputs[REST])
        column, clean = rest.pop(COLUMN), rest.pop(IDS, None)
        own = {name: value for name, value in inputs.items() if name != REST}
        if self._reranks:
            rest[column] = self._read(rest[column], clean, own)
            given = rest
        else:
            given = {**{f"{column}_{name}": value for name, value in own.items()}, **rest}
        with self._watch(own["input_ids"]) as seen:
            loss = self._class_loss(model, given, False, num_items_in_batch)
        loss = loss * self._loss_divisor(num_items_in_batch)
        if not self._compares:
            return ModelOutputs(loss, ())
        name = rest.get("dataset_name")
        losses: Any = cast(Any, self).loss
        return ModelOutputs(loss, self._predictions(seen, losses[name] if isinstance(losses, dict) else losses))

    def _read(self, texts: Sequence[str], clean: Tensor, own: Mapping[str, Tensor]) -> list[str]:
        """Return the texts of ids; what was not edited is as it was written."""
        decode, pad = self._tokenizer.decode, self._tokenizer.pad_token_id
        before, masks = clean.tolist(), own["attention_mask"].tolist()
        found = list[str]()
        for text, old, new, mask in zip(texts, before, own["input_ids"].tolist(), masks, strict=True):
            ids = [number for number, real in zip(new, mask, strict=True) if real]
            same = old == new or [number for number in old if number != pad] == ids
            found.append(text if same else decode(ids, clean_up_tokenization_spaces=False))
        return found

    @property
    def _tokenizer(self) -> Any:
        return getattr(self.processing_class, "tokenizer", self.processing_class)

    @contextmanager
    def _watch(self, ids: Tensor) -> "Generator[list[tuple[bool, Tensor]]]":
        """Note what the model gives in each call, and perturb the call with the first text alone."""
        seen, held = list[tuple[bool, Tensor]](), list[Any]()
        injectors = [states.injector for states in self.attached.states]

        def is_first(features: Any) -> bool:
            return self._reranks or features.get("input_ids") is ids

        def enter(_model: Any, args: Any, kwargs: Any) -> None:
            held[:] = [one.current for one in injectors]
            if not is_first(args[0] if args else kwargs["input"]):
                for one in injectors:
                    one.current = None

        def leave(_model: Any, args: Any, kwargs: Any, output: Any) -> None:
            for one, current in zip(injectors, held, strict=True):
                one.current = current
            features = args[0] if args else kwargs["input"]
            seen.append((is_first(features), output["scores" if self._reranks else "sentence_embedding"]))

        handles = [
            self._own.register_forward_pre_hook(enter, with_kwargs=True, prepend=True),
            self._own.register_forward_hook(leave, with_kwargs=True),
        ]
        try:
            with _separate_columns():
                yield seen
        finally:
            for handle in handles:
                handle.remove()

    def _predictions(self, seen: "Sequence[tuple[bool, Tensor]]", loss: Any) -> tuple[Prediction, ...]:
        if not seen:
            raise StepError(f"{type(loss).__name__} never called the model, so that there is nothing to compare.")
        if self._reranks:
            scores = torch.cat([found for _, found in seen])
            one = scores.dim() == 1 or scores.shape[-1] == 1
            return (Prediction(scores.reshape(-1, 1), "multilabel") if one else Prediction(scores, "multiclass"),)
        first, others = ([found for own, found in seen if own is kind] for kind in (True, False))
        if len(first) != 1:
            raise StepError(
                f"{type(loss).__name__} read the first text of the rows {len(first)} times in one pass; methods take "
                "losses that read each text once, such as MultipleNegativesRankingLoss or CoSENTLoss."
            )
        with no_autocast(first[0]):
            texts = F.normalize(first[0].float(), dim=-1)
            if not others:
                return (Prediction(texts * texts.shape[-1] ** 0.5, "regression"),)  # its mean square is the distance
            scores = _scores(first[0].float(), torch.cat(others).float(), loss)
        return (
            Prediction(scores, "multiclass", weight=2 * (1 - OTHER_WAY)),
            Prediction(scores.T, "multiclass", weight=2 * OTHER_WAY),
        )


def _scores(first: Tensor, others: Tensor, loss: Any) -> Tensor:
    """Return the scores of first texts and all others as the loss makes them: cosines by its scale, or products."""
    dot = "dot" in getattr(getattr(loss, "similarity_fct", None), "__name__", "")
    scale = float(getattr(loss, "scale", 1.0 if dot else SCALE))
    return scale * (first @ others.T if dot else F.normalize(first, dim=-1) @ F.normalize(others, dim=-1).T)


def _separate_columns() -> Any:
    """Let each text have its own call of the model; sentence-transformers 6 merges columns of one width."""
    try:
        return import_module("sentence_transformers.base.losses.merged_forward").column_merging_disabled()
    except (ImportError, AttributeError):
        return nullcontext()


def misfit(method: Method) -> str:
    """Return why a method does not fit the losses of sentence-transformers; empty if it does."""
    site, target = method.site, declared(method.site, "target")
    if isinstance(site, EditedText) and site.on == "both":
        return (
            "on='both' puts two copies of each text in a batch, where they are each other's negatives; use on='view'."
        )
    if isinstance(site, EditedText) and site.worst_of > 1:
        return (
            f"worst_of={site.worst_of} chooses by the prediction of a text alone, and here texts are scored together."
        )
    if target not in ("text", "weights", "dropout", "none") and not declared(site, "at_input_embedding"):
        return (
            f"{site!r} is inside the layers, and a loss runs them once for every column; use a method at the embedding "
            "of words, such as toughen.vat(), smart() or words()."
        )
    if method.constraint is not None:
        return f"{method.constraint!r} is for a classifier, and there is none; use toughen.typos() or toughen.vat()."
    if method.needs("needs_features") or method.needs("needs_label_variance"):
        return f"{method.compare!r} reads what only classifiers and regressions have; use toughen.vat()."
    return ""
