"""The process that trials are born from: it imports the heavy libraries once and forks a child for each trial.

A child starts at once instead of after seconds of imports, and dies alone: what it raises, leaks, exhausts or hangs in
is gone with it. Run as `python -m toughen.sweeps.nursery`; orders are lines of JSON on stdin, answers on stdout.
Nothing here may start a thread or touch a GPU before the fork.
"""

import ctypes
import fcntl
import gc
import json
import os
import select
import signal
import sys
import time
import traceback
from contextlib import suppress
from importlib import import_module
from pathlib import Path
from typing import Any, NoReturn

ERROR, LOCK, LOG = "error.txt", ".lock", "trial.log"
POLL = 0.02  # seconds between two looks at the child
LOCK_SECONDS = 60.0  # what an orphan of an earlier start may take to end


def preload() -> None:
    """Import what every run needs."""
    os.environ.setdefault("PYTORCH_NVML_BASED_CUDA_CHECK", "1")  # counting GPUs must not open them before the fork
    for name in ("datasets", "sklearn.metrics", "toughen.runs.execute", "toughen.runs.trainer"):
        import_module(name)
    import transformers

    for name in ("AutoTokenizer", "AutoModelForSequenceClassification", "Trainer"):
        getattr(transformers, name)  # transformers imports a class when it is asked for
    from .. import registry

    registry.list_methods()
    gc.freeze()  # children share these pages as long as their collector does not touch them


def main() -> int:
    """Serve orders until stdin ends; one trial at a time."""
    with os.fdopen(os.dup(1), "w", encoding="utf-8") as out:
        os.dup2(2, 1)  # what libraries print is no answer
        preload()

        def tell(**answer: Any) -> None:
            out.write(json.dumps(answer) + "\n")
            out.flush()

        tell(ready=True)
        while line := sys.stdin.readline():
            order = json.loads(line)
            child = os.fork()
            if child == 0:
                _live(order)
            tell(pid=child)
            tell(ended=_watch(child))
    return 0


def _watch(child: int) -> int:
    """Wait for the child; should the process that ordered it be gone, end it. A signal gives a number below 0."""
    while True:
        pid, status = os.waitpid(child, os.WNOHANG)
        if pid:
            return os.waitstatus_to_exitcode(status)
        # No order comes while one is at work: what can be read is the end.
        if select.select([sys.stdin], [], [], POLL)[0]:
            with suppress(ProcessLookupError):
                os.killpg(child, signal.SIGKILL)
            os._exit(1)


def _live(order: dict[str, Any]) -> NoReturn:
    """The child: one trial, in a process group of its own, then the end without any clean-up of the nursery's."""
    folder, code = Path(order["folder"]), 1
    try:
        os.setsid()
        _die_with_parent()
        with suppress(OSError):  # should memory run out, it is the trial that goes
            Path("/proc/self/oom_score_adj").write_text("1000")
        os.dup2(os.open(os.devnull, os.O_RDWR), 0)
        os.dup2(os.open(folder / LOG, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644), 2)
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
        (folder / ERROR).unlink(missing_ok=True)
        held = _lock(folder)
        _share_gpu(float(order.get("gpu") or 0))
        from ..runs.launch import execute_everywhere

        execute_everywhere(folder)
        code = 0
        del held
    except BaseException as error:
        traceback.print_exc()
        with suppress(OSError):
            said = " ".join(str(error).split())
            (folder / ERROR).write_text(f"{type(error).__name__}: {said}" if said else type(error).__name__)
    finally:
        sys.stderr.flush()
        os._exit(code)


def _die_with_parent() -> None:
    """Linux ends this process with the nursery; elsewhere the nursery must end in order."""
    with suppress(AttributeError, OSError):
        ctypes.CDLL(None).prctl(1, signal.SIGKILL)


def _lock(folder: Path) -> Any:
    """One process a run folder: a trial that outlived its driver for a moment is waited for."""
    file = (folder / LOCK).open("a")
    until = time.monotonic() + LOCK_SECONDS
    while not _held(file):
        if time.monotonic() > until:
            raise RuntimeError(f"{folder} is in use by another process.")
        time.sleep(0.1)
    return file


def _held(file: Any) -> bool:
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        return False
    return True


def _share_gpu(share: float) -> None:
    """Hold a trial to its part of a card: one that wants more shrinks its own batches, not its neighbours'."""
    import torch

    if 0 < share < 1 and torch.cuda.is_available():
        torch.cuda.set_per_process_memory_fraction(share)


if __name__ == "__main__":
    sys.exit(main())
