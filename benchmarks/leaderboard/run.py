"""All runs of the protocol that are not made yet, phase after phase, until they are done or the time is over."""

import json
import os
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from .journal import Journal
from .mps import shared_gpu
from .packed import facts_of
from .planning import LINEAR, OWN_HEAD, PHASES, SECOND_ORDER, NotTuned, plan
from .protocol import Protocol, Run
from .workers import Limit, workers

MOST_FAILURES = 25  # in one call: something is wrong with all of them, and the device's time is dear


def run(
    file: Path,
    results: Path,
    protocol: Protocol,
    *,
    minutes: float = 1e6,
    processes: int | None = None,
    device: str | None = None,
    phases: Sequence[str] = PHASES,
    only: Sequence[str] = (),
    mps: bool = True,
    share: int | None = None,
) -> int:
    """Returns how many runs were made. `only` keeps runs of these tasks or methods (words of a run's key)."""
    limit = Limit(time.time() + 60 * minutes)
    device = device or _device()
    cuda = device.startswith("cuda")
    count = (max(1, min(14, (os.cpu_count() or 2) - 2)) if cuda else 0) if processes is None else processes
    facts = facts_of(file)
    journal, model = Journal(results), str(facts["model"])
    tasks = {place.partition("/")[0] for place in facts["rows"]}
    protocol = protocol.narrowed(tasks)
    other = {
        row["task"] for row in journal.rows if row["task"] in tasks and row["protocol"] != protocol.digest(row["task"])
    }
    if other:
        raise SystemExit(
            f"{results}: runs of {', '.join(sorted(other))} are of another protocol; give another --results."
        )
    failures = results.with_suffix(".failed.jsonl")
    made, failed = [0], [0]

    def tell(kind: str, told: dict[str, Any]) -> None:
        if kind == "row":
            journal.add(told)
            made[0] += 1
            _say(made[0], told)
        elif kind == "failed":
            with failures.open("a", encoding="utf-8") as log:
                log.write(json.dumps(told) + "\n")
            print(f"FAILED {told['key']}: {told['error']}", flush=True)
            failed[0] += 1
            if failed[0] > MOST_FAILURES:
                raise SystemExit(f"more than {MOST_FAILURES} runs failed, so the others were not tried: see {failures}")

    with (
        shared_gpu(mps and cuda and count > 1, share) as service,
        workers(count, file, device, protocol, limit) as pool,
    ):
        print(f"{model} on {device}, {count or 1} process(es), {service}", flush=True)
        for phase in phases:
            try:
                chunks = plan(phase, protocol, model, journal.rows)
            except NotTuned as missing:
                print(f"{phase}: not yet possible: {missing}", flush=True)
                break
            chunks = [kept for chunk in chunks if (kept := [run for run in chunk if _wanted(run, only, protocol)])]
            print(f"{phase}: {sum(map(len, chunks))} runs to make", flush=True)
            pool.run(chunks, tell)
            if limit.passed:
                print("the time is over; the same command goes on here", flush=True)
                break
    return made[0]


def times(results: Path) -> str:
    """Where the time goes: seconds of a run's parts, by phase, method and task."""
    sums: dict[tuple[str, str, str], list[dict[str, float]]] = {}
    for row in Journal(results).rows:
        sums.setdefault((row["purpose"], row["method"], row["task"]), []).append(row["seconds"])
    parts = ("begin", "train", "test", "attack")
    lines = ["purpose\tmethod\ttask\truns\t" + "\t".join(parts)]
    for names, laps in sorted(sums.items(), key=lambda each: -sum(sum(lap.values()) for lap in each[1])):
        means = [sum(lap.get(part, 0.0) for lap in laps) / len(laps) for part in parts]
        lines.append("\t".join([*names, str(len(laps)), *(f"{mean:.2f}" for mean in means)]))
    return "\n".join(lines)


def _device() -> str:
    import torch

    return "cuda" if torch.cuda.is_available() else "cpu"


def _wanted(run: Run, only: Sequence[str], protocol: Protocol) -> bool:
    """Words name tasks, methods or heads; those of one kind are alternatives."""
    kinds = {
        run.task: {task.name for task in protocol.all_tasks},
        run.method: set(protocol.all_methods),
        run.head: {LINEAR, SECOND_ORDER, OWN_HEAD},
    }
    if unknown := set(only) - set().union(*kinds.values()):
        raise SystemExit(f"--only: {', '.join(sorted(unknown))} is no task, method or head.")
    return all(own in only or not names & set(only) for own, names in kinds.items())


def _say(number: int, row: dict[str, Any]) -> None:
    seconds = sum(row["seconds"].values())
    what = f"{row['task']} {row['method']} seed {row['seed']} {row['arm']} {row['head']} rate {row['rate']:g}"
    robust = row["robust"].get("pgd_reference")
    tail = "" if robust is None else f", attacked {robust:.3f}"
    steps = f"{row['ms']:.1f} ms a step, {row['captured']['captured']} captured"
    print(f"{number} {what}: {row['metric']} {row['value']:.4f}{tail}; {seconds:.1f} s, {steps}", flush=True)
