"""Show a run: a live bar on a terminal, plain lines elsewhere; all lines go to train.log too."""

import logging
import math
import re
import sys
import time
import warnings
from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import contextmanager, suppress
from datetime import datetime
from pathlib import Path
from typing import Any

from ..errors import RobustnessWarning, count_of

_TERMINAL_CODES = re.compile(r"\x1b\[[0-9;?]*[ -/]*[@-~]")  # colours and moves of the cursor, as libraries write them
QUIET_SECONDS = 5.0  # between two plain lines of training


class ProgressLogger:
    """Shows what happens; only that of rank 0 speaks."""

    def __init__(self, file: Path | None = None, speak: bool = True) -> None:
        self.file, self.speak = file, speak
        self.bar: Any = None
        self._task: Any = None
        self._began = (0, 0.0)
        self._total = 0
        self._last_line = 0.0
        self._logged = 0
        self._head, self._selects, self._best = "", "", float("-inf")
        self._names: Sequence[str] = ()
        self._epochs = 0.0
        self._explained = False
        self._losses: list[tuple[int, float]] = []  # (updates, their mean loss) since the last scores
        self._variant, self._later = "", list[str]()
        self._costs: Mapping[str, float] = {}
        self._whole: dict[str, float] = {}  # seconds of a whole seed, by variant, as far as one is done

    def plan(self, variant: str, later: Sequence[str], costs: Mapping[str, float]) -> None:
        """Note the variant of the next seed and those of all after it; `costs` are passes, in plain ones."""
        self._variant, self._later, self._costs = variant, list(later), costs

    def log(self, text: str) -> None:
        """Write one line to the screen and the file."""
        if self.speak:
            write_line(text, self.file, self.bar)

    def begin(self, head: str, names: Sequence[str], selects: str, state: Any) -> None:
        """Training of a seed starts, or goes on; `names` are the methods', `selects` the metric, `state` Trainer's."""
        step, total, self._epochs = state.global_step, state.max_steps, state.num_train_epochs
        self._head, self._names, self._selects = head, names, selects
        self._best = float("-inf") if state.best_metric is None else state.best_metric
        self._began, self._total = (step, time.perf_counter()), total
        self._logged, self._losses = step, []
        if not self.speak:
            return
        again = f", from step {step}" if step else ""
        epochs = "1 epoch" if self._epochs == 1 else f"{self._epochs:g} epochs"
        self.log(f"{self._head}: {count_of(total, 'update')} in {epochs}{again}")
        if sys.stdout.isatty():
            self._open(step, total)

    def _open(self, step: int, total: int) -> None:
        with suppress(ImportError):
            from rich.progress import BarColumn, MofNCompleteColumn, Progress, ProgressColumn, TextColumn
            from rich.table import Column
            from rich.text import Text

            class Facts(ProgressColumn):
                """Gives way on a narrow terminal; the others stay."""

                def render(self, task: Any) -> Text:
                    return Text(task.fields["facts"], no_wrap=True, overflow="ellipsis")

            fixed = (
                BarColumn(bar_width=16, table_column=Column(no_wrap=True)),
                MofNCompleteColumn("/", Column(no_wrap=True)),
            )
            left = TextColumn("{task.fields[left]}")
            self.bar = Progress(TextColumn("{task.description}"), *fixed, left, Facts(), transient=True)
            self.bar.start()
            self._task = self.bar.add_task(self._head, total=total, completed=step, facts="", left="")

    def step(self, step: int, epoch: float) -> None:
        if self.bar is not None:
            now = min(math.floor(epoch) + 1, math.ceil(self._epochs))
            head = f"{self._head} epoch {now}/{self._epochs:g}"
            self.bar.update(self._task, completed=step, description=head, left=self._eta(step))

    def log_row(self, row: Mapping[str, Any], terms: Mapping[str, float]) -> None:
        """Show a row of metrics.jsonl; `terms` are the weights of what is added to the clean loss."""
        if not self.speak:
            return
        if row["kind"] == "eval":
            self._scores(row)
            return
        self._losses.append((row["step"] - self._logged, row["loss"]))
        self._logged = row["step"]
        facts, pace = format_loss_terms(row, terms, self._names), f"{self._pace(row['step']):.1f} it/s"
        if self.bar is not None:
            self.bar.update(self._task, facts=f"{pace} · {facts}")
        elif time.perf_counter() - self._last_line > QUIET_SECONDS or row["step"] == self._total:
            self._last_line = time.perf_counter()
            self.log(f"{self._head} step {row['step']}/{self._total}: {facts} · {pace} · {self._eta(row['step'])}")

    def _scores(self, row: Mapping[str, Any]) -> None:
        scores = {key.removeprefix("eval_"): value for key, value in row.items() if key.startswith("eval_")}
        hidden = ("runtime", "samples_per_second", "steps_per_second", "model_preparation_time")
        shown = [
            f"{'eval loss' if name == 'loss' else name} {value:.4f}"
            for name, value in scores.items()
            if name not in hidden
        ]
        if updates := sum(count for count, _ in self._losses):
            mean = sum(count * loss for count, loss in self._losses) / updates
            shown.insert(0, f"train loss {mean:.4f}")
        self._losses = []
        score = scores.get(self._selects, float("nan"))
        if score > self._best:
            mark = "*" if self._explained else "* (the best so far)"  # in words once a run
            self._best, shown[-1], self._explained = score, f"{shown[-1]}  {mark}", True
        self.log(f"{self._head} epoch {row['epoch']:g} (step {row['step']}): {' · '.join(shown)}")

    def _eta(self, step: int) -> str:
        """Return the time left of the run: of this seed and, by what is known so far, of those after it."""
        left = (self._total - step) / self._pace(step)
        whole = self._total / self._pace(step)
        for variant in self._later:
            guess = whole * self._costs.get(variant, 1.0) / self._costs.get(self._variant, 1.0)
            left += self._whole.get(variant, guess)
        return f"ETA {format_duration(left)}"

    def _pace(self, step: int) -> float:
        return max(step - self._began[0], 1) / max(time.perf_counter() - self._began[1], 1e-9)

    def end(self) -> None:
        """Training of the seed is over."""
        if self._total > self._began[0]:
            seconds = time.perf_counter() - self._began[1]
            self._whole[self._variant] = seconds * self._total / (self._total - self._began[0])
        if self.bar is not None:
            self.bar.stop()
            self.bar = None


