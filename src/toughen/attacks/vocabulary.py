"""The whole words of a model's own vocabulary, with their embeddings."""

from typing import Any

import torch
from torch import Tensor

from ..sites.locate import input_embedding
from ..tasks.spec import DataError
from .victim import Victim

_CONTEXT = "a "  # a word inside a text: byte-level tokenizers write the space before it into the token


class Vocabulary:
    """Tokens that are words: written out inside a text and tokenised again, each gives itself and nothing else."""

    def __init__(self, victim: Victim) -> None:
        tokenizer = victim.tokenizer
        if not tokenizer.is_fast:
            raise DataError(f"{type(tokenizer).__name__} cannot say which piece is which word; use a fast tokenizer.")
        table: Any = input_embedding(victim.model)
        special = set(tokenizer.all_special_ids)
        ids = [number for number in range(min(len(tokenizer), table.num_embeddings)) if number not in special]
        written = [text.strip() for text in tokenizer.batch_decode([[number] for number in ids])]
        pairs = [(number, text) for number, text in zip(ids, written, strict=True) if _is_word(text)]
        kept = _decodable(tokenizer, pairs)
        if not kept:
            raise DataError("this model's vocabulary holds no whole word; use the attack characters or synonyms.")
        self.words = [text for _, text in kept]
        self.numbers = {text: place for place, text in enumerate(self.words)}
        numbers = torch.tensor([number for number, _ in kept], device=table.weight.device)
        with torch.no_grad():  # as the table gives them: Gemma's and BART's multiply their weights
            self.matrix: Tensor = table(numbers).float()
        self._unit = torch.nn.functional.normalize(self.matrix, dim=-1)
        self._near: dict[tuple[str, int], list[str]] = {}

    def near(self, word: str, count: int) -> list[str]:
        """The words whose embeddings point most nearly the same way; none for a word of several pieces."""
        small = word if word in self.numbers else word.lower()
        if small not in self.numbers:
            return []
        if (small, count) not in self._near:
            alike = self._unit @ self._unit[self.numbers[small]]
            order = alike.topk(min(len(self.words), 3 * count + 3)).indices.tolist()
            words = [self.words[place] for place in order]
            others = dict.fromkeys(each for each in words if each.lower() != small.lower())
            self._near[small, count] = list(others)[:count]
        return self._near[small, count]


def _is_word(text: str) -> bool:
    return len(text) > 1 and text.isalnum() and any(letter.isalpha() for letter in text)


def _decodable(tokenizer: Any, pairs: list[tuple[int, str]]) -> list[tuple[int, str]]:
    if not pairs:
        return []
    texts = [_CONTEXT + text for _, text in pairs]
    encoded = tokenizer(texts, add_special_tokens=False, return_attention_mask=False, return_offsets_mapping=True)
    found: list[tuple[int, str]] = []
    for (number, text), ids, spans in zip(pairs, encoded["input_ids"], encoded["offset_mapping"], strict=True):
        inside = [one for one, (_, end) in zip(ids, spans, strict=True) if end > len(_CONTEXT)]
        if inside == [number]:
            found.append((number, text))
    return list({text: (number, text) for number, text in reversed(found)}.values())[::-1]
