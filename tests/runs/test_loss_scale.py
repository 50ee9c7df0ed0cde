"""The logged loss is the true mean, however an update is split over accumulation and processes."""

import json
import os
import socket

import pytest
import torch

from toughen.runs.config_io import build
from toughen.runs.launch import execute

from .conftest import create

pytestmark = [pytest.mark.distributed, pytest.mark.usefixtures("no_page")]
PASS = {(1, 1): 48, (1, 4): 12, (2, 1): 24, (2, 4): 6}  # (processes, accumulation) -> rows of a pass


def made(little, still, folder, nproc: int, micro: int):
    """The folder of a run with one update, in which nothing is learnt."""
    train = {"batch_size": 48, "micro_batch": micro, "epochs": 1, "learning_rate": 1e-30, "log_steps": 1}
    train["eval_batch_size"] = 10  # 20 rows: Trainer repeats rows where batches do not come out even
    config = {"model": still, "data": little.data, "method": "plain", "train": train, "nproc": nproc}
    return create(build({**config, "output_dir": str(folder)}))


def losses(run) -> tuple[float, float, float]:
    """Mean training loss of an epoch, gradient norm of its only update, evaluation loss."""
    rows = [json.loads(line) for line in (run / "metrics.jsonl").read_text().splitlines()]
    trained = next(row for row in rows if row["kind"] == "train")
    scored = next(row for row in rows if row["kind"] == "eval")
    return trained["loss"], trained["grad_norm"], scored["eval_loss"]


def one_of_two(rank: int, port: int, runs: list) -> None:
    """A process as torchrun starts it, for one run after the other: most of a start is imports."""
    os.environ |= {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port), "WORLD_SIZE": "2"}
    os.environ |= {"RANK": str(rank), "LOCAL_RANK": str(rank)}
    for run in runs:
        execute(run)


def test_table(little, still, tmp_path):
    runs = {key: made(little, still, tmp_path / f"{key[0]}-{key[1]}", key[0], micro) for key, micro in PASS.items()}
    for key in ((1, 1), (1, 4)):
        execute(runs[key])
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        port = one.getsockname()[1]
    torch.multiprocessing.spawn(one_of_two, args=(port, [runs[2, 1], runs[2, 4]]), nprocs=2)
    found = {key: losses(run) for key, run in runs.items()}
    for key, values in found.items():
        assert values == pytest.approx(found[1, 1], rel=1e-4), f"(processes, accumulation) = {key}: {found}"
        assert json.loads((runs[key] / "began.json").read_text())["processes"] == key[0]
    assert 0.3 < found[1, 1][0] < 1.5
