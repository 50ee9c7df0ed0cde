"""`toughen env`."""

import argparse
import os
import platform
import sys
import tempfile
from collections.abc import Iterator

HELP = "Show versions, devices and folders of this machine, and the problems found."


def add(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--strict", action="store_true", help="Exit code 1 if a problem is found.")


def run(arguments: argparse.Namespace) -> int:
    from ... import __version__

    lines = [f"toughen {__version__} · Python {platform.python_version()} · {platform.platform()}"]
    lines += [f"  {line}" for line in (*_packages(), *_devices(), *_folders())]
    found = list(problems())
    lines += [f"! {line}" for line in found] or ["no problems found"]
    sys.stdout.write("\n".join(lines) + "\n")
    return 1 if found and arguments.strict else 0


def _packages() -> Iterator[str]:
    from ...runs.finish import version_of

    need = {"torch": "", "transformers": "", "accelerate": "trainer", "datasets": "tasks", "scikit-learn": "tasks"}
    need |= {"seqeval": "tasks", "peft": "peft", "matplotlib": "plot", "rich": "cli", "jinja2": "cli"}
    need |= {"ray": "sweep", "optuna": "sweep"}
    for name, extra in need.items():
        found = version_of(name)
        yield f"{name} {found}" if found else f'{name} is not installed: pip install "toughen[{extra}]"'


def _devices() -> Iterator[str]:
    import torch

    yield f"{os.cpu_count()} cores, {torch.get_num_threads()} threads a process"
    if not torch.cuda.is_available():
        yield "no GPU: runs are in fp32 on the CPU"
    for number in range(torch.cuda.device_count()):
        free, total = torch.cuda.mem_get_info(number)
        kind = "bf16" if torch.cuda.get_device_capability(number) >= (8, 0) else "fp16, no bf16"
        memory = f"{free / 2**30:.0f} of {total / 2**30:.0f} GiB free"
        yield f"GPU {number}: {torch.cuda.get_device_name(number)}, {memory}, {kind}"


def _folders() -> Iterator[str]:
    from huggingface_hub import constants

    offline = "offline (HF_HUB_OFFLINE)" if constants.HF_HUB_OFFLINE else "the Hub is asked for what is missing here"
    yield f"Hub: {offline}; cache {constants.HF_HUB_CACHE}"


def problems() -> Iterator[str]:
    """What will go wrong or slow, each with its way out."""
    import torch
    from huggingface_hub import constants

    from ...runs.finish import version_of

    if not (5, 17) <= _version(version_of("transformers")) < (6, 0):
        yield f"transformers {version_of('transformers')} is untested: install 5.17 or newer, below 6"
    if _version(version_of("torch")) < (2, 11):
        yield f"torch {version_of('torch')} is untested: install 2.11 or newer"
    if version_of("textattack") or version_of("flair"):
        yield "flair (textattack) wants transformers below 5: keep it in an environment of its own"
    if not torch.cuda.is_available() and version_of("nvidia-cuda-runtime-cu12"):
        yield "torch has CUDA but finds no GPU: check the driver (nvidia-smi)"
    for folder in (constants.HF_HOME, tempfile.gettempdir(), "."):
        place = folder
        while not os.path.exists(place):
            place = os.path.dirname(place) or "."
        if not os.access(place, os.W_OK):
            yield f"{folder} cannot be written; set HF_HOME, TMPDIR, or work in another folder"


def _version(text: str) -> tuple[int, int]:
    parts = text.split(".")
    return (int(parts[0]), int(parts[1])) if len(parts) > 1 and parts[0].isdigit() and parts[1].isdigit() else (0, 0)
