"""Attacked examples to read, with the words that changed marked; few enough for a page, evenly taken from all."""

import difflib
import html
import re
from collections.abc import Mapping, Sequence
from typing import Any

from .attacks import Attack
from .folder import Run

MOST, BYTES, LONGEST = 240, 240_000, 700  # examples and their bytes on a page; letters of a text
STATUSES = {"succeeded": "fooled", "failed": "held", "skipped": "wrong already"}
_SHARES = {"succeeded": 0.7, "failed": 0.2, "skipped": 0.1}  # the model's failures are what a reader looks for


def attack_examples(sources: Sequence[tuple[str, Run, Attack]]) -> dict[str, Any] | None:
    """Examples of every attack that kept some; `sources` name the model, the run and the attack."""
    with_rows = [
        (name, attack, rows) for name, run, attack in sources if (rows := run.attacked_rows(attack.sources[0]))
    ]
    if not with_rows:
        return None
    quota, room = max(3, MOST // len(with_rows)), BYTES // len(with_rows)
    shown: list[dict[str, Any]] = []
    for name, attack, rows in with_rows[: MOST // 3]:
        made = [_example(row, name, attack.title) for row in _chosen(rows, quota)]
        weight = sum(each["weight"] for each in made)
        if weight > room:  # long texts: fewer of them, of every outcome
            fewer = max(3, quota * room // weight)
            made = [_example(row, name, attack.title) for row in _chosen(rows, fewer)]
        shown += made
    return {
        "examples": shown,
        "total": sum(len(rows) for _, _, rows in with_rows),
        "models": list(dict.fromkeys(each["model"] for each in shown)),
        "attacks": list(dict.fromkeys(each["attack"] for each in shown)),
        "statuses": [word for word in STATUSES.values() if any(each["status"] == word for each in shown)],
    }


def _chosen(rows: Sequence[Mapping[str, Any]], quota: int) -> list[Mapping[str, Any]]:
    """Rows of every status at even distances: no status crowds out the others, and the same rows every time."""
    by_status = {status: [row for row in rows if row.get("status") == status] for status in STATUSES}
    room = {status: min(len(by_status[status]), max(1, round(quota * _SHARES[status]))) for status in STATUSES}
    room["succeeded"] = min(len(by_status["succeeded"]), quota - room["failed"] - room["skipped"])
    kept: list[Mapping[str, Any]] = []
    for status, found in by_status.items():
        count = room[status]
        kept += [found[index * len(found) // count] for index in range(count)]
    return kept


def _example(row: Mapping[str, Any], model: str, attack: str) -> dict[str, Any]:
    original, perturbed = row.get("original") or {}, row.get("perturbed") or {}
    changed: dict[str, set[int]] = {}
    for column, index in row.get("changed") or ():
        changed.setdefault(str(column), set()).add(int(index))
    texts = [
        _pair(str(column), str(text), str(perturbed.get(column, text)), changed) for column, text in original.items()
    ]
    runs = [run for text in texts for side in ("before", "after") for run in text[side]]
    size = sum(len(html.escape(words)) + 24 * marked for words, marked in runs)
    return {
        "model": model,
        "attack": attack,
        "index": row.get("index", ""),
        "status": STATUSES.get(str(row.get("status")), ""),
        "label": str(row.get("label", "")),
        "before": _answer(row, "before"),
        "after": _answer(row, "after"),
        "queries": row.get("queries"),
        "texts": texts,
        "weight": size + 450,  # the tags around it
    }


def _answer(row: Mapping[str, Any], when: str) -> str:
    answer, sure = row.get(f"prediction_{when}"), row.get(f"probability_{when}")
    if answer is None:
        return ""
    return f"{answer} {float(sure):.2f}" if isinstance(sure, (int, float)) else str(answer)


def _pair(column: str, before: str, after: str, changed: Mapping[str, set[int]]) -> dict[str, Any]:
    """Both texts as runs of (text, is it marked): what the attack took away, and what it put there."""
    old, new = before.split(), after.split()
    removed, added = _differences(old, new)
    added = added | changed.get(column, set()) if before != after else set[int]()
    return {
        "column": column,
        "same": before == after,
        "blanks": before != after and not removed and not added,  # nothing changed that a page would show
        "before": _runs(before, removed),
        "after": _runs(after, added) if before != after else [],
    }


def _differences(old: Sequence[str], new: Sequence[str]) -> tuple[set[int], set[int]]:
    """Which words of the one are not in the other, by their numbers."""
    if len(old) == len(new):  # words were put in the places of words
        places = {number for number, (a, b) in enumerate(zip(old, new, strict=True)) if a != b}
        return places, places
    first = next((n for n, (a, b) in enumerate(zip(old, new, strict=False)) if a != b), min(len(old), len(new)))
    limit = min(len(old), len(new)) - first
    pairs = zip(reversed(old), reversed(new), strict=False)
    last = min(limit, next((n for n, (a, b) in enumerate(pairs) if a != b), limit))
    old, new = old[first : len(old) - last], new[first : len(new) - last]
    removed, added = set(range(first, first + len(old))), set(range(first, first + len(new)))
    if max(len(old), len(new)) <= 300:  # what matches between first and last change; slow for more
        for a, c, size in difflib.SequenceMatcher(None, old, new, False).get_matching_blocks():
            removed -= set(range(first + a, first + a + size))
            added -= set(range(first + c, first + c + size))
    return removed, added


def _runs(text: str, marked: set[int]) -> list[tuple[str, bool]]:
    """The text cut where the marking changes; of a long text the words around the marked ones."""
    words = [(found.group(), number in marked) for number, found in enumerate(re.finditer(r"\S+", text))]
    runs: list[tuple[str, bool]] = []
    length, last = 0, -1
    for number in _kept(words):
        word, state = words[number]
        if number > last + 1:
            runs.append((" … " if runs else "… ", False))
        elif runs:
            # A blank between two marked words is marked with them.
            _add(runs, " ", state and runs[-1][1])
        _add(runs, word[:LONGEST], state)
        length, last = length + len(word) + 1, number
        if length > LONGEST:
            break
    if last < len(words) - 1 or any(len(word) > LONGEST for word, _ in words):
        runs.append((" …", False))
    return runs


def _kept(words: Sequence[tuple[str, bool]]) -> list[int]:
    marked = [number for number, (_, state) in enumerate(words) if state]
    if not marked or sum(len(word) + 1 for word, _ in words) <= LONGEST:
        return list(range(len(words)))
    return sorted({n for index in marked for n in range(max(0, index - 12), min(len(words), index + 13))})


def _add(runs: list[tuple[str, bool]], text: str, state: bool) -> None:
    if runs and runs[-1][1] == state:
        runs[-1] = (runs[-1][0] + text, state)
    else:
        runs.append((text, state))
