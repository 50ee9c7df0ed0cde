"""Views of the text in a batch: made from its token ids, kept beside them under names of their own."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from ..compare.model_outputs import ModelOutputs, Prediction
from ..errors import MethodError, SiteError, StepError
from ..internal.architectures import IGNORED, HeadType, longest_input
from ..sites.text import EditedText
from ..text.synonyms import load_synonyms
from ..text.token_words import TokenWords
from ..text.views import TextEditor, View
from ..text.words import label_words

PREFIX = "toughen_view"
COUNTS, PLACES = "counts", "places"  # beside the model's inputs: words and edited words; where each token went
HEADS: tuple[HeadType, ...] = ("sequence", "tokens", "choices", "seq2seq_lm")
STEP = 8  # views are as wide as their clean batch, or wider by a multiple of it
STEPS = 4  # a step is at least so small a part of the clean width: captured steps want few shapes


@dataclass(frozen=True)
class ViewMaker:
    """Makes views of batches, for one method of a sum; in the loader's workers, or where the batch is used."""

    site: EditedText
    number: int
    seed: int
    task: HeadType
    editor: TextEditor = field(repr=False)
    longest: int | None
    pad: int
    side: str

    @staticmethod
    def of(site: EditedText, number: int, model: nn.Module, tokenizer: Any, seed: int, task: HeadType) -> "ViewMaker":
        """Make it for a model, or say why its text cannot be edited."""
        name = type(model).__name__
        if getattr(model, "main_input_name", "input_ids") != "input_ids":
            raise SiteError(f"{name} reads {model.main_input_name!r}, and {site!r} edits text; use toughen.smart().")
        if task not in HEADS:
            raise SiteError(
                f"{name} predicts tokens or positions of its own text (task {task!r}), which an edit moves. Views are "
                "for classes, pairs, choices, tags, regression and encoder-decoders; use toughen.smart()."
            )
        tokenizer = getattr(tokenizer, "tokenizer", tokenizer)  # of a processor
        if tokenizer is None:
            raise MethodError(
                "Editing the words of a text needs the tokenizer: method.attach(model, tokenizer), or "
                "robust(Trainer)(..., processing_class=tokenizer)."
            )
        words, config = TokenWords(tokenizer), getattr(model, "config", None)
        synonyms = load_synonyms(site.synonyms, "--method.synonyms")[0] if "synonyms" in site.families else None
        if synonyms is not None and not any(map(words.knows, synonyms)):
            raise MethodError(
                f"synonyms={site.synonyms!r}: the vocabulary of {type(tokenizer).__name__} has none of its words; give "
                "a list in the language of the model."
            )
        labels = map(str, (getattr(config, "id2label", None) or {}).values())
        pad = next((p for p in (tokenizer.pad_token_id, getattr(config, "pad_token_id", None)) if p is not None), 0)
        return ViewMaker(
            site,
            number,
            seed,
            task,
            TextEditor(words, site.families, site.rate, synonyms, label_words(labels)),
            None if config is None else longest_input(tokenizer, config),
            pad,
            getattr(tokenizer, "padding_side", "right"),
        )

    def __call__(self, batch: Mapping[str, Any], moment: str) -> dict[str, Tensor]:
        """Return the views of a batch, as (rows, views, ...) under this method's names.

        `moment` is the epoch or update that they are drawn for.
        """
        ids, mask = _ids_of(batch)
        rows, width = ids.reshape(-1, ids.shape[-1]), ids.shape[-1]
        real = np.ones_like(rows) if mask is None else mask.reshape(-1, width) != 0
        if mask is None and (rows == self.pad).any() and self.pad in self.editor.words.special:
            real = rows != self.pad
        views = [
            [self._row(row, flags, f"{self.seed}/{moment}/{number}") for number in range(self.site.worst_of)]
            for row, flags in zip(rows, real, strict=True)
        ]
        needed = max((len(view.ids) for each in views for _, view in each), default=0)
        step = -(-width // (STEP * STEPS)) * STEP
        length = width + max(-(-(needed - width) // step) * step, 0)
        length = length if self.longest is None else min(length, max(self.longest, needed, width))
        left = self.side == "left" if real.all() else not real[:, 0].all()
        table = _Table(views, length, left)
        shape = (*ids.shape[:-1], self.site.worst_of, length)
        kind = np.dtype("int64") if mask is None else mask.dtype
        made = {"input_ids": table.take(rows, self.pad, "ids"), "attention_mask": table.attention(kind)}
        for name, value in batch.items():
            if name in made or not isinstance(value, Tensor) or value.shape != ids.shape or name.startswith("decoder_"):
                continue
            if name == "labels":
                if self.task == "tokens":
                    made[name] = table.take(_flat(value), IGNORED, "label_source")
            elif name == "position_ids":
                made[name] = table.positions(_flat(value))
            else:
                made[name] = table.take(_flat(value), int(name == "special_tokens_mask"), "source")
        if self.task == "tokens":
            made[PLACES] = table.places(width)
        device = batch["input_ids"].device
        found = {name: _views_first(value, shape[:-1]) for name, value in made.items()}
        counts = np.array([[sum(v.words for _, v in each), sum(v.edited for _, v in each)] for each in views])
        found[COUNTS] = counts.reshape(len(ids), -1, 2).sum(1)
        return {
            f"{PREFIX}{self.number}_{name}": _tensor(value).to(device, non_blocking=True)
            for name, value in found.items()
        }

    def _row(self, row: Any, real: Any, key: str) -> tuple[int, View]:
        """Return where a row's text starts, and a view of it."""
        (places,) = np.nonzero(real)
        if not len(places):
            return 0, View([], [], [], 0, 0)
        first, end = int(places[0]), int(places[-1]) + 1
        longest = None if self.longest is None else max(self.longest, end - first)
        return first, self.editor.view(row[first:end].tolist(), key, longest)


@dataclass(frozen=True)
class _Table:
    """The views of all rows, and the numpy arrays that are made of them: (rows * views, length)."""

    views: Sequence[Sequence[tuple[int, View]]]
    length: int
    left: bool

    def _fill(self, dtype: Any, fill: int, values: Callable[[int, int, View], Any]) -> Any:
        number = len(self.views[0]) if self.views else 1
        found = np.full((len(self.views) * number, self.length), fill, dtype=dtype)
        for row, each in enumerate(self.views):
            for candidate, (first, view) in enumerate(each):
                start = self.length - len(view.ids) if self.left else 0
                found[row * number + candidate, start : start + len(view.ids)] = values(row, first, view)
        return found

    def take(self, clean: Any, fill: int, how: str) -> Any:
        """Return for each token of the views what a clean input has where the token comes from."""
        if how == "ids":
            return self._fill(clean.dtype, fill, lambda row, first, view: view.ids)

        def values(row: int, first: int, view: View) -> Any:
            source = np.array(getattr(view, how), dtype=np.int64)
            return np.where(source < 0, fill, clean[row][first + np.maximum(source, 0)]) if len(source) else []

        return self._fill(clean.dtype, fill, values)

    def attention(self, dtype: Any) -> Any:
        return self._fill(dtype, 0, lambda row, first, view: 1)

    def positions(self, clean: Any) -> Any:
        """Return positions that count on from the first of each row."""
        return self._fill(clean.dtype, 0, lambda row, first, view: clean[row][first] + np.arange(len(view.ids)))

    def places(self, width: int) -> Any:
        """Return for each clean token the position in the view of the token that has its label, or -1."""
        number = len(self.views[0]) if self.views else 1
        found = np.full((len(self.views) * number, width), -1, dtype=np.int64)
        for row, each in enumerate(self.views):
            for candidate, (first, view) in enumerate(each):
                start = self.length - len(view.ids) if self.left else 0
                places = found[row * number + candidate]
                for position in reversed(range(len(view.label_source))):  # the first of several stays
                    if view.label_source[position] >= 0:
                        places[first + view.label_source[position]] = start + position
        return found


def _tensor(array: Any) -> Tensor:
    made = torch.empty(array.shape, dtype=getattr(torch, array.dtype.name))
    made.numpy()[...] = array
    return made


def _flat(value: Tensor) -> Any:
    return value.detach().cpu().numpy().reshape(-1, value.shape[-1])


def _ids_of(batch: Mapping[str, Any]) -> tuple[Any, Any]:
    """Return the ids and the padding mask of a batch as arrays; a batch on a GPU is waited for."""
    ids, mask = batch.get("input_ids"), batch.get("attention_mask")
    if not isinstance(ids, Tensor):
        raise StepError(f"Views are made from 'input_ids', and the batch has {', '.join(batch)}.")
    if isinstance(mask, Tensor) and mask.shape != ids.shape:
        raise StepError(
            f"Views need an attention_mask of tokens, {tuple(ids.shape)}; here it is {tuple(mask.shape)}. Texts that "
            "are packed into a row cannot be edited."
        )
    return ids.detach().cpu().numpy(), mask.detach().cpu().numpy() if isinstance(mask, Tensor) else None


def _views_first(value: Any, rows: tuple[int, ...]) -> Any:
    """Shape (rows, [choices,] views, length) as (rows, views, [choices,] length)."""
    return np.moveaxis(value.reshape(*rows, value.shape[-1]), -2, 1)


def split_views(batch: Mapping[str, Any]) -> tuple[dict[str, Any], dict[int, dict[str, Tensor]]]:
    """Return the model's inputs, and the views beside them by the number of their method."""
    clean, views = dict[str, Any](), dict[int, dict[str, Tensor]]()
    for name, value in batch.items():
        if not name.startswith(PREFIX):
            clean[name] = value
            continue
        number, _, rest = name.removeprefix(PREFIX).partition("_")
        views.setdefault(int(number), {})[rest] = value
    return clean, views


def add_views(batch: Mapping[str, Any], makers: Sequence[ViewMaker], moment: str) -> dict[str, Any]:
    """Return the batch with the views of these methods beside it; those that are there stay."""
    made = dict(batch)
    for maker in makers:
        if f"{PREFIX}{maker.number}_{COUNTS}" not in batch:
            made |= maker(batch, moment)
    return made


def choose(views: Mapping[str, Tensor], best: Tensor | int) -> dict[str, Tensor]:
    """Return one view of each row: number `best`, which may be another for each."""
    return {
        name: value[:, best].contiguous() if isinstance(best, int) else _pick(value, best)
        for name, value in views.items()
        if name != COUNTS
    }


def _pick(value: Tensor, best: Tensor) -> Tensor:
    index = best.view(-1, *[1] * (value.dim() - 1)).expand(-1, 1, *value.shape[2:])
    return value.gather(1, index).squeeze(1)


def align(outcome: ModelOutputs, places: Tensor, width: int) -> ModelOutputs:
    """Return the predictions for the tokens of the clean text; those that have no place in the view do not count.

    `width` is the length of the view: a prefix (prompt tuning) comes before it.
    """

    def moved(one: Prediction) -> Prediction:
        index = places.clamp(min=0) + one.scores.shape[1] - width
        scores = one.scores.gather(1, index.unsqueeze(-1).expand(-1, -1, one.scores.shape[-1]))
        mask = places >= 0 if one.mask is None else (places >= 0) & one.mask.gather(1, index)
        return Prediction(scores, one.kind, mask)

    return ModelOutputs(outcome.loss, tuple(map(moved, outcome.predictions)), outcome.features)


def stack_texts(clean: Mapping[str, Any], view: Mapping[str, Any], pad: int, side: str) -> dict[str, Any]:
    """Return clean texts and their views as one batch of twice the rows."""
    ids, others = clean["input_ids"], view["input_ids"]
    width, fill = max(ids.shape[-1], others.shape[-1]), {"input_ids": pad, "labels": IGNORED}
    found: dict[str, Any] = {}
    for name, value in {"attention_mask": torch.ones_like(ids), **clean}.items():
        other = view.get(name, value)
        if not isinstance(value, Tensor) or not value.dim():
            found[name] = value
            continue
        if value.shape == ids.shape and other.shape == others.shape:
            value, other = (_pad(each, width, fill.get(name, 0), side) for each in (value, other))
        found[name] = torch.cat([value, other])
    return found


def _pad(value: Tensor, width: int, fill: int, side: str) -> Tensor:
    more = width - value.shape[-1]
    return F.pad(value, (more, 0) if side == "left" else (0, more), value=fill)


def join(clean: ModelOutputs, view: ModelOutputs, side: str) -> ModelOutputs:
    """Return the outputs of clean texts and of their views as those of one batch; the loss is the clean one."""
    pairs = zip(clean.predictions, view.predictions, strict=True)
    features = None
    if clean.features is not None and view.features is not None:
        features = torch.cat([clean.features, view.features])
    return ModelOutputs(clean.loss, tuple(_join(a, b, side) for a, b in pairs), features)


def _join(clean: Prediction, view: Prediction, side: str) -> Prediction:
    a, b = clean.scores, view.scores
    if a.dim() == 3 and a.shape[1] != b.shape[1]:  # tags: rows beyond a text's own length do not count
        width = max(a.shape[1], b.shape[1])
        a, b = (_pad(each.transpose(1, 2), width, 0, side).transpose(1, 2) for each in (a, b))
    return Prediction(torch.cat([a, b]), clean.kind)  # a comparison reads the mask of the perturbed outputs