def write_line(text: str, log: Path | None, live: Any) -> None:
    """Write a line above what is `live` on the terminal, or alone; with the time to a log."""
    if log is not None:
        with log.open("a", encoding="utf-8") as file:
            file.write(f"{datetime.now():%Y-%m-%d %H:%M:%S} {_TERMINAL_CODES.sub('', text)}\n")
    with suppress(OSError):  # nobody reads any more (| head, a closed terminal); the work goes on
        if live is not None:
            live.console.print(text, highlight=False, markup=False, soft_wrap=True)
        else:
            sys.stdout.write(text + "\n")
            sys.stdout.flush()


class _PlainFormatter(logging.Formatter):
    """Leaves terminal codes out: a log is read by editors and by grep."""

    def format(self, record: logging.LogRecord) -> str:
        return _TERMINAL_CODES.sub("", super().format(record))


def format_duration(seconds: float | None) -> str:
    """Return hours, minutes and seconds; a dash if unknown."""
    if seconds is None:
        return "-"
    total = max(int(seconds), 0)
    hours = f"{total // 3600}:{total // 60 % 60:02d}" if total >= 3600 else f"{total // 60}"
    return f"{hours}:{total % 60:02d}"


def format_loss_terms(row: Mapping[str, Any], terms: Mapping[str, float], names: Sequence[str]) -> str:
    """Return `loss 0.41 = clean 0.36 + 1 x smart 0.05 · |delta| 3.0% · 2.7x plain`; without the sum if it is none."""
    parts = [f"loss {row['loss']:.4f}"]
    if row.get("cost", 0.0) > 1:
        clean = row.get("robust/loss_clean", row.get("robust/0/loss_clean"))
        if clean is not None and terms and all(key in row for key in terms):
            parts[0] += f" = clean {clean:.4f}"
            for (key, weight), name in zip(terms.items(), names, strict=True):
                parts[0] += f" + {weight:g} x {name} {row[key]:.4f}"
        size = next((value for key, value in row.items() if "delta_relative" in key), None)
        parts += [f"|delta| {size:.1%}"] if size is not None else []
        parts.append(f"{row['cost']:.1f}x plain")
    return " · ".join(parts)


@contextmanager
def silence_libraries(log: Path | None = None, show: Callable[[str], None] | None = None) -> Generator[None]:
    """Hide the progress bars of libraries; with `log`, warnings of Python and transformers go there, not on the screen.

    Our own warnings say that a step does less than its name promises: they go to `show`.
    """
    from datasets import are_progress_bars_disabled, disable_progress_bars, enable_progress_bars
    from transformers.utils import logging as transformers_logging

    bars, tables = transformers_logging.is_progress_bar_enabled(), not are_progress_bars_disabled()
    transformers_logging.disable_progress_bar()
    disable_progress_bars()
    try:
        with _into(log, show):
            yield
    finally:
        if bars:
            transformers_logging.enable_progress_bar()
        if tables:
            enable_progress_bars()


@contextmanager
def _into(log: Path | None, show: Callable[[str], None] | None) -> Generator[None]:
    from transformers.utils import logging as transformers_logging

    if log is None:
        yield
        return
    handler = logging.FileHandler(log, encoding="utf-8", delay=True)
    handler.setFormatter(_PlainFormatter("%(asctime)s %(name)s: %(message)s", "%Y-%m-%d %H:%M:%S"))
    warned = logging.getLogger("py.warnings")
    transformers_logging.disable_default_handler()
    transformers_logging.add_handler(handler)
    warned.addHandler(handler)
    logging.captureWarnings(True)
    logged = warnings.showwarning

    def warn(message: Any, category: type[Warning], *rest: Any, **named: Any) -> None:
        if show is not None and issubclass(category, RobustnessWarning):
            show(f"! {message}")
        else:
            logged(message, category, *rest, **named)

    warnings.showwarning = warn
    try:
        yield
    finally:
        logging.captureWarnings(False)
        warned.removeHandler(handler)
        transformers_logging.remove_handler(handler)
        transformers_logging.enable_default_handler()
        handler.close()
