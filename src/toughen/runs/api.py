"""Train from Python: `toughen.train(...)` does what `toughen train` does, and gives a run."""

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..errors import MethodError
from .config import Config, DataConfig, TrainConfig
from .config_io import build, check_trainer, merge, normalised
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
    """A run folder; stands for its path: `toughen.load(run)`, `toughen.evaluate(run)`.

    Args:
        path: The folder.

    Examples:
        >>> toughen.Run(run.path).results.metric
        'accuracy'
    """

    path: Path

    def __fspath__(self) -> str:
        return str(self.path)

    @property
    def results(self) -> Results:
        """The results of each seed."""
        return RunFolder(self.path).results()

    @property
    def config(self) -> Config:
        """The config of the run."""
        return RunFolder(self.path).config()

    def load(self, seed: int | None = None, **settings: Any) -> Predictor:
        """Load a predictor: of the best seed, or of the one named."""
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
    fast: bool | str | None = None,
    output_dir: "str | os.PathLike[str] | None" = None,
    nproc: int | None = None,
    config: "Mapping[str, Any] | None" = None,
    **settings: Any,
) -> Run:
    """Fine-tune a model with a method and leave a run folder; what `toughen train` does.

    A method may be an object, too: `train(toughen.smart(weight=5.0) + toughen.rdrop(), ...)`. config.yaml holds its
    name and options if they make the same method, and then runs it again; else it holds its text.

    Args:
        method: A method or its name; by default "smart".
        model: A name on the Hugging Face Hub, or a folder.
        task: A named task; see `toughen.tasks.available()`.
        seeds: One seed or several; by default 1.
        data: Own files, or how the task is read: the group `data` of `toughen train --help`.
        train: Epochs, batch size, learning rate and so on: the group `train`.
        trainer: Any field of `transformers.TrainingArguments`.
        model_config: Any key of the model's own config.
        head: The head and its options; "second-order" or by default the model's own.
        peft: True for LoRA, or its options.
        baseline: Train plainly, too, with the same budget.
        fast: Run steps as CUDA graphs; by default "auto", on CUDA where that saves time within the run.
        output_dir: The run folder; must be new or empty.
        nproc: Processes on this machine, one for each GPU.
        config: A whole config, which all the others go over.
        **settings: The options of the method, if it is given by name: `train("freelb", ..., step_size=0.1)`.

    Returns:
        The finished run.

    Raises:
        RunError: An option that cannot be, or a folder that holds something.
        DataError: Rows that cannot be used, with their place in the file.
        MethodError: An unknown method or option.

    Examples:
        >>> from toughen.demo import sample
        >>> encoder, reviews = sample(folder)
        >>> run = toughen.train(
        ...     "freelb", model=encoder, data={"train_file": reviews}, train={"max_steps": 2}, steps=2
        ... )
        >>> run.results.method.name
        'freelb'
    """
    if model is not None and not isinstance(model, (str, os.PathLike)):  # pyright: ignore[reportUnnecessaryIsInstance]
        raise RunError(f"model is a {type(model).__name__}: save it with save_pretrained and give the folder.")
    below = normalised(config or {})
    processes = int(below.get("nproc") or 1) if nproc is None else nproc
    own = None if method is None or isinstance(method, str) else _check_object(method, settings, processes)
    name = method or str(below.get("method", {}).get("name") or "smart")
    given: dict[str, Any] = {
        "method": {"name": name, **settings} if own is None else method_to_config(own),
        "model": model,
        "task": task,
        "seed": list(seeds) if isinstance(seeds, Sequence) else seeds,
        **{"data": data, "train": train, "trainer": trainer, "model_config": model_config, "head": head, "peft": peft},
        **{"baseline": baseline, "fast": fast, "output_dir": output_dir, "nproc": nproc},
    }
    try:
        built = build(merge(below, normalised(without_paths(given))))
        check_trainer(built.trainer)
    except MethodError as error:
        raise MethodError(_with_its_group(str(error), settings)) from None
    folder = RunFolder.create(built)
    launch_new(folder, method=own)
    return Run(folder.path)


def _with_its_group(message: str, settings: Mapping[str, Any]) -> str:
    """Name the group of an option that was given beside the method's own: epochs are the training's."""
    problem = message.partition(". ")[0]
    for key in settings:
        if f"has no option {key!r}. " not in message:
            continue
        if key == "seed":
            return f"{problem}; give seeds=1, or several: seeds=[1, 2, 3]."
        for group, (name, kind) in {"train": ("training", TrainConfig), "data": ("data", DataConfig)}.items():
            if key in kind.__dataclass_fields__:
                return f"{problem}; the {name} has: {group}={{{key!r}: ...}}."
    return message


def without_paths(value: object) -> Any:
    """Return paths as text, so that the config can be written."""
    if isinstance(value, Mapping):
        return {key: without_paths(each) for key, each in value.items()}
    return os.fspath(value) if isinstance(value, os.PathLike) else value


def resume(run: "str | os.PathLike[str]", method: "Method | MethodSum | None" = None) -> Run:
    """Go on with an unfinished run; one that is finished is left as it is.

    Args:
        run: The run folder.
        method: The method, if the run began with an object that no name makes.

    Returns:
        The finished run.

    Raises:
        RunError: The folder holds no run, or the run began with another method.

    Examples:
        >>> toughen.resume(run).results == run.results
        True
    """
    folder = RunFolder(run)
    config = folder.config()
    if method is not None and not is_method_of(config.method, method):
        raise RunError(f"{run} began with another method: {config.method.get('repr', config.method)}.")
    launch(folder, method=method)
    return Run(folder.path)


def _check_object(method: Any, settings: Mapping[str, Any], nproc: int) -> Any:
    if not hasattr(method, "attach"):
        raise RunError(f"method={method!r}: give a name such as 'smart', or a method such as toughen.smart().")
    if settings:
        raise RunError(
            f"{', '.join(settings)}: settings need the name of a method, and this is an object; set them on it."
        )
    if nproc > 1 and method_to_config(method)["name"] == CUSTOM:
        raise RunError(
            "a method object cannot be sent to other processes; write it to a file (toughen new-method) and name that."
        )
    return method
