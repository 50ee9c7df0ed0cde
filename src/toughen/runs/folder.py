"""The run folder: made once, read by everyone, never overwritten."""

import json
import os
import re
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from shlex import quote
from typing import Any

from .config import Config
from .config_io import build, to_yaml
from .errors import RunError
from .files import write_json, write_new
from .method_config import parts_of
from .strict_yaml import read_yaml

Numbers = Mapping[str, float]


@dataclass(frozen=True)
class Results:
    """results.json: what each seed reached and what it cost."""

    path: Path
    task: str
    model: str
    method: Mapping[str, Any]
    metric: str
    seeds: Sequence[Mapping[str, Any]]
    mean: Numbers
    sd: Numbers
    median: Numbers
    head: str | None = None
    higher_is_better: bool = True
    baseline: Mapping[str, Any] | None = None
    data: Mapping[str, Any] = field(default_factory=dict[str, Any])
    versions: Mapping[str, Any] = field(default_factory=dict[str, Any])
    hardware: Mapping[str, Any] = field(default_factory=dict[str, Any])
    notes: Sequence[str] = ()
    toughen: str = ""

    @property
    def best(self) -> Mapping[str, Any]:
        """The seed with the best selecting metric; of equals the first."""
        return max(self.seeds, key=lambda seed: seed["metrics"][self.metric])

    def __str__(self) -> str:
        """One line: every seed, mean, sd and median of the selecting metric."""
        parts = [f"seed {seed['seed']} {seed['metrics'][self.metric]:.4f}" for seed in self.seeds]
        name = self.metric
        if len(parts) > 1:
            spread = f"{self.mean[name]:.4f} ± {self.sd[name]:.4f} (median {self.median[name]:.4f})"
            parts.append(f"mean {spread}")
        return f"{name}: {' · '.join(parts)}"


def read(path: "str | os.PathLike[str]") -> Results:
    """The results of a run folder."""
    folder = Path(path)
    file = folder / "results.json"
    if not file.is_file():
        known = (folder / "config.yaml").is_file()
        state = (
            f"has no results yet; go on with: toughen train --resume {quote(str(folder))}"
            if known
            else "is no run folder"
        )
        raise RunError(f"{folder} {state}.")
    try:
        values: dict[str, Any] = json.loads(file.read_text(encoding="utf-8"))
    except json.JSONDecodeError as error:
        raise RunError(f"{file} is not JSON: {error}.") from None
    names = Results.__dataclass_fields__
    return Results(path=folder, **{key: value for key, value in values.items() if key in names})


def read_config(folder: Path) -> Config:
    """The config of a run, as it was merged."""
    file = folder / "config.yaml"
    if not file.is_file():
        raise RunError(f"{folder} is no run folder: it has no config.yaml.")
    return build(read_yaml(file, RunError, "holds no config of a run."))


def name_of(config: Config) -> str:
    """<task>-<method>-<date>-<time>, of letters that every file system takes."""
    task = config.task or Path(config.data.train_file or "own").name.partition(".")[0]
    method = "+".join(key for _, key in parts_of(config.method_name))
    plain = re.sub(r"[^\w.+-]+", "_", f"{task}-{method}").lower()
    return f"{plain}-{datetime.now():%Y%m%d-%H%M%S}"


def create(config: Config) -> Path:
    """Make the folder of a new run and write its config; a folder that holds something is refused."""
    if config.output_dir is not None:
        folder = Path(config.output_dir)
        if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
            hint = f"go on with --resume {folder}, or " if (folder / "config.yaml").is_file() else ""
            raise RunError(f"{folder} is there already and nothing is overwritten; {hint}choose another --output_dir.")
        tries = [folder]
    else:
        folder = Path("runs") / name_of(config)  # with a number behind it when another run began in the same second
        tries = [folder, *(folder.with_name(f"{folder.name}-{number}") for number in range(2, 1000))]
    try:
        text, given = to_yaml(config), config.output_dir is not None
        folder = next(each for each in tries if _made(each, given) and write_new(each / "config.yaml", text))
    except StopIteration:
        raise RunError(f"{folder} was taken by another run just now; choose another --output_dir.") from None
    except OSError as error:
        raise RunError(f"{folder} cannot be written: {error.strerror or error}.") from None
    return folder


def _made(folder: Path, empty: bool) -> bool:
    """Make a folder, or take an `empty` one; False when somebody else has it, who may have come a moment before."""
    if empty and folder.is_dir():
        return not any(folder.iterdir())
    try:
        folder.mkdir(parents=True)
    except FileExistsError:
        return False
    return True


def withdraw(folder: Path) -> None:
    """Take away what `create` made, if no seed began: a mistake in a column's name costs no folder's name."""
    if (folder / "seeds").exists():
        return
    for name in (
        "config.yaml",
        "began.json",
        "memory.json",
        "torchrun.log",
        "fault.txt",
        *(f.name for f in folder.glob("train*.log")),
    ):
        (folder / name).unlink(missing_ok=True)
    with suppress(OSError):  # somebody else's files
        folder.rmdir()


def seed_folder(run: Path, arm: str, seed: int) -> Path:
    """Where a seed's model, predictions and checkpoints are: seeds/1, or baseline/1."""
    return run / ("seeds" if arm == "method" else "baseline") / str(seed)


def checkpoints(folder: Path) -> list[Path]:
    """The usable checkpoints of a seed, oldest first.

    Trainer writes its state last: a checkpoint with a whole one is whole, however the process ended.
    """
    found = [each for each in folder.glob("checkpoint-*") if each.name.removeprefix("checkpoint-").isdigit()]
    return [each for each in sorted(found, key=lambda path: int(path.name.rpartition("-")[2])) if _usable(each)]


def _usable(checkpoint: Path) -> bool:
    try:
        state = json.loads((checkpoint / "trainer_state.json").read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return False
    return isinstance(state, dict) and any(checkpoint.glob("toughen_state_*.safetensors"))


def write_results(folder: Path, values: Mapping[str, Any]) -> None:
    """results.json, and the same numbers under the names the Hugging Face scripts use."""
    write_json(folder / "results.json", values)
    evaluated = {f"eval_{name}": value for name, value in values["mean"].items()}
    seconds = [seed["train_seconds"] for seed in values["seeds"]]
    trained = {"train_runtime": sum(seconds) / len(seconds), "train_samples": values["data"].get("train")}
    write_json(folder / "eval_results.json", evaluated)
    write_json(folder / "train_results.json", trained)
    write_json(folder / "all_results.json", {**trained, **evaluated})
