"""Make the data, train three methods, compare them on every split."""

import csv
import os
import shutil
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from .._version import __version__
from ..evaluation.measures import measure
from ..evaluation.outputs import Outputs
from ..internal.atomic import write_json, write_text
from ..reports import report
from ..reports.folder import Run, read_run
from ..runs.api import resume, train
from ..runs.config_io import to_yaml
from ..statistics import bootstrap_of
from .encoder import SENTIMENT, find
from .grammar import LABELS, MOST, SPLITS, Row, make, rows

METHODS = ("plain", "smart", "freelb")
# Further seeds are trained only if the first one says that they end within this many seconds.
BUDGET = 200.0
FILE = "demo-sentiment.csv"
Answers = dict[str, Any]
"""Split -> whether each of its rows was answered correctly."""


def demo(
    out: "str | os.PathLike[str]" = "demo-report",
    *,
    seeds: Sequence[int] = (1, 2),
    model: str | None = None,
    limit: int | None = None,
    say: Callable[[str], Any] | None = None,
) -> dict[str, list[Answers]]:
    """Train plain and two robust methods, print accuracy on every split, write runs and report.html into `out`.

    Returns the answers of each method, one entry for each seed.
    """
    folder = Path(out)
    if folder.is_file() or any((folder / name).is_file() for name in ("results.json", "began.json")):
        raise ValueError(f"{folder} is a run or a file, and nothing is overwritten; choose another --out.")
    if limit is not None and not 2 <= limit <= MOST:
        raise ValueError(f"limit={limit}: give 2 to {MOST} training rows; the grammar has not many more sentences.")
    if not seeds:
        raise ValueError("seeds is empty: give at least one seed to train with.")
    say, began, encoder = say or _print, time.monotonic(), find(model)
    _use_one_thread_if_busy(say)
    data = make(train=limit or 320)
    say(f"{encoder.name}, {len(data['train'])} synthetic sentences to learn from, {len(data['clean'])} in each test.")
    say(f"{', '.join(METHODS)}, each with {_listed(seeds)}; a further seed only if it can end within {BUDGET:.0f} s.")
    if encoder.notice:
        say(encoder.notice)
    files = _write(folder, data)
    if encoder.folder is None:
        encoder.model(0).save_pretrained(files / "encoder")
        encoder.tokenizer().save_pretrained(files / "encoder")
    options: dict[str, Any] = {
        "model": encoder.folder or files / "encoder",
        "data": {
            "train_file": files / FILE,
            "validation_file": files / "validation.csv",
            "test_file": files / "test.csv",
            "cache_dir": files / "cache",
            "max_length": 48,
        },
        "train": {
            "epochs": 3,
            "batch_size": 16,
            "eval_batch_size": 64,
            "learning_rate": 1e-4 if encoder.folder else 3e-3,
            "warmup": 0.1,
            "log_steps": 5,
        },
    }
    started = time.monotonic()
    runs = [train(name, seeds=[seeds[0]], output_dir=folder / name, **options) for name in METHODS]
    fit = int((BUDGET - (started - began)) / (time.monotonic() - started))
    done, left = seeds[: max(1, fit)], seeds[max(1, fit) :]
    if left:
        say(f"{time.monotonic() - began:.0f} s are over; left out: {_listed(left)}.")
    for run in runs if len(done) > 1 else ():
        write_text(run.path / "config.yaml", to_yaml(replace(run.config, seed=tuple(done))))
        resume(run)
    found = {run.path.name: read_run(run.path) for run in runs}
    answers = {name: [_answers(run, seed, data) for seed in done] for name, run in found.items()}
    for run in found.values():
        _write_evaluations(run, done, data, encoder.tokenizer())
    notes = [
        f"All scores are {'means over' if len(done) > 1 else 'of'} {_listed(done)}.",
        *([encoder.notice] if encoder.notice else []),
        "All texts are synthetic: they come from a grammar inside toughen, and a tenth of the training labels are "
        f"wrong on purpose. The encoder is {'a real one' if encoder.folder else 'random, too'}.",
        "The best epoch was chosen on further sentences; nothing was selected on the splits shown.",
    ]
    verdicts = [sentence(name, answers) for name in METHODS[1:]]
    for line in (*table(answers, found), *verdicts, *notes):
        say(line)
    title = "Demo: plain and robust fine-tuning"
    page = report([run.path for run in runs], folder / "report.html", title=title, intro=[*verdicts, *notes])
    say(f"{time.monotonic() - began:.0f} s in all. The page: {page}")
    return answers


