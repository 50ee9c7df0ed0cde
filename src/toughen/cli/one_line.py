"""A parser of arguments whose errors are one line with the nearest option, without the usage above it."""

import argparse
import re
from typing import NoReturn

from ..errors import nearest


class OneLine(argparse.ArgumentParser):
    """Raises `ValueError` where argparse would print the usage and leave."""

    def error(self, message: str) -> NoReturn:
        known = [flag for action in self._actions for flag in action.option_strings]
        unknown = re.match(r"unrecognized arguments: (--[\w.-]+)", message)
        hint = f" {nearest(unknown[1], known)}" if unknown else f" See: {self.prog} --help"
        wrong = re.sub(r"invalid _?(\w+) value: (.*)", lambda m: f"{m[2]} is not {KINDS.get(m[1], m[1])}", message)
        raise ValueError(f"{self.prog.removeprefix('toughen ')}: {wrong}.{hint}")


KINDS = {"int": "a whole number", "float": "a number", "numbers": "numbers with commas between them", "Path": "a path"}
