"""Flags of run_glue.py, FreeLB, DeBERTa's SiFT, mt-dnn, adversarialSA and ParaGen, translated to today's."""

from argparse import SUPPRESS, Action, ArgumentParser, Namespace
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from ..errors import UsageError
from ..runs.config_io import load_yaml

_TABLES = load_yaml(Path(__file__).with_suffix(".yaml").read_text(encoding="utf-8"))
NEW: Mapping[str, str] = {old: new for new, names in _TABLES["renamed"].items() for old in names}
ASK: Mapping[str, str] = _TABLES["ask"]
NOT_NEEDED: Mapping[str, str] = _TABLES["not_needed"]
PRECISIONS = ("fp16", "bf16")  # switches; DeBERTa's scripts write --fp16 True
LENGTHS = ("--method.step_size", "--method.init_scale", "--method.max_norm")


class _OldFlag(Action):
    """Collects the flag as it was typed, its name in the tables and its value."""

    def __call__(
        self, parser: ArgumentParser, namespace: Namespace, values: Any, option_string: str | None = None
    ) -> None:
        namespace.old.append((option_string, self.dest, values))


def add_old_flags(parser: ArgumentParser) -> None:
    """Let `parser` collect the flags of the tables in `old`, each with its value."""
    parser.set_defaults(old=[])
    for name in (*NEW, *ASK, *NOT_NEEDED, *PRECISIONS):
        spellings = dict.fromkeys((f"--{name}", f"--{name.replace('_', '-')}"))
        parser.add_argument(
            *spellings, dest=name, action=_OldFlag, nargs=None if name in NEW else "?", default=SUPPRESS
        )


def strip_paragen_path(word: str) -> str:
    """Return `--init_mag` for `--task.model.init_mag`, which is the path in ParaGen's config; another word as it is."""
    flag, equals, value = word.partition("=")
    if not flag.startswith("--task."):
        return word
    name = flag.rpartition(".")[2]
    if name.replace("-", "_") not in NEW:
        raise UsageError(f"{flag} belongs to ParaGen's config and has no equal here. See: toughen train --help")
    return f"--{name}{equals}{value}"


def translate(old: Sequence[tuple[str, str, str | None]], has_units: bool) -> tuple[list[str], list[str]]:
    """Return today's words for old flags, and a notice for each; `has_units` if something names the lengths' units."""
    names = {name for _, name, _ in old}
    if "do_train" not in names and (scores := sorted(names & {"do_eval", "do_test", "do_predict"})):
        raise UsageError(
            f"--{scores[0]} without --do_train trains nothing. Score a run by: toughen evaluate RUN (--split test "
            "where labels are known, --all_checkpoints for kept epochs); test predictions: RUN/seeds/1/predictions."
        )
    words: list[str] = []
    notices: list[str] = []
    for flag, name, value in old:
        if name in ASK:
            raise UsageError(f"{flag} {ASK[name]}.")
        if name in NOT_NEEDED:
            notices.append(f"{flag} is not needed{NOT_NEEDED[name]}")
            continue
        new, note = NEW.get(name, "--train.precision"), ""
        if name in PRECISIONS:
            value = "fp32" if value is not None and value.lower() == "false" else name
            note = f" {value}"
        elif name == "eval_on" and value == "dev":
            value, note = "validation", " (dev is validation)"
        elif new == "--train.batch_size":
            note = " (of the whole update, over all processes)"
        elif new in LENGTHS and not has_units:
            note = " (in shares of the embedding's norm; a --method.preset of the original has its units)"
        words.append(f"{new}={value}")
        notices.append(f"{flag} is now {new}{note}")
    return words, list(dict.fromkeys(notices))
