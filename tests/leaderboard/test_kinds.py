"""Every kind of task and every method goes through a run."""

import pytest

from benchmarks.leaderboard.protocol import METHODS, Run, written
from benchmarks.leaderboard.workers import open_bench

from . import small

TASKS = (
    small.plan("sst2", epochs=1),
    small.plan("stsb", "spearman", epochs=1),
    small.plan("wnut17", "entity_f1", epochs=1, second_order=False),
    small.plan("dream", "accuracy", epochs=1),
)


@pytest.fixture(scope="module")
def bench(tmp_path_factory):
    what = small.protocol(tasks=TASKS, steps=1, radii=(0.1,), reference=0.1)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("HF_DATASETS_CACHE", str(tmp_path_factory.mktemp("cache")))
        file = small.prepared(tmp_path_factory.mktemp("kinds"), what, train=24)
    return open_bench(file, "cpu", what)


def made(bench, task, method="plain", head="linear", seed=1):
    return bench.make(Run("board", "tiny", task, head, method, written({}), seed, 1e-3))


@pytest.mark.parametrize("method", METHODS)
def test_every_method(bench, method):
    row = made(bench, "sst2", method)
    assert row["steps"] == 3
    assert not row["diverged"]


@pytest.mark.parametrize("task", ["stsb", "wnut17", "dream"])
@pytest.mark.parametrize("method", ["freelb", "smart", "creat", "r4f", "asa"])
def test_every_kind_of_task(bench, task, method):
    row = made(bench, task, method)
    assert {"pgd_area", "noise_reference", "typos 0.3"} <= row["robust"].keys()


@pytest.mark.parametrize("task", ["sst2", "stsb", "dream"])
@pytest.mark.parametrize("method", ["freelb", "r4f", "creat", "asa"])
def test_second_order_head(bench, task, method):
    assert made(bench, task, method, "second_order")["head"] == "second_order"


@pytest.mark.parametrize("method", ["smart", "bregman", "asa", "sam", "r4f", "freeat"])
def test_a_used_rig_is_as_good_as_new(bench, method):
    first = made(bench, "sst2", method, seed=1)
    other = made(bench, "sst2", method, seed=2)
    again = made(bench, "sst2", method, seed=1)
    bench._rigs.clear()
    new = made(bench, "sst2", method, seed=2)
    for a, b in ((first, again), (other, new)):
        assert (a["value"], a["robust"], a["order"]) == (b["value"], b["robust"], b["order"])
    assert first["robust"] != other["robust"] or first["order"] != other["order"]
