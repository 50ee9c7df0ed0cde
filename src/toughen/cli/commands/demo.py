"""Train a small model in minutes, offline: plain fine-tuning against a robust one, on texts with typos and worse.

Examples:
  toughen demo
  toughen demo --seed 1,2,3 --out my-demo
  toughen demo --limit 64 --model path/to/encoder
"""

import argparse

from ...runs.config_io import seeds_of
from ...runs.errors import Interrupted
from .. import say


def add(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--out", default="demo-report", help="Folder for runs and report.html.")
    parser.add_argument("--seed", default="1,2", help="One seed, or several with commas.")
    parser.add_argument("--model", help="Folder of another encoder; by default all-MiniLM-L6-v2 of the extra [demo].")
    parser.add_argument("--limit", type=int, help="Training rows, for a quick look.")


def run(arguments: argparse.Namespace) -> int:
    from ...demo import demo

    seeds = seeds_of(arguments.seed)
    try:
        demo(arguments.out, seeds=seeds, model=arguments.model, limit=arguments.limit, say=say)
    except Interrupted as stopped:
        say("stopped; the next demo starts from the beginning")
        return 128 + stopped.signal
    return 0
