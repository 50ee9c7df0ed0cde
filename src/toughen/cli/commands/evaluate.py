"""Score a run or a model on any split or file, also under attack.

Examples:
  toughen evaluate runs/rte-vat --attack characters,embedding --all_seeds
  toughen evaluate runs/mnli-vat --task hans --dir data
  toughen evaluate path/to/model --file reviews.csv --label_column stars
"""

import argparse
import json
import sys
import textwrap
from collections.abc import Callable, Sequence
from typing import Any

from ... import evaluation
from ...attacks.base import attack_classes, attack_options
from ...options import attribute_docs
from ...runs.errors import RunError
from ...runs.progress import silence_libraries
from .. import say
from ..arguments import add_rows, split_names
from ..tables import model_names, print_table, span

_NAMED = (
    *("task", "file", "sets", "synonyms", "lexicon", "masked_lm", "judge", "text_column", "label_column", "dir"),
    *("delimiter", "encoding", "on_bad", "limit", "batch_size", "max_length"),
)
FLAGS = {name: f"--{name}" for name in _NAMED}


def add(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("paths", nargs="+", metavar="RUN_OR_MODEL", help="Run folders, or folders of saved models.")
    parser.add_argument("--all_seeds", action="store_true", help="Every seed of a run, and its baseline's.")
    parser.add_argument("--all_checkpoints", action="store_true", help="Every checkpoint that was kept.")
    parser.add_argument("--json", action="store_true", help="Print JSON in place of a table.")
    add_rows(parser, "Evaluate on this set, such as hans or mnli-mm.")
    titles = {name: str(attack.__doc__).partition("\n")[0] for name, attack in attack_classes().items()}
    lines = [textwrap.fill(f"{name:<14}{title}", 96, subsequent_indent=" " * 14) for name, title in titles.items()]
    group = parser.add_argument_group("Attacks", "\n".join(lines))
    help = "Attacks to run as well, with commas, or all. Run the command again to continue an interrupted attack."
    group.add_argument("--attack", type=names, default=(), metavar="NAMES", help=help)
    for each in attack_options().values():
        if each.flag:
            shown = ",".join(map(_short, each.default)) or "all" if isinstance(each.default, tuple) else each.default
            about = attribute_docs(each.attacks[0]).get(each.name, "")  # none where a notebook defines the attack
            help = f"{about.strip()} [{', '.join(a.name for a in each.attacks)}]"
            help += "" if shown is None else f" (default: {shown})"
            group.add_argument(f"--{each.flag}", type=_reader(each.default), help=help.replace("%", "%%"))
    help = "Precision of searches over texts: auto is bf16 on a GPU; results are always judged in fp32 (default: auto)"
    group.add_argument("--precision", choices=("auto", "fp32", "bf16"), help=help)


def _short(value: object) -> str:
    return f"{value:g}" if isinstance(value, float) else str(value)


def _reader(default: object) -> Callable[[str], Any]:
    """Return the function that reads an option with this default."""
    if isinstance(default, tuple):
        return numbers if default and isinstance(default[0], float) else names
    return str if default is None else type(default)


def names(text: str) -> tuple[str, ...]:
    return () if text.strip() == "none" else tuple(split_names(text))


def numbers(text: str) -> tuple[float, ...]:
    return tuple(float(number) for number in text.split(","))


def run(arguments: argparse.Namespace) -> int:
    options = {key: value for key, value in vars(arguments).items() if key not in ("paths", "json")}
    flags = {name: each.flag for name, each in attack_options().items() if each.flag} | {"precision": "precision"}
    settings = {name: value for name, flag in flags.items() if (value := options.pop(flag)) is not None}
    if options["attack"]:
        options |= {"settings": evaluation.AttackSettings(**settings), "progress": True}
    elif settings:
        raise RunError(f"--{flags[next(iter(settings))]} is for attacks: name some with --attack as well.")
    try:
        with silence_libraries():
            evaluations = [(path, each) for path in arguments.paths for each in evaluation.evaluate(path, **options)]
    except KeyboardInterrupt:
        sys.stderr.write("toughen: interrupted; run the same command to continue.\n")
        return 130
    if arguments.json:
        from ..attack_tables import reference_of

        rows = [_to_dict(each, reference_of(path, each, evaluations)) for path, each in evaluations]
        say(json.dumps(rows, indent=1, ensure_ascii=False))
        return 0
    _print_scores(evaluations)
    if options["attack"]:
        from ..attack_tables import print_attacks

        print_attacks(evaluations)
    return 0


def _to_dict(each: "evaluation.Evaluation", reference: "evaluation.Evaluation | None") -> dict[str, Any]:
    """Return an evaluation with its attacks, and paired differences from its reference."""
    row = each.to_dict()
    if each.attacks:
        row["attacks"] = [attacked.summary.to_dict() for attacked in each.attacks]
        if reference is not None:
            row["differences"] = [vars(one) for one in evaluation.differences(each.attacks, reference.attacks)]
    return row


def _print_scores(evaluations: "Sequence[tuple[str, evaluation.Evaluation]]") -> None:
    from ...reports.formatting import lower_is_better

    best = (min if lower_is_better(evaluations[0][1].metric) else max)(each.score for _, each in evaluations)
    marked = len(evaluations) > 1 and [each.score for _, each in evaluations].count(best) == 1  # of a tie, none
    rows: list[list[str]] = []
    head, names = model_names(evaluations)
    for name, (_, each) in zip(names, evaluations, strict=True):
        star = " *" if marked and each.score == best else ""
        ece = f"{each.calibration['ece']:.3f}" if each.calibration else "-"
        shown = each.metrics if len(evaluations) == 1 else {each.metric: each.metrics[each.metric]}
        scores = "\n".join(f"{metric} {span(**value)}" for metric, value in shown.items())
        rows.append([f"{name}{star}", str(each.rows), scores, ece])
    print_table([head, "rows", "score (95 % interval)", "ECE"], rows)
    if marked:
        say("* the best score")
    if len(evaluations) == 1:
        _print_details(evaluations[0][1])
    for note in dict.fromkeys(note for _, each in evaluations for note in each.notes):
        say(f"note: {note}")


def _print_details(each: "evaluation.Evaluation") -> None:
    if each.per_class:
        wanted = ("precision", "recall", "f1")
        rows = [[n, *(f"{v[k]:.3f}" for k in wanted), str(v["rows"])] for n, v in each.per_class.items()]
        print_table(["class", "precision", "recall", "F1", "rows"], rows)
    for kind, parts in each.slices.items():
        rows = [[part["name"], f"{part[each.metric]:.3f}", str(part["rows"])] for part in parts]
        print_table([kind, each.metric, "rows"], rows)
