"""What `toughen train` is given: config files, a recipe, and typed nested options, the chosen method's among them."""

import re
import sys
from argparse import SUPPRESS
from collections.abc import Mapping, Sequence
from dataclasses import fields
from pathlib import Path
from typing import Any, Literal, NamedTuple, NoReturn

import yaml
from jsonargparse import ArgumentParser, DefaultHelpFormatter

from .. import recipes
from ..options import OLD_NAMES
from ..runs.config import GROUPS, NAMED_GROUPS, Config, describe_type, docs_of, matches_type
from ..runs.config_io import build, check_reserved, check_trainer, merge, normalised, read_yaml, to_yaml
from ..runs.errors import RunError
from ..runs.method_config import NO_DEFAULT, MethodDescription, Option, options_of
from .arguments import CommandParser, HelpFormatter, split_names
from .old_flags import add_old_flags, strip_paragen_path, translate

_WORDS = list[str] | None
LAUNCH = {"nnodes": 1, "node_rank": 0, "rdzv_endpoint": None}
# Groups with keys that are not all known here, and how one is given.
OPEN_GROUPS = {
    "model_config": "Any key of the model's own config, e.g. --model_config.classifier_dropout 0.2.",
    "trainer": "Any field of transformers.TrainingArguments, e.g. --trainer.lr_scheduler_type cosine.",
}


class Given(NamedTuple):
    """The arguments of `toughen train`, read as far as the method's options need not be known."""

    words: list[str]
    """Today's options, with their full names."""
    method: str | None
    config: dict[str, Any]
    """What config files and the recipe say, merged."""
    print_config: bool


def split_arguments(arguments: Sequence[str]) -> Given:
    """Read config files and recipes, and give today's options for shorthands and flags of the original scripts."""
    parser = CommandParser("toughen train", add_help=False)
    parser.add_argument("--config", "-c", action="append", type=Path, default=[])
    parser.add_argument("--recipe")
    parser.add_argument("--print_config", action="store_true")
    for name in NAMED_GROUPS:  # --method freelb is --method.name freelb, and --peft alone is LoRA
        bare: dict[str, Any] = {"nargs": "?", "const": "lora"} if name == "peft" else {}
        parser.add_argument(f"--{name}", f"--{name}.name", **bare)
    add_old_flags(parser)
    given, words = parser.parse_known_args([strip_paragen_path(word) for word in arguments])
    config: dict[str, Any] = {}
    for path in given.config:
        merge(config, normalised(_read_config(path)))
    recipe = given.recipe or config.get("recipe")
    if recipe is not None:
        config = merge(normalised(recipes.config(recipe)), {**config, "recipe": recipe})
    has_units = bool(given.config or recipe) or any(word.startswith("--method.preset") for word in words)
    translated, notices = translate(given.old, has_units)
    named = [f"--{name}.name={value}" for name in NAMED_GROUPS if (value := getattr(given, name)) is not None]
    for notice in notices:
        sys.stderr.write(f"toughen: {notice}\n")
    return Given([*named, *translated, *words], given.method, config, given.print_config)


def _read_config(path: Path) -> dict[str, Any]:
    remedy = "holds no options; a config to edit is written by: toughen init-config another.yaml"
    values = read_yaml(path, RunError, remedy)
    if isinstance(values.get("task"), Mapping):
        found = recipes.of_paragen(path)
        way = f"Its settings are --recipe {found}; give changed ones after it." if found else ""
        raise RunError(f"{path} is a ParaGen config. {way or 'See: toughen recipes freelb.'}")
    return values


class OptionsHelpFormatter(HelpFormatter, DefaultHelpFormatter):
    """The help of every command, for options that jsonargparse reads."""


class OptionsParser(CommandParser, ArgumentParser):
    """Reads typed, nested options with jsonargparse; errors are those of every command."""

    def __init__(self, **settings: Any) -> None:
        settings = {"formatter_class": OptionsHelpFormatter, **settings}
        super().__init__(exit_on_error=False, default_env=False, print_config=None, **settings)

    def error(self, message: str, ex: Exception | None = None) -> NoReturn:
        message = " ".join(message.split())
        wrong = re.search(r'key "(?P<key>[^"]+)": (?P<why>.*)(?:Given|Got) value: ?(?P<value>.*)$', message)
        if wrong:
            action: Any = next((each for each in self._actions if each.dest == wrong["key"]), None)
            kind = getattr(action, "_typehint", None) or getattr(action, "type", None)
            expected = "another value" if kind is None else describe_type(kind)
            raise RunError(f"{wrong['key']}={wrong['value']}: expected {expected}.")
        super().error(message, ex)


USAGE = "toughen train --model MODEL (--task TASK | --data.train_file FILE) [options]"
DESCRIPTION = """Fine-tune a model with a robust method, and keep everything in a run folder.

Another method has other options: toughen train --method NAME --help. All methods: toughen methods.

Examples:
  toughen train --model roberta-base --task rte --method vat
  toughen train --model roberta-base --data.train_file reviews.csv --baseline --seed 1,2,3
  toughen train --recipe sift/mnli-deberta-base --train.epochs 2
"""


