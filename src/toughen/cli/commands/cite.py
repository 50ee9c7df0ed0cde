"""Print the BibTeX entries of the papers behind methods and the second-order head.

Examples:
  toughen cite smart asa
  toughen cite smart+bregman second-order
  toughen cite > papers.bib
"""

import argparse
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from ...errors import UsageError, nearest
from ...runs.config_io import load_yaml
from .. import say


def add(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("methods", nargs="*", help="Methods, sums such as smart+bregman, second-order; all if omitted.")


def run(arguments: argparse.Namespace) -> int:
    papers = read_papers()
    known = list(dict.fromkeys(name for paper in papers for name in paper["methods"]))
    wanted = [name for given in arguments.methods for name in given.split("+")] or known
    for name in wanted:
        if name not in known:
            raise UsageError(f"there is no paper of {name!r}. {nearest(name, known)}")
    say("\n\n".join(bibtex(paper) for paper in papers if set(paper["methods"]) & set(wanted)))
    return 0


def read_papers() -> list[dict[str, Any]]:
    """Return key, methods, title, authors, venue, year and arXiv number of every paper."""
    return load_yaml(Path(__file__).with_suffix(".yaml").read_text(encoding="utf-8"))


def bibtex(paper: Mapping[str, Any]) -> str:
    """Return the entry of a paper; one without a venue is a preprint."""
    venue = str(paper.get("venue", ""))
    kind, place = ("article", "journal") if "Transactions" in venue else ("inproceedings", "booktitle")
    fields = {
        "title": f"{{{paper['title']}}}",  # braces within braces keep capitals
        "author": " and ".join(paper["authors"]),
        **({place: venue} if venue else {}),
        "year": paper["year"],
        "eprint": paper["arxiv"],
        "archivePrefix": "arXiv",
        "url": f"https://arxiv.org/abs/{paper['arxiv']}",
    }
    lines = "".join(f"  {name} = {{{value}}},\n" for name, value in fields.items())
    return f"@{kind if venue else 'misc'}{{{paper['key']},\n{lines}}}"
