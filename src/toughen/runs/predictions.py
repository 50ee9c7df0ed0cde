"""Predictions as a table: index, prediction, and where they are known the label and the probabilities."""

import json
from pathlib import Path
from typing import Any

import numpy as np

from ..internal.atomic import write_text
from ..tasks import Task, answers_of
from ..tasks.tokenising import IGNORED


def table(task: Task, logits: Any, labels: Any = None) -> str:
    """The text of predictions/<split>.tsv."""
    labels = None if labels is None or not len(labels) else labels
    chances = probabilities(task, logits)
    lines = [
        "index\tprediction" + ("" if labels is None else "\tlabel") + ("" if chances is None else "\tprobabilities")
    ]
    answers = answers_of(task, logits)
    for row in range(len(answers)):
        told = None if labels is None else labels[row]
        kept = None if task.head != "tokens" or told is None else np.asarray(told) != IGNORED
        cells = [str(row), format_label(task, answers[row], kept)]
        if told is not None:
            cells.append(format_label(task, told, kept))
        if chances is not None:
            cells.append(json.dumps([round(float(value), 6) for value in chances[row]]))
        lines.append("\t".join(cells))
    return "\n".join(lines) + "\n"


def write(path: Path, task: Task, logits: Any, labels: Any = None) -> None:
    write_text(path, table(task, logits, labels))


def probabilities(task: Task, logits: Any) -> Any:
    """Softmax for classes and choices, a sigmoid each for several labels; nothing for the others."""
    values = np.asarray(logits, dtype=np.float64)
    if task.head == "multilabel":
        return 1 / (1 + np.exp(-values))
    if task.head in ("regression", "tokens"):
        return None
    powers = np.exp(values - values.max(axis=-1, keepdims=True))
    return powers / powers.sum(axis=-1, keepdims=True)


def format_label(task: Task, answer: Any, kept: Any = None) -> str:
    """An answer in words: the label's name, a number, or JSON where there are several."""
    if task.head == "regression":
        return f"{float(np.asarray(answer).reshape(())):.6g}"
    if task.head == "multilabel":
        return json.dumps([name for name, on in zip(task.labels, answer, strict=True) if on])
    if task.head == "tokens":
        numbers = np.asarray(answer)[: len(kept)][kept] if kept is not None else np.asarray(answer)
        return json.dumps([task.labels[int(number)] for number in numbers])
    return task.labels[int(answer)] if int(answer) >= 0 else ""


def read_predictions(path: Path) -> list[str]:
    """The column `prediction` of a table."""
    lines = path.read_text(encoding="utf-8").removesuffix("\n").split("\n")  # not at every break that Unicode knows
    place = lines[0].split("\t").index("prediction")
    return [line.split("\t")[place] for line in lines[1:]]
