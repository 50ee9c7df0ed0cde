"""The run folder: one class that makes, reads, writes, locks and lists it."""

import errno
import json
import os
import re
import shutil
from collections.abc import Generator, Mapping
from contextlib import contextmanager, suppress
from datetime import datetime
from pathlib import Path
from shlex import quote
from typing import Any

from ..internal.atomic import json_line, write_json, write_new, write_text
from .config import Config
from .config_io import build, read_yaml, to_yaml
from .errors import RunError
from .method_config import parts_of
from .results import Results, RunManifest, SeedResult

# Names that internal/atomic.py and train_seed.py write to before they move the whole to its place.
_UNFINISHED = re.compile(r"\..+\.[0-9a-f]{8}|\.model-\d+")
DISK_FULL = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)


class RunFolder:
    """A run on disk. It is made once, read by everyone and never overwritten.

    Args:
        path: The folder.
        config: The config of a run that begins.

    Examples:
        >>> toughen.runs.RunFolder(run.path).results().metric
        'accuracy'
    """

    def __init__(self, path: "str | os.PathLike[str]", config: Config | None = None) -> None:
        self.path = Path(path)
        self._config = config
        self.config_file = self.path / "config.yaml"
        self.manifest_file = self.path / "began.json"
        self.results_file = self.path / "results.json"
        self.metrics_file = self.path / "metrics.jsonl"
        self.memory_file = self.path / "memory.json"
        self.error_file = self.path / "fault.txt"  # why a worker ended, in one line
        self.stop_file = self.path / "stop.txt"  # how the process that started torchrun asks its workers to stop

    def __fspath__(self) -> str:
        return str(self.path)

    def __str__(self) -> str:
        return str(self.path)

    @classmethod
    def of(cls, path: "str | os.PathLike[str]") -> "RunFolder":
        """Return a run folder as it is, with the config it knows, or the one at a path."""
        return path if isinstance(path, cls) else cls(path)

    # Make and discard

    @classmethod
    def create(cls, config: Config) -> "RunFolder":
        """Make the folder of a new run and write its config; refuse a folder that holds something."""
        if config.output_dir is not None:
            path = Path(config.output_dir)
            if path.exists() and (not path.is_dir() or any(path.iterdir())):
                hint = f"continue with --resume {path}, or " if (path / "config.yaml").is_file() else ""
                raise RunError(f"{path} already exists; {hint}choose another --output_dir.")
            tries = [path]
        else:
            path = Path("runs") / _name_of(config)  # with a number behind it if another run began in the same second
            tries = [path, *(path.with_name(f"{path.name}-{number}") for number in range(2, 1000))]
        try:
            text, given = to_yaml(config), config.output_dir is not None
            path = next(each for each in tries if _claim(each, given) and write_new(each / "config.yaml", text))
        except StopIteration:
            raise RunError(f"{path} was taken by another run just now; choose another --output_dir.") from None
        except OSError as error:
            raise RunError(f"{path} cannot be written: {error.strerror or error}.") from None
        return cls(path, config)

    def discard_unstarted(self) -> None:
        """Remove what `create` made if no seed began: a mistake in a column's name costs no folder's name."""
        if (self.path / "seeds").exists():
            return
        own = (self.config_file, self.manifest_file, self.memory_file, self.error_file, self.path / "torchrun.log")
        for file in (*own, *self.path.glob("train*.log")):
            file.unlink(missing_ok=True)
        with suppress(OSError):  # somebody else's files
            self.path.rmdir()

    # Config and manifest

    def config(self) -> Config:
        """Read the config of the run, as it was merged; once, and not at all where the run was made here."""
        if self._config is not None:
            return self._config
        if not self.config_file.is_file():
            raise RunError(f"{self} is no run folder: it has no config.yaml.")
        self._config = build(read_yaml(self.config_file, RunError, "holds no config of a run."))
        return self._config

    def manifest(self) -> RunManifest:
        """Read what the run began with."""
        return RunManifest.from_dict(_read_json(self.manifest_file))

    def check_manifest(self, now: RunManifest) -> None:
        """Note what the run begins with; refuse to go on with anything else."""
        values = now.to_dict()
        if not self.manifest_file.is_file():
            write_json(self.manifest_file, values)  # the first process comes here before the others
            return
        before = _read_json(self.manifest_file)
        for key, value in values.items():
            if before.get(key, value) != value:
                raise RunError(f"{self} began with {key} {before.get(key)}, and now it is {value}; start a new run.")

    # Seeds

    def seed_folder(self, variant: str, seed: int) -> Path:
        """Return where a seed's model, predictions and checkpoints are: seeds/1, or baseline/1."""
        return self.path / ("seeds" if variant == "method" else "baseline") / str(seed)

    def seed_result(self, variant: str, seed: int) -> SeedResult | None:
        """Read the result of a seed; None while it is not done."""
        file = self.seed_folder(variant, seed) / "result.json"
        return SeedResult.from_dict(_read_json(file)) if file.is_file() else None

    def write_seed_result(self, variant: str, result: SeedResult) -> None:
        write_json(self.seed_folder(variant, result.seed) / "result.json", result.to_dict())

    def done(self, config: Config, variant: str) -> list[SeedResult]:
        """Read the results of all seeds that are done."""
        results = (self.seed_result(variant, seed) for seed in config.seed)
        return [result for result in results if result is not None]

    def checkpoints(self, variant: str, seed: int) -> list[Path]:
        """List the checkpoints of a seed, oldest first; a killed process may have left the last one unfinished."""
        return checkpoints_in(self.seed_folder(variant, seed))

    def sweep(self) -> None:
        """Remove what a killed process left half-written; call it under the lock."""
        seeds = [path for part in ("seeds", "baseline") for path in (self.path / part).glob("*")]
        for folder in (self.path, *seeds, *(path for seed in seeds for path in seed.glob("[!.]*") if path.is_dir())):
            for path in folder.glob(".*"):
                if _UNFINISHED.fullmatch(path.name):
                    shutil.rmtree(path) if path.is_dir() else path.unlink()

    # Results and metrics

    def results(self) -> Results:
        """Read the results of all seeds."""
        if not self.results_file.is_file():
            resume = f"has no results yet; continue with: toughen train --resume {quote(str(self))}"
            raise RunError(f"{self} {resume if self.config_file.is_file() else 'is no run folder'}.")
        return Results.from_dict({**_read_json(self.results_file), "path": self.path})

    def write_results(self, results: Results) -> None:
        """Write results.json, and the same numbers under the names the Hugging Face scripts use."""
        write_json(self.results_file, results.to_dict())
        evaluated = {f"eval_{name}": value for name, value in results.mean.items()}
        seconds = [seed.train_seconds for seed in results.seeds]
        trained = {"train_runtime": sum(seconds) / len(seconds), "train_samples": results.data.get("train")}
        write_json(self.path / "eval_results.json", evaluated)
        write_json(self.path / "train_results.json", trained)
        write_json(self.path / "all_results.json", {**trained, **evaluated})

    def is_complete(self, config: Config) -> bool:
        """Return whether results.json holds every seed of every variant."""
        if not self.results_file.is_file():
            return False
        results = self.results()
        plain = results.baseline.seeds if results.baseline else ()
        counts = [len(results.seeds), *([len(plain)] if config.baseline else [])]
        return all(count == len(config.seed) for count in counts)

    def append_metrics(self, row: Mapping[str, Any]) -> None:
        """Add a row to metrics.jsonl."""
        with self.metrics_file.open("a", encoding="utf-8") as file:
            file.write(json_line(row))

    def truncate_metrics(self, variant: str, seed: int, after: int) -> None:
        """Drop a seed's rows of metrics.jsonl past the checkpoint it goes on from: they will come again."""
        if not self.metrics_file.is_file():
            return
        kept: list[str] = []
        for line in self.metrics_file.read_text(encoding="utf-8").splitlines():
            try:
                row = json.loads(line)
            except ValueError:
                continue  # the process ended in the middle of a line
            if (row["arm"], row["seed"]) != (variant, seed) or row["step"] <= after:
                kept.append(line)
        write_text(self.metrics_file, "".join(f"{line}\n" for line in kept))

    # Memory that ran out

    def oom_history(self) -> dict[str, dict[str, Any]]:
        """Read how each variant's passes were made smaller; empty while there was enough memory."""
        return _read_json(self.memory_file) if self.memory_file.is_file() else {}

    def oom_notes(self) -> list[str]:
        """List every reduction in a line, for results.json."""
        return [note for variant in self.oom_history().values() for note in variant["notes"]]

    def note_oom(self, variant: str, rows: int, note: str) -> None:
        """Remember how many rows a pass holds from now on."""
        known = self.oom_history()
        before: Mapping[str, Any] = known.get(variant, {"notes": []})
        if before.get("rows") != rows:  # several processes may run out at once; all write the same
            write_json(self.memory_file, {**known, variant: {"rows": rows, "notes": [*before["notes"], note]}})

    # One process at a time, and a full disk

    @contextmanager
    def lock(self) -> Generator[tuple[int, ...]]:
        """Lock the folder; yields what a child must inherit to lock it too. The system unlocks it however we end.

        The lock is on config.yaml, which is written once: no file of its own is left behind.
        """
        try:
            import fcntl
        except ImportError:  # Windows
            yield ()
            return
        with self.config_file.open("rb") as file:
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                raise RunError(f"{self} is being trained by another process; wait for it or stop it.") from None
            except OSError:  # a file system without locks
                pass
            yield (file.fileno(),)

    @contextmanager
    def disk_full_as_run_error(self) -> Generator[None]:
        """Raise a `RunError` that says how to go on where the disk is full: every library says it in its own way."""
        try:
            yield
        except Exception as error:
            if not _is_disk_full(error):
                raise
            first = str(error).strip().partition("\n")[0]
            resume = f"toughen train --resume {quote(str(self))}"
            raise RunError(f"{self}: the disk is full ({first}); free some space, then: {resume}") from error


