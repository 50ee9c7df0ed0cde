"""One process of a distributed run, started by torchrun: `python -m toughen.runs.worker FOLDER`."""

import os
import sys
import traceback
from pathlib import Path

from .errors import Diverged, Interrupted, MemoryLow
from .files import write_text
from .launch import FAULT
from .session import execute


def main() -> int:
    """Run, and leave one line about what went wrong for the process that started torchrun."""
    folder = Path(sys.argv[1])
    try:
        execute(folder)
    except Interrupted as stopped:
        # All stop at the same step; the first tells, and the others must not end before it with an error: torchrun
        # would kill it.
        if os.environ.get("RANK", "0") != "0":
            return 0
        write_text(folder / FAULT, f"interrupted {stopped.signal} {stopped.step} {stopped.folder}")
        return 1
    except MemoryLow:
        return 1
    except Exception as error:
        traceback.print_exc()  # into torchrun.log
        said = " ".join(str(error).split())
        if not isinstance(error, (ValueError, ImportError, OSError, Diverged)):
            said = f"{type(error).__name__}: {said} (more in {folder}/torchrun.log)"
        if not (folder / FAULT).is_file():  # the first fault is the cause: the others lost their peer
            write_text(folder / FAULT, said)
        return 1
    _leave()
    return 0


def _leave() -> None:
    """Threads of a process group that Python's end finds alive can abort a run that is done."""
    from torch import distributed

    if distributed.is_available() and distributed.is_initialized():
        distributed.destroy_process_group()


if __name__ == "__main__":
    code = main()
    if code:
        # Not sys.exit: taking down a process group whose peers are gone can wait for them.
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code)
