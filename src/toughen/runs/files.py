"""Files and folders written whole or not at all."""

import os
import shutil
import uuid
from pathlib import Path

from ..internal.atomic import write_json as write_json
from ..internal.atomic import write_text as write_text


def write_new(path: Path, text: str) -> bool:
    """Write a file that is not there yet; False when somebody else has it, or is about to."""
    claim = path.with_name(f".{path.name}.new")
    try:
        claim.mkdir()  # of all that come at once one gets it, on every file system
    except FileExistsError:
        return False
    try:
        if path.exists():
            return False
        write_text(path, text)
    finally:
        claim.rmdir()
    return True


def copy_folder(source: Path, target: Path) -> None:
    """A copy of a folder that is there whole or not at all; hard links where the file system has them."""
    unfinished = target.with_name(f".{target.name}.{uuid.uuid4().hex[:8]}")
    try:
        shutil.copytree(source, unfinished, copy_function=_link)
        remove_folder(target)
        os.replace(unfinished, target)
    finally:
        shutil.rmtree(unfinished, ignore_errors=True)


def move_folder(source: Path, target: Path) -> None:
    """Put a finished folder in its place, instead of what is there."""
    remove_folder(target)
    os.replace(source, target)


def remove_folder(path: Path) -> None:
    """Take the folder's name away first: what is half removed is never taken for a whole one."""
    if path.exists():
        going = path.with_name(f".{path.name}.{uuid.uuid4().hex[:8]}")
        os.replace(path, going)
        shutil.rmtree(going, ignore_errors=True)


def _link(source: str, target: str) -> None:
    try:
        os.link(source, target)
    except OSError:
        shutil.copy2(source, target)
