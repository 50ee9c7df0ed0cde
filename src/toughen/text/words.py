"""Texts as words: the tokens between white space, and the words that an edit must leave alone."""

import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property

_TOKEN = re.compile(r"\S+")
_EDGES = re.compile(r"^(\W*)(.*?)(\W*)$", re.DOTALL)


def split_punctuation(token: str) -> tuple[str, str, str]:
    """Split a token into the punctuation before the word, the word, and that after it: ("(", "good", ")",)."""
    match = _EDGES.match(token)
    assert match is not None  # the pattern takes every string
    return match[1], match[2], match[3]


@dataclass(frozen=True)
class SplitText:
    """A text as tokens between white space, and the white space around them."""

    tokens: tuple[str, ...]
    whitespace: tuple[str, ...]

    @staticmethod
    def of(text: str) -> "SplitText":
        return SplitText(tuple(_TOKEN.findall(text)), tuple(_TOKEN.split(text)))

    def joined(self, tokens: Sequence[str]) -> str:
        """Return the text with other tokens; an empty token also removes the space after it."""
        parts = [self.whitespace[0]]
        for number, token in enumerate(tokens):
            parts += [token, self.whitespace[number + 1]] if token else []
        return "".join(parts)

    @cached_property
    def positions(self) -> tuple[int, ...]:
        """The numbers of the tokens that are not punctuation alone."""
        return tuple(number for number, token in enumerate(self.tokens) if split_punctuation(token)[1])

    def word(self, number: int) -> str:
        return split_punctuation(self.tokens[number])[1]


def match_case(word: str, model: str) -> str:
    """Return the word in the case of the model word: in capitals, with a capital, or as it is."""
    if len(model) > 1 and model.isupper():
        return word.upper()
    return word[:1].upper() + word[1:] if model[:1].isupper() else word


WORD_CONSTRAINTS = ("labels", "stopwords", "numbers")

# Words that carry grammar and little meaning. Negations are not among them: an attack may garble "not".
_GRAMMAR = """
a an the this that these those i me my we our us you your he him his she her it its they them their who whom whose which
what am is are was were be been being do does did have has had will would shall should can could may might must and or
but if then than so as of at by for with about into to from in out on off over under up down again there here when where
why how also just very too
"""
STOPWORDS = frozenset(_GRAMMAR.split())
_NO = """
no not nor never none nothing nobody nowhere neither without cannot hardly barely scarcely seldom rarely n't t
"""
NEGATIONS = frozenset(_NO.split())  # "t" is what "don't" ends in where a tokenizer splits at the apostrophe


def label_words(labels: Iterable[str]) -> frozenset[str]:
    """Return the words in names of labels, in small letters."""
    return frozenset(re.findall(r"[^\W\d_]+", " ".join(labels).lower()))


def has_digit(word: str) -> bool:
    return any(map(str.isdigit, word))


def is_negation(word: str) -> bool:
    small = word.lower()
    return small in NEGATIONS or small.endswith(("n't", "n’t"))


def word_constraint(kinds: Iterable[str], labels: Iterable[str] = ()) -> Callable[[str], bool]:
    """Return the test for words that must not change: words of the names of labels, stop-words, numbers."""
    names = label_words(labels)
    tests: dict[str, Callable[[str], bool]] = {
        "labels": lambda word: word.lower() in names,
        "stopwords": lambda word: word.lower() in STOPWORDS,
        "numbers": has_digit,
        "negations": is_negation,
    }
    chosen = [tests[kind] for kind in kinds]
    return lambda word: any(test(word) for test in chosen)
