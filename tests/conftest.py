import gc

import pytest

from toughen import registry


@pytest.fixture(autouse=True)
def own_names(monkeypatch):
    """Methods that a test, a page or an example registers are gone after it."""
    registry.list_methods()
    monkeypatch.setattr(registry, "_NAMED", dict(registry._NAMED))


def pytest_collection_modifyitems(items):
    """Tests that start processes come first: such a one at the end would leave the other worker idle for long."""
    items.sort(key=lambda item: item.get_closest_marker("distributed") is None)


def pytest_collection_finish():
    """What was imported stays: a run collects garbage several times, and need not look through all of it each time."""
    gc.collect()
    gc.freeze()
