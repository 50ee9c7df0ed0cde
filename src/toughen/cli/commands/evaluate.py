"""Score a run or a model on any split or file, also under attack."""

import json
import sys
from collections.abc import Mapping, Sequence
from typing import Any

from ..tables import print_table, say, span

ATTACKS = """attacks to run as well, with commas, or all:
embedding (FGSM and PGD on the embeddings, accuracy against radius, random noise beside it),
characters (typos and look-alike letters, greedy: DeepWordBug), flips (words by gradient: HotFlip),
synonyms (PWWS, from WordNet or --synonyms), neighbours (PWWS, from the model's own embeddings),
noise (typos, casing, punctuation, whitespace, contractions, distractors at several strengths),
sets (AdvGLUE, HANS, ANLI, PAWS, stress tests, files). An interrupted attack goes on when run again."""

FLAGS = {name: f"--{name}" for name in ("task", "file", "sets", "synonyms", "text_column", "label_column", "dir")}


def _names(text: str) -> tuple[str, ...]:
    names = tuple(name.strip() for name in text.split(",") if name.strip())
    return () if names == ("none",) else names


def _numbers(text: str) -> tuple[float, ...]:
    return tuple(float(number) for number in text.split(","))


ATTACK_OPTIONS: Mapping[str, tuple[Any, str]] = {
    "queries": (int, "texts an attack may try on an example (default: 200)"),
    "words": (float, "share of words it may change (default: 0.3)"),
    "keep": (_names, "words that stay: labels,stopwords,numbers, or none (default: all three)"),
    "attack_columns": (_names, "text columns to change (default: all)"),
    "edits": (_names, "of characters: swap,delete,insert,keyboard,homoglyph (default: all)"),
    "candidates": (int, "substitutes tried for a word (default: 10)"),
    "synonyms": (str, "JSON file {word: [words]}, or folder of WordNet; else an installed package"),
    "radii": (_numbers, "of embedding: shares of its norm (default: 0.005,0.01,0.02,0.05,0.1)"),
    "steps": (int, "of PGD (default: 10)"),
    "strengths": (_numbers, "of noise: shares of words or letters (default: 0.1,0.3,0.5,1)"),
    "noise": (
        _names,
        "kinds of noise: typos,casing,punctuation,whitespace,contractions,distractors (default: all)",
    ),
    "sets": (_names, "sets or files for sets (default: all in --dir that fit)"),
    "seed": (int, "of noise, typos and random directions (default: 0)"),
    "precision": (
        str,
        "of searches over texts: auto is bf16 on a GPU; results are always judged in fp32 (default: auto)",
    ),
}


def add(parser: Any) -> None:
    parser.add_argument("paths", nargs="+", metavar="RUN_OR_MODEL", help="run folders, or folders of saved models")
    parser.add_argument("--task", help="evaluate on this set, such as hans or mnli-mm; a run knows its own")
    parser.add_argument("--split", default="validation", help="train, validation or test (default: validation)")
    parser.add_argument("--file", help="evaluate on the rows of this file: CSV, TSV, JSON, JSONL, Parquet, CoNLL")
    parser.add_argument("--dir", help="folder of sets on disk; a run knows its own")
    parser.add_argument("--text_column", help="column of the text in --file and files of --sets, or two with a comma")
    parser.add_argument("--label_column", help="column of the label in --file and files of --sets")
    parser.add_argument("--max_length", type=int, help="tokens a text is cut at; a run knows its own")
    parser.add_argument("--limit", type=int, help="at most so many rows; the names of files and lines say so")
    parser.add_argument("--batch_size", type=int, help="rows of one pass (default: 64; attacks on a GPU: 2048)")
    parser.add_argument("--samples", type=int, default=1000, help="bootstrap samples of an interval (default: 1000)")
    parser.add_argument("--all_seeds", action="store_true", help="every seed of a run, and its baseline's")
    parser.add_argument("--all_checkpoints", action="store_true", help="every checkpoint that was kept")
    parser.add_argument("--json", action="store_true", help="print JSON in place of a table")
    group = parser.add_argument_group("attacks")
    group.add_argument("--attack", type=_names, default=(), metavar="NAMES", help=ATTACKS)
    for name, (kind, text) in ATTACK_OPTIONS.items():
        choices = ("auto", "fp32", "bf16") if name == "precision" else None
        group.add_argument(f"--{name}", type=kind, choices=choices, help=text)


