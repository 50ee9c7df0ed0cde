"""Write a commented config with every option."""

import argparse
from dataclasses import fields
from pathlib import Path
from shlex import quote
from typing import Any

from .. import say
from ..arguments import check_new


def add(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("file", help="run.yaml; must be new.")
    parser.add_argument("--method", default="smart", help="Its options are written too.")
    parser.add_argument("--task", default="rte")
    parser.add_argument("--model", default="roberta-base")


def run(arguments: argparse.Namespace) -> int:
    from ...internal.atomic import write_text

    path = Path(arguments.file)
    path = path if path.suffix else path.with_suffix(".yaml")
    check_new(path)
    write_text(path, template(arguments.method, arguments.task, arguments.model))
    say(f"wrote {path}; run it with: toughen train --config {quote(str(path))}")
    return 0


def template(method: str, task: str, model: str) -> str:
    """Return the config as text, in which every option that need not be chosen is a comment with its default."""
    import yaml

    from ...runs.config import GROUPS, docs_of
    from ...runs.method_config import NO_DEFAULT, options_of

    def line(key: str, value: Any) -> str:
        flow = yaml.safe_dump({key: value}, default_flow_style=True, allow_unicode=True, width=10_000)
        return flow.strip().removeprefix("{").removesuffix("}")

    def comment(key: str, value: Any, text: str, indent: str = "  ") -> list[str]:
        return [f"{indent}# {text}", f"{indent}{'' if '#' in indent else '# '}{line(key, value)}"]

    lines = [
        f"# toughen train --config FILE; every option that is a comment shows its default. Method {method}.",
        f"{line('model', model)}  # a name on the Hugging Face Hub, or a folder",
        f"{line('task', task)}  # see: toughen tasks; for own files leave it out and give data.train_file",
        "seed: [1]  # several give mean, sd and median",
        "baseline: false  # true trains plainly too",
        "# output_dir: runs/mine",
        "method:",
        f"  {line('name', method)}",
    ]
    for key, (_, option) in options_of(method).items():
        if "." not in key and option.default is NO_DEFAULT:
            lines += [f"  # {option.help}", f"  {key}:  # must be given"]
        elif "." not in key:
            lines += comment(key, option.default, option.help)
    for name, kind in GROUPS.items():
        docs, unused = docs_of(kind), name in ("head", "peft")
        lines += ["", f"# {docs['']}", f"{'# ' * unused}{name}:"]
        for each in fields(kind):
            lines += comment(each.name, each.default, docs[each.name], "#   " if unused else "  ")
    lines += ["", "# Any key of the model's own config:", "# model_config:", "#   classifier_dropout: 0.1"]
    lines += ["", "# Any field of transformers.TrainingArguments:", "# trainer:", "#   lr_scheduler_type: cosine", ""]
    return "\n".join(lines)
