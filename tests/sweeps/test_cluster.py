"""Two local Ray nodes: the published grid on a tiny model, interrupted, then with one of the nodes lost."""

import os
import signal
import tempfile
import time

import pytest

import toughen
from toughen.sweeps import SweepStopped

from ..tiny import rows, write_csv
from .test_kill import done, in_background

LABELS = {"pos": "entailment", "neg": "not_entailment"}
pytest.importorskip("ray", reason="the extra sweep is not installed")


@pytest.fixture
def cluster(monkeypatch):
    """A head and a second node, each with a CPU and, as far as Ray knows, a GPU."""
    monkeypatch.setenv("RAY_USAGE_STATS_ENABLED", "0")
    from ray.cluster_utils import Cluster

    with tempfile.TemporaryDirectory(prefix="ray") as short:
        monkeypatch.setenv("RAY_TMPDIR", short)
        node = {"num_cpus": 1, "num_gpus": 1, "include_dashboard": False, "object_store_memory": 80 * 2**20}
        made = Cluster(initialize_head=True, head_node_args=node)
        try:
            yield made
        finally:
            made.shutdown()


def rte(path, count):
    pairs = [
        {"sentence1": row["text"], "sentence2": "the film is good", "label": LABELS[row["label"]]}
        for row in rows(count)
    ]
    return str(write_csv(path, pairs))


def test_the_published_grid_on_two_nodes(cluster, little, tmp_path):
    second = cluster.add_node(num_cpus=1, num_gpus=1)
    folder = tmp_path / "grid"
    data = {"train_file": rte(tmp_path / "train.csv", 48), "validation_file": rte(tmp_path / "dev.csv", 20)}
    data |= {"cache_dir": str(tmp_path), "max_length": 32}  # the recipe's 256 is more than the tiny model reads
    small = {"model": little.model, "data": data, "train": {"max_steps": 12}}
    options = {"config": small, "output_dir": folder, "address": cluster.address}

    thread = in_background(lambda: len(done(folder)) >= 2, lambda: os.kill(os.getpid(), signal.SIGINT))
    with pytest.raises(SweepStopped, match=rf"continue with: toughen sweep {folder} --resume"):
        toughen.sweep("freelb/rte-roberta-base", **options)
    thread.join()
    first = done(folder)
    assert 2 <= len(first) < 8
    assert (folder / "leaderboard.csv").is_file()

    began = time.time()
    thread = in_background(lambda: len(done(folder)) > len(first), lambda: cluster.remove_node(second))
    half = {**toughen.recipes.sweep("freelb/rte-roberta-base"), "resources": {"gpu": 0.5}}  # may change on resuming
    grid = toughen.sweep(half, resume=True, **options)
    thread.join()
    assert len(grid.rows) == 8  # tied: 16 without
    assert {row.state for row in grid.rows} == {"done"}
    assert not grid.failures
    said = (folder / "sweep.log").read_text()
    assert "its worker was lost" in said
    assert "each with 1 CPUs and 1 GPUs" in said
    assert "each with 1 CPUs and 0.5 GPUs" in said
    assert all(ended < began for name, ended in done(folder).items() if name in first)
    assert {row.settings["train.batch_size"] for row in grid.rows} == {16, 32}
    assert grid.best_config.method["preset"] == "paragen"
    assert not (folder / ".ray").exists()
