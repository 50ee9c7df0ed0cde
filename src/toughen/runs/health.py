"""Since which step a part of the loss is no number, found on the device and read only when something is logged."""

from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor

from .errors import Diverged
from .method_config import options_of

NEVER = 2**31 - 1
PARTS = {"loss_clean": "the clean loss", "term": "the perturbed term", "loss_perturbed": "the perturbed loss"}


class Health:
    """One number a part: the first step at which it was not finite."""

    def __init__(self, method: Mapping[str, Any], learning_rate: float, precision: str) -> None:
        self.method, self.learning_rate, self.precision = method, learning_rate, precision
        self.first: dict[str, Tensor] = {}

    def see(self, step: int, parts: Mapping[str, Tensor]) -> None:
        """Note a step's values; nothing is read from the device."""
        for name, value in parts.items():
            now = torch.where(torch.isfinite(value).all(), NEVER, step)
            self.first[name] = now if name not in self.first else torch.minimum(self.first[name], now)

    def check(self, seed: int) -> None:
        """Stop the run if a part is broken; reads a few numbers from the device."""
        found = {name: int(step) for name, step in self.first.items()}
        step = min(found.values(), default=NEVER)
        if step == NEVER:
            return
        parts = [name for name, since in found.items() if since == step]
        clean = any(name.endswith("loss_clean") for name in parts)
        part = next((PARTS[key] for key in PARTS for name in parts if name.endswith(key)), "the loss")
        raise Diverged(f"seed {seed}, step {step}: {part} is not a number any more. {self._way_out(clean)}")

    def _way_out(self, clean: bool) -> str:
        tries: list[str] = []
        if not clean:
            tries += [f"method.{key}={self.method[key]}" for key in ("step_size", "max_norm") if self.method.get(key)]
            tries += self._own() if not tries else []
        tries.append(f"train.learning_rate={self.learning_rate:g}")
        half = f", or train.precision=fp32 (it is {self.precision})" if self.precision != "fp32" else ""
        return f"Lower {' or '.join(tries)}{half}."

    def _own(self) -> list[str]:
        """The option of the method that its term hangs on most, of those it has."""
        if "name" not in self.method or "repr" in self.method:
            return []
        known = list(options_of(self.method["name"]))
        found = [key for name in ("step_size", "weight") for key in known if key.rpartition(".")[2] == name]
        return [f"method.{key}" for key in found[:1]]
