"""The function `sweep`: check everything, prepare the data, run the missing trials by threads, write the tables."""

import math
import os
import signal
import threading
import time
from collections.abc import Callable, Generator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Literal, Protocol

from ..runs.config import Config
from .cluster import RemoteWorker, allocate, connect_ray
from .controller import Controller
from .definition import Definition
from .errors import SweepError, SweepStopped
from .folder import is_sweep, open_folder, stored
from .leaderboard import Row
from .loading import load_definition
from .outputs import write_page, write_tables
from .progress import SweepProgress
from .trials import trial_config
from .validation import shared_scores, validate_metric, validate_settings
from .worker import Event, Limits, Worker

Engine = Literal["auto", "ray", "serial"]
PathLike = str | os.PathLike[str]


@dataclass(frozen=True)
class Sweep:
    """The result of a sweep: its folder, and its rows, best first.

    Args:
        path: The folder of the sweep.
        metric: What the rows are ranked by.
        rows: One row for each setting.
        definition: The sweep as it was defined.

    Examples:
        >>> swept.path.name, len(swept.rows)
        ('rates', 1)
        >>> swept.best.state
        'done'
    """

    path: Path
    metric: str
    rows: list[Row]
    definition: Definition

    @property
    def best(self) -> Row:
        """Return the row with the best mean among those whose seeds all finished."""
        if not self.rows or self.rows[0].state != "done":
            raise SweepError(f"{self.path}: no row has finished yet.")
        return self.rows[0]

    @property
    def best_config(self) -> Config:
        """Return the config of the best row with all seeds, as in best.yaml."""
        return trial_config(self.definition.base, self.best.settings, self.definition.seeds)

    @property
    def failures(self) -> dict[int, list[str]]:
        """Map each row to the errors of its failed trials."""
        return {row.number: row.errors for row in self.rows if row.errors}

    def __str__(self) -> str:
        seeds = len(self.definition.seeds)
        best = f"best {self.metric} {self.best}" if self.rows and self.rows[0].state == "done" else "no row is done"
        return f"{self.path}: {len(self.rows)} settings x {seeds} seed{'s' * (seeds > 1)} · {best}"


def sweep(
    source: "PathLike | Mapping[str, Any]",
    *,
    base: "PathLike | Mapping[str, Any] | None" = None,
    config: Mapping[str, Any] | None = None,
    seeds: "str | int | Sequence[int] | None" = None,
    output_dir: PathLike | None = None,
    resume: bool = False,
    engine: Engine = "auto",
    address: str | None = None,
    minutes: float | None = None,
) -> Sweep:
    """Try many settings of a config, each with several seeds, as `toughen sweep` does.

    Args:
        source: A sweep file (YAML, or ManyTasks' search.json), a recipe of a sweep, the same as values, or the folder
            of a sweep to go on with.
        base: A config file, a recipe or values in place of the source's own base.
        config: Options that go over the base.
        seeds: Seeds in place of the source's own.
        output_dir: The folder of the sweep; by default sweeps/NAME.
        resume: Go on with a sweep, and refuse to start one.
        engine: "ray", "serial" (one trial after the other), or "auto": Ray where it is installed.
        address: The address of a Ray cluster, whose machines all see the folder.
        minutes: After them no trial but the first begins; those that run finish.

    Returns:
        The sweep with its rows, best first.

    Raises:
        SweepError: A sweep that cannot run, found before the first trial.
        SweepStopped: It was interrupted; the same call goes on.

    Examples:
        >>> from pathlib import Path
        >>> rates = {"train.learning_rate": {"values": [1e-3]}}
        >>> given = {"base": str(run.path / "config.yaml"), "parameters": rates}
        >>> swept = toughen.sweep(given, output_dir=Path(folder) / "rates", engine="serial")
        >>> len(swept.rows)
        1
    """
    definition, path = _load(source, base, config or {}, seeds, output_dir)
    if resume and not is_sweep(path):
        hint = "leave out --resume to start it, or name its folder with --output_dir"
        raise SweepError(f"{path} holds no sweep to resume; {hint}.")
    configs = validate_settings(definition)
    if is_sweep(path) or path.exists():
        open_folder(path, definition, resume).close()  # refuses at once, before the data is read
    scores, selects = shared_scores(configs)
    metric = validate_metric(definition, scores, selects)
    with _workers(definition, metric, engine, address) as (make_worker, slots, description):
        folder = open_folder(path.absolute(), definition, resume=True)  # workers have working directories of their own
        try:
            with SweepProgress(path / "sweep.log") as progress:
                until = math.inf if minutes is None else time.monotonic() + 60 * minutes
                controller = Controller(folder, metric, progress, write_tables, until)
                progress.line(f"sweep {path} · {definition.search} · {controller.status()} · {description}")
                try:
                    with suppress(KeyboardInterrupt):  # reported below as SweepStopped
                        run_trials(controller, make_worker, slots)
                finally:
                    write_tables(controller)
                    write_page(controller)
        finally:
            folder.close()
    if not controller.is_complete:
        raise SweepStopped(path, f"stopped at {controller.status()}")
    return Sweep(path, metric, controller.rows(), definition)