def _write(folder: Path, data: Mapping[str, Sequence[Row]]) -> Path:
    """Write the training, validation and test files; the test file holds all splits, one after the other."""
    files = folder / "data"
    if (files / FILE).is_file():  # an earlier demo
        for name in (*METHODS, "data"):
            shutil.rmtree(folder / name, ignore_errors=True)
    files.mkdir(parents=True)
    further = rows(200, "validation", without=[*data["train"], *data["clean"]])
    test = [row for split in SPLITS for row in data[split]]
    for name, table in ((FILE, data["train"]), ("validation.csv", further), ("test.csv", test)):
        with (files / name).open("w", newline="", encoding="utf-8") as file:
            writer = csv.DictWriter(file, ["text", "label"])
            writer.writeheader()
            writer.writerows(table)
    return files


def _answers(run: Run, seed: int, data: Mapping[str, Sequence[Row]]) -> dict[str, Any]:
    """Read a seed's predictions of the test file and cut them into splits."""
    predicted = run.predictions(seed, "test")
    assert predicted is not None  # the run has just written them
    found, start = {}, 0
    for split in SPLITS:
        labels = [row["label"] for row in data[split]]
        found[split] = np.array(predicted.answers[start : start + len(labels)]) == np.array(labels)
        start += len(labels)
    return found


def _write_evaluations(run: Run, seeds: Sequence[int], data: Mapping[str, Sequence[Row]], tokenizer: Any) -> None:
    """Write one evaluation for each split, with the rows of all seeds, so that the report shows them."""
    scores = [run.predictions(seed, "test") for seed in seeds]
    start, note = 0, "The seeds answered the same rows, which the interval takes for different rows: it is too narrow."
    for split, title in SPLITS.items():
        part = slice(start, start + len(data[split]))
        start = part.stop
        logits = np.log(np.clip([row for each in scores if each for row in (each.probabilities or [])[part]], 1e-9, 1))
        labels = np.array([LABELS.index(row["label"]) for row in data[split]] * len(seeds))
        lengths = [len(ids) for ids in tokenizer([row["text"] for row in data[split]])["input_ids"]] * len(seeds)
        notes = [title, *([note] if len(seeds) > 1 else [])]
        evaluation = measure(
            SENTIMENT, Outputs(logits, labels, np.array(lengths)), name=split, split=split, notes=notes
        )
        write_json(run.path / "evaluations" / f"{split}.json", {"toughen": __version__, **evaluation.to_dict()})


def table(answers: Mapping[str, Sequence[Answers]], runs: Mapping[str, Run]) -> list[str]:
    """List accuracy on every split, the mean over seeds, and the time of a step as a multiple of plain's."""
    widths = {split: max(len(split), 6) for split in SPLITS}
    lines = ["", "method   " + "  ".join(f"{split:>{width}}" for split, width in widths.items()) + "   cost"]
    step = {name: np.mean([seed.seconds_per_step or np.nan for seed in run.seeds()]) for name, run in runs.items()}
    for name, each in answers.items():
        scores = [np.mean([one[split] for one in each]) for split in SPLITS]
        cells = "  ".join(f"{score:>{width}.3f}" for score, width in zip(scores, widths.values(), strict=True))
        lines.append(f"{name:8} {cells}  {step[name] / step['plain']:4.1f}x")
    return [*lines, ""]


def sentence(name: str, answers: Mapping[str, Sequence[Answers]]) -> str:
    """Say where a method differs from plain by more than chance on these rows (95 % paired bootstrap)."""
    better: list[str] = []
    worse: list[str] = []
    for split in SPLITS:
        # Seeds answer the same rows: a row is drawn with all its answers, or two seeds would count as twice the rows.
        right = [np.mean([one[split] for one in answers[each]], axis=0) for each in (name, "plain")]
        test = bootstrap_of(right[0] - right[1])
        if test.low is not None and test.high is not None and (test.low > 0 or test.high < 0):
            (better if test.difference > 0 else worse).append(f"{split} ({test.difference:+.3f})")
    parts = [f"better on {', '.join(better)}"] if better else []
    parts += [f"worse on {', '.join(worse)}"] if worse else []
    if not parts:
        return f"{name}: no split differs from plain by more than chance on these rows."
    rest = "" if len(better) + len(worse) == len(SPLITS) else "; no clear difference elsewhere"
    return f"{name} against plain: {' and '.join(parts)}{rest}."


def _use_one_thread_if_busy(say: Callable[[str], Any]) -> None:
    """Use one thread if other programs keep the cores busy: two that wait for each other are slower than one."""
    import torch

    if hasattr(os, "getloadavg") and os.getloadavg()[0] > (os.cpu_count() or 1) / 2 and torch.get_num_threads() > 1:
        torch.set_num_threads(1)
        say("The machine is busy: one thread, which is then faster than two.")


def _listed(seeds: Sequence[int]) -> str:
    return f"seed{'s' * (len(seeds) > 1)} {', '.join(map(str, seeds))}"


def _print(line: str) -> None:
    sys.stdout.write(f"{line}\n")
    sys.stdout.flush()
