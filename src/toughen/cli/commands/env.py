"""Show versions, devices and folders of this machine, and the problems found.

Examples:
  toughen env
  toughen env --strict
  toughen env > bug-report.txt
"""

import argparse
import os
import platform
import tempfile
from collections.abc import Iterator
from importlib.metadata import requires

from packaging.requirements import Requirement
from packaging.specifiers import SpecifierSet

from ..._version import __version__
from .. import say

EXTRAS = ("", "trainer", "tasks", "peft", "plot", "cli", "sweep")  # "" is what is always installed


def add(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--strict", action="store_true", help="Exit code 1 if a problem is found.")


def run(arguments: argparse.Namespace) -> int:
    say(f"toughen {__version__} · Python {platform.python_version()} · {platform.platform()}")
    for line in _facts():
        say(f"  {line}")
    problems = [f"! {problem}" for problem in _problems()]
    say("\n".join(problems or ["no problems found"]))
    return 1 if problems and arguments.strict else 0


def _requirements() -> dict[tuple[str, SpecifierSet], str]:
    """Return what toughen requires, with the extra that brings it."""
    requirements: dict[tuple[str, SpecifierSet], str] = {}
    for extra in EXTRAS:
        for each in map(Requirement, requires("toughen") or ()):
            if each.marker is None or each.marker.evaluate({"extra": extra}):
                requirements.setdefault((each.name, each.specifier), extra)
    return requirements


def _facts() -> Iterator[str]:
    """Yield what this machine has: packages, cores and GPUs, and the Hub's cache."""
    import torch
    from huggingface_hub import constants

    from ...runs.finish import version_of

    for (name, _), extra in _requirements().items():
        installed = version_of(name)
        yield f"{name} {installed}" if installed else f'{name} is not installed: pip install "toughen[{extra}]"'
    yield f"{os.cpu_count()} cores, {torch.get_num_threads()} threads a process"
    if not torch.cuda.is_available():
        yield "no GPU: runs are in fp32 on the CPU"
    for number in range(torch.cuda.device_count()):
        free, total = torch.cuda.mem_get_info(number)
        kind = "bf16" if torch.cuda.get_device_capability(number) >= (8, 0) else "fp16, no bf16"
        memory = f"{free / 2**30:.0f} of {total / 2**30:.0f} GiB free"
        yield f"GPU {number}: {torch.cuda.get_device_name(number)}, {memory}, {kind}"
    offline = "offline (HF_HUB_OFFLINE)" if constants.HF_HUB_OFFLINE else "the Hub is asked for what is missing here"
    yield f"Hub: {offline}; cache {constants.HF_HUB_CACHE}"


def _problems() -> Iterator[str]:
    """Yield what will go wrong or slow, each with its remedy."""
    import torch
    from huggingface_hub import constants

    from ...runs.finish import version_of

    for name, specifier in _requirements():
        if (installed := version_of(name)) and not specifier.contains(installed, prereleases=True):
            yield f'{name} {installed} is untested: pip install "{name}{specifier}"'
    if version_of("textattack") or version_of("flair"):
        yield "flair (textattack) wants transformers below 5: keep it in an environment of its own"
    if not torch.cuda.is_available() and version_of("nvidia-cuda-runtime-cu12"):
        yield "torch has CUDA but finds no GPU: check the driver (nvidia-smi)"
    for folder in (constants.HF_HOME, tempfile.gettempdir(), "."):
        parent = folder
        while not os.path.exists(parent):
            parent = os.path.dirname(parent) or "."
        if not os.access(parent, os.W_OK):
            yield f"{folder} cannot be written; set HF_HOME, TMPDIR, or work in another folder"
