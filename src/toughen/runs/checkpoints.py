"""Which checkpoint of a seed training goes on from, and what is wrong with later ones."""

import json
import zipfile
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from safetensors import SafetensorError, safe_open

from ..trainers.checkpoint import state_file
from .prepare import SeedJob


def last_usable(job: SeedJob, model: object) -> tuple[Path | None, list[str]]:
    """Return the last checkpoint that is whole and of this model, and what is wrong with those after it."""
    problems: list[str] = []
    for folder in reversed(job.run.checkpoints(job.variant, job.seed)):
        problem = next(_problems(job, folder, model), None)
        if problem is None:
            return folder, problems
        problems.append(f"{folder.name} is left out: {problem}")
    return None, problems


def _problems(job: SeedJob, folder: Path, model: object) -> Iterator[str]:
    """Look at all that resuming reads: Trainer passes over some of it in silence where it is missing."""
    try:
        state: Any = json.loads((folder / "trainer_state.json").read_text(encoding="utf-8"))
        best = state.get("best_global_step")
    except (OSError, ValueError, AttributeError):
        yield "trainer_state.json is missing or cut off"
        return
    ranks = range(job.world_size)
    files = ["scheduler.pt", *(["rng_state.pth"] if len(ranks) == 1 else [f"rng_state_{rank}.pth" for rank in ranks])]
    files += ["scaler.pt"] * (job.prepared.precision == "fp16")
    # Frameworks that share weights out among processes write weights and optimizer in their own form.
    shared_out = job.config.train.shard or any(job.config.trainer.get(name) for name in ("fsdp", "deepspeed"))
    for file in (folder / name for name in (*files, *([] if shared_out else ["optimizer.pt"]))):
        yield from _problems_of_archive(file)
    for rank in ranks:
        yield from _problems_of_tensors(state_file(folder, rank), None)
    if not shared_out:
        yield from _problems_of_weights(folder, model)
        if best and folder.name != (name := f"checkpoint-{best}"):
            yield from (
                f"of its best epoch, {name}, {each}" for each in _problems_of_weights(folder.parent / name, model)
            )


def _problems_of_archive(file: Path) -> Iterator[str]:
    """Check a file of torch.save, which is a zip archive with check sums."""
    if not file.is_file():
        yield f"{file.name} is missing"
        return
    try:
        with zipfile.ZipFile(file) as archive:
            broken = archive.testzip()
    except (zipfile.BadZipFile, OSError, EOFError):
        broken = file.name
    if broken is not None:
        yield f"{file.name} is damaged"


def _problems_of_weights(folder: Path, model: object) -> Iterator[str]:
    expected, files = _expected(model)
    if (index := folder / "model.safetensors.index.json").is_file():
        try:
            files = sorted(set(json.loads(index.read_text(encoding="utf-8"))["weight_map"].values()))
        except (ValueError, TypeError, KeyError, AttributeError):
            yield f"{index.name} is damaged"
            return
    found: dict[str, tuple[int, ...]] = {}
    for file in files:
        yield from _problems_of_tensors(folder / file, found)
    for name, shape in found.items():
        if name not in expected or tuple(expected[name].shape) != shape:
            yield f"it is of another model ({name} does not fit)"
    saved = {expected[name].data_ptr() for name in found if name in expected}
    for name, tensor in expected.items():
        if name not in found and tensor.data_ptr() not in saved:  # of tied weights one is saved
            yield f"weights are missing ({name})"


def _problems_of_tensors(file: Path, shapes: dict[str, tuple[int, ...]] | None) -> Iterator[str]:
    """Check a safetensors file, and add the shapes of its tensors to `shapes`."""
    if not file.is_file():
        yield f"{file.name} is missing"
        return
    try:
        with safe_open(file, "pt") as tensors:  # checks the size of the file
            for name in tensors.keys():  # noqa: SIM118  # it is no dictionary
                if shapes is not None:
                    shapes[name] = tuple(tensors.get_slice(name).get_shape())
    except (SafetensorError, OSError):
        yield f"{file.name} is damaged"


def _expected(model: Any) -> tuple[Mapping[str, Any], list[str]]:
    """Return the tensors that a checkpoint of the model holds, and its file."""
    if hasattr(model, "peft_config"):
        from peft import get_peft_model_state_dict

        return get_peft_model_state_dict(model), ["adapter_model.safetensors"]
    return model.state_dict(), ["model.safetensors"]
