"""The parser of `toughen train`: typed nested options, the chosen method's own among them."""

import difflib
import re
import sys
from collections.abc import Mapping, Sequence
from dataclasses import fields
from typing import Any, NoReturn

import yaml
from jsonargparse import ArgumentParser, Namespace

from ..runs.config import GROUPS, docs_of
from ..runs.config_io import merge, seeds_of
from ..runs.errors import RunError
from ..runs.kinds import worded
from ..runs.method_config import options_of
from ..runs.model_keys import check_model_keys
from ..runs.signatures import NO_DEFAULT
from ..runs.trainer_options import check_trainer, trainer_options
from .arguments import split_arguments

LAUNCH = ("nnodes", "node_rank", "rdzv_endpoint")


class HintingParser(ArgumentParser):
    """Errors are one line; an unknown option names the nearest known one."""

    def error(self, message: str, ex: Exception | None = None) -> NoReturn:
        # What is wrong in a file is told by its key, as on the command line.
        message = " ".join(message.split()).removeprefix('Parser key "config": ')
        unknown_key = re.search(r"Option '(?P<key>[^']+)' is not accepted", message)
        if unknown_key:
            raise RunError(f"there is no option {unknown_key['key']}. {self._near(unknown_key['key'])}")
        wrong = re.search(r'key "(?P<key>[^"]+)": (?P<why>.*)(?:Given|Got) value: ?(?P<value>.*)$', message)
        if wrong:
            action = next((each for each in self._actions if each.dest == wrong["key"]), None)
            kind = getattr(action, "_typehint", None) or getattr(action, "type", None)
            expected = "another value" if kind is None else worded(kind)
            raise RunError(f"{wrong['key']}={wrong['value']}: expected {expected}.")
        flags = [flag for action in self._actions for flag in action.option_strings]
        unknown = [word.split("=")[0] for word in message.split() if word.startswith("--")]
        hint = ""
        if "nrecognized arguments" in message:
            near = difflib.get_close_matches(unknown[0], flags, n=2, cutoff=0.6) if unknown else []
            hint = f" Did you mean {' or '.join(near)}?" if near else f" See: {self.prog} --help"
        raise RunError(message + "." * (not message.endswith(".")) + hint)

    def _near(self, key: str) -> str:
        """The option of the same last name, such as train.epochs for epochs, or the nearest ones."""
        known = [action.dest for action in self._actions if action.option_strings]
        same = [each for each in known if each.rpartition(".")[2] == key.rpartition(".")[2]]
        near = same or difflib.get_close_matches(key, known, n=2, cutoff=0.6)
        return f"Did you mean {' or '.join(near)}?" if near else "See: toughen train --help"


def train_parser(method: str, trainer_keys: Sequence[str] = (), model_keys: Sequence[str] = ()) -> HintingParser:
    """The parser for one method."""
    parser = HintingParser(
        prog="toughen train",
        usage="toughen train --model MODEL (--task TASK | --data.train_file FILE) [options]",
        description="Fine-tune a model with a robust method; leaves a run folder.",
        epilog="Options of another method: toughen train --method NAME --help. All methods: toughen methods.",
        allow_abbrev=False,
        exit_on_error=False,
        default_env=False,
        print_config=None,  # its flags skip what ours never writes
    )
    parser.add_argument("--config", action="config", help="YAML file of options; flags go over it.")
    parser.add_argument("--print_config", action="store_true", help="Print the merged YAML and leave.")
    parser.add_argument("--recipe", type=str | None, default=None, help="A published experiment; see: toughen recipes.")
    parser.add_argument("--resume", type=str | None, default=None, metavar="RUN", help="Go on with an unfinished run.")
    parser.add_argument("--task", type=str | None, default=None, help="A named task (see: toughen tasks).")
    parser.add_argument("--model", type=str | None, default=None, help="Name on the Hugging Face Hub, or a folder.")
    parser.add_argument("--seed", type=int | list[int] | str, default=[1], help="One seed or several: 1,2,3.")
    parser.add_argument("--baseline", type=bool, default=False, help="Train plainly too, with the same budget.")
    parser.add_argument("--fast", type=bool, default=False, help="Steps as CUDA graphs; see docs/fast.md.")
    parser.add_argument("--output_dir", type=str | None, default=None, help="Run folder; must be new or empty.")
    parser.add_argument("--nproc", type=int, default=1, help="Processes on this machine, one a GPU (torchrun).")
    parser.add_argument("--nnodes", type=int, default=1, help="Machines; start the same command on each.")
    parser.add_argument("--node_rank", type=int, default=0, help="Number of this machine.")
    parser.add_argument("--rdzv_endpoint", type=str | None, default=None, help="host:port of the first machine.")
    _add_method(parser, method)
    for name, kind in GROUPS.items():
        _add_group(parser, name, kind)
    _add_model_keys(parser, model_keys)
    _add_trainer(parser, trainer_keys)
    return parser


