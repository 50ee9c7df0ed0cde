"""A method's own state beside the Trainer's checkpoints: generators, update count, teacher."""

from pathlib import Path

from safetensors.torch import load_file, save_file

from ..engine.attached import Attached
from ..errors import StepError
from ..internal.atomic import atomic_path


def state_file(folder: str | Path, rank: int) -> Path:
    """Return where the state of one process is."""
    return Path(folder) / f"toughen_state_{rank}.safetensors"


def save(attached: Attached, folder: str | Path, rank: int = 0) -> None:
    """Write one file per process, complete or not at all."""
    with atomic_path(state_file(folder, rank)) as unfinished:
        save_file(attached.state_dict(), unfinished)


def load(attached: Attached, folder: str | Path, rank: int = 0) -> None:
    path = state_file(folder, rank)
    if not path.is_file():
        raise StepError(
            f"{path} is missing: the checkpoint was saved without a method, with save_only_model, or on fewer "
            "processes. Resume with the original settings, or start a new run from the checkpoint's model."
        )
    attached.load_state_dict(load_file(path))
