"""One process of a distributed run, started by torchrun: `python -m toughen.runs.worker FOLDER`."""

import atexit
import os
import sys
import traceback
from typing import NoReturn

from ..internal.atomic import write_text
from .errors import Diverged, Interrupted, RestartWithSmallerBatch
from .folder import RunFolder
from .launch import execute


def main() -> int:
    """Run, and leave one line about what went wrong for the process that started torchrun."""
    folder = RunFolder(sys.argv[1])
    try:
        execute(folder)
    except Interrupted as stopped:
        # All stop at the same step; the first reports it, and the others must not end before with an error: torchrun
        # would kill it.
        if os.environ.get("RANK", "0") != "0":
            return 0
        write_text(folder.error_file, f"interrupted {stopped.signal} {stopped.step} {stopped.folder}")
        return 1
    except RestartWithSmallerBatch:
        return 1
    except Exception as error:
        traceback.print_exc()  # into torchrun.log
        message = " ".join(str(error).split())
        if not isinstance(error, (ValueError, ImportError, OSError, Diverged)):
            message = f"{type(error).__name__}: {message} (more in {folder}/torchrun.log)"
        if not folder.error_file.is_file():  # the first fault is the cause: the others lost their peer
            write_text(folder.error_file, message)
        return 1
    return 0


def leave(code: int) -> NoReturn:
    """End without sys.exit: the clean-up of a process group can wait for lost peers, or abort a run that is done."""
    if code == 0:
        atexit._run_exitfuncs()  # pyright: ignore[reportPrivateUsage]  # loggers write their last lines there
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(code)


if __name__ == "__main__":
    leave(main())
