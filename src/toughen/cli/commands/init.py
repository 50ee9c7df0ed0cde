"""`toughen init`."""

import argparse
import sys
from dataclasses import fields
from pathlib import Path
from shlex import quote
from typing import Any

HELP = "Write a commented config with every option."


def add(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("file", help="run.yaml; must be new.")
    parser.add_argument("--method", default="smart", help="Its options are written too.")
    parser.add_argument("--task", default="rte")
    parser.add_argument("--model", default="roberta-base")


def run(arguments: argparse.Namespace) -> int:
    from ...internal.atomic import write_text
    from ...runs.errors import RunError

    path = Path(arguments.file)
    path = path if path.suffix else path.with_suffix(".yaml")
    if path.exists():
        raise RunError(f"{path} is there already and nothing is overwritten; choose another name.")
    write_text(path, template(arguments.method, arguments.task, arguments.model))
    sys.stdout.write(f"wrote {path}; run it with: toughen train --config {quote(str(path))}\n")
    return 0


def template(method: str, task: str, model: str) -> str:
    """The config as text: what must be chosen stands there, every other option is a comment with its default."""
    import yaml

    from ...runs.config import GROUPS, docs_of
    from ...runs.method_config import NO_DEFAULT, options_of

    def line(key: str, value: Any) -> str:
        flow = yaml.safe_dump({key: value}, default_flow_style=True, allow_unicode=True, width=10_000)
        return flow.strip().removeprefix("{").removesuffix("}")

    def written(key: str, value: Any, text: str, indent: str) -> list[str]:
        shown = line(key, value)
        return [f"{indent}# {text}", f"{indent}{shown}" if indent.startswith("#") else f"{indent}# {shown}"]

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
            lines += written(key, option.default, option.help, "  ")
    for name, kind in GROUPS.items():
        described = docs_of(kind)
        named = name in ("head", "peft")
        lines += ["", f"# {described['']}", f"{'# ' * named}{name}:"]
        for each in fields(kind):
            lines += written(each.name, each.default, described[each.name], "#   " if named else "  ")
    lines += ["", "# Any key of the model's own config:", "# model_config:", "#   classifier_dropout: 0.1"]
    lines += ["", "# Any field of transformers.TrainingArguments:", "# trainer:", "#   lr_scheduler_type: cosine", ""]
    return "\n".join(lines)
