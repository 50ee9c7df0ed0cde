"""Files and folders that are there whole or not at all."""

import json
import os
import shutil
import uuid
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from typing import Any


@contextmanager
def atomic_path(path: Path) -> Generator[Path]:
    """Give a name beside `path` to write to; move it to `path` at the end, or remove it after an error.

    A reader sees the old file or the new one, never a half.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    unfinished = path.with_name(f".{path.name}.{uuid.uuid4().hex[:8]}")
    try:
        yield unfinished
        os.replace(unfinished, path)
    finally:
        unfinished.unlink(missing_ok=True)


def write_bytes(path: Path, content: bytes) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    try:
        with atomic_path(path) as unfinished:
            unfinished.write_bytes(content)
    except OSError as error:  # name the file that was asked for
        raise OSError(error.errno, error.strerror, str(path)) from error


def write_text(path: Path, text: str) -> None:
    write_bytes(path, text.encode("utf-8"))


def json_line(value: object) -> str:
    """Return a line of JSON that every reader takes: numbers that are not finite become null."""
    return json.dumps(_finite(value), ensure_ascii=False, allow_nan=False) + "\n"


def write_json(path: Path, value: object) -> None:
    """Write JSON that every reader takes: numbers that are not finite become null."""
    write_text(path, json.dumps(_finite(value), indent=1, ensure_ascii=False, allow_nan=False) + "\n")


def _finite(value: object) -> Any:
    if isinstance(value, float):
        return value if value - value == 0 else None
    if isinstance(value, dict):
        return {key: _finite(each) for key, each in value.items()}
    if isinstance(value, (list, tuple)):
        return [_finite(each) for each in value]
    return value


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
    """Copy a folder completely or not at all, with hard links where the file system has them."""
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
