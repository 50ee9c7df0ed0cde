import gc

import pytest

from toughen import registry


@pytest.fixture(autouse=True)
def own_names(monkeypatch):
    """Methods that a test, a page or an example registers are gone after it."""
    registry.list_methods()
    monkeypatch.setattr(registry, "_NAMED", dict(registry._NAMED))


LONG = ("tests.test_docs",)  # of those that start no processes


def pytest_collection_modifyitems(items):
    """Long modules come first: a worker runs a whole one, and one at the end would leave the other idle."""
    items.sort(key=lambda item: item.get_closest_marker("distributed") is None and item.module.__name__ not in LONG)


def pytest_collection_finish():
    """What was imported stays: a run collects garbage several times, and need not look through all of it each time."""
    gc.collect()
    gc.freeze()
