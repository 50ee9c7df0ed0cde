"""Triton's kernels on a CPU, by its interpreter: `TRITON_INTERPRET=1` must be set before Triton is imported."""

import os
from importlib.util import find_spec

import pytest


def why_not() -> str | None:
    if find_spec("triton") is None:
        return "Triton is not installed"
    return None if os.environ.get("TRITON_INTERPRET") == "1" else "needs TRITON_INTERPRET=1, set before the start"


needed = pytest.mark.skipif(why_not() is not None, reason=str(why_not()))


@pytest.fixture
def interpreter(monkeypatch):
    """Numpy 2.4 turns arrays of one element into numbers no more, which Triton 3.6's interpreter counts on."""
    from triton.runtime import interpreter as it

    usual = it._patch_lang_tensor

    def patched(tensor, scope):
        usual(tensor, scope)
        scope.set_attr(tensor, "__index__", lambda self: int(self.handle.data.item()))

    monkeypatch.setattr(it, "_patch_lang_tensor", patched)
