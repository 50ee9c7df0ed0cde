"""Randomness has owners: the perturbation's noise draws from its own generators, dropout can be replayed or off."""

import random
from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import product
from typing import Any, ClassVar

import numpy as np
import torch
from torch import nn
from torch.nn.modules.batchnorm import (
    _BatchNorm as BatchNorm,  # pyright: ignore[reportPrivateUsage]  # torch's only name for the family
)
from torch.nn.modules.dropout import (
    _DropoutNd as DropoutModule,  # pyright: ignore[reportPrivateUsage]
)

from .distributed import is_single_process

# Attributes in which transformers' layers keep the rate of a functional dropout.
RATES = (
    "dropout",
    "attention_dropout",
    "activation_dropout",
    "dropout_p",
    "dropout_prob",
    "hidden_dropout",
    "attn_pdrop",
    "embedding_dropout",
    "layerdrop",
)


@dataclass
class NoiseGenerators:
    """One generator a device, all from one seed, so that a perturbation never disturbs dropout's stream."""

    seed: int
    generators: dict[torch.device, torch.Generator] = field(default_factory=dict[torch.device, torch.Generator])

    def on(self, device: torch.device) -> torch.Generator:
        if device not in self.generators:
            self.generators[device] = torch.Generator(device).manual_seed(self.seed)
        return self.generators[device]

    def key(self, device: torch.device) -> torch.Tensor:
        """Draw two random words, left on the device, for noise that is computed from where it falls."""
        words = torch.randint(-(2**31), 2**31, (2,), generator=self.on(device), device=device)
        return words.to(torch.int32)

    def clone(self) -> dict[torch.device, torch.Generator]:
        return {device: generator.clone_state() for device, generator in self.generators.items()}

    def state_dict(self) -> dict[str, torch.Tensor]:
        return {str(device): generator.get_state() for device, generator in self.generators.items()}

    def load_state_dict(self, state: dict[str, torch.Tensor]) -> None:
        for name, value in state.items():
            self.on(torch.device(name)).set_state(value.cpu())


def per_rank_seed(seed: int | None) -> int:
    """Return the run's seed plus the rank: with `torch.manual_seed` a run repeats; each process has its own noise."""
    base = torch.initial_seed() if seed is None else seed
    return (base + (0 if is_single_process() else torch.distributed.get_rank())) % 2**63


class RngSnapshot:
    """The random state of the default generators at one moment, to be put back as often as needed.

    Models of speech draw the frames they hide and the layers they skip from numpy's, a few others from Python's.
    """

    def __init__(self, device: torch.device) -> None:
        self.device = device
        self.tape = GraphSafeRng.running
        if self.tape is not None:
            self.mark = self.tape.mark()
            return
        self.cpu = torch.get_rng_state()
        self.cuda = torch.cuda.get_rng_state(device) if device.type == "cuda" else None
        self.numpy, self.python = np.random.get_state(), random.getstate()

    def restore(self) -> None:
        if self.tape is not None:
            self.tape.restore(self.mark)
            return
        torch.set_rng_state(self.cpu)
        if self.cuda is not None:
            torch.cuda.set_rng_state(self.cuda, self.device)
        np.random.set_state(self.numpy)
        random.setstate(self.python)


class GraphSafeRng:
    """Restores of dropout's random state within a step, in a form that a CUDA graph can replay.

    A graph cannot read or set a generator's state. So the step runs once while the offset of each mark is recorded.
    During capture, each restore uses its own generator, whose offset is set before every replay. Random numbers are
    then those of the same step run eagerly.
    """

    running: ClassVar["GraphSafeRng | None"] = None

    def __init__(self, device: torch.device) -> None:
        self.generator: torch.Generator = torch.cuda.default_generators[device.index or 0]
        self.marks: list[int] = []
        self.restores: list[int] = []  # of each restore: its mark
        self.streams: list[torch.Generator] = []
        self.start = self.length = 0
        self._taken: list[int] | None = None  # the restores while a graph is captured

    @contextmanager
    def recording(self) -> Generator[None]:
        """Record a step that is run."""
        self.start = self.generator.get_offset()
        with self._on():
            yield
        self.length = self.generator.get_offset() - self.start

    def register_streams(self, graph: Any) -> None:
        """Make one stream for each restore, before the capture."""
        self._before = self.generator.clone_state()
        self.streams = [self.generator.clone_state() for _ in self.restores]
        for stream in self.streams:
            graph.register_generator_state(stream)

    def reset(self) -> None:
        """Restore the generator after a capture that failed."""
        self.generator.graphsafe_set_state(self._before)

    @contextmanager
    def captured(self) -> Generator[None]:
        """Run inside the capture of a step like the recorded one."""
        own, marks = self.generator.graphsafe_get_state(), self.marks
        self.marks, self._taken = [], []
        try:
            with self._on():
                yield
            if (len(self.marks), self._taken) != (len(marks), self.restores):
                raise RuntimeError("the captured step took another path than the eager one")
        finally:
            self.generator.graphsafe_set_state(own)
            self.marks, self._taken = marks, None

    @contextmanager
    def _on(self) -> Generator[None]:
        before, GraphSafeRng.running = GraphSafeRng.running, self
        try:
            yield
        finally:
            GraphSafeRng.running = before

    def mark(self) -> int:
        self.marks.append(self.generator.get_offset() - self.start if self._taken is None else 0)
        return len(self.marks) - 1

    def restore(self, mark: int) -> None:
        if self._taken is not None:
            self.generator.graphsafe_set_state(self.streams[len(self._taken)])
            self._taken.append(mark)
            return
        if GraphSafeRng.running is self:
            self.restores.append(mark)
        self.generator.set_offset(self.start + self.marks[mark])

    @contextmanager
    def replaying(self) -> Generator[None]:
        """Place the streams for a replay."""
        self.start, seed = self.generator.get_offset(), self.generator.initial_seed()
        for stream, mark in zip(self.streams, self.restores, strict=True):
            if stream.initial_seed() != seed:
                stream.manual_seed(seed)
            stream.set_offset(self.start + self.marks[mark])
        yield
        self.generator.set_offset(self.start + self.length)


class DropoutSwitch:
    """Turns dropout off in a model, and puts every flag back.

    `model.eval()` would also stop BatchNorm and gradient checkpointing, which both look at `training`: layers that
    checkpoint stay in training mode and have their own rates set to zero instead.
    """

    def __init__(self, model: nn.Module) -> None:
        self.model = model
        self.flags: list[tuple[nn.Module, bool]] = []
        self.rates: list[tuple[object, str, float]] = []

    def off(self) -> None:
        if not self.flags:
            self.flags = [(module, module.training) for module in self.model.modules()]
        for module in self.model.modules():
            if isinstance(module, BatchNorm):
                continue
            if getattr(module, "gradient_checkpointing", False):
                self._zero_rates(module)
            else:
                module.training = False

    def _zero_rates(self, module: nn.Module) -> None:
        # Falcon's layers and encoders of speech read rates from their config.
        for owner, name in product((module, getattr(module, "config", None)), RATES):
            rate = getattr(owner, name, None)
            if isinstance(rate, float) and rate > 0:
                self.rates.append((owner, name, rate))
                setattr(owner, name, 0.0)

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
