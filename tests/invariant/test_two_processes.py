"""Two processes train as one: DDP, with and without find_unused, and FSDP2, for every method."""

import pytest
import torch
from torch import Tensor

from . import processes
from .table import METHODS, assert_same, updates

pytestmark = [
    pytest.mark.distributed,
    pytest.mark.filterwarnings("ignore::toughen.errors.RobustnessWarning"),
]


@pytest.fixture(scope="module")
def results(tmp_path_factory: pytest.TempPathFactory) -> list[dict[str, Tensor]]:
    """One start of two processes for the whole module."""
    folder = tmp_path_factory.mktemp("two_processes")
    processes.run_all(folder)
    return [processes.read(folder, rank) for rank in range(processes.WORLD)]


def under(prefix: str, found: dict[str, Tensor]) -> dict[str, Tensor]:
    return {key.removeprefix(prefix): value for key, value in found.items() if key.startswith(prefix)}


@pytest.mark.parametrize("name", METHODS)
def test_two_processes_are_one(name: str, results: list[dict[str, Tensor]]) -> None:
    expected = updates(METHODS[name]())
    loss = expected.pop("loss")
    for how in processes.HOW:
        ranks = [under(f"{how}/{name}/", found) for found in results]
        failed = [key for rank in ranks for key in rank if key.startswith("failed")]
        assert not failed, (how, failed)
        torch.testing.assert_close(sum(rank.pop("loss") for rank in ranks) / 2, loss, rtol=1e-6, atol=1e-6)
        for rank in ranks:
            rank.pop("exchanges", None)
            assert_same(rank, expected)


EXCHANGES = {"sam": 2, "asam": 2, "awp": 2, "fgm-matrix": 2, "freeat": 2}


@pytest.mark.parametrize("name", METHODS)
@pytest.mark.parametrize("how", ["ddp, two micro-batches", "ddp find_unused"])
def test_gradients_are_exchanged_once(name: str, how: str, results: list[dict[str, Tensor]]) -> None:
    """FreeLB-3 as one pass; only methods that need the whole update's gradient in between exchange it again."""
    assert results[0][f"{how}/{name}/exchanges"] == EXCHANGES.get(name, 1)
