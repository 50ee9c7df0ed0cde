"""How robust is a classifier that no library knows? A word list as a function, scanned without training."""

import json
import tempfile
from collections.abc import Sequence
from pathlib import Path

import toughen
from toughen.demo import sentences

GOOD = {*sentences.SEEN.good, *sentences.SEEN.liked}


def by_words(texts: Sequence[str]) -> list[list[float]]:
    """Return probabilities of the two labels: positive if some word of the list is there."""
    chances = [0.9 if GOOD & set(text.lower().split()) else 0.3 for text in texts]
    return [[1 - chance, chance] for chance in chances]


with tempfile.TemporaryDirectory() as folder:
    file = Path(folder) / "reviews.jsonl"
    file.write_text("".join(json.dumps(row) + "\n" for row in sentences.rows(60, "test")))
    scan = toughen.scan(by_words, file=file, labels=sentences.LABELS, out=folder)
    print(scan.decision)
    for each in scan.checks:
        print(f"{each.check.title}: {each.score.value:.2f}, lost {each.points} points")
        if each.examples:
            print("  for example:", each.examples[0].changed["text"])
    print("left out:", ", ".join(scan.left_out))
