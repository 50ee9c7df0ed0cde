import pytest

from toughen import registry


@pytest.fixture(autouse=True)
def own_names(monkeypatch):
    """Methods that a test, a page or an example registers are gone after it."""
    registry.available()
    monkeypatch.setattr(registry, "_NAMED", dict(registry._NAMED))
