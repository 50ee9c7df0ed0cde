"""Words in token ids: where each one starts, how it is written, and the ids of another word in its place."""

from collections.abc import Sequence
from typing import Any, NamedTuple

from ..errors import MethodError
from .words import split_punctuation

SPACE_MARKS = ("▁", "Ġ", "Ċ", "ĉ")  # what unigram and byte-level tokens begin with after a space, a line or a tab
MOST_CACHED = 200_000  # words; then it begins again


class WrittenWord(NamedTuple):
    """A word as it is written, with what stands around it in the same tokens: white space and punctuation."""

    before: str
    word: str
    after: str


class TokenWords:
    """The words of texts that are there as token ids alone, for a fast tokenizer of WordPiece, BPE or unigram kind.

    A word is what the tokenizer splits into pieces by itself: what stands between white space; in WordPiece models
    punctuation is a word of its own.
    """

    def __init__(self, tokenizer: object) -> None:
        from tokenizers import Tokenizer

        backend = getattr(tokenizer, "backend_tokenizer", None)
        if not isinstance(backend, Tokenizer):
            raise MethodError(
                f"Words are edited in token ids, and {type(tokenizer).__name__} is no fast tokenizer, so nothing tells "
                "where they start. Load it with AutoTokenizer.from_pretrained(..., use_fast=True); byte and character "
                "models (ByT5, CANINE) have none."
            )
        self.inner: Any = Tokenizer.from_str(backend.to_str())  # a copy, which neither cuts nor pads
        self.inner.no_truncation()
        self.inner.no_padding()
        model = self.inner.model
        self._prefix: str | None = getattr(model, "continuing_subword_prefix", None)
        self._suffix: str | None = getattr(model, "end_of_word_suffix", None)
        self._whole = type(model).__name__ == "WordLevel"
        if not (self._prefix or self._suffix or self._whole or self._has_marks()):
            raise MethodError(
                f"The tokens of {type(tokenizer).__name__} do not show where a word starts (no ##, no mark of a space, "
                "no end of a word), so words cannot be edited in token ids."
            )
        special: list[int] = list(getattr(tokenizer, "all_special_ids", ()))
        self._unknown: int | None = getattr(tokenizer, "unk_token_id", None)
        self.special = frozenset([*special, *self.inner.get_added_tokens_decoder()]) - {self._unknown}
        self._written: dict[tuple[int, ...], WrittenWord | None] = {}
        tokens = self.inner.get_vocab()
        self._first = frozenset(number for token, number in tokens.items() if self._whole or self._begins(token))
        suffix = self._suffix
        self._last = frozenset(number for token, number in tokens.items() if suffix and token.endswith(suffix))

    def _has_marks(self) -> bool:
        return any(token.startswith(SPACE_MARKS) for token in self.inner.get_vocab())

    def spans(self, ids: Sequence[int]) -> list[tuple[int, int]]:
        """Return where each word of a text without special tokens starts and ends."""
        first, last = self._first, self._last
        starts = [
            place
            for place, number in enumerate(ids)
            if not place or number in first or (last and ids[place - 1] in last)
        ]
        return list(zip(starts, [*starts[1:], len(ids)], strict=True))

    def _begins(self, token: str) -> bool:
        if self._prefix:
            return not token.startswith(self._prefix)
        return not self._suffix and token.startswith(SPACE_MARKS)

    def read(self, ids: tuple[int, ...]) -> WrittenWord | None:
        """Return a word as it is written; None if that would not give the same ids again, as after a cut."""
        if ids not in self._written:
            if len(self._written) >= MOST_CACHED:
                self._written.clear()
            self._written[ids] = self._read(ids)
        return self._written[ids]

    def _read(self, ids: tuple[int, ...]) -> WrittenWord | None:
        if self._unknown in ids:
            return None
        text: str = self.inner.decode(list(ids), skip_special_tokens=False)
        if not text.strip():  # a space at the end of a text is a token, and no word
            return WrittenWord(text, "", "")
        for form in dict.fromkeys((text, f" {text.strip()}", text.strip())):
            if form.strip() and self._encode(form) == ids:
                return WrittenWord(*split_punctuation(form))
        return None

    def knows(self, word: str) -> bool:
        """Tell whether the tokenizer has pieces for all of a word."""
        ids = self._encode(word)
        return bool(ids) and self._unknown not in ids

    def tells_case(self, text: str) -> bool:
        """Tell whether a text in capital letters has other tokens than in small ones."""
        return self._encode(text.upper()) != self._encode(text.lower())

    def write(self, written: WrittenWord, word: str) -> tuple[int, ...]:
        """Return the ids of another word in the same surroundings."""
        return self._encode(f"{written.before}{word}{written.after}")

    def _encode(self, text: str) -> tuple[int, ...]:
        return tuple(self.inner.encode(text, add_special_tokens=False).ids)
