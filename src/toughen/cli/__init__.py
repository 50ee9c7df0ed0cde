"""The command `toughen`: parse, call, print."""

import sys


def say(text: object) -> None:
    """Print a text at once, whole lines whatever the terminal's width."""
    sys.stdout.write(f"{text}\n")
    sys.stdout.flush()
