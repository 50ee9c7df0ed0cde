"""CoNLL files: a word and its tag on a line, a blank line between sentences."""

import re
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

from ..spec import DataError
from .lines import Format, Raw, lines

ENTITY = re.compile(r"^(?:O|[BIESLU]-.+)$")


def read_conll(path: Path, form: Format) -> Iterator[Raw]:
    """Sentences as `tokens` and `tags`; IOB1 and IOBES tags are turned into IOB2."""
    tagged = scheme(path, form)
    row = 0
    for line, words, tags in _sentences(path, form):
        row += 1
        yield Raw(row, line, {"tokens": words, "tags": to_iob2(tags) if tagged != "IOB2" else tags})
    if not row:
        raise DataError(f"{path} has no sentences; write a word and its tag on each line.")


def scheme(path: Path, form: Format) -> str:
    """IOB1, IOBES, IOB2 or plain tags, as the file uses them."""
    return _scheme(tags for _, _, tags in _sentences(path, form))


def to_iob2(tags: Sequence[str]) -> list[str]:
    """The same entities, each beginning with B-."""
    out: list[str] = []
    before = "O"
    for tag in tags:
        prefix, _, kind = tag.partition("-")
        if prefix in ("S", "U"):
            prefix = "B"
        elif prefix in ("E", "L"):
            prefix = "I"
        if prefix == "I" and before.partition("-")[2] != kind:
            prefix = "B"
        out.append(f"{prefix}-{kind}" if kind else tag)
        # After the end of an entity the next I- starts a new one.
        before = "O" if tag.startswith(("S-", "U-", "E-", "L-")) else tag
    return out


def _scheme(sentences: Iterable[Sequence[str]]) -> str:
    begun = loose = 0
    entities, closed = True, False
    for tags in sentences:
        before = "O"
        for tag in tags:
            entities = entities and bool(ENTITY.match(tag))
            closed = closed or tag.startswith(("S-", "E-", "L-", "U-"))
            begun += tag.startswith("B-")
            loose += tag.startswith("I-") and before.partition("-")[2] != tag[2:]
            before = tag
    if not entities:
        return "IOB2"
    if closed:
        return "IOBES"
    # A few loose I- in an IOB2 file are slips of its annotators, not another scheme.
    return "IOB1" if loose > begun else "IOB2"


def _is_comment(line: str, cells: Sequence[str], width: int, tabs: bool) -> bool:
    """Whether a line before a sentence speaks of it, as `# sent_id = 3` does; `# #` is a word and its tag."""
    if not line.startswith("# ") or "\t" in line:
        return False
    return tabs or len(cells) != (width or 2) or cells[2:3] == ["="] or cells[1] in ("newdoc", "newpar")


def _sentences(path: Path, form: Format) -> Iterator[tuple[int, list[str], list[str]]]:
    words: list[str] = []
    tags: list[str] = []
    width = start = 0
    tabs = False
    for number, line in enumerate(lines(path, form), start=1):
        bare = line.rstrip("\r\n")
        if not bare.strip() or bare.startswith("-DOCSTART-"):
            if words:
                yield start, words, tags
            words, tags = [], []
            continue
        cells = bare.split("\t") if "\t" in bare else bare.split()
        if not words and _is_comment(bare, cells, width, tabs):
            continue
        width, tabs = width or len(cells), tabs or "\t" in bare
        if len(cells) != width or width < 2:
            raise DataError(
                f"{path}, line {number}: has {len(cells)} columns where {max(width, 2)} are expected (word, ..., tag); "
                "mend the line or separate sentences by a blank line."
            )
        start = start if words else number
        words.append(cells[0])
        tags.append(cells[form.tag_column])
    if words:
        yield start, words, tags
