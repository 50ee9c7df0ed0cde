"""The distributed engine: Ray Tune runs trials on a machine or cluster; several may share a GPU."""

import logging
import os
import shutil
import socket
from collections.abc import Generator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from ..errors import require
from .controller import Controller
from .definition import Resources
from .errors import SweepError
from .serial import limits_of

QUIET = {
    "RAY_USAGE_STATS_ENABLED": "0",
    "RAY_AIR_NEW_OUTPUT": "0",  # the sweep has its own table
    "TUNE_DISABLE_AUTO_CALLBACK_LOGGERS": "1",  # and its own files
    "TUNE_DISABLE_STRICT_METRIC_CHECKING": "1",
    "TUNE_FORCE_TRIAL_CLEANUP_S": "60",
}


@contextmanager
def connect_ray(address: str | None) -> Generator[Any]:
    """Connect to the cluster at an address or of this process; without one, start Ray on this machine."""
    ray: Any = require("ray", "sweep")
    require("ray.tune", "sweep")
    for key, value in QUIET.items():
        os.environ.setdefault(key, value)
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


def run_on_ray(controller: Controller, allocation: ResourceAllocation) -> None:
    """Run all remaining trials, as many at once as fit."""
    from ray import tune

    from .tuning import Listener, Proposals, Stopping, TrialActor

    # Request all actors at once; by default Tune requests the second when the first has started.
    os.environ["TUNE_MAX_PENDING_TRIALS_PG"] = str(allocation.slots)
    limits = limits_of(controller, gpu=allocation.gpu, threads=max(int(allocation.cpu), 1))
    actor = tune.with_parameters(TrialActor, limits=limits)
    scratch = controller.folder.path / ".ray"  # Tune needs a folder that all machines see; the sweep never reads it
    shutil.rmtree(scratch, ignore_errors=True)
    tuner = tune.Tuner(
        tune.with_resources(actor, {"cpu": allocation.cpu, "gpu": allocation.gpu}),
        tune_config=tune.TuneConfig(
            search_alg=Proposals(controller),
            scheduler=Stopping(controller),
            num_samples=-1,
            max_concurrent_trials=allocation.slots,
            reuse_actors=True,  # an actor takes seconds to start
        ),
        run_config=tune.RunConfig(
            name=scratch.name,
            storage_path=str(controller.folder.path.resolve()),
            verbose=0,
            callbacks=[Listener(controller)],
            failure_config=tune.FailureConfig(max_failures=limits.retries),  # of workers and nodes that are lost
            checkpoint_config=tune.CheckpointConfig(checkpoint_at_end=False),  # the run folder is the checkpoint
        ),
    )
    try:
        with _silence_ray():
            tuner.fit()
    finally:
        shutil.rmtree(scratch, ignore_errors=True)


@contextmanager
def _silence_ray() -> Generator[None]:
    """Silence Ray's own progress messages: the sweep prints its own."""
    loggers = [logging.getLogger(name) for name in ("ray", "ray.tune", "ray.air", "ray.train")]
    before = [each.level for each in loggers]
    for each in loggers:
        each.setLevel(logging.CRITICAL)
    try:
        yield
    finally:
        for each, level in zip(loggers, before, strict=True):
            each.setLevel(level)
