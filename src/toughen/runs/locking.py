"""One program at a run folder at a time."""

from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path

from .errors import RunError


@contextmanager
def held(folder: Path) -> Generator[tuple[int, ...]]:
    """Hold a run folder; gives what a child must inherit to hold it too. The system lets go of it however we end.

    The lock is on config.yaml, which is written once: no file of its own is left behind.
    """
    try:
        import fcntl
    except ImportError:  # Windows
        yield ()
        return
    with (folder / "config.yaml").open("rb") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise RunError(f"{folder} is being trained by another process; wait for it or stop it.") from None
        except OSError:  # a file system without locks
            pass
        yield (file.fileno(),)
