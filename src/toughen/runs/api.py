"""The command line's twin in Python: `toughen.train(...)` gives a run."""

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..errors import MethodError
from .config import Config, DataConfig, TrainConfig
from .config_io import build, merge, normalised
from .errors import RunError
from .folder import RunFolder
from .launch import launch, launch_new
from .method_config import CUSTOM, is_method_of, method_to_config
from .predictor import Predictor, load
from .results import Results

if TYPE_CHECKING:
    from ..method import Method, MethodSum


@dataclass(frozen=True)
class Run:
    """A run folder; stands for its path: `toughen.load(run)`, `toughen.evaluate(run)`."""

    path: Path

    def __fspath__(self) -> str:
        return str(self.path)

    @property
    def results(self) -> Results:
        """What each seed reached."""
        return RunFolder(self.path).results()

    @property
    def config(self) -> Config:
        """What was run."""
        return RunFolder(self.path).config()

    def load(self, seed: int | None = None, **settings: Any) -> Predictor:
        """A predictor: of the best seed, or of the one named."""
        return load(self.path if seed is None else self.path / "seeds" / str(seed), **settings)

    def __str__(self) -> str:
        return f"{self.path}: {self.results}"


def train(
    method: "str | Method | MethodSum | None" = None,
    *,
    model: "str | os.PathLike[str] | None" = None,
    task: str | None = None,
    seeds: int | Sequence[int] | None = None,
    data: Mapping[str, Any] | None = None,
    train: Mapping[str, Any] | None = None,
    trainer: Mapping[str, Any] | None = None,
    model_config: Mapping[str, Any] | None = None,
    head: str | Mapping[str, Any] | None = None,
    peft: bool | str | Mapping[str, Any] | None = None,
    baseline: bool | None = None,
    fast: bool | None = None,
    output_dir: "str | os.PathLike[str] | None" = None,
    nproc: int | None = None,
    config: "Mapping[str, Any] | None" = None,
    **settings: Any,
) -> Run:
    """Fine-tune a model with a method and leave a run folder; what `toughen train` does.

    `settings` are the method's own: `train("freelb", ..., step_size=0.1)`. `data`, `train` and `trainer` are the
    groups of the same name (`toughen train --help`), `config` a whole config below all of them; what is given nowhere
    is smart with seed 1 on one process. A method may be an object, too: `train(toughen.smart(weight=5.0) +
    toughen.rdrop(), ...)`. Its name and settings are found out where some make the very same method, and then
    config.yaml runs it again; else config.yaml says what it was.
    """
    if model is not None and not isinstance(model, (str, os.PathLike)):  # pyright: ignore[reportUnnecessaryIsInstance]
        raise RunError(f"model is a {type(model).__name__}: save it with save_pretrained and give the folder.")
    below = normalised(config or {})
    processes = int(below.get("nproc") or 1) if nproc is None else nproc
    made = None if method is None or isinstance(method, str) else _object(method, settings, processes)
    if method is None:
        method = str(below.get("method", {}).get("name") or "smart")
    given: dict[str, Any] = {
        "method": {"name": method, **settings} if made is None else method_to_config(made),
        "model": None if model is None else os.fspath(model),
        "task": task,
        "seed": list(seeds) if isinstance(seeds, Sequence) else seeds,
        "data": _plain(data),
        "train": _plain(train),
        "trainer": _plain(trainer),
        "model_config": _plain(model_config),
        "head": head,
        "peft": peft,
        "baseline": baseline,
        "fast": fast,
        "output_dir": None if output_dir is None else os.fspath(output_dir),
        "nproc": nproc,
    }
    above = {key: value for key, value in given.items() if value is not None}
    try:
        built = build(merge(below, normalised(above)))
    except MethodError as error:
        raise MethodError(_with_its_home(str(error), settings)) from None
    folder = RunFolder.create(built)
    launch_new(folder, method=made)
    return Run(folder.path)


def _with_its_home(message: str, settings: Mapping[str, Any]) -> str:
    """Where an option belongs that was given beside the method's own: epochs are the training's."""
    key = next((key for key in settings if f"has no option {key!r}. " in message), None)
    homes = {"train": ("training", TrainConfig), "data": ("data", DataConfig)}
    found = [(group, name) for group, (name, kind) in homes.items() if key in {each.name for each in fields(kind)}]
    told = message.partition(". ")[0]
    if key == "seed":
        return f"{told}; give seeds=1, or several: seeds=[1, 2, 3]."
    return f"{told}; the {found[0][1]} has: {found[0][0]}={{{key!r}: ...}}." if found else message


def resume(run: "str | os.PathLike[str]", method: "Method | MethodSum | None" = None) -> Run:
    """Go on with an unfinished run; one whose method was an object that no name makes needs it again."""
    folder = RunFolder(run)
    config = folder.config()
    if method is not None and not is_method_of(config.method, method):
        raise RunError(f"{run} began with another method: {config.method.get('repr', config.method)}.")
    launch(folder, method=method)
    return Run(folder.path)


def _object(method: Any, settings: Mapping[str, Any], nproc: int) -> Any:
    if not hasattr(method, "attach"):
        raise RunError(f"method={method!r}: give a name such as 'smart', or a method such as toughen.smart().")
    if settings:
        raise RunError(f"{', '.join(settings)}: settings go with a method's name; this one is made already.")
    if nproc > 1 and method_to_config(method)["name"] == CUSTOM:
        raise RunError(
            "a method object cannot go to other processes: write it into a file (toughen new) and name that."
        )
    return method


def _plain(values: Mapping[str, Any] | None) -> dict[str, Any] | None:
    """Paths as text, so that the config can be written."""
    if values is None:
        return None
    if not isinstance(values, Mapping):  # pyright: ignore[reportUnnecessaryIsInstance]
        raise RunError(f"{values!r}: give a group of options by name, such as data={{'train_file': 'train.csv'}}.")
    return {key: os.fspath(value) if isinstance(value, os.PathLike) else value for key, value in values.items()}
