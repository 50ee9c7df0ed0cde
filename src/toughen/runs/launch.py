"""Run a folder, in this process or in several; stop after a step on Ctrl-C, SIGTERM or a closed terminal.

Several are started by torchrun, since accelerate's launcher runs a CPU job in one process.
"""

import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Generator
from contextlib import contextmanager, nullcontext, suppress
from pathlib import Path
from types import FrameType
from typing import Any

from .config_io import rows_per_device
from .errors import Interrupted, RunError
from .finish import write_page, write_results
from .folder import RunFolder
from .method_config import cost_of
from .prepare import SeedJob, prepare_run
from .progress import ProgressLogger, silence_libraries
from .train_seed import train_seed

AGREE_EVERY = 10  # updates between two questions to the other processes
BY_PERSON = (signal.SIGINT, signal.SIGTERM)  # a closed terminal gives a SIGHUP from the shell and one from the system
MESSAGE = b"toughen: stopping after this step, and saving; once more ends at once\n"


def launch(
    path: "str | os.PathLike[str]",
    nnodes: int = 1,
    node_rank: int = 0,
    rdzv_endpoint: str | None = None,
    method: object = None,
) -> None:
    """Train a run with as many processes as its config says; again with smaller passes if memory ran out.

    A `method` replaces the config's; it is an object of this process and cannot go to others.
    """
    folder = RunFolder.of(path)
    processes = folder.config().nproc
    with folder.lock() if node_rank == 0 else nullcontext(()) as lock:  # the other machines come to a folder in use
        if node_rank == 0:
            folder.sweep()
        if processes == 1 and nnodes == 1:
            execute(folder, method)
        else:
            _start(folder, processes, nnodes, node_rank, rdzv_endpoint, lock)


def _start(
    folder: RunFolder, processes: int, nnodes: int, node_rank: int, rdzv_endpoint: str | None, lock: tuple[int, ...]
) -> None:
    """Let torchrun start the processes, and wait for them."""
    command = [sys.executable, "-m", "torch.distributed.run", f"--nproc_per_node={processes}"]
    while True:
        if node_rank == 0:
            for file in (folder.error_file, folder.stop_file):
                file.unlink(missing_ok=True)
        before = folder.oom_history()
        known = len(folder.oom_notes())
        # Another port for another start: the store of the last one may not be gone yet.
        where = _rendezvous_args(nnodes, node_rank, str(rdzv_endpoint), known) if nnodes > 1 else ["--standalone"]
        code = _torchrun([*command, *where], folder, processes, lock)
        if not code or folder.oom_history() == before:
            break
        if node_rank == 0:
            for note in folder.oom_notes()[known:]:
                ProgressLogger(folder.path / "train.log").log(note)
    _raise_worker_error(folder, code)


def launch_new(path: "str | os.PathLike[str]", node_rank: int = 0, **machines: Any) -> None:
    """Train in a folder just made; a run that could not begin leaves nothing behind."""
    folder = RunFolder.of(path)
    try:
        launch(folder, node_rank=node_rank, **machines)
    except Interrupted:  # it says how to go on
        raise
    except BaseException as error:
        if node_rank == 0 and "torchrun.log" not in str(error):
            with suppress(RunError, OSError), folder.lock():  # not what another process is at work on by now
                folder.discard_unstarted()
        raise


def _rendezvous_args(nnodes: int, node_rank: int, endpoint: str, later: int) -> list[str]:
    """Return how machines find each other; torchrun's elastic way would number them as they come."""
    host, _, port = endpoint.rpartition(":")
    if not host or not port.isdigit():
        raise RunError(f"--rdzv_endpoint {endpoint}: give host:port of the first machine, such as node1:29500.")
    address = [f"--master_addr={host}", f"--master_port={int(port) + later}"]
    return [f"--nnodes={nnodes}", f"--node_rank={node_rank}", *address]


