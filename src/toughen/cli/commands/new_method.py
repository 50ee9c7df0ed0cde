"""Write a one-file method to edit; --method ./FILE.py:NAME runs it.

Examples:
  toughen new-method my_method.py
  toughen describe ./my_method.py
  toughen train --method ./my_method.py --model roberta-base --task rte
"""

import argparse
import re
from pathlib import Path
from shlex import quote

from ...internal.atomic import write_text
from ...registry import list_methods
from ...runs.errors import RunError
from .. import say
from ..arguments import check_new


def add(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("file", help="The new file, such as my_method.py.")


def run(arguments: argparse.Namespace) -> int:
    path = Path(arguments.file)
    path = path if path.suffix else path.with_suffix(".py")
    if path.suffix != ".py":
        raise RunError(f"{path}: a method is a Python file; end its name with .py.")
    check_new(path)
    name = re.sub(r"\W+", "-", path.stem).strip("-") or "mine"
    name = f"my-{name}" if name in list_methods() or not name[0].isalpha() else name
    template = Path(__file__).with_name("new_method.py.txt").read_text(encoding="utf-8")
    write_text(path, template.format(file=path.name, name=name, function=re.sub(r"\W", "_", name)))
    shown = path if path.is_absolute() else f"./{path}"
    say(f"wrote {path}; try: toughen describe {quote(str(shown))}")
    return 0
