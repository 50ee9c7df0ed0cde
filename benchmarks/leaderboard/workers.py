"""Several processes on one device: each loads the data once and is given chunks of runs; a dead one harms no other."""

import multiprocessing
import os
import time
import traceback
import warnings
from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from multiprocessing.connection import Connection, wait
from pathlib import Path
from typing import Any

from .protocol import Protocol, Run

GRACE = 20  # seconds after the limit in which a run that is under way may end


@dataclass(frozen=True)
class Limit:
    """When no run is begun any more, and when those under way are given up; both by time.time()."""

    end: float

    @property
    def give_up(self) -> float:
        return self.end + GRACE

    @property
    def passed(self) -> bool:
        return time.time() > self.end


@dataclass
class Worker:
    process: Any
    pipe: Connection
    chunk: list[Run] = field(default_factory=list[Run])
    """What it was given and has not told of."""
    busy: bool = False


Told = Callable[[str, dict[str, Any]], None]
"""Gets "row" with a finished run, or "failed" with its key and error."""


def serve(pipe: Connection, file: Path, device: str, protocol: Protocol, limit: Limit) -> None:
    """The life of a worker: chunks come in, rows go out."""
    bench = open_bench(file, device, protocol)
    pipe.send(("ready", {}))
    while True:
        chunk: list[Run] | None = pipe.recv()
        if chunk is None:
            return
        for run in chunk:
            kind, told = attempt(bench, run, limit)
            pipe.send((kind, told))
            if "CUDA error" in str(told.get("error", "")):
                return  # nothing runs in this process any more
        pipe.send(("ready", {}))


def open_bench(file: Path, device: str, protocol: Protocol) -> Any:
    import torch

    from toughen.errors import RobustnessWarning

    from .packed import load
    from .rig import Stock
    from .train import Bench

    warnings.simplefilter("ignore", RobustnessWarning)  # rows say how many steps were captured
    torch.set_num_threads(1)
    os.environ.setdefault("TORCHINDUCTOR_COMPILE_THREADS", "1")  # each worker would start one a core
    torch.set_float32_matmul_precision("high")  # of the tests; training is in bfloat16
    return Bench(Stock(load(file, device)), protocol)


def attempt(bench: Any, run: Run, limit: Limit) -> tuple[str, dict[str, Any]]:
    from .train import OutOfTime

    if limit.passed:
        return "left", {"key": run.key}
    try:
        return "row", bench.make(run, limit.give_up)
    except OutOfTime:
        return "left", {"key": run.key}
    except Exception as error:
        where = traceback.format_exc(limit=-3)
        return "failed", {"key": run.key, "error": f"{type(error).__name__}: {error}", "where": where}


class Here:
    """The runs in this process, one after the other."""

    def __init__(self, file: Path, device: str, protocol: Protocol, limit: Limit) -> None:
        self.bench, self.limit = open_bench(file, device, protocol), limit

    def run(self, chunks: Sequence[Sequence[Run]], tell: Told) -> None:
        for chunk in chunks:
            for run in chunk:
                if self.limit.passed:
                    return
                tell(*attempt(self.bench, run, self.limit))


class Pool:
    """Workers that live through all phases: what they captured stays."""

    def __init__(self, count: int, file: Path, device: str, protocol: Protocol, limit: Limit) -> None:
        context, self.limit = multiprocessing.get_context("spawn"), limit
        self.workers: list[Worker] = []
        for _ in range(count):
            ours, theirs = context.Pipe()
            process = context.Process(target=serve, args=(theirs, file, device, protocol, limit), daemon=True)
            process.start()
            theirs.close()
            self.workers.append(Worker(process, ours))
        self._idle: list[Worker] = []

    def run(self, chunks: Sequence[Sequence[Run]], tell: Told) -> None:
        """All chunks, or those until the limit; returns when nothing is under way."""
        waiting = [list(chunk) for chunk in chunks]
        while True:
            while waiting and self._idle and not self.limit.passed:
                if self._give(worker := self._idle.pop(), waiting[0]):
                    waiting.pop(0)
                else:
                    self.workers.remove(worker)
            busy = any(worker.busy for worker in self.workers)
            if not busy and (not waiting or self.limit.passed or not self.workers):
                break
            self._hear(tell)
            if time.time() > self.limit.give_up + GRACE:  # a worker that hangs must not hold what is done
                break
        if waiting and not self.workers:
            tell("failed", {"key": waiting[0][0].key, "error": "all workers have died", "where": ""})

    def _give(self, worker: Worker, chunk: list[Run]) -> bool:
        try:
            worker.pipe.send(chunk)
        except OSError:
            return False
        worker.chunk, worker.busy = chunk, True
        return True

    def _hear(self, tell: Told) -> None:
        ready = wait([worker.pipe for worker in self.workers], timeout=1.0)
        for worker in [worker for worker in self.workers if worker.pipe in ready]:
            try:
                kind, told = worker.pipe.recv()
            except (EOFError, OSError):
                self.workers.remove(worker)
                self._idle = [other for other in self._idle if other is not worker]
                for run in worker.chunk:
                    tell("failed", {"key": run.key, "error": "the worker died", "where": ""})
                continue
            if kind == "ready":
                worker.busy = False
                self._idle.append(worker)
                continue
            worker.chunk = [run for run in worker.chunk if run.key != told["key"]]
            tell(kind, told)

    def close(self) -> None:
        for worker in self.workers:
            with suppress(OSError):
                worker.pipe.send(None)
        end = time.time() + 5  # for all of them together
        for worker in self.workers:
            worker.process.join(timeout=max(0.0, end - time.time()))
            if worker.process.is_alive():
                worker.process.terminate()


@contextmanager
def workers(count: int, file: Path, device: str, protocol: Protocol, limit: Limit) -> Generator[Here | Pool]:
    """`count` processes, or none: then the runs are made here."""
    if not count:
        yield Here(file, device, protocol, limit)
        return
    pool = Pool(count, file, device, protocol, limit)
    try:
        yield pool
    finally:
        pool.close()
