"""List all tasks, or save their data for machines without network.

Examples:
  toughen tasks
  toughen tasks fetch rte sst2 --to sets
  toughen tasks verify --to sets
"""

import argparse

from ... import tasks
from ...runs.errors import RunError
from .. import say


def add(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "what",
        nargs="?",
        choices=("list", "fetch", "verify"),
        default="list",
        help="List all tasks, fetch their data, or verify a folder.",
    )
    parser.add_argument("names", nargs="*", metavar="TASK", help="Tasks to fetch; glue stands for its eleven sets.")
    parser.add_argument("--to", help="Folder to fetch to, or to verify.")
    parser.add_argument("--layout", choices=("jsonl", "glue"), default="jsonl", help="JSON lines or GLUE's own tables.")


def run(arguments: argparse.Namespace) -> int:
    if arguments.what == "list":
        rows = [("task", "head", "metric", "data", "origin")]
        for name in tasks.available():
            task = tasks.task(name)
            tests = f" (tests {task.tests})" if task.tests else ""
            where = task.hub.id if task.hub else "own copy"
            rows.append((name, task.head, task.primary_metric, where, f"{task.citation}{tests}"))
        wide = [max(map(len, column)) for column in zip(*rows, strict=True)]
        for row in rows:
            cells = (f"{cell:<{width}}" for cell, width in zip(row, wide, strict=True))
            say(" ".join(cells).rstrip())
        return 0
    if not arguments.to:
        raise RunError(f"toughen tasks {arguments.what}: give the folder as --to FOLDER.")
    if arguments.what == "verify":
        faults = tasks.verify(arguments.to)
        say("\n".join([*faults, f"{len(faults)} files missing or altered"]))
        return 1 if faults else 0
    if not arguments.names:
        raise RunError("toughen tasks fetch: name the tasks, e.g. toughen tasks fetch rte sst2 --to FOLDER.")
    tasks.fetch(arguments.names, arguments.to, arguments.layout, tell=say)
    say(f"use them with: --data.dir {arguments.to}")
    return 0
