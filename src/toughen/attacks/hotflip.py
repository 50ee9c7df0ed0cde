"""Gradient-guided flips of whole words (HotFlip, Ebrahimi et al. 2018): one gradient ranks a whole vocabulary."""

from collections.abc import Callable, Mapping, Sequence

import torch

from .attacked_text import Changes, Place, Row, Words, cased_like, parts
from .perturbed_model import Bent, Height, bent
from .synonyms import Vocabulary
from .target import Target
from .text_search import Attempt, Search, Slopes
from .victim import Victim

Gains = Mapping[Place, Sequence[tuple[float, str]]]
"""For every word of one piece: the words to put there and what the gradient promises of each."""


def flips(candidates: int) -> Callable[[Target], tuple[Callable[[Attempt], Search], Slopes]]:
    """The attack made ready for a model: it asks for a gradient after every word it has changed."""

    def prepare(target: Target) -> tuple[Callable[[Attempt], Search], Slopes]:
        slopes = _Slopes(target.victim, Vocabulary(target.victim), candidates)

        def begin(attempt: Attempt) -> Search:
            return _search(attempt, candidates)

        return begin, slopes

    return prepare


def _search(attempt: Attempt, candidates: int) -> Search:
    """Try the flips that promise most, take the best that helps, look again from there."""
    while not attempt.over:
        gains: Gains = yield from attempt.slope()
        ranked = _ranked(attempt, gains)
        before = len(attempt.changes)
        for start in range(0, len(ranked), candidates):
            told = yield from attempt.try_each(ranked[start : start + candidates])
            if attempt.fooled or not told:
                return
            best = min(range(len(told)), key=lambda number: told[number].chance)
            if told[best].chance < attempt.chance:
                attempt.take(ranked[start + best], told[best].chance)
                break
        if len(attempt.changes) == before:
            return


def _ranked(attempt: Attempt, gains: Gains) -> list[Changes]:
    """Flips of words that may be changed and have not been, most promising first."""
    found: list[tuple[float, Place, str]] = []
    for place in attempt.passage.places:
        if place not in attempt.changes:
            old = attempt.passage.word(place)
            found += [(gain, place, cased_like(word, old)) for gain, word in gains.get(place, ())]
    found.sort(key=lambda each: -each[0])
    return [{place: word} for _, place, word in found if word.lower() != attempt.passage.word(place).lower()]


class _Slopes:
    """Gradients of many texts at once, and the best words for each place."""

    def __init__(self, victim: Victim, vocabulary: Vocabulary, count: int) -> None:
        self.victim, self.vocabulary, self.count = victim, vocabulary, count
        self.height = Height(victim.task)

    def __call__(self, rows: Sequence[Row], labels: Sequence[int]) -> list[Gains]:
        found: list[Gains] = []
        with bent(self.victim) as model:
            for start in range(0, len(rows), self.victim.rows_with_gradient):
                part = slice(start, start + self.victim.rows_with_gradient)
                found += self._part(model, rows[part], labels[part])
        return found

    def _part(self, model: Bent, rows: Sequence[Row], labels: Sequence[int]) -> list[Gains]:
        victim = self.victim
        texts = [[row[column] for row in rows] for column in victim.task.columns]
        encoded = victim.tokenizer(
            *texts,
            truncation=True,
            max_length=victim.work.max_length,
            padding=True,
            return_offsets_mapping=True,
            return_tensors="pt",
        )
        spans = encoded.pop("offset_mapping").tolist()
        batch = {name: value.to(victim.model.device) for name, value in encoded.items()}
        _, slope, view = model.slope(batch, self.height, torch.tensor(labels, device=victim.model.device))
        places = [
            _one_piece(row, victim.task.columns, spans[number], encoded.sequence_ids(number))
            for number, row in enumerate(rows)
        ]
        flat = [(number, token) for number, found in enumerate(places) for token in found.values()]
        if not flat:
            return [{} for _ in rows]
        at = torch.tensor(flat, device=slope.device).T
        gradient, old = slope[at[0], at[1]].float(), view.value[at[0], at[1]].float()
        gains = gradient @ self.vocabulary.matrix.T - (gradient * old).sum(-1, keepdim=True)
        best = gains.topk(min(self.count, gains.shape[1]))
        ranks = iter(zip(best.values.tolist(), best.indices.tolist(), strict=True))
        return [{place: self._words(*next(ranks)) for place in found} for found in places]

    def _words(self, gains: list[float], numbers: list[int]) -> list[tuple[float, str]]:
        return [(gain, self.vocabulary.words[number]) for gain, number in zip(gains, numbers, strict=True)]


def _one_piece(
    row: Row, columns: Sequence[str], spans: Sequence[Sequence[int]], texts: Sequence[int | None]
) -> dict[Place, int]:
    """Words that are exactly one token, and which."""
    tokens: dict[tuple[int, int, int], list[int]] = {}
    for number, ((start, end), text) in enumerate(zip(spans, texts, strict=True)):
        if text is not None:
            piece = str(row[columns[text]])[start:end]
            # The space before a word is part of its token for SentencePiece (DeBERTa-v3, Llama). Bytes share a span.
            tokens.setdefault((text, end - len(piece.lstrip()), end), []).append(number)
    found: dict[Place, int] = {}
    for text, column in enumerate(columns):
        words, at = Words.of(row[column]), 0
        for number, piece in enumerate(words.pieces):
            at += len(words.gaps[number])
            before, word, _ = parts(piece)
            span = (text, at + len(before), at + len(before) + len(word))
            if word and len(one := tokens.get(span, ())) == 1:
                found[column, number] = one[0]
            at += len(piece)
    return found
