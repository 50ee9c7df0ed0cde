"""A full disk, told in one line: libraries say it each in their own way, and torch not at all."""

import errno
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from shlex import quote

from .errors import RunError

NO_ROOM = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)


@contextmanager
def room_for(run: Path) -> Generator[None]:
    """What cannot be written for want of room is a `RunError` that says how to go on."""
    try:
        yield
    except Exception as error:
        if not is_full(error):
            raise
        first = str(error).strip().partition("\n")[0]
        raise RunError(
            f"{run}: no room on the disk ({first}); make some, then: toughen train --resume {quote(str(run))}"
        ) from error


def is_full(error: Exception) -> bool:
    """Whether something could not be written whole: by the system's number, in safetensors' words, or in torch's."""
    if isinstance(error, OSError):
        return error.errno in NO_ROOM
    said = str(error)
    if type(error).__name__ == "SafetensorError":
        return any(f"(os error {number})" in said for number in NO_ROOM)
    # torch.save notices that less has arrived than it wrote, and no more.
    return isinstance(error, RuntimeError) and ("unexpected pos" in said or "failed writing file" in said)
