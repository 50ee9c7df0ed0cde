"""NVIDIA's multi-process service: small kernels of several processes share the GPU at the same time."""

import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Generator
from contextlib import contextmanager

_TRY = "import torch; torch.zeros(1, device='cuda').cpu()"
_FOLDERS = ("CUDA_MPS_PIPE_DIRECTORY", "CUDA_MPS_LOG_DIRECTORY")
_SHARE = "CUDA_MPS_ACTIVE_THREAD_PERCENTAGE"


@contextmanager
def shared_gpu(wanted: bool, share: int | None = None) -> Generator[str]:
    """Starts the service where it can be had and works, and ends it afterwards; says what came of it.

    `share` is the percentage of the GPU's multiprocessors that a process may fill at a time.
    """
    control = shutil.which("nvidia-cuda-mps-control") if wanted else None
    if control is None:
        yield "without the multi-process service" + (": it is not installed" if wanted else "")
        return
    with tempfile.TemporaryDirectory() as folder:
        before = {name: os.environ.get(name) for name in (*_FOLDERS, _SHARE)}
        os.environ.update(dict.fromkeys(_FOLDERS, folder))
        if share is not None:
            os.environ[_SHARE] = str(share)
        try:
            started = subprocess.run([control, "-d"], capture_output=True, timeout=30, check=False).returncode == 0
            works = started and _works()
            if not works:
                _quit(control)
                _restore(before)
            each = "" if share is None else f", {share} % of it for each"
            told = f"with the multi-process service{each}"
            yield told if works else "without the multi-process service: it did not start"
            if works:
                _quit(control)
        finally:
            _restore(before)


def _works() -> bool:
    """Whether a process gets the GPU through it."""
    try:
        return (
            subprocess.run([sys.executable, "-c", _TRY], capture_output=True, timeout=60, check=False).returncode == 0
        )
    except subprocess.TimeoutExpired:
        return False


def _quit(control: str) -> None:
    try:
        subprocess.run([control], input="quit\n", text=True, capture_output=True, timeout=30, check=False)
    except subprocess.TimeoutExpired:
        print("the multi-process service did not end", file=sys.stderr)


def _restore(before: dict[str, str | None]) -> None:
    for name, value in before.items():
        if value is None:
            os.environ.pop(name, None)
        else:
            os.environ[name] = value
