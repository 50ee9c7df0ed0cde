"""What a sweep adds to its trials: 8 tiny trials, two at a time, against the same trials run by hand.

    python benchmarks/sweep_overhead.py --out benchmarks/results/sweep_overhead.json

By hand is twice: `toughen train` as a process of its own for each trial, one after the other; and all trials in one
process that has its libraries loaded, which leaves the trials' own work alone. The sweep runs on Ray with one core a
trial; its time is from the first trial that it hands out to the end of the last, Ray's own start-up aside. The aim: at
most 1.3 times the sum by hand, in processes as a sweep's trials are, divided by the concurrency. A busy machine favours
what runs alone; the load is in the result. Results before trials were processes of their own had a fork server without
imports, and earlier ones began with the first trial's process.
"""

import argparse
import json
import os
import random
import subprocess
import sys
import tempfile
import time
from pathlib import Path

SOURCE = Path(__file__).resolve().parents[1] / "src"
CORES = 2
GRID = {"method.step_size": [0.02, 0.05, 0.1, 0.2], "train.learning_rate": [1e-3, 3e-3]}
IN_ONE_PROCESS = """
import sys, time
from pathlib import Path
from toughen.runs.launch import execute
execute(Path(sys.argv[1]))  # what is imported at first use is loaded now
for folder in sys.argv[2:]:
    began = time.perf_counter()
    execute(Path(folder))
    sys.stderr.write(f"SECONDS {time.perf_counter() - began}\\n")
"""


def make(folder: Path) -> dict:
    """A two-layer BERT and 400 short texts, as files."""
    from tokenizers import Tokenizer
    from tokenizers.models import WordLevel
    from tokenizers.pre_tokenizers import Whitespace
    from transformers import BertConfig, BertForSequenceClassification, PreTrainedTokenizerFast

    words = {word: i for i, word in enumerate(["[PAD]", "[UNK]", *(f"w{i}" for i in range(98))])}
    core = Tokenizer(WordLevel(words, unk_token="[UNK]"))
    core.pre_tokenizer = Whitespace()
    names = {"pad_token": "[PAD]", "unk_token": "[UNK]", "model_max_length": 32}
    PreTrainedTokenizerFast(tokenizer_object=core, **names).save_pretrained(folder / "model")
    size = {"hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 4, "intermediate_size": 64}
    BertForSequenceClassification(BertConfig(vocab_size=100, **size)).save_pretrained(folder / "model")
    dice = random.Random(0)
    lines = [f"{' '.join(f'w{dice.randrange(98)}' for _ in range(12))},{'ab'[n % 2]}" for n in range(400)]
    (folder / "train.csv").write_text("\n".join(["text,label", *lines]))
    data = {"train_file": str(folder / "train.csv"), "cache_dir": str(folder / "cache")}
    train = {"batch_size": 16, "epochs": 3}
    return {"model": str(folder / "model"), "method": "freelb", "data": data, "train": train}


def run(words: list, **environment: str) -> tuple[float, str]:
    began = time.perf_counter()
    settings = {**os.environ, "PYTHONPATH": str(SOURCE), "OMP_NUM_THREADS": "1", "HF_HUB_OFFLINE": "1", **environment}
    done = subprocess.run(
        [sys.executable, *map(str, words)],
        env=settings,
        check=True,
        text=True,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
    )
    return time.perf_counter() - began, done.stderr


def configs(base: dict, folder: Path, count: int | None = None) -> list[Path]:
    """The trials' run folders, to be run by hand."""
    from toughen.runs.config_io import build
    from toughen.runs.folder import RunFolder
    from toughen.sweeps.loading import load_definition
    from toughen.sweeps.validation import grid

    definition, _ = load_definition({"base": base, "parameters": {key: {"values": GRID[key]} for key in GRID}})
    rows = grid(definition)[:count]
    return [
        RunFolder.create(build({**base, **row, "output_dir": str(folder / str(n))})).path for n, row in enumerate(rows)
    ]


def measure(folder: Path, base: dict) -> dict:
    """One of each."""
    by_process = [
        run(["-m", "toughen.cli.main", "train", "--resume", each])[0] for each in configs(base, folder / "hand")
    ]
    warm = configs(base, folder / "warm")
    _, said = run(["-c", IN_ONE_PROCESS, *configs(base, folder / "first", 1), *warm])
    in_one = [float(line.split()[1]) for line in said.splitlines() if line.startswith("SECONDS")]
    file = folder / "sweep.json"
    parameters = {key: {"values": values} for key, values in GRID.items()}
    file.write_text(json.dumps({"base": base, "parameters": parameters, "resources": {"cpu": 1, "concurrent": CORES}}))
    out = folder / "sweep"
    short = {"RAY_TMPDIR": str(folder), "RAY_USAGE_STATS_ENABLED": "0"}
    whole, _ = run(["-m", "toughen.cli.main", "sweep", file, "--engine", "ray", "--output_dir", out], **short)
    starts = [file.stat().st_mtime for file in out.glob("trials/*/config.yaml")]  # written when a row is begun
    ends = [file.stat().st_mtime for file in out.glob("trials/*/results.json")]
    assert len(by_process) == len(in_one) == len(ends) == 8
    span = max(ends) - min(starts)
    return {
        "by_hand_processes_s": round(sum(by_process), 2),
        "by_hand_in_one_process_s": round(sum(in_one), 2),
        "sweep_s": round(span, 2),
        "sweep_with_start_up_s": round(whole, 2),
        "ratio_to_processes": round(span / (sum(by_process) / CORES), 3),
        "ratio_to_one_process": round(span / (sum(in_one) / CORES), 3),
        "load": [round(each, 2) for each in os.getloadavg()],
        "cores": os.cpu_count(),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--out", type=Path)
    parser.add_argument("--repeats", type=int, default=1)
    given = parser.parse_args()
    sys.path.insert(0, str(SOURCE))
    found = []
    for _ in range(given.repeats):
        with tempfile.TemporaryDirectory(prefix="so") as name:
            found.append(measure(Path(name), make(Path(name))))
        print(json.dumps(found[-1]), flush=True)
    if given.out:
        given.out.write_text(json.dumps(found, indent=1) + "\n")


if __name__ == "__main__":
    main()
