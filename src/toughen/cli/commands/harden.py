"""Make an encoder keep its vectors when words are misspelt: no labels, for classifiers, search and RAG.

Examples:
  toughen harden all-MiniLM-L6-v2 --texts queries.txt --output_dir hardened
  toughen harden path/to/encoder --texts a.jsonl b.jsonl --column query --families typos --output_dir hardened
  toughen harden --resume hardened
"""

from argparse import SUPPRESS, ArgumentParser, Namespace
from dataclasses import fields
from pathlib import Path
from typing import Any

from ...hardening.api import HardenSpec, harden
from ...options import attribute_docs

FLAGS = {each.name: f"--{each.name}" for each in fields(HardenSpec)}
GROUPS = {
    "Edits": ("column", "families", "synonyms", "rate", "clean_share", "measured", "lexicon"),
    "What is learned": (
        *("pooling", "pooled_weight", "hidden_weight", "words_weight", "neighbours_weight", "clean_weight"),
    ),
    "How long and how fast": (
        *("recipe", "steps", "batch_size", "learning_rate", "max_length", "workers", "save_steps", "seed", "fast"),
    ),
}


def add(parser: ArgumentParser) -> None:
    parser.add_argument(
        "model", nargs="?", metavar="MODEL", help="Folder of a transformer or of sentence-transformers, or a Hub name."
    )
    parser.add_argument(
        "--texts", nargs="+", type=Path, default=[], help="One text a line, or tables, JSON lines, Parquet."
    )
    parser.add_argument("--output_dir", type=Path, help="Folder of the hardened encoder; must be new.")
    parser.add_argument("--resume", type=Path, metavar="FOLDER", help="Go on with an interrupted hardening.")
    docs = attribute_docs(HardenSpec)
    groups = {title: parser.add_argument_group(title) for title in GROUPS}
    for each in fields(HardenSpec):
        if each.name in ("model", "texts"):
            continue
        group = next(groups[title] for title, names in GROUPS.items() if each.name in names)
        default: Any = each.default
        shown = ",".join(default) if isinstance(default, tuple) else "" if default is None else default
        text = docs.get(each.name, "").replace("%", "%%") + (f" (default: {shown})" if shown not in ("", False) else "")
        if isinstance(each.default, bool):
            group.add_argument(f"--{each.name}", action="store_true", default=SUPPRESS, help=text)
        else:
            kind = type(each.default) if isinstance(each.default, (int, float)) else str
            group.add_argument(f"--{each.name}", type=kind, default=SUPPRESS, help=text)


def run(arguments: Namespace) -> int:
    given = {name: value for name, value in vars(arguments).items() if value is not None}
    harden(**given)
    return 0