def _load(
    source: Any, base: Any, config: Mapping[str, Any], seeds: Any, output_dir: PathLike | None
) -> tuple[Definition, Path]:
    """Return the definition and its folder: the existing one, or sweeps/NAME."""
    if not isinstance(source, Mapping) and is_sweep(Path(source)):
        if config or any(each is not None for each in (base, seeds, output_dir)):
            raise SweepError(f"{source} is a sweep that brings its own options; leave the others out.")
        return stored(Path(source)), Path(source)
    definition, name = load_definition(source, base, config, seeds)
    return definition, Path(output_dir) if output_dir is not None else Path("sweeps") / name


@contextmanager
def _workers(
    definition: Definition, metric: str, engine: Engine, address: str | None
) -> Generator[tuple[Callable[[], "Runner"], int, str]]:
    """Yield what makes a worker, how many there are, and a description; refuse trials that fit on no machine."""
    has_ray = find_spec("ray") is not None
    if engine == "serial" or (engine == "auto" and address is None and not has_ray):
        if address is not None:
            raise SweepError("--address is for Ray; leave out --engine serial.")
        hint = "" if has_ray else '; pip install "toughen[sweep]" runs as many as the machine holds'
        limits = Limits.of(definition, metric, cpu=definition.resources.cpu)
        yield partial(Worker, limits), 1, f"one trial at a time{hint}"
        return
    with connect_ray(address) as ray:
        allocation = allocate(definition.resources, [node["Resources"] for node in ray.nodes() if node["Alive"]])
        limits = Limits.of(definition, metric, allocation.gpu, allocation.cpu)
        yield partial(RemoteWorker, limits, allocation), allocation.slots, str(allocation)


IDLE = 0.5  # seconds between two looks of an idle worker for another trial


class Runner(Protocol):
    """Runs one trial at a time: a Worker, one in a Ray actor, or a substitute in tests."""

    def start(self, folder: Path) -> None: ...
    def poll(self) -> Event: ...
    def stop(self) -> None: ...
    def close(self) -> None: ...


def run_trials(controller: Controller, make_worker: Callable[[], Runner], slots: int = 1) -> None:
    """Run all remaining trials, `slots` at once; after Ctrl-C the running ones save themselves, then the sweep ends."""
    stopping = threading.Event()
    slots = max(1, min(slots, controller.status().total))
    with _interrupt_on_sigterm(), ThreadPoolExecutor(slots) as pool:
        try:
            for done in as_completed([pool.submit(_work, controller, make_worker(), stopping) for _ in range(slots)]):
                done.result()
        finally:
            stopping.set()


def _work(controller: Controller, worker: Runner, stopping: threading.Event) -> None:
    try:
        while not stopping.is_set():
            trial = controller.next_trial()
            if trial is not None:
                worker.start(trial.folder)
                while not stopping.is_set():
                    event = worker.poll()
                    if controller.on_event(trial, event):
                        worker.stop()
                        break
                    if event.is_end:
                        break
            elif controller.is_complete:
                return
            else:  # a running trial may bring more, or need the machine that this worker holds
                worker.close()
                stopping.wait(IDLE)
    finally:
        worker.close()


@contextmanager
def _interrupt_on_sigterm() -> Generator[None]:
    """Handle SIGTERM, which a preempted machine sends, as Ctrl-C."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, signal.SIG_DFL if before is None else before)
