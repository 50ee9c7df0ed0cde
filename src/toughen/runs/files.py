"""Files written whole or not at all."""

import json
import os
import shutil
import uuid
from pathlib import Path
from typing import Any


def write_text(path: Path, text: str) -> None:
    """Write a file beside its place, then move it there: a reader sees the old one or the new one, never a half."""
    path.parent.mkdir(parents=True, exist_ok=True)
    unfinished = path.with_name(f".{path.name}.{uuid.uuid4().hex[:8]}")
    try:
        unfinished.write_text(text, encoding="utf-8")
        os.replace(unfinished, path)
    finally:
        unfinished.unlink(missing_ok=True)


def write_json(path: Path, value: Any) -> None:
    write_text(path, json.dumps(value, indent=1, ensure_ascii=False) + "\n")


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
