"""Attacks on texts in the same runs: what they need travels in the prepared file, and their scores join a run's row."""

import json
import tempfile
import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from torch import nn
from transformers import AutoTokenizer

from toughen.attacks.builtin.characters import CharacterAttack
from toughen.attacks.builtin.synonyms import SynonymAttack
from toughen.attacks.target import Target
from toughen.attacks.text_attack import TextAttack
from toughen.attacks.victim import Victim
from toughen.tasks.spec import Task
from toughen.text.synonyms import load_synonyms
from toughen.text.words import SplitText

from .protocol import Protocol

Rows = Sequence[Mapping[str, Any]]


def has_texts(task: Task) -> bool:
    """Whether searches over texts attack the task: one text or a pair, and an answer that is right or wrong."""
    return task.is_single_label and task.head != "choices"


def packed_texts(
    tokenizer: Any, rows: Mapping[str, Rows], learned: Iterable[str], synonyms: Mapping[str, Path]
) -> dict[str, Any]:
    """Return as JSON the tokenizer's files, the texts by task, and of each source the synonyms of their words.

    Words of the texts that are learned from have synonyms, too: methods that edit texts read them.
    """
    with tempfile.TemporaryDirectory() as folder:
        files = {Path(name).name: Path(name).read_text("utf-8") for name in tokenizer.save_pretrained(folder)}
    texts = [text for some in rows.values() for row in some for text in row.values() if isinstance(text, str)]
    words = {
        split.word(number).lower() for split in map(SplitText.of, (*texts, *learned)) for number in split.positions
    }
    tables: dict[str, dict[str, list[str]]] = {}
    for name, path in synonyms.items():
        table, _ = load_synonyms(path)
        tables[name] = {word: list(table[word]) for word in sorted(words & table.keys())}
    return {"tokenizer": files, "rows": {task: [dict(row) for row in some] for task, some in rows.items()}} | {
        "synonyms": tables
    }


def tokenizer_of(texts: Mapping[str, Any]) -> Any:
    """Return the tokenizer that a file prepared with texts holds."""
    with tempfile.TemporaryDirectory() as folder:
        for name, content in texts["tokenizer"].items():
            (Path(folder) / name).write_text(content, "utf-8")
        return AutoTokenizer.from_pretrained(folder)


@dataclass(frozen=True)
class Texts:
    """The texts of a prepared file with the attacks on them, by the names of their columns."""

    tokenizer: Any
    rows: Mapping[str, Rows]
    attacks: Mapping[str, TextAttack]

    @staticmethod
    def of(facts: Mapping[str, Any], protocol: Protocol) -> "Texts | None":
        """Unpack the texts of a file; None if it was prepared without them."""
        if (packed := facts.get("texts")) is None:
            return None
        budget: Any = {"queries": protocol.text_queries, "words": protocol.text_words}
        attacks: dict[str, TextAttack] = {"characters": CharacterAttack(**budget)}
        tokenizer = tokenizer_of(packed)
        with tempfile.TemporaryDirectory() as folder:
            for name, table in packed["synonyms"].items():
                file = Path(folder) / "synonyms.json"
                file.write_text(json.dumps(table), "utf-8")
                attacks[f"synonyms {name}"] = SynonymAttack(synonyms=file, **budget)
        return Texts(tokenizer, packed["rows"], attacks)

    def attack(self, model: nn.Module, task: Task, max_length: int) -> tuple[dict[str, float], dict[str, float]]:
        """Return accuracy after each attack, and its seconds for 1,000 rows."""
        rows = self.rows[task.name]
        victim = Victim(model, self.tokenizer, task, max_length=max_length)
        target = Target(victim, rows, victim.exact(rows), np.asarray([row["label"] for row in rows]))
        scores: dict[str, float] = {}
        seconds: dict[str, float] = {}
        for name, attack in self.attacks.items():
            began = time.perf_counter()
            records = [record for part in attack.run_items(target, range(len(rows))) for record in part]
            scores[name] = sum(record["status"] == "failed" for record in records) / len(rows)
            seconds[name] = 1000 * (time.perf_counter() - began) / len(rows)
        return scores, seconds
