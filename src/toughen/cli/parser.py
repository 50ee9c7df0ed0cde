"""The parser of `toughen train`: typed nested options, the chosen method's own among them."""

import difflib
import re
import sys
from argparse import SUPPRESS
from collections.abc import Mapping, Sequence
from dataclasses import fields
from typing import Any, NoReturn

from jsonargparse import ArgumentParser, Namespace

from ..options import OLD_NAMES
from ..runs.config import GROUPS, Config, describe_type, docs_of, matches_type
from ..runs.config_io import build, check_model_keys, check_trainer, merge, normalised, to_yaml, trainer_options
from ..runs.errors import RunError
from ..runs.method_config import NO_DEFAULT, options_of
from .arguments import split_arguments

LAUNCH = {"nnodes": 1, "node_rank": 0, "rdzv_endpoint": None}


class HintingParser(ArgumentParser):
    """Errors are one line; an unknown option names the nearest known one."""

    def error(self, message: str, ex: Exception | None = None) -> NoReturn:
        message = " ".join(message.split())
        wrong = re.search(r'key "(?P<key>[^"]+)": (?P<why>.*)(?:Given|Got) value: ?(?P<value>.*)$', message)
        if wrong:
            action = next((each for each in self._actions if each.dest == wrong["key"]), None)
            kind = getattr(action, "_typehint", None) or getattr(action, "type", None)
            expected = "another value" if kind is None else describe_type(kind)
            raise RunError(f"{wrong['key']}={wrong['value']}: expected {expected}.")
        flags = [flag for action in self._actions if action.help != SUPPRESS for flag in action.option_strings]
        unknown = [word.split("=")[0] for word in message.split() if word.startswith("--")]
        hint = ""
        if "nrecognized arguments" in message:
            near = difflib.get_close_matches(unknown[0], flags, n=2, cutoff=0.6) if unknown else []
            hint = f" Did you mean {' or '.join(near)}?" if near else f" See: {self.prog} --help"
        raise RunError(message + "." * (not message.endswith(".")) + hint)


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
    parser.add_argument("--config", type=str, help="YAML file of options; flags go over it.")
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
        for old in (old for old, new in OLD_NAMES.items() if option.name == new):
            former = f"--method.{key.removesuffix(option.name)}{old}"
            parser.add_argument(former, type=option.type, default=SUPPRESS, help=SUPPRESS)


def _open_keys(group: str, words: Sequence[str]) -> list[str]:
    """Return the keys that are given in a group whose keys are not all known here."""
    flags = (word.partition("=")[0] for word in words if word.startswith(f"--{group}."))
    return [flag.removeprefix(f"--{group}.") for flag in flags]


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


def parse_train(arguments: Sequence[str]) -> tuple[Config, dict[str, Any]]:
    """Return the config of a run and how to launch it. `--help` and `--print_config` print and leave.

    jsonargparse reads the flags alone; they are merged over the config files and recipes, and the whole is built once.
    """
    words, values = split_arguments(arguments)
    method = _last(words, "--method.name") or dict(values.get("method") or {}).get("name") or "smart"
    parser = train_parser(method, _open_keys("trainer", words), _open_keys("model_config", words))
    if {"-h", "--help"} & set(words):
        parser.print_help()
        sys.exit(0)
    flags: Namespace = parser.parse_args([word for word in words if word != "--print_config"], defaults=False)
    merge(values, {"method": {"name": method}})
    merge(values, normalised(flags.as_dict()))
    if values.pop("resume", None):
        raise RunError("resume: a config cannot say it; give --resume RUN on the command line.")
    launch: dict[str, Any] = {key: values.pop(key, default) for key, default in LAUNCH.items()}
    for key in ("nnodes", "node_rank"):
        if not matches_type(launch[key], int):
            raise RunError(f"{key}={launch[key]}: expected {describe_type(int)}.")
    _complete_method(values["method"], method)
    config = build(values)
    if "--print_config" in words:
        sys.stdout.write(to_yaml(config))
        sys.exit(0)
    return config, launch


def _complete_method(given: dict[str, Any], method: str) -> None:
    """Add the options that a method has by default, so that config.yaml holds them; check the types of the others."""
    for key, (_, option) in options_of(method).items():
        part, _, name = key.rpartition(".")
        group = given.setdefault(part, {}) if part else given
        if not isinstance(group, dict):
            return  # `build` says what is wrong
        if name in group:
            if group[name] is not None and option.type is not None and not matches_type(group[name], option.type):
                raise RunError(f"method.{key}={group[name]}: expected {describe_type(option.type)}.")
        elif option.default is not NO_DEFAULT and option.default is not None:
            group[name] = option.default


def _last(words: Sequence[str], flag: str) -> str | None:
    found: str | None = None
    for place, word in enumerate(words):
        name, equals, value = word.partition("=")
        if name == flag:
            found = value if equals else words[place + 1] if place + 1 < len(words) else None
    return found