def run(arguments: Any) -> int:
    from ...evaluation import evaluate
    from ...runs.errors import RunError
    from ...runs.progress import silence_libraries

    options = {key: value for key, value in vars(arguments).items() if key not in ("paths", "json")}
    given = {name: value for name in ATTACK_OPTIONS if (value := options.pop(name)) is not None}
    if options["attack"]:
        options |= {"settings": _settings(given), "progress": True}
    elif given:
        raise RunError(f"--{next(iter(given))} is for attacks: name some with --attack as well.")
    try:
        with silence_libraries():
            evaluations = [(path, each) for path in arguments.paths for each in evaluate(path, **options)]
    except KeyboardInterrupt:
        sys.stderr.write("toughen: interrupted; the same command goes on from here.\n")
        return 130
    if arguments.json:
        say(json.dumps([_to_dict(each, evaluations[0][1]) for _, each in evaluations], indent=1, ensure_ascii=False))
        return 0
    _print_scores(evaluations, many=len(arguments.paths) > 1)
    if options["attack"]:
        from ..attack_tables import print_attacks

        print_attacks(evaluations)
    return 0


def _settings(given: Mapping[str, Any]) -> Any:
    from ...evaluation import AttackSettings, Budget

    named = {"columns" if name == "attack_columns" else name: value for name, value in given.items()}
    budget = {name: named.pop(name) for name in ("queries", "words") if name in named}
    return AttackSettings(budget=Budget(**budget), **named)


def _to_dict(each: Any, first: Any) -> dict[str, Any]:
    """Return an evaluation with its attacks, and paired differences from the first one."""
    row: dict[str, Any] = each.to_dict()
    if each.attacks:
        from ...evaluation import differences

        row["attacks"] = [attacked.summary.to_dict() for attacked in each.attacks]
        if each is not first:
            row["differences"] = [vars(one) for one in differences(each.attacks, first.attacks)]
    return row


def _print_scores(evaluations: Sequence[tuple[str, Any]], many: bool) -> None:
    from ...reports.comparison import LOWER

    best = (min if evaluations[0][1].metric in LOWER else max)(each.score for _, each in evaluations)
    marked = len(evaluations) > 1 and [each.score for _, each in evaluations].count(best) == 1  # of a tie, none
    rows: list[list[str]] = []
    for path, each in evaluations:
        name = f"{path} · {each.name}" if many else each.name
        star = " *" if marked and each.score == best else ""
        ece = f"{each.calibration['ece']:.3f}" if each.calibration else "-"
        shown = each.metrics if len(evaluations) == 1 else {each.metric: each.metrics[each.metric]}
        scores = "\n".join(f"{metric} {span(value)}" for metric, value in shown.items())
        rows.append([f"{name}{star}", str(each.rows), scores, ece])
    print_table(["evaluation", "rows", "score (95 % interval)", "ECE"], rows)
    if marked:
        say("* the best score")
    if len(evaluations) == 1:
        _print_details(evaluations[0][1])
    for note in dict.fromkeys(note for _, each in evaluations for note in each.notes):
        say(f"note: {note}")


def _print_details(each: Any) -> None:
    if each.per_class:
        wanted = ("precision", "recall", "f1")
        rows = [[n, *(f"{v[k]:.3f}" for k in wanted), str(v["rows"])] for n, v in each.per_class.items()]
        print_table(["class", "precision", "recall", "F1", "rows"], rows)
    for kind, parts in each.slices.items():
        rows = [[part["name"], f"{part[each.metric]:.3f}", str(part["rows"])] for part in parts]
        print_table([kind, each.metric, "rows"], rows)
