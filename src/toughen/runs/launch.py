"""One process or several: torchrun for the latter, since accelerate's launcher runs a CPU job in one process."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

from .errors import Interrupted, RunError
from .folder import read_config

FAULT = "fault.txt"  # what a worker said before it ended, in one line


def execute_everywhere(folder: Path, nnodes: int = 1, node_rank: int = 0, rdzv_endpoint: str | None = None) -> None:
    """Train a run with as many processes as its config says."""
    processes = read_config(folder).nproc
    if processes == 1 and nnodes == 1:
        from .session import execute

        execute(folder)
        return
    command = [sys.executable, "-m", "torch.distributed.run", f"--nproc_per_node={processes}"]
    if nnodes > 1:
        command += [f"--nnodes={nnodes}", f"--node_rank={node_rank}", "--rdzv_backend=c10d"]
        command += [f"--rdzv_endpoint={rdzv_endpoint}", f"--rdzv_id={folder.name}"]
    else:
        command.append("--standalone")
    (folder / FAULT).unlink(missing_ok=True)
    cores = max((os.cpu_count() or 1) // processes, 1)
    environment = {"OMP_NUM_THREADS": str(cores), **os.environ}
    # torchrun's own account of a failure is long; ours is one line, and that one stays in a file.
    with (folder / "torchrun.log").open("ab") as log:
        words = [*command, "-m", "toughen.runs.worker", str(folder)]
        code = _wait(subprocess.Popen(words, env=environment, stderr=log))
    if code:
        _explain(folder, code)


def _wait(process: "subprocess.Popen[bytes]") -> int:
    """Pass signals on to torchrun, which passes them to its workers, and let them save."""
    before = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)}
    for number in before:
        signal.signal(number, lambda told, _: process.send_signal(told))
    try:
        return process.wait()
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def _explain(folder: Path, code: int) -> None:
    file = folder / FAULT
    said = file.read_text(encoding="utf-8").strip() if file.is_file() else ""
    file.unlink(missing_ok=True)
    if said.startswith("interrupted "):
        _, number, step, place = said.split(" ", 3)
        raise Interrupted(Path(place), int(step), int(number))
    raise RunError(said or f"a process ended with code {code}; see {folder}/torchrun.log.")


def joined(folder: Path, seconds: float = 600.0) -> Path:
    """Wait until the first machine has made the run folder."""
    until = time.monotonic() + seconds
    while not (folder / "config.yaml").is_file():
        if time.monotonic() > until:
            raise RunError(f"{folder}/config.yaml did not appear; is the folder shared with the first machine?")
        time.sleep(1.0)
    return folder
