"""The words of a tokenizer's vocabulary: tokens that are whole words, and tokens that go on with one."""

from typing import Any

from ..errors import DataError

_CONTEXT = "a "  # a word inside a text: byte-level tokenizers write the space before it into the token
_WORD_STARTS = ("\u0120", "\u2581")  # what byte-level BPE and SentencePiece write for the space before a word
_APOSTROPHES = ("'", "\u2019")  # "do" + "n't" is one word, whatever the tokenizer makes of it


def whole_words(tokenizer: Any, size: int) -> dict[str, int]:
    """Return the tokens that are words, with their ids below `size`.

    Such a token, written inside a text and tokenised again, gives itself and nothing else.
    """
    if not getattr(tokenizer, "is_fast", False):
        raise DataError(f"{type(tokenizer).__name__} cannot say which piece is which word; use a fast tokenizer.")
    special = set(tokenizer.all_special_ids)
    ids = [number for number in range(min(len(tokenizer), size)) if number not in special]
    written = [text.strip() for text in tokenizer.batch_decode([[number] for number in ids])]
    pairs = [(number, text) for number, text in zip(ids, written, strict=True) if _is_word(text)]
    if not pairs:
        return {}
    texts = [_CONTEXT + text for _, text in pairs]
    encoded = tokenizer(texts, add_special_tokens=False, return_attention_mask=False, return_offsets_mapping=True)
    words: dict[str, int] = {}
    for (number, text), pieces, spans in zip(pairs, encoded["input_ids"], encoded["offset_mapping"], strict=True):
        inside = [one for one, (_, end) in zip(pieces, spans, strict=True) if end > len(_CONTEXT)]
        if inside == [number]:
            words.setdefault(text, number)
    return words


def _is_word(text: str) -> bool:
    return len(text) > 1 and text.isalnum() and any(letter.isalpha() for letter in text)


def word_continues(tokenizer: Any, size: int) -> list[bool]:
    """Return for each token whether it goes on with the word of the token before it, as "##ing" does."""
    special = set(tokenizer.all_special_ids)
    tokens = tokenizer.convert_ids_to_tokens(list(range(min(len(tokenizer), size))))
    pieces = any(str(token).startswith("##") for token in tokens)
    start = next((mark for mark in _WORD_STARTS if any(str(token).startswith(mark) for token in tokens)), None)

    def continues(token: str) -> bool:
        if pieces:
            return token.startswith(("##", *_APOSTROPHES))
        # Without a mark tokens are words, or mark the end of one: there a word that goes on is no whole word.
        inside = start is not None and not token.startswith(start) and token[:1].isalnum()
        return inside or token.startswith(_APOSTROPHES)

    found = [number not in special and continues(str(token)) for number, token in enumerate(tokens)]
    return found + [False] * (size - len(found))