def train_parser(method: str | None, words: Sequence[str] = ()) -> OptionsParser:
    """Return the parser for one method; None takes any option of a method. `words` say the keys of open groups."""
    parser = OptionsParser(prog="toughen train", usage=USAGE, description=DESCRIPTION)
    parser.add_argument("--task", type=str | None, default=None, help="A named task (see: toughen tasks).")
    parser.add_argument("--model", type=str | None, default=None, help="Name on the Hugging Face Hub, or a folder.")
    parser.add_argument("--seed", type=int | list[int] | str, default=[1], help="One seed or several: 1,2,3.")
    _add_option(parser, "baseline", bool, False, "Train plainly too, with the same budget.")
    fast = "Run steps as CUDA graphs; auto does so on CUDA where it saves time within the run."
    _add_option(parser, "fast", bool | Literal["auto"], "auto", fast)
    parser.add_argument("--output_dir", type=str | None, default=None, help="Run folder; must be new or empty.")
    group = parser.add_argument_group("Configs", "Options from files; flags go over them.")
    group.add_argument("--config", type=str, help="YAML file of options; may be given several times.")
    group.add_argument("--print_config", action="store_true", help="Print the merged YAML and exit.")
    group.add_argument("--recipe", type=str | None, default=None, help="A published experiment; see: toughen recipes.")
    group.add_argument("--resume", type=str | None, default=None, metavar="RUN", help="Go on with an unfinished run.")
    group = parser.add_argument_group("Processes", "Several GPUs, or several machines.")
    group.add_argument("--nproc", type=int, default=1, help="Processes on this machine, one a GPU (torchrun).")
    group.add_argument("--nnodes", type=int, default=1, help="Machines; start the same command on each.")
    group.add_argument("--node_rank", type=int, default=0, help="Number of this machine.")
    group.add_argument("--rdzv_endpoint", type=str | None, default=None, help="host:port of the first machine.")
    if method is not None:
        options = options_of(method)
        titles = dict.fromkeys(f"{described.name}: {described.title}" for described, _ in options.values())
        group = parser.add_argument_group("Method", " / ".join(titles) or method)
        group.add_argument("--method.name", type=str, default=method, help="Its name, a sum a+b, or ./file.py:name.")
        add_options(group, options)
    for name, kind in GROUPS.items():
        # Not add_class_arguments: it looks classes up as attributes of the package, which would import torch.
        described = docs_of(kind)
        group = parser.add_argument_group(name.capitalize(), described[""])
        for each in fields(kind):
            _add_option(group, f"{name}.{each.name}", each.type, each.default, described[each.name])
    any_method = {"method": "Options of any method."} if method is None else {}
    for name, text in {**any_method, **OPEN_GROUPS}.items():
        group = parser.add_argument_group(name.replace("_", " ").capitalize(), text)
        flags = (word.partition("=")[0] for word in words if word.startswith(f"--{name}."))
        for flag in dict.fromkeys(flags):
            check_reserved(name, [flag.removeprefix(f"--{name}.")])
            group.add_argument(flag, type=Any)
    return parser


def _add_option(group: Any, name: str, kind: Any, default: Any, text: str) -> None:
    # neg,pos is a list of text as well; --fast alone is --fast true.
    kind = kind | str if kind == _WORDS else kind
    bare: dict[str, Any] = {"nargs": "?", "const": True} if matches_type(True, kind) else {}
    group.add_argument(f"--{name}", type=kind, default=default, help=text.replace("%", "%%"), **bare)


def add_options(parser: Any, options: Mapping[str, tuple[MethodDescription, Option]]) -> None:
    """Add the options of a method as `--method.KEY`."""
    for key, (_, option) in options.items():
        default = None if option.default is NO_DEFAULT else option.default
        parser.add_argument(f"--method.{key}", type=option.type, default=default, help=option.help.replace("%", "%%"))
        for old in (old for old, new in OLD_NAMES.items() if option.name == new):
            former = f"--method.{key.removesuffix(option.name)}{old}"
            parser.add_argument(former, type=option.type, default=SUPPRESS, help=SUPPRESS)


def parse_train(arguments: Sequence[str]) -> tuple[Config, dict[str, Any]]:
    """Return the config of a run and how to launch it. `--help` and `--print_config` print and exit.

    jsonargparse reads the flags alone; they are merged over the config files and recipes, and the whole is built once.
    """
    given = split_arguments(arguments)
    method = given.method or dict(given.config.get("method") or {}).get("name") or "smart"
    values = merge(given.config, {"method": {"name": method}})
    merge(values, parse_flags(given.words, method))
    if values.pop("resume", None):
        raise RunError("resume is not a key of a config; give --resume RUN on the command line.")
    launch: dict[str, Any] = {key: values.pop(key, default) for key, default in LAUNCH.items()}
    for key in ("nnodes", "node_rank"):
        if not matches_type(launch[key], int):
            raise RunError(f"{key}={launch[key]}: expected {describe_type(int)}.")
    _complete_method(values["method"], method)
    config = build(values)
    if given.print_config:
        sys.stdout.write(to_yaml(config))
        sys.exit(0)
    check_trainer(config.trainer)
    return config, launch


def parse_flags(words: Sequence[str], method: str | None) -> dict[str, Any]:
    """Return the options that are given as nested plain values."""
    values: dict[str, Any] = train_parser(method, words).parse_args(list(words), defaults=False).as_dict()
    for name, kind in GROUPS.items():
        group = values.get(name, {})
        for each in fields(kind):
            if each.type == _WORDS and isinstance(group.get(each.name), str):
                group[each.name] = _split_words(group[each.name])
    return normalised(values)


def _split_words(typed: str) -> Any:
    """Return words with commas between them as a list of text: to YAML yes is true and 007 a number."""
    if typed[:1] in ("'", '"'):  # quoted by hand
        return yaml.safe_load(f"[{typed}]")
    split = split_names(typed)
    return split if len(split) > 1 and typed[0] != "[" else typed  # `build` refuses a text


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
