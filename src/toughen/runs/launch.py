"""One process or several: torchrun for the latter, since accelerate's launcher runs a CPU job in one process."""

import os
import signal
import subprocess
import sys
import threading
import time
from contextlib import nullcontext, suppress
from pathlib import Path
from types import FrameType
from typing import Any

from .errors import Interrupted, RunError
from .finish import write_page, write_results
from .folder import RunFolder
from .prepare import SeedJob, prepare_run
from .progress import ProgressLogger, silence_libraries
from .train_seed import train_seed


def launch(
    path: "str | os.PathLike[str]",
    nnodes: int = 1,
    node_rank: int = 0,
    rdzv_endpoint: str | None = None,
    method: Any = None,
) -> None:
    """Train a run with as many processes as its config says; again with smaller passes if memory ran out.

    A `method` goes for the config's; it is an object of this process and cannot go to others.
    """
    folder = RunFolder.of(path)
    processes = folder.config().nproc
    with folder.lock() if node_rank == 0 else nullcontext(()) as lock:  # the other machines come to a folder in use
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
                ProgressLogger(folder.path / "train.log").line(note)
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
    """How machines find each other. Not torchrun's elastic way, which numbers them as they come and not as asked."""
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
    """Turn a first signal into a wish to stop, and pass a second one on to torchrun, which ends its workers."""
    asked: list[int] = []

    def told(number: int, _: FrameType | None) -> None:
        if not asked:
            announce()
            request_stop(folder, number)
        elif number in BY_PERSON:
            process.send_signal(signal.SIGTERM)
        asked.append(number)

    main = threading.current_thread() is threading.main_thread()  # no other thread may ask for signals
    numbers = handled_signals() if main else ()
    before = {number: signal.signal(number, told) for number in numbers}
    try:
        return process.wait()
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def _raise_worker_error(folder: RunFolder, code: int) -> None:
    file = folder.error_file
    said = file.read_text(encoding="utf-8").strip() if file.is_file() else ""
    if said.startswith("interrupted "):
        _, number, step, place = said.split(" ", 3)
        raise Interrupted(Path(place), int(step), int(number))
    if code:
        raise RunError(said or f"a process ended with code {code}; see {folder}/torchrun.log.")


def wait_for_config(folder: RunFolder, seconds: float = 600.0) -> RunFolder:
    """Wait until the first machine has made the run folder."""
    until = time.monotonic() + seconds
    while not folder.config_file.is_file():
        if time.monotonic() > until:
            raise RunError(f"{folder}/config.yaml did not appear; is the folder shared with the first machine?")
        time.sleep(1.0)
    return folder


def execute(path: "str | os.PathLike[str]", method: Any = None) -> None:
    """Train what is left of a run; every process of a distributed run calls this. `method` goes for the config's."""
    folder = RunFolder.of(path)
    config = folder.config()
    rank, world_size = int(os.environ.get("RANK", "0")), int(os.environ.get("WORLD_SIZE", "1"))
    if config.train.batch_size % world_size:
        raise RunError(f"train.batch_size={config.train.batch_size} cannot be shared by {world_size} processes evenly.")
    if config.train.shard and world_size == 1:
        raise RunError("train.shard shares a model among processes: give --nproc 2 or more, or leave it out.")
    reporter = ProgressLogger(folder.path / "train.log" if rank == 0 else None, speak=rank == 0)
    first, log = _first(world_size), folder.path / ("train.log" if rank == 0 else f"train-{rank}.log")
    with GracefulStop(folder, shared=world_size > 1) as stop, silence_libraries(log, reporter.line):
        with first():
            prepared = prepare_run(folder, config, method, world_size, reporter)
        for variant in ("method", "baseline") if config.baseline else ("method",):
            for seed in config.seed:
                place = folder.seed_folder(variant, seed)
                if folder.seed_result(variant, seed) is not None:
                    continue
                if stop.requested(0):
                    raise Interrupted(place, 0, stop.signal)
                job = SeedJob(config, folder, place, variant, seed, world_size, prepared)
                with folder.disk_full_as_run_error():
                    result = train_seed(job, reporter, stop)
                    if rank == 0:
                        score, epoch = result.metrics[job.data.task.primary_metric], result.best_epoch
                        reporter.line(f"{job.title}: {job.data.task.primary_metric} {score:.4f} (epoch {epoch:g})")
                        write_results(folder, config, prepared)
        if rank == 0:
            if not folder.is_complete(config):  # ended between a seed's result and the run's
                write_results(folder, config, prepared)
            write_page(folder, reporter)


def _first(world_size: int) -> Any:
    """A context in which the first process goes before the others, so that one prepares the data and all find it."""
    if world_size == 1:
        return nullcontext
    import torch
    from accelerate import PartialState

    return PartialState(cpu=not torch.accelerator.is_available()).main_process_first


AGREE_EVERY = 10  # updates between two questions to the other processes
BY_PERSON = (signal.SIGINT, signal.SIGTERM)  # a closed terminal gives a SIGHUP from the shell and one from the system
MESSAGE = b"toughen: stopping after this step, and saving; once more ends at once\n"


def handled_signals() -> list[signal.Signals]:
    """Those to listen to: not SIGHUP where it is ignored, as nohup does for a run that outlives its terminal."""
    hangup: signal.Signals | None = getattr(signal, "SIGHUP", None)  # Windows has none
    if hangup is None or signal.getsignal(hangup) == signal.SIG_IGN:
        return [*BY_PERSON]
    return [*BY_PERSON, hangup]


def announce() -> None:
    """Tell the person that the run will stop; a closed terminal cannot be written to."""
    with suppress(OSError):
        os.write(2, MESSAGE)


def request_stop(run: RunFolder, number: int) -> None:
    """Ask the processes of a run to stop: torchrun would kill them 30 s after a signal."""
    run.stop_file.write_text(str(number), encoding="utf-8")


class GracefulStop:
    """Knows whether a signal came. A second one ends the process at once, as it would without us.

    One of several processes (`shared`) does not end at a second: torchrun sends one of its own accord.
    """

    def __init__(self, run: RunFolder, shared: bool = False) -> None:
        self.signal, self.run, self.shared = 0, run, shared
        self._before: dict[int, Any] = {}

    def __enter__(self) -> "GracefulStop":
        if threading.current_thread() is threading.main_thread():
            for number in handled_signals():
                self._before[number] = signal.signal(number, self._catch)
        return self

    def __exit__(self, *_: object) -> None:
        self._restore()

    def _catch(self, number: int, frame: FrameType | None) -> None:
        self.signal = number
        if not self.shared and number in BY_PERSON:
            announce()
            self._restore()

    def _restore(self) -> None:
        for number, handler in self._before.items():
            signal.signal(number, handler)
        self._before.clear()

    def requested(self, step: int) -> bool:
        """Whether to stop after this step; several processes agree on it every few steps."""
        if not self.shared:
            return bool(self.signal)
        if step % AGREE_EVERY:
            return False
        import torch

        device = "cuda" if torch.distributed.get_backend() == "nccl" else "cpu"
        told = torch.tensor(self.signal or self._asked(), device=device)
        torch.distributed.all_reduce(told, op=torch.distributed.ReduceOp.MAX)
        self.signal = int(told)
        return bool(self.signal)

    def _asked(self) -> int:
        with suppress(OSError, ValueError):
            return int(self.run.stop_file.read_text(encoding="utf-8"))
        return 0
