"""Write a commented config with every option.

Examples:
  toughen init-config run.yaml
  toughen init-config run.yaml --method vat --task sst2
  toughen init-config run.yaml --method smart+bregman --model bert-base-uncased
"""

import argparse
from dataclasses import fields
from pathlib import Path
from shlex import quote

from ...errors import require
from ...internal.atomic import write_text
from ...runs.config import GROUPS, docs_of
from ...runs.method_config import NO_DEFAULT, options_of
from .. import say
from ..arguments import check_new


def add(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("file", help="The new file, such as run.yaml.")
    parser.add_argument("--method", default="smart", help="The method whose options are written.")
    parser.add_argument("--task", default="rte", help="The task in the config.")
    parser.add_argument("--model", default="roberta-base", help="The model in the config.")


def run(arguments: argparse.Namespace) -> int:
    path = Path(arguments.file)
    path = path if path.suffix else path.with_suffix(".yaml")
    check_new(path)
    write_text(path, template(arguments.method, arguments.task, arguments.model))
    say(f"wrote {path}; run it with: toughen train --config {quote(str(path))}")
    return 0


def template(method: str, task: str, model: str) -> str:
    """Return the config as text, in which every option that need not be chosen is a comment with its default."""
    text = Path(__file__).with_name("init_config.yaml.jinja").read_text(encoding="utf-8")
    page = require("jinja2", "cli").Template(text, trim_blocks=True, keep_trailing_newline=True)
    options = [option for key, (_, option) in options_of(method).items() if "." not in key]  # of a sum none
    names = {"line": _line, "docs_of": docs_of, "fields": fields, "NO_DEFAULT": NO_DEFAULT, "groups": GROUPS}
    return page.render(method=method, task=task, model=model, options=options, **names)


def _line(key: str, value: object) -> str:
    """Return one option as a line of YAML."""
    flow = require("yaml", "cli").safe_dump({key: value}, default_flow_style=True, allow_unicode=True, width=10_000)
    return flow.strip().removeprefix("{").removesuffix("}")
