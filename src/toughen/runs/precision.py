"""The number format of a run."""

from .config import Precision
from .errors import RunError


def resolve(wanted: Precision) -> tuple[str, str | None]:
    """fp32, bf16 or fp16 for this machine, and a note when `auto` chose."""
    import torch

    cuda = torch.cuda.is_available()
    if wanted == "auto":
        if cuda and torch.cuda.is_bf16_supported(including_emulation=False):
            return "bf16", None
        return "fp32", "precision fp32: this GPU has no bfloat16" if cuda else None
    if wanted == "fp16" and not cuda:
        raise RunError("train.precision=fp16 needs a GPU; use fp32, or bf16 where the processor has it.")
    if wanted == "bf16" and cuda and not torch.cuda.is_bf16_supported(including_emulation=False):
        raise RunError("train.precision=bf16: this GPU has no bfloat16; use fp16 or fp32.")
    return wanted, None
