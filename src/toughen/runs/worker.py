"""One process of a distributed run, started by torchrun: `python -m toughen.runs.worker FOLDER`."""

import os
import sys
from pathlib import Path

from .errors import Diverged, Interrupted
from .files import write_text
from .launch import FAULT
from .session import execute


def main() -> int:
    """Run, and leave one line about what went wrong for the process that started torchrun."""
    folder = Path(sys.argv[1])
    try:
        execute(folder)
    except Interrupted as stopped:
        # All processes stop at the same step; one tells.
        if os.environ.get("RANK", "0") == "0":
            write_text(folder / FAULT, f"interrupted {stopped.signal} {stopped.step} {stopped.folder}")
        return 1
    except (ValueError, RuntimeError, ImportError, OSError, Diverged) as error:
        if os.environ.get("TOUGHEN_DEBUG"):
            raise
        write_text(folder / FAULT, " ".join(str(error).split()))
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