def read(path: "str | os.PathLike[str]") -> Results:
    """Read the results of a run folder.

    Args:
        path: The run folder.

    Returns:
        What results.json holds.

    Raises:
        RunError: No finished run in the folder.

    Examples:
        >>> toughen.runs.read(run).metric
        'accuracy'
    """
    return RunFolder(path).results()


def checkpoints_in(folder: Path) -> list[Path]:
    """List the checkpoints in a folder, oldest first."""
    numbers = {path: path.name.removeprefix("checkpoint-") for path in folder.glob("checkpoint-*")}
    return sorted((path for path in numbers if numbers[path].isdigit()), key=lambda path: int(numbers[path]))


def _read_json(file: Path) -> dict[str, Any]:
    try:
        return json.loads(file.read_text(encoding="utf-8"))
    except json.JSONDecodeError as error:
        raise RunError(f"{file} is not JSON: {error}.") from None


def _name_of(config: Config) -> str:
    """<task>-<method>-<date>-<time>, of letters that every file system takes."""
    task = config.task or Path(config.data.train_file or "own").name.partition(".")[0]
    method = "+".join(key for _, key in parts_of(config.method_name))
    plain = re.sub(r"[^\w.+-]+", "_", f"{task}-{method}").lower()
    return f"{plain}-{datetime.now():%Y%m%d-%H%M%S}"


def _claim(folder: Path, empty: bool) -> bool:
    """Make a folder, or take an `empty` one; False when somebody else has it, who may have come a moment before."""
    if empty and folder.is_dir():
        return not any(folder.iterdir())
    try:
        folder.mkdir(parents=True)
    except FileExistsError:
        return False
    return True


def _is_disk_full(error: Exception) -> bool:
    """Return whether the disk is full: by the system's number, in safetensors' words, or in torch's."""
    if isinstance(error, OSError):
        return error.errno in DISK_FULL
    message = str(error)
    if type(error).__name__ == "SafetensorError":
        return any(f"(os error {number})" in message for number in DISK_FULL)
    # torch.save notices that less has arrived than it wrote, and no more.
    return isinstance(error, RuntimeError) and ("unexpected pos" in message or "failed writing file" in message)
