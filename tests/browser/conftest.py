"""One browser for all tests here; without one they are skipped."""

import os
from pathlib import Path

import pytest

from .chromium import Chromium, find


@pytest.fixture(scope="session")
def browser(tmp_path_factory):
    program = find()
    if program is None:
        pytest.skip("there is no Chromium on this machine (Debian: apt-get install chromium)")
    started = Chromium(program, tmp_path_factory.mktemp("profile"))
    yield started
    started.close()


@pytest.fixture(scope="session")
def pictures(tmp_path_factory) -> Path:
    """Where screenshots are kept: the folder TOUGHEN_SCREENSHOTS names, else pytest's own."""
    named = os.environ.get("TOUGHEN_SCREENSHOTS")
    folder = Path(named) if named else tmp_path_factory.mktemp("screenshots")
    folder.mkdir(parents=True, exist_ok=True)
    return folder
