"""Workers on Ray: it places them on one machine or a cluster, and several may share a GPU."""

import logging
import os
import socket
from collections.abc import Generator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ..errors import require
from . import trials
from .definition import Resources
from .errors import SweepError
from .worker import GRACE, HEARTBEAT, Event, Limits, Worker


@contextmanager
def connect_ray(address: str | None) -> Generator[Any]:
    """Connect to the cluster at an address or of this process; without one, start Ray on this machine."""
    ray: Any = require("ray", "sweep")
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
    if ray.is_initialized():
        yield ray
        return
    _check_address(address or "")
    try:
        ray.init(
            address=address,
            include_dashboard=None if address else False,
            log_to_driver=False,
            logging_level=logging.ERROR,
            configure_logging=True,
        )
    except (ConnectionError, RuntimeError, ValueError) as error:
        where = f"--address {address}" if address else "Ray does not start here (--engine serial does without)"
        raise SweepError(f"{where}: {' '.join(str(error).split())}") from None
    try:
        yield ray
    finally:
        ray.shutdown()


def _check_address(address: str) -> None:
    """Refuse HOST:PORT if nothing listens there: Ray would try for minutes."""
    host, colon, port = address.removeprefix("ray://").rpartition(":")
    if not (colon and port.isdigit()):
        return  # auto, local, or a cluster of another kind
    try:
        socket.create_connection((host.strip("[]"), int(port)), timeout=10).close()
    except (OSError, OverflowError) as error:
        raise SweepError(
            f"--address {address}: no cluster answers there ({error}). Start one with: ray start --head --port {port}"
        ) from None


@dataclass(frozen=True)
class ResourceAllocation:
    """The CPUs and GPUs of one trial, and the number of trials at once."""

    cpu: float
    gpu: float
    slots: int
    note: str = ""

    def __str__(self) -> str:
        return f"Ray: {self.slots} at once, each with {self.cpu:g} CPUs and {self.gpu:g} GPUs{self.note}"


def allocate(wanted: Resources, nodes: Sequence[Mapping[str, float]]) -> ResourceAllocation:
    """Divide these machines among trials; if none has a GPU, trials run on CPUs."""
    cards = [float(node.get("GPU", 0)) for node in nodes]
    cores = [float(node.get("CPU", 0)) for node in nodes]
    gpu = (1.0 if wanted.gpu is None else float(wanted.gpu)) if any(cards) else 0.0
    cpu = float(wanted.cpu or 1)
    fit = [
        min(_fit(core, cpu), _fit(card, gpu)) if gpu else _fit(core, cpu)
        for core, card in zip(cores, cards, strict=True)
    ]
    if not sum(fit):
        raise SweepError(
            f"resources: a trial with cpu {cpu:g} and gpu {gpu:g} fits on no machine; the largest have "
            f"{max(cores, default=0):g} CPUs and {max(cards, default=0):g} GPUs."
        )
    note = " (no GPU was found)" if wanted.gpu and not gpu else ""
    return ResourceAllocation(cpu, gpu, min(sum(fit), wanted.concurrent or sum(fit)), note)


def _fit(there: float, each: float) -> int:
    return int(there / each + 1e-9)


class RemoteWorker:
    """A Worker in a Ray actor, which Ray places on a machine of the cluster; when it is lost, another one goes on."""

    def __init__(self, limits: Limits, allocation: ResourceAllocation) -> None:
        self._ray: Any = require("ray", "sweep")
        self._limits, self._options = limits, {"num_cpus": allocation.cpu, "num_gpus": allocation.gpu}
        self._actor: Any = None
        self._answer: Any = None  # of a poll that has not ended
        self._is_placed = False
        self._folder, self._losses = Path(), 0

    def start(self, folder: Path) -> None:
        """Run a folder, or go on with it."""
        self._folder, self._losses = folder, 0
        self._start()

    def _start(self) -> None:
        if self._actor is None:
            self._actor = self._ray.remote(Worker).options(**self._options).remote(self._limits)
        self._actor.start.remote(self._folder)

    def poll(self) -> Event:
        """Return the next event; `alive` while there is none, or no machine for the actor."""
        try:
            if self._answer is None:
                self._answer = self._actor.poll.remote()
            ready, _ = self._ray.wait([self._answer], timeout=HEARTBEAT)
            if not ready:
                return Event("alive")
            event: Event = self._ray.get(self._answer)
        except self._ray.exceptions.RayError as error:
            return self._lost(" ".join(str(error).split())[-300:])
        self._answer, self._is_placed = None, True
        return event

    def _lost(self, error: str) -> Event:
        self._kill()
        self._losses += 1
        if self._losses > self._limits.retries:
            error = f"its worker was lost: {error}"
            trials.note_attempt(self._folder, error, last=True)
            return Event("failed", error=error)
        self._start()
        return Event("retry", error="its worker was lost")

    def stop(self) -> None:
        """End the trial; it saves a checkpoint first if it can within a time."""
        self._answer = None
        if self._actor is not None and self._is_placed:
            try:
                self._ray.get(self._actor.stop.remote(), timeout=3 * GRACE)
            except self._ray.exceptions.RayError:  # lost, or too slow
                self._kill()

    def close(self) -> None:
        """End the trial that runs, if any, and free the resources of the actor."""
        self.stop()
        self._kill()

    def _kill(self) -> None:
        if self._actor is not None:
            self._ray.kill(self._actor)
        self._actor = self._answer = None
        self._is_placed = False