def _torchrun(command: list[str], folder: RunFolder, processes: int, lock: tuple[int, ...]) -> int:
    cores = max((os.cpu_count() or 1) // processes, 1)
    environment = {"OMP_NUM_THREADS": str(cores), **os.environ}
    # torchrun's own account of a failure is long; ours is one line, and that one stays in a file.
    with (folder.path / "torchrun.log").open("ab") as log:
        words = [*command, "-m", "toughen.runs.worker", str(folder)]
        # A session of its own: Ctrl-C on the terminal reaches us alone, and torchrun does not begin to kill.
        # It holds the folder too: should we be killed, it goes on, and nobody else may begin there.
        process = subprocess.Popen(words, env=environment, stderr=log, start_new_session=True, pass_fds=lock)
        return _wait(process, folder)


def _wait(process: "subprocess.Popen[bytes]", folder: RunFolder) -> int:
    """Ask the workers to stop at a first signal; pass a second one on to torchrun, which ends its workers."""
    asked: list[int] = []

    def catch(number: int, _: FrameType | None) -> None:
        if not asked:
            announce()
            folder.stop_file.write_text(str(number), encoding="utf-8")  # torchrun would kill them 30 s after a signal
        elif number in BY_PERSON:
            process.send_signal(signal.SIGTERM)
        asked.append(number)

    with handle_signals(catch):
        return process.wait()


def _raise_worker_error(folder: RunFolder, code: int) -> None:
    file = folder.error_file
    message = file.read_text(encoding="utf-8").strip() if file.is_file() else ""
    if message.startswith("interrupted "):
        _, number, step, path = message.split(" ", 3)
        raise Interrupted(Path(path), int(step), int(number))
    if code:
        raise RunError(message or f"a process ended with code {code}; see {folder}/torchrun.log.")


def wait_for_config(folder: RunFolder, seconds: float = 600.0) -> RunFolder:
    """Wait until the first machine has made the run folder."""
    until = time.monotonic() + seconds
    while not folder.config_file.is_file():
        if time.monotonic() > until:
            raise RunError(f"{folder}/config.yaml did not appear; is the folder shared with the first machine?")
        time.sleep(1.0)
    return folder


def execute(run: "str | os.PathLike[str]", method: object = None) -> None:
    """Train every seed that is not done yet, and write the results; every process of a run calls this.

    `method` replaces the config's. Starting and resuming are the same.
    """
    folder = RunFolder.of(run)
    config = folder.config()
    rank, world_size = int(os.environ.get("RANK", "0")), int(os.environ.get("WORLD_SIZE", "1"))
    rows_per_device(config.train, world_size)
    if config.train.shard and world_size == 1:
        raise RunError("train.shard shares a model among processes: give --nproc 2 or more, or leave it out.")
    reporter = ProgressLogger(folder.path / "train.log" if rank == 0 else None, speak=rank == 0)
    first, log = _first(world_size), folder.path / ("train.log" if rank == 0 else f"train-{rank}.log")
    with GracefulStop(folder, shared=world_size > 1) as stop, silence_libraries(log, reporter.log):
        with first():
            prepared = prepare_run(folder, config, method, world_size, reporter)
        variants = ("method", "baseline") if config.baseline else ("method",)
        pairs = [(variant, seed) for variant in variants for seed in config.seed]
        left = [(variant, seed) for variant, seed in pairs if folder.seed_result(variant, seed) is None]
        costs = {"method": cost_of(prepared.method), "baseline": 1.0}
        for number, (variant, seed) in enumerate(left, start=1):
            path = folder.seed_folder(variant, seed)
            if stop.requested(0):
                raise Interrupted(path, 0, stop.signal)
            job = SeedJob(config, folder, path, variant, seed, world_size, prepared)
            reporter.plan(variant, [later for later, _ in left[number:]], costs)
            with folder.disk_full_as_run_error():
                result = train_seed(job, reporter, stop)
                if rank == 0:
                    score, epoch = result.metrics[job.data.task.primary_metric], result.best_epoch
                    reporter.log(f"{job.title}: {job.data.task.primary_metric} {score:.4f} (epoch {epoch:g})")
                    write_results(folder, config, prepared)
        if rank == 0:
            if not folder.is_complete(config):  # ended between a seed's result and the run's
                write_results(folder, config, prepared)
            write_page(folder, reporter)


def _first(world_size: int) -> Any:
    """Return a context in which the first process goes before the others, so that one prepares the data for all."""
    if world_size == 1:
        return nullcontext
    import torch
    from accelerate import PartialState

    return PartialState(cpu=not torch.accelerator.is_available()).main_process_first


def handled_signals() -> list[signal.Signals]:
    """Return the signals to handle: not SIGHUP if it is ignored, as nohup does for a run that outlives its terminal."""
    hangup: signal.Signals | None = getattr(signal, "SIGHUP", None)  # Windows has none
    if hangup is None or signal.getsignal(hangup) == signal.SIG_IGN:
        return [*BY_PERSON]
    return [*BY_PERSON, hangup]


def announce() -> None:
    """Say that the run will stop; a closed terminal cannot be written to."""
    with suppress(OSError):
        os.write(2, MESSAGE)


@contextmanager
def handle_signals(handler: Callable[[int, FrameType | None], None]) -> Generator[Callable[[], None]]:
    """Let `handler` take the signals that stop a run; yields a function that gives them back."""
    main = threading.current_thread() is threading.main_thread()  # no other thread may ask for signals
    before = {number: signal.signal(number, handler) for number in (handled_signals() if main else ())}

    def restore() -> None:
        for number in list(before):
            signal.signal(number, before.pop(number))

    try:
        yield restore
    finally:
        restore()


class GracefulStop:
    """Knows whether a signal came. A second one ends the process at once, as it would without us.

    One of several processes (`shared`) does not end at a second: torchrun sends one of its own accord.
    """

    def __init__(self, run: RunFolder, shared: bool = False) -> None:
        self.signal, self.run, self.shared = 0, run, shared
        self._handling = handle_signals(self._catch)
        self._restore: Callable[[], None] = lambda: None

    def __enter__(self) -> "GracefulStop":
        self._restore = self._handling.__enter__()
        return self

    def __exit__(self, *_: object) -> None:
        self._handling.__exit__(None, None, None)

    def _catch(self, number: int, frame: FrameType | None) -> None:
        self.signal = number
        if not self.shared and number in BY_PERSON:
            announce()
            self._restore()

    def requested(self, step: int) -> bool:
        """Return whether to stop after this step; several processes agree on it every few steps."""
        if not self.shared:
            return bool(self.signal)
        if step % AGREE_EVERY:
            return False
        import torch

        device = "cuda" if torch.distributed.get_backend() == "nccl" else "cpu"
        number = torch.tensor(self.signal or self._asked(), device=device)
        torch.distributed.all_reduce(number, op=torch.distributed.ReduceOp.MAX)
        self.signal = int(number)
        return bool(self.signal)

    def _asked(self) -> int:
        with suppress(OSError, ValueError):
            return int(self.run.stop_file.read_text(encoding="utf-8"))
        return 0
