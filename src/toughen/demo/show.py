"""`demo`: train all arms, print the table, leave the page."""

import os
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from ..reports import report
from ..statistics import paired_bootstrap
from .arms import Arm, Settings, quiet, spare_threads, train_arm
from .encoder import find
from .folder import accuracy, notes, pooled, write_run
from .grammar import SPLITS, make

METHODS = ("plain", "smart", "freelb")
# A further seed is only begun while the time so far says that it will be done within this many seconds.
BUDGET = 200.0


def demo(
    out: "str | os.PathLike[str]" = "demo-report",
    *,
    seeds: Sequence[int] = (1, 2),
    model: str | None = None,
    limit: int | None = None,
    settings: Settings | None = None,
    say: Callable[[str], Any] | None = None,
) -> dict[str, list[Arm]]:
    """Fine-tune plain and with two robust methods, print accuracy on every split, write report.html into `out`."""
    folder = Path(out)
    if folder.is_file() or any((folder / name).is_file() for name in ("results.json", "began.json")):
        raise ValueError(f"{folder} is a run or a file, and nothing is overwritten; choose another --out.")
    if limit is not None and limit < 1:
        raise ValueError(f"limit={limit}: give at least one row to learn from.")
    tell = say or _print
    began = time.monotonic()
    quiet()
    if threads := spare_threads():
        tell(f"The machine is busy: {threads} thread, which is then faster than two.")
    encoder = find(model)
    chosen = settings or (Settings() if encoder.folder else Settings(learning_rate=3e-3))
    data = make(train=limit or 320)
    tell(f"{encoder.name}, {len(data['train'])} synthetic sentences to learn from, {len(data['clean'])} in each test.")
    tell(f"{', '.join(METHODS)}, each with {_listed(seeds)}; a further seed only if it can end within {BUDGET:.0f} s.")
    if encoder.notice:
        tell(encoder.notice)
    arms: dict[str, list[Arm]] = {name: [] for name in METHODS}
    for number, seed in enumerate(seeds):
        spent = time.monotonic() - began
        if number and spent * (number + 1) / number > BUDGET:
            tell(f"{spent:.0f} s are over; left out: {_listed(seeds[number:])}.")
            break
        for name in METHODS:
            arm = train_arm(name, seed, data, encoder, chosen)
            arms[name].append(arm)
            clean = accuracy(arm.outputs["clean"])
            tell(f"  seed {seed}  {name:7} {arm.steps} updates in {arm.seconds:5.1f} s, clean accuracy {clean:.3f}")
    rows = {name: len(each) for name, each in data.items()}
    done = [arm.seed for arm in arms[METHODS[0]]]
    counted = f"All scores are {'means over' if len(done) > 1 else 'of'} {_listed(done)}."
    said = [counted, *notes(encoder)]
    runs = [write_run(folder / name, each, encoder, chosen, rows, said) for name, each in arms.items()]
    for line in table(arms):
        tell(line)
    verdict = [sentence(name, arms) for name in METHODS[1:]]
    for line in (*verdict, *said):
        tell(line)
    page = report(runs, folder / "report.html", title="Demo: plain and robust fine-tuning", intro=[*verdict, *said])
    tell(f"{time.monotonic() - began:.0f} s in all. The page: {page}")
    return arms


def table(arms: Mapping[str, Sequence[Arm]]) -> list[str]:
    """Accuracy on every split, mean over seeds, and processor time of a step as a multiple of plain's."""
    widths = {split: max(len(split), 6) for split in SPLITS}
    lines = ["", "method   " + "  ".join(f"{split:>{width}}" for split, width in widths.items()) + "   cost"]
    step = {name: np.mean([arm.processor / arm.steps for arm in each]) for name, each in arms.items()}
    for name, each in arms.items():
        scores = [float(np.mean([accuracy(arm.outputs[split]) for arm in each])) for split in SPLITS]
        cells = "  ".join(f"{score:>{width}.3f}" for score, width in zip(scores, widths.values(), strict=True))
        lines.append(f"{name:8} {cells}  {step[name] / step['plain']:4.1f}x")
    return [*lines, ""]


def sentence(name: str, arms: Mapping[str, Sequence[Arm]]) -> str:
    """Where the method differs from plain by more than chance on these rows (95 % paired bootstrap)."""
    better: list[str] = []
    worse: list[str] = []
    for split in SPLITS:
        ours, plain = pooled(arms[name], split), pooled(arms["plain"], split)
        test = paired_bootstrap(np.argmax(ours.logits, 1), np.argmax(plain.logits, 1), ours.labels)
        if test.low is not None and test.high is not None and (test.low > 0 or test.high < 0):
            (better if test.difference > 0 else worse).append(f"{split} ({test.difference:+.3f})")
    parts = [f"better on {', '.join(better)}"] if better else []
    parts += [f"worse on {', '.join(worse)}"] if worse else []
    if not parts:
        return f"{name}: no split differs from plain by more than chance on these rows."
    rest = "" if len(better) + len(worse) == len(SPLITS) else "; no clear difference elsewhere"
    return f"{name} against plain: {' and '.join(parts)}{rest}."


def _listed(seeds: Sequence[int]) -> str:
    return f"seed{'s' * (len(seeds) > 1)} {', '.join(map(str, seeds))}"


def _print(line: str) -> None:
    import sys

    sys.stdout.write(f"{line}\n")
    sys.stdout.flush()
