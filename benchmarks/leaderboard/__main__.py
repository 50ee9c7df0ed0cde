"""`python -m benchmarks.leaderboard prepare | run | table | times | all`: README.md beside this file."""

import argparse
from pathlib import Path
from typing import Any

from .planning import PHASES
from .protocol import Protocol

RESULTS = Path(__file__).parent.parent / "results" / "leaderboard.jsonl"


def named(text: str) -> tuple[str, Path]:
    name, equals, path = text.partition("=")
    if not (name and equals and path):
        raise argparse.ArgumentTypeError(f"{text}: write NAME=PATH, such as wordnet=FOLDER")
    return name, Path(path)


def main(arguments: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.leaderboard", description=__doc__)
    verbs = parser.add_subparsers(dest="verb", required=True)
    prepare, run, table, times, everything = (verbs.add_parser(v) for v in ("prepare", "run", "table", "times", "all"))
    for verb in (prepare, everything):
        verb.add_argument("--model", type=Path, required=True, help="folder of a pretrained encoder")
        verb.add_argument("--name", required=True, help="what the table calls it")
        verb.add_argument("--data", type=Path, required=True, help="folder of sets, as toughen.tasks reads them")
        verb.add_argument("--prune", action="store_true", help="leave out embeddings of tokens that no set has")
        help = "sources for attacks on texts: JSON files or folders of WordNet, such as wordnet=FOLDER other=FILE"
        verb.add_argument("--synonyms", nargs="+", type=named, default=[], metavar="NAME=PATH", help=help)
        verb.add_argument("--lexicon", type=Path, help="misspellings for noise: lines of a word and its misspellings")
        verb.add_argument("--tasks", nargs="+", help="to prepare; default: all of the protocol")
    for verb in (prepare, run, everything):
        verb.add_argument("--file", type=Path, required=True, help="the prepared file, .safetensors")
    for verb in (run, table, times, everything):
        verb.add_argument("--results", type=Path, default=RESULTS, help="JSON lines, one a run")
    for verb in (run, everything):
        verb.add_argument("--minutes", type=float, default=1e6, help="begin no run after so many")
        verb.add_argument("--processes", type=int, help="on one GPU; default: cores less two, at most 14")
        verb.add_argument("--device")
        verb.add_argument("--phases", nargs="+", choices=PHASES, default=list(PHASES))
        verb.add_argument("--only", nargs="+", default=[], metavar="WORD", help="tasks, methods and heads to keep")
        verb.add_argument("--no_mps", action="store_true", help="do not try NVIDIA's multi-process service")
        verb.add_argument("--share", type=int, metavar="PERCENT", help="the most of the GPU that a process fills")
        verb.add_argument("--pack", action="store_true", help="leave padding out of the layers: pays for long texts")
    args = parser.parse_args(arguments)
    protocol = Protocol(pack=getattr(args, "pack", False))
    if args.verb in ("prepare", "all") and not (args.verb == "all" and args.file.is_file()):
        from .prepare import prepare as make

        narrowed = protocol.narrowed(args.tasks) if args.tasks else protocol
        sources: dict[str, Any] = {"synonyms": dict(args.synonyms), "lexicon": args.lexicon}
        made = make(args.model, args.name, args.data, args.file, narrowed, prune=args.prune, **sources)
        print(f"{made}: {made.stat().st_size / 2**20:.1f} MiB")
    if args.verb in ("run", "all"):
        from .run import run as make_runs

        make_runs(
            args.file,
            args.results,
            protocol,
            minutes=args.minutes,
            processes=args.processes,
            device=args.device,
            phases=args.phases,
            only=args.only,
            mps=not args.no_mps,
            share=args.share,
        )
    if args.verb in ("table", "all"):
        from .table import write

        for path in write(args.results, protocol):
            print(path)
    if args.verb == "times":
        from .run import times as told

        print(told(args.results))


if __name__ == "__main__":
    main()
