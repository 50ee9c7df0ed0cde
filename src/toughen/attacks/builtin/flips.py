"""Gradient-guided flips of whole words (HotFlip, Ebrahimi et al. 2018): one gradient ranks a whole vocabulary."""

from collections.abc import Callable, Mapping, Sequence

import torch

from ..attacked_text import Replacements, Row, SplitText, WordPosition, match_case, split_punctuation
from ..perturbed_model import AttackObjective, PerturbedModel, attach_perturbation
from ..target import Target
from ..text_search import GradientFn, Search, SearchState
from ..victim import Victim
from .synonyms import Vocabulary

Gains = Mapping[WordPosition, Sequence[tuple[float, str]]]
"""For every word of one piece: the words to put there and what the gradient promises of each."""


def hotflip(candidates: int) -> Callable[[Target], tuple[Callable[[SearchState], Search], GradientFn]]:
    """The attack made ready for a model: it asks for a gradient after every word it has changed."""

    def prepare(target: Target) -> tuple[Callable[[SearchState], Search], GradientFn]:
        gradients = _VocabularyGradients(target.victim, Vocabulary(target.victim), candidates)

        def start_search(state: SearchState) -> Search:
            return _search(state, candidates)

        return start_search, gradients

    return prepare


def _search(state: SearchState, candidates: int) -> Search:
    """Try the flips that promise most, take the best that helps, look again from there."""
    while not state.done:
        gains: Gains = yield from state.gradient()
        ranked = _ranked(state, gains)
        before = len(state.changes)
        for start in range(0, len(ranked), candidates):
            results = yield from state.try_each(ranked[start : start + candidates])
            if state.success or not results:
                return
            best = min(range(len(results)), key=lambda number: results[number].probability)
            if results[best].probability < state.probability:
                state.apply(ranked[start + best], results[best].probability)
                break
        if len(state.changes) == before:
            return


def _ranked(state: SearchState, gains: Gains) -> list[Replacements]:
    """Flips of words that may be changed and have not been, most promising first."""
    flips: list[tuple[float, WordPosition, str]] = []
    for position in state.text.positions:
        if position not in state.changes:
            old = state.text.word(position)
            flips += [(gain, position, match_case(word, old)) for gain, word in gains.get(position, ())]
    flips.sort(key=lambda each: -each[0])
    return [{position: word} for _, position, word in flips if word.lower() != state.text.word(position).lower()]


class _VocabularyGradients:
    """Compute gradients of many texts at once, and rank the words of the vocabulary for each position."""

    def __init__(self, victim: Victim, vocabulary: Vocabulary, count: int) -> None:
        self.victim, self.vocabulary, self.count = victim, vocabulary, count
        self.objective = AttackObjective(victim.task)

    def __call__(self, rows: Sequence[Row], labels: Sequence[int]) -> list[Gains]:
        found: list[Gains] = []
        with attach_perturbation(self.victim) as model:
            for start in range(0, len(rows), self.victim.rows_with_gradient):
                part = slice(start, start + self.victim.rows_with_gradient)
                found += self._part(model, rows[part], labels[part])
        return found

    def _part(self, model: PerturbedModel, rows: Sequence[Row], labels: Sequence[int]) -> list[Gains]:
        victim = self.victim
        texts = [[row[column] for row in rows] for column in victim.task.columns]
        encoded = victim.tokenizer(
            *texts,
            truncation=True,
            max_length=victim.text_tokenizer.max_length,
            padding=True,
            return_offsets_mapping=True,
            return_tensors="pt",
        )
        spans = encoded.pop("offset_mapping").tolist()
        batch = {name: value.to(victim.model.device) for name, value in encoded.items()}
        _, at_tokens, view = model.embedding_gradient(
            batch, self.objective, torch.tensor(labels, device=victim.model.device)
        )
        positions = [
            _one_piece(row, victim.task.columns, spans[number], encoded.sequence_ids(number))
            for number, row in enumerate(rows)
        ]
        flat = [(number, token) for number, found in enumerate(positions) for token in found.values()]
        if not flat:
            return [{} for _ in rows]
        at = torch.tensor(flat, device=at_tokens.device).T
        at_tokens, old = at_tokens[at[0], at[1]].float(), view.value[at[0], at[1]].float()
        gains = at_tokens @ self.vocabulary.matrix.T - (at_tokens * old).sum(-1, keepdim=True)
        best = gains.topk(min(self.count, gains.shape[1]))
        ranks = iter(zip(best.values.tolist(), best.indices.tolist(), strict=True))
        return [{position: self._words(*next(ranks)) for position in found} for found in positions]

    def _words(self, gains: list[float], numbers: list[int]) -> list[tuple[float, str]]:
        return [(gain, self.vocabulary.words[number]) for gain, number in zip(gains, numbers, strict=True)]


def _one_piece(
    row: Row, columns: Sequence[str], spans: Sequence[Sequence[int]], texts: Sequence[int | None]
) -> dict[WordPosition, int]:
    """Words that are exactly one token, and which."""
    tokens: dict[tuple[int, int, int], list[int]] = {}
    for number, ((start, end), text) in enumerate(zip(spans, texts, strict=True)):
        if text is not None:
            piece = str(row[columns[text]])[start:end]
            # The space before a word is part of its token for SentencePiece (DeBERTa-v3, Llama). Bytes share a span.
            tokens.setdefault((text, end - len(piece.lstrip()), end), []).append(number)
    tokens_of_words: dict[WordPosition, int] = {}
    for text, column in enumerate(columns):
        words, at = SplitText.of(row[column]), 0
        for number, piece in enumerate(words.tokens):
            at += len(words.whitespace[number])
            before, word, _ = split_punctuation(piece)
            span = (text, at + len(before), at + len(before) + len(word))
            if word and len(one := tokens.get(span, ())) == 1:
                tokens_of_words[column, number] = one[0]
            at += len(piece)
    return tokens_of_words
