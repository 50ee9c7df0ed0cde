"""The words of a model's vocabulary: the nearest to a word, and those that a gradient promises to be worst."""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from ..sites.locate import input_embedding
from ..tasks.spec import DataError
from ..text.vocabulary import whole_words
from ..text.words import SplitText, split_punctuation
from .attacked_text import WordPosition
from .base import Row
from .perturbed_model import AttackObjective, PerturbedModel, attach_perturbation

if TYPE_CHECKING:
    from .victim import Victim

Gains = Mapping[WordPosition, Sequence[tuple[float, str]]]
"""For every word of one token: the words to put there and the gain that the gradient promises of each."""


class Vocabulary:
    """The tokens that are words: written inside a text and tokenised again, each gives itself and nothing else."""

    def __init__(self, victim: "Victim") -> None:
        table: Any = input_embedding(victim.model)
        if not hasattr(table, "num_embeddings"):
            raise DataError(
                f"{type(victim.model).__name__} has no table of word embeddings; use the attack characters."
            )
        words = whole_words(victim.tokenizer, table.num_embeddings)
        if not words:
            raise DataError("this model's vocabulary holds no whole word; use the attack characters or synonyms.")
        self.words = list(words)
        self.numbers = {text: number for number, text in enumerate(self.words)}
        numbers = torch.tensor(list(words.values()), device=table.weight.device)
        with torch.no_grad():  # as the table gives them: Gemma's and BART's multiply their weights
            self.matrix: Tensor = table(numbers).float()
        self._unit = torch.nn.functional.normalize(self.matrix, dim=-1)
        self._near: dict[tuple[str, int], list[str]] = {}

    def nearest_words(self, word: str, count: int) -> list[str]:
        """Return the words with the most similar embeddings by cosine; none for a word of several tokens."""
        small = word if word in self.numbers else word.lower()
        if small not in self.numbers:
            return []
        if (small, count) not in self._near:
            alike = self._unit @ self._unit[self.numbers[small]]
            order = alike.topk(min(len(self.words), 3 * count + 3)).indices.tolist()
            words = [self.words[number] for number in order]
            others = dict.fromkeys(each for each in words if each.lower() != small.lower())
            self._near[small, count] = list(others)[:count]
        return self._near[small, count]


class VocabularyGradients:
    """Compute gradients of many texts at once, and rank the words of the vocabulary for each position by them."""

    def __init__(self, victim: "Victim", vocabulary: Vocabulary, count: int) -> None:
        self.victim, self.vocabulary, self.count = victim, vocabulary, count
        self.objective = AttackObjective(victim.task)

    def __call__(self, rows: Sequence[Row], labels: Sequence[int]) -> list[Gains]:
        gains: list[Gains] = []
        with attach_perturbation(self.victim) as model:
            for start in range(0, len(rows), self.victim.rows_with_gradient):
                part = slice(start, start + self.victim.rows_with_gradient)
                gains += self._part(model, rows[part], labels[part])
        return gains

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
            batch, self.objective.margin, torch.tensor(labels, device=victim.model.device)
        )
        positions = [
            one_token_words(row, victim.task.columns, spans[number], encoded.sequence_ids(number))
            for number, row in enumerate(rows)
        ]
        flat = [(number, token) for number, tokens in enumerate(positions) for token in tokens.values()]
        if not flat:
            return [{} for _ in rows]
        at = torch.tensor(flat, device=at_tokens.device).T
        at_tokens, old = at_tokens[at[0], at[1]].float(), view.value[at[0], at[1]].float()
        gains = at_tokens @ self.vocabulary.matrix.T - (at_tokens * old).sum(-1, keepdim=True)
        best = gains.topk(min(self.count, gains.shape[1]))
        ranks = iter(zip(best.values.tolist(), best.indices.tolist(), strict=True))
        return [{position: self._words(*next(ranks)) for position in tokens} for tokens in positions]

    def _words(self, gains: list[float], numbers: list[int]) -> list[tuple[float, str]]:
        return [(gain, self.vocabulary.words[number]) for gain, number in zip(gains, numbers, strict=True)]


def one_token_words(
    row: Row, columns: Sequence[str], spans: Sequence[Sequence[int]], texts: Sequence[int | None]
) -> dict[WordPosition, int]:
    """Return the words that are exactly one token of the tokenizer, with the number of the token."""
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
