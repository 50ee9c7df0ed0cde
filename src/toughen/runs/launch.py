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
from .folder import RunFolder
from .progress import ProgressLogger
from .signals import BY_PERSON, announce, handled_signals, request_stop


def execute_everywhere(
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
            from .execute import execute

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


def launch_new(path: "str | os.PathLike[str]", node_rank: int = 0, **launch: Any) -> None:
    """Train in a folder just made; a run that could not begin leaves nothing behind."""
    folder = RunFolder.of(path)
    try:
        execute_everywhere(folder, node_rank=node_rank, **launch)
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