def _add_group(parser: HintingParser, name: str, kind: type) -> None:
    # Not add_class_arguments: it looks classes up as attributes of the package, which would import torch.
    described = docs_of(kind)
    group = parser.add_argument_group(name.capitalize(), described[""])
    for each in fields(kind):
        text = described[each.name].replace("%", "%%")
        group.add_argument(f"--{name}.{each.name}", type=each.type, default=each.default, help=text)


def _add_method(parser: HintingParser, method: str) -> None:
    options = options_of(method)
    titles = dict.fromkeys(f"{described.name}: {described.title}" for described, _ in options.values())
    group = parser.add_argument_group("Method", " / ".join(titles) or method)
    group.add_argument("--method.name", type=str, default=method, help="Its name, a sum a+b, or ./file.py:name.")
    add_options(group, options)


def add_options(parser: Any, options: Mapping[str, tuple[Any, Any]]) -> None:
    """The options of a method as `--method.KEY`."""
    for key, (_, option) in options.items():
        default = None if option.default is NO_DEFAULT else option.default
        parser.add_argument(f"--method.{key}", type=option.type, default=default, help=option.help.replace("%", "%%"))


def _open_keys(group: str, rest: Sequence[str], below: Mapping[str, Any]) -> list[str]:
    """The keys that are given in a group whose keys are not all known here."""
    flags = [word.partition("=")[0] for word in rest if word.startswith(f"--{group}.")]
    return [*dict(below.get(group) or {}), *(flag.removeprefix(f"--{group}.") for flag in flags)]


def _add_model_keys(parser: HintingParser, keys: Sequence[str]) -> None:
    text = "Any key of the model's own config: --model_config.KEY VALUE, e.g. --model_config.classifier_dropout 0.2."
    group = parser.add_argument_group("Model config", text)
    for key in dict.fromkeys(keys):
        check_model_keys({key: None})
        group.add_argument(f"--model_config.{key}", type=Any, help="A key of the model's config.")


def _add_trainer(parser: HintingParser, keys: Sequence[str]) -> None:
    known = trainer_options() if keys else {}
    text = "Any field of transformers.TrainingArguments: --trainer.KEY VALUE, e.g. --trainer.lr_scheduler_type cosine."
    group = parser.add_argument_group("Trainer", text)
    for key in dict.fromkeys(keys):
        check_trainer({key: None})
        group.add_argument(f"--trainer.{key}", type=known[key], help="A field of TrainingArguments.")


def parse_train(arguments: Sequence[str]) -> tuple[dict[str, Any], dict[str, Any]]:
    """Nested values of a run, and how to launch it. `--help` and `--print_config` print and leave."""
    rest, below = split_arguments(arguments)
    method = _last(rest, "--method.name") or dict(below.get("method") or {}).get("name") or "smart"
    if _last(rest, "--method.name") and below:
        merge(below, {"method": {"name": method}})
    length = [key for key in ("epochs", "max_steps") if _last(rest, f"--train.{key}") is not None]
    if length and below:  # for what flags drop of the layers below; their values come when they are parsed
        merge(below, {"train": dict.fromkeys(length, 1)})
    parser = train_parser(method, _open_keys("trainer", rest, below), _open_keys("model_config", rest, below))
    if {"-h", "--help"} & set(rest):
        parser.print_help()
        sys.exit(0)
    show = "--print_config" in rest
    rest = [word for word in rest if word != "--print_config"]
    values = _parse(parser, rest, below)
    launch = {key: values.pop(key) for key in LAUNCH}
    if show:
        del values["resume"]
        from ..runs.config_io import build, to_yaml

        sys.stdout.write(to_yaml(build(values)))
        sys.exit(0)
    return values, launch


def _parse(parser: HintingParser, rest: Sequence[str], below: Mapping[str, Any]) -> dict[str, Any]:
    text = [f"--config={yaml.safe_dump(dict(below))}"] if below else []
    parsed: Namespace = parser.parse_args([*text, *rest])
    values = parsed.as_dict()
    for key in ("config", "print_config", "help"):
        values.pop(key, None)
    values["seed"] = seeds_of(values["seed"])
    return values


def _last(words: Sequence[str], flag: str) -> str | None:
    found: str | None = None
    for place, word in enumerate(words):
        name, equals, value = word.partition("=")
        if name == flag:
            found = value if equals else words[place + 1] if place + 1 < len(words) else None
    return found
