"""What a person sees of a run: a live bar on a terminal, plain lines elsewhere; all lines go to train.log too."""

import sys
import time
from collections.abc import Mapping
from contextlib import suppress
from datetime import datetime
from pathlib import Path
from typing import Any

QUIET_SECONDS = 5.0  # between two plain lines of training


class Reporter:
    """Tells what happens; rank 0 alone has one that speaks."""

    def __init__(self, log: Path | None = None, speak: bool = True) -> None:
        self.log, self.speak = log, speak
        self.bar: Any = None
        self._task: Any = None
        self._began = (0, 0.0)
        self._total = 0
        self._last_line = 0.0
        self._head = ""

    def line(self, text: str) -> None:
        """One line for the person and the log."""
        if not self.speak:
            return
        if self.log is not None:
            with self.log.open("a", encoding="utf-8") as file:
                file.write(f"{datetime.now():%Y-%m-%d %H:%M:%S} {text}\n")
        if self.bar is not None:
            self.bar.console.print(text, highlight=False, markup=False, soft_wrap=True)
        else:
            with suppress(BrokenPipeError):  # who read us is gone (| head); the training is not
                sys.stdout.write(text + "\n")
                sys.stdout.flush()

    def begin(self, arm: str, seed: int, step: int, total: int, epochs: float) -> None:
        """Training of a seed starts, or goes on from `step`."""
        self._head = f"seed {seed}" + (" plain" if arm == "baseline" else "")
        self._began, self._total = (step, time.perf_counter()), total
        if not self.speak:
            return
        again = f", from step {step}" if step else ""
        self.line(f"{self._head}: {total} updates in {epochs:g} epochs{again}")
        if sys.stdout.isatty():
            self._open(step, total)

    def _open(self, step: int, total: int) -> None:
        with suppress(ImportError):
            from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

            columns = (TextColumn("{task.description}"), BarColumn(bar_width=24), MofNCompleteColumn())
            self.bar = Progress(*columns, TextColumn("{task.fields[facts]}"), TimeRemainingColumn(), transient=True)
            self.bar.start()
            self._task = self.bar.add_task(self._head, total=total, completed=step, facts="")

    def step(self, step: int) -> None:
        if self.bar is not None:
            self.bar.update(self._task, completed=step)

    def row(self, row: Mapping[str, Any]) -> None:
        """A row of metrics.jsonl."""
        if not self.speak:
            return
        if row["kind"] == "eval":
            scores = {key.removeprefix("eval_"): value for key, value in row.items() if key.startswith("eval_")}
            hidden = ("runtime", "samples_per_second", "steps_per_second", "model_preparation_time")
            told = [f"{name} {value:.4f}" for name, value in scores.items() if name not in hidden]
            self.line(f"{self._head} epoch {row['epoch']:g}: {' · '.join(told)}")
            return
        facts = facts_of(row)
        if self.bar is not None:
            self.bar.update(self._task, facts=facts)
        elif time.perf_counter() - self._last_line > QUIET_SECONDS or row["step"] == self._total:
            self._last_line = time.perf_counter()
            self.line(f"{self._head} step {row['step']}/{self._total}: {facts} · {self._left(row['step'])}")

    def _left(self, step: int) -> str:
        done, since = step - self._began[0], time.perf_counter() - self._began[1]
        seconds = (self._total - step) * since / max(done, 1)
        return f"{done / max(since, 1e-9):.1f} it/s · ETA {int(seconds) // 60}:{int(seconds) % 60:02d}"

    def end(self) -> None:
        """Training of the seed is over."""
        if self.bar is not None:
            self.bar.stop()
            self.bar = None


def facts_of(row: Mapping[str, Any]) -> str:
    """`loss .41 = clean .36 + term .05 · |delta| 3.0 % · 2.7x plain`."""
    parts = [f"loss {row['loss']:.4f}"]
    if row.get("cost", 0.0) <= 1:
        return parts[0]
    split = {
        "clean": row.get("robust/loss_clean", row.get("robust/0/loss_clean")),
        **{key.rpartition("robust/")[2]: value for key, value in row.items() if key.endswith("term")},
    }
    told = [f"{name} {value:.4f}" for name, value in split.items() if value is not None]
    parts += [f"({', '.join(told)})"] if told else []
    size = next((value for key, value in row.items() if "delta_relative" in key), None)
    parts += [f"· |delta| {size:.1%}"] if size is not None else []
    parts += [f"· {row['cost']:.1f}x plain"] if "cost" in row else []
    return " ".join(parts)
