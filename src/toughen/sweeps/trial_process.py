"""The process of one trial, so that one that crashes, hangs or leaks harms no other.

Run as `python -m toughen.sweeps.trial_process FOLDER GPU_SHARE`.
"""

import os
import signal
import sys
import threading
import time
import traceback
from contextlib import suppress
from pathlib import Path
from typing import NoReturn

ERROR, LOG = "error.txt", "trial.log"
LOCK_SECONDS = 60.0  # the time that a process of an earlier start may take to end


def main() -> NoReturn:
    """Run, or go on with, the run folder; leave the error in a file, and end without clean-up of libraries."""
    folder, gpu_share, code = Path(sys.argv[1]), float(sys.argv[2]), 1
    try:
        _end_with_parent()
        with suppress(OSError):  # if memory runs out, the system ends the trial and not the sweep
            Path("/proc/self/oom_score_adj").write_text("1000")
        _wait_until_free(folder)
        _limit_gpu_memory(gpu_share)
        from ..runs.launch import launch

        launch(folder)
        code = 0
    except BaseException as error:
        traceback.print_exc()
        with suppress(OSError):
            message = " ".join(str(error).split())
            (folder / ERROR).write_text(f"{type(error).__name__}: {message}" if message else type(error).__name__)
    finally:
        sys.stderr.flush()
        os._exit(code)


def _end_with_parent() -> None:
    """End this process and its children when the process that started it ends: the pipe at stdin closes then."""
    pipe = os.dup(0)
    os.dup2(os.open(os.devnull, os.O_RDONLY), 0)

    def wait() -> None:
        os.read(pipe, 1)
        os.killpg(0, signal.SIGKILL)

    threading.Thread(target=wait, daemon=True).start()


def _wait_until_free(folder: Path) -> None:
    """Wait for a process of an earlier start that still holds the run folder."""
    from ..runs.errors import RunError
    from ..runs.folder import RunFolder

    until = time.monotonic() + LOCK_SECONDS
    while True:
        try:
            with RunFolder(folder).lock():
                return
        except RunError:
            if time.monotonic() > until:
                raise
        time.sleep(0.1)


def _limit_gpu_memory(share: float) -> None:
    """Hold a trial to its part of a card: if it needs more, it makes its own batches smaller."""
    import torch

    if 0 < share < 1 and torch.cuda.is_available():
        torch.cuda.set_per_process_memory_fraction(share)


if __name__ == "__main__":
    main()
