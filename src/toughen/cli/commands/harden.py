"""Make an encoder keep its vectors when words are misspelt: no labels, for classifiers, search and RAG."""

from argparse import SUPPRESS, ArgumentParser, Namespace
from collections.abc import Mapping
from dataclasses import fields
from pathlib import Path
from typing import Any

from ...hardening.api import HardenSpec, harden
from ...options import attribute_docs

KINDS: Mapping[str, Any] = {"int": int, "float": float, "bool": None}
FLAGS = {each.name: f"--{each.name}" for each in fields(HardenSpec)}


def add(parser: ArgumentParser) -> None:
    parser.epilog = "Example: toughen harden all-MiniLM-L6-v2 --texts queries.txt --output_dir hardened --steps 5000"
    parser.add_argument("model", nargs="?", help="folder of a transformer or of sentence-transformers, or a Hub name")
    parser.add_argument(
        "--texts", nargs="+", type=Path, default=[], help="one text a line, or tables, JSON lines, Parquet"
    )
    parser.add_argument("--output_dir", type=Path, help="folder of the hardened encoder; must be new")
    parser.add_argument("--resume", type=Path, metavar="FOLDER", help="go on with an interrupted hardening")
    docs = attribute_docs(HardenSpec)
    for each in fields(HardenSpec):
        if each.name in ("model", "texts"):
            continue
        default: Any = each.default
        shown = ",".join(default) if isinstance(default, tuple) else "" if default is None else default  # pyright: ignore[reportUnknownArgumentType]
        text = docs.get(each.name, "").replace("%", "%%") + (f" ({shown})" if shown not in ("", False) else "")
        if isinstance(each.default, bool):
            parser.add_argument(f"--{each.name}", action="store_true", default=SUPPRESS, help=text)
        else:
            kind = type(each.default) if isinstance(each.default, (int, float)) else str
            parser.add_argument(f"--{each.name}", type=kind, default=SUPPRESS, help=text)


def run(arguments: Namespace) -> int:
    given = {name: value for name, value in vars(arguments).items() if value is not None}
    harden(**given)
    return 0
