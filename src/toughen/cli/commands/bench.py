"""Measure step time and memory of every method, eager and fast.

Examples:
  toughen bench
  toughen bench --model bert-base --methods smart,vat,freelb --shapes 16x64,32x128
  toughen bench --model runs/rte-vat --modes fast --compile --out times
"""

import argparse
import json
from pathlib import Path
from typing import TYPE_CHECKING

from ...internal.atomic import write_text
from .. import say
from ..arguments import split_names

if TYPE_CHECKING:
    from ...timing import Row


def add(parser: argparse.ArgumentParser) -> None:
    option = parser.add_argument_group("What to measure").add_argument
    option("--model", default="minilm", help="One of tiny, minilm, bert-base, bert-large, or a model folder.")
    option("--methods", type=split_names, help="Names with commas between them (default: all).")
    shapes = "Texts x tokens, several with commas. 64x512/3: lengths from a third to all."
    option("--shapes", type=split_names, default="16x64", help=shapes)
    modes = "What runs: eager, fast (CUDA graphs) or both; a CPU has eager alone."
    option("--modes", type=split_names, default="eager,fast", help=modes)
    option("--repeats", type=int, default=20, help="Timed steps; their median is given.")
    option = parser.add_argument_group("How").add_argument
    option("--dtype", choices=("float32", "bfloat16", "float16"), help="Default: bfloat16 on a GPU, float32 else.")
    option("--device", choices=("cpu", "cuda"), help="Default: cuda where there is one.")
    option("--compile", action="store_true", help="Compile the layers of the fast mode first.")
    option("--memory_budget", type=float, help="With --compile: share of activations to keep (default: all).")
    parser.add_argument("--out", type=Path, help="Write the rows to FILE.json and the table to FILE.md.")


def run(arguments: argparse.Namespace) -> int:
    from ...timing import bench, markdown

    options = vars(arguments)
    out = options.pop("out")
    rows = bench(**options, on_row=_say_row)
    say("\n" + markdown(rows))
    if out is not None:
        base = out.with_suffix("")
        lines = ",\n".join(" " + json.dumps(row.to_dict()) for row in rows)
        write_text(base.with_suffix(".json"), f"[\n{lines}\n]\n")
        write_text(base.with_suffix(".md"), markdown(rows))
        say(f"written: {base}.json, {base}.md")
    return 0


def _say_row(row: "Row") -> None:
    memory = "" if row.memory_gib is None else f"  {row.memory_gib:7.2f} GiB"
    note = f"  ({row.note})" if row.note else ""
    say(f"{row.batch}x{row.length}  {row.method:<10} {row.mode:<6} {row.ms:9.2f} ms{memory}{note}")
