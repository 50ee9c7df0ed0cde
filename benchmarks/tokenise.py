"""How fast a set is tokenised beside the tokenizer's own batched call, and whether memory grows with rows.

    python benchmarks/tokenise.py TOKENIZER_FOLDER --rows 100000 1000000

For each size one process makes a CSV of short rows, loads it (validated, as memory-mapped Arrow), then times
`tokenizer(batch)` over all rows against `prepare(data, tokenizer)`, in the same run and in turns, and prints the
ratio (1.0: as fast as the bare tokenizer; the aim is 0.8 or more), of wall time and of processor time, which a busy
machine does not distort. Memory is the peak of anonymous resident
memory (pages of a memory-mapped file belong to the page cache and can be dropped at any time) while loading and
preparing; the aim is that it does not grow with the number of rows. The peak with mapped pages is printed too.

Last result (2 shared cores, busy with other work, BERT's WordPiece, rows of 7 to 25 words, one repeat):
100,000 rows: ratio 1.42, by processor 0.87, 251 MB; 1,000,000 rows: ratio 1.18, by processor 0.99, 257 MB.
"""

import argparse
import json
import random
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

WORDS = (
    "the",
    "a",
    "film",
    "plot",
    "of",
    "and",
    "is",
    "not",
    "good",
    "bad",
    "slow",
    "bright",
    "dull",
    "story",
    "ending",
)


def write_rows(path: Path, rows: int) -> None:
    dice = random.Random(0)
    with path.open("w") as file:
        file.write("text,label\n")
        for row in range(rows):
            file.write(f"{' '.join(dice.choices(WORDS, k=dice.randint(6, 24)))} {row},{row % 2}\n")


class Peak:
    """Samples this process's memory in a thread; `with Peak() as peak: ...`."""

    def __enter__(self) -> "Peak":
        self.anonymous = self.resident = 0
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._watch, daemon=True)
        self._thread.start()
        return self

    def _watch(self) -> None:
        while not self._stop.wait(0.005):
            fields = dict(line.split(":", 1) for line in Path("/proc/self/status").read_text().splitlines())
            self.anonymous = max(self.anonymous, int(fields["RssAnon"].split()[0]))
            self.resident = max(self.resident, int(fields["VmRSS"].split()[0]))

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        self._thread.join()


def timed(work: Callable[[], object]) -> tuple[float, float]:
    """Seconds on the clock and on the processors (all threads)."""
    wall, processor = time.perf_counter(), time.process_time()
    work()
    return time.perf_counter() - wall, time.process_time() - processor


def tokenise_plainly(split: Any, tokenizer: Any) -> None:
    for batch in split.iter(1000):
        tokenizer(batch["text"], truncation=True, max_length=64)


def measure(folder: str, rows: int, repeats: int) -> dict[str, float]:
    from transformers import AutoTokenizer

    from toughen import tasks

    tokenizer = AutoTokenizer.from_pretrained(folder)
    with tempfile.TemporaryDirectory() as place:
        file, few = Path(place) / "rows.csv", Path(place) / "few.csv"
        write_rows(file, rows)
        write_rows(few, 100)
        with Peak() as peak:
            start = time.perf_counter()
            data = tasks.load(train_file=file, validation_file=few, cache_dir=place)
            loaded = time.perf_counter() - start
            tasks.prepare(data, tokenizer, 64, cache_dir=f"{place}/first")
        ours, bare = [], []
        for repeat in range(repeats):
            bare.append(timed(partial(tokenise_plainly, data.train, tokenizer)))
            alone = tasks.Data(data.task, train=data.train)
            ours.append(timed(partial(tasks.prepare, alone, tokenizer, 64, cache_dir=f"{place}/{repeat}")))
    wall, processor = ([min(times[which] for times in runs) for runs in (bare, ours)] for which in (0, 1))
    return {
        "rows": rows,
        "load_s": round(loaded, 2),
        "tokenizer_rows_per_s": round(len(data.train) / wall[0]),
        "prepare_rows_per_s": round(len(data.train) / wall[1]),
        "ratio": round(wall[0] / wall[1], 3),
        "processor_ratio": round(processor[0] / processor[1], 3),
        "peak_anonymous_mb": round(peak.anonymous / 1024, 1),
        "peak_resident_mb": round(peak.resident / 1024, 1),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("tokenizer", help="folder or name of a tokenizer")
    parser.add_argument("--rows", type=int, nargs="+", default=[100_000, 1_000_000])
    parser.add_argument("--repeats", type=int, default=2)
    parser.add_argument("--one", action="store_true", help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.one:
        print(json.dumps(measure(given.tokenizer, given.rows[0], given.repeats)))
        return
    found = []
    for rows in given.rows:
        # A process for each size: a peak cannot be lowered again within one.
        command = [sys.executable, __file__, given.tokenizer, "--rows", str(rows), "--repeats", str(given.repeats)]
        shown = subprocess.run([*command, "--one"], check=True, stdout=subprocess.PIPE, text=True).stdout
        found.append(json.loads(shown.splitlines()[-1]))
        print(found[-1], flush=True)
    growth = found[-1]["peak_anonymous_mb"] - found[0]["peak_anonymous_mb"]
    wall, processor = (min(one[name] for one in found) for name in ("ratio", "processor_ratio"))
    print(f"ratio {wall:.2f}, by processor {processor:.2f}; anonymous memory grew by {growth:.0f} MB over the sizes")


if __name__ == "__main__":
    main()
