"""Randomness has owners: the perturbation's noise draws from its own generators, dropout can be replayed or off."""

from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import nn
from torch.nn.modules.batchnorm import (
    _BatchNorm as BatchNorm,  # pyright: ignore[reportPrivateUsage]  # torch's only name for the family
)
from torch.nn.modules.dropout import (
    _DropoutNd as DropoutModule,  # pyright: ignore[reportPrivateUsage]
)

# Attributes in which transformers' layers keep the rate of a functional dropout.
RATES = (
    "dropout",
    "attention_dropout",
    "activation_dropout",
    "dropout_p",
    "dropout_prob",
    "hidden_dropout",
    "attn_pdrop",
)


@dataclass
class Noise:
    """One generator a device, all from one seed, so that a perturbation never disturbs dropout's stream."""

    seed: int
    generators: dict[torch.device, torch.Generator] = field(default_factory=dict[torch.device, torch.Generator])

    def on(self, device: torch.device) -> torch.Generator:
        if device not in self.generators:
            self.generators[device] = torch.Generator(device).manual_seed(self.seed)
        return self.generators[device]

    def key(self, device: torch.device) -> torch.Tensor:
        """Two random words, left on the device, for noise that is computed from where it falls."""
        words = torch.randint(-(2**31), 2**31, (2,), generator=self.on(device), device=device)
        return words.to(torch.int32)

    def state_dict(self) -> dict[str, torch.Tensor]:
        return {str(device): generator.get_state() for device, generator in self.generators.items()}

    def load_state_dict(self, state: dict[str, torch.Tensor]) -> None:
        for name, value in state.items():
            self.on(torch.device(name)).set_state(value.cpu())


def own_seed(seed: int | None) -> int:
    """The run's seed, so that `torch.manual_seed` makes a run repeat; each process draws noise of its own."""
    base = torch.initial_seed() if seed is None else seed
    distributed = torch.distributed.is_available() and torch.distributed.is_initialized()
    return (base + (torch.distributed.get_rank() if distributed else 0)) % 2**63


class Replay:
    """The random state of the default generators at one moment, to be put back as often as needed."""

    def __init__(self, device: torch.device) -> None:
        self.device = device
        self.cpu = torch.get_rng_state()
        self.cuda = torch.cuda.get_rng_state(device) if device.type == "cuda" else None

    def restore(self) -> None:
        torch.set_rng_state(self.cpu)
        if self.cuda is not None:
            torch.cuda.set_rng_state(self.cuda, self.device)


class DropoutSwitch:
    """Turns dropout off in a model, and puts every flag back.

    `model.eval()` would also stop BatchNorm and gradient checkpointing, which both look at `training`: layers that
    checkpoint stay in training mode and have their own rates set to zero instead.
    """

    def __init__(self, model: nn.Module) -> None:
        self.model = model
        self.flags: list[tuple[nn.Module, bool]] = []
        self.rates: list[tuple[nn.Module, str, float]] = []

    def off(self) -> None:
        if not self.flags:
            self.flags = [(module, module.training) for module in self.model.modules()]
        for module in self.model.modules():
            if isinstance(module, BatchNorm) or module is self.model:
                continue
            if getattr(module, "gradient_checkpointing", False):
                self._zero_rates(module)
            else:
                module.training = False

    def _zero_rates(self, module: nn.Module) -> None:
        for name in RATES:
            rate = getattr(module, name, None)
            if isinstance(rate, float) and rate > 0:
                self.rates.append((module, name, rate))
                setattr(module, name, 0.0)

    def restore(self) -> None:
        for module, flag in self.flags:
            module.training = flag
        for module, name, rate in self.rates:
            setattr(module, name, rate)
        self.flags.clear()
        self.rates.clear()


@contextmanager
def without_dropout(model: nn.Module) -> Generator[None]:
    switch = DropoutSwitch(model)
    switch.off()
    try:
        yield
    finally:
        switch.restore()


def has_dropout(model: nn.Module) -> bool:
    def rate(module: nn.Module) -> float:
        rates: list[Any] = [module.p] if isinstance(module, DropoutModule) else [getattr(module, n, 0.0) for n in RATES]
        return max((r for r in rates if isinstance(r, float)), default=0.0)

    return any(rate(module) > 0 for module in model.modules())


def has_batch_norm(model: nn.Module) -> bool:
    return any(isinstance(module, BatchNorm) for module in model.modules())
