"""A few rows of own data for every head."""

import json
from pathlib import Path

HEADS = ("classes", "pair", "regression", "multilabel", "tokens", "choices")

TEXTS = [
    "the film is good",
    "a dull story",
    "the acting is bright and the plot is good",
    "bad",
    "not a good ending",
    "slow and dull and bad all the way to the ending",
    "quite good",
    "the story is not bad",
]
LABELS = ["good", "bad", "good", "bad", "bad", "bad", "good", "good"]


def rows_of(head: str) -> list[dict]:
    """Eight rows of own data for a head, as JSON lines hold them."""
    if head == "classes":
        return [{"text": text, "label": label} for text, label in zip(TEXTS, LABELS, strict=True)]
    if head == "pair":
        pairs = zip(TEXTS, reversed(TEXTS), LABELS, strict=True)
        return [{"sentence1": one, "sentence2": two, "label": label} for one, two, label in pairs]
    if head == "regression":
        return [{"text": text, "label": len(text) / 10} for text in TEXTS]
    if head == "multilabel":
        return [{"text": text, "label": sorted({"good", "bad", "dull"} & set(text.split()))} for text in TEXTS]
    if head == "tokens":
        tags = {"film": "B-WORK", "story": "B-WORK", "acting": "B-PART", "plot": "B-PART", "ending": "I-WORK"}
        return [
            {"tokens": text.split(), "tags": [tags.get(word, "O") for word in text.split()]}
            for text in (*TEXTS, "unacting story ending")
        ]
    return [
        {"context": text, "question": "it is", "choices": ["good", "bad and dull", text[:5]], "label": place % 3}
        for place, text in enumerate(TEXTS)
    ]


def write_jsonl(path: Path, rows: list[dict]) -> Path:
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return path
