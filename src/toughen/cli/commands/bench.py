"""Measure step time and memory of every method, eager and fast."""

import json
from pathlib import Path
from typing import Any

from .. import say


def _names(text: str) -> list[str]:
    return text.split(",")


def add(parser: Any) -> None:
    parser.add_argument(
        "--model", default="minilm", help="tiny, minilm, bert-base, bert-large (random weights), or a model folder"
    )
    parser.add_argument("--methods", type=_names, help="names with commas between them (default: all)")
    parser.add_argument(
        "--shapes",
        type=_names,
        default="16x64",
        help="texts x tokens, several with commas; 64x512/3: lengths from a third to all",
    )
    parser.add_argument(
        "--modes",
        type=_names,
        default="eager,fast",
        help="eager, fast (CUDA graphs) or both (default); a CPU has eager alone",
    )
    parser.add_argument(
        "--dtype", choices=["float32", "bfloat16", "float16"], help="default: bfloat16 on a GPU, float32 else"
    )
    parser.add_argument("--device", choices=["cpu", "cuda"], help="default: cuda where there is one")
    parser.add_argument("--repeats", type=int, default=20, help="timed steps; their median is given (default: 20)")
    parser.add_argument("--compile", action="store_true", help="compile the layers of the fast mode first")
    parser.add_argument(
        "--memory_budget", type=float, help="with --compile: the share of activations to keep, 0.9 say (default: all)"
    )
    parser.add_argument("--out", type=Path, help="write the rows to FILE.json and the table to FILE.md")


def run(arguments: Any) -> int:
    from ...internal.atomic import write_text
    from ...timing import bench, markdown

    def say_row(row: Any) -> None:
        memory = "" if row.memory_gib is None else f"  {row.memory_gib:7.2f} GiB"
        note = f"  ({row.note})" if row.note else ""
        say(f"{row.batch}x{row.length}  {row.method:<10} {row.mode:<6} {row.ms:9.2f} ms{memory}{note}")

    options = vars(arguments)
    out = options.pop("out")
    rows = bench(**options, on_row=say_row)
    say("\n" + markdown(rows))
    if out is not None:
        base = out.with_suffix("")
        lines = ",\n".join(" " + json.dumps(row.to_dict()) for row in rows)
        write_text(base.with_suffix(".json"), f"[\n{lines}\n]\n")
        write_text(base.with_suffix(".md"), markdown(rows))
        say(f"written: {base}.json, {base}.md")
    return 0
