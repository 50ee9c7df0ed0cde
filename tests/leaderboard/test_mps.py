"""The multi-process service: begun where it works, ended afterwards, and nothing of it left in the environment."""

import os
import stat

import pytest

from benchmarks.leaderboard import mps

NAMES = ("CUDA_MPS_PIPE_DIRECTORY", "CUDA_MPS_LOG_DIRECTORY", "CUDA_MPS_ACTIVE_THREAD_PERCENTAGE")


@pytest.fixture
def control(tmp_path, monkeypatch):
    """A stand-in for NVIDIA's program that writes down how it was called."""
    calls = tmp_path / "calls.txt"
    program = tmp_path / "nvidia-cuda-mps-control"
    program.write_text(f'#!/bin/sh\nif [ "$1" = -d ]; then echo start; else cat; fi >> "{calls}"\n')
    program.chmod(program.stat().st_mode | stat.S_IXUSR)
    monkeypatch.setenv("PATH", f"{tmp_path}{os.pathsep}{os.environ['PATH']}")
    for name in NAMES:
        monkeypatch.delenv(name, raising=False)
    return calls


def test_begun_and_ended(control, monkeypatch):
    monkeypatch.setattr(mps, "_works", lambda: True)
    monkeypatch.setenv(NAMES[2], "70")
    with mps.shared_gpu(True, share=25) as told:
        assert told == "with the multi-process service, 25 % of it for each"
        assert os.environ[NAMES[0]] == os.environ[NAMES[1]] != ""
        assert os.environ[NAMES[2]] == "25"
        assert control.read_text() == "start\n"
    assert control.read_text() == "start\nquit\n"
    assert [os.environ.get(name) for name in NAMES] == [None, None, "70"]


def test_where_no_process_gets_the_gpu_it_is_ended_at_once(control, monkeypatch):
    monkeypatch.setattr(mps, "_works", lambda: False)
    with mps.shared_gpu(True, share=25) as told:
        assert told == "without the multi-process service: it did not start"
        assert control.read_text() == "start\nquit\n"
        assert not any(name in os.environ for name in NAMES)
    assert control.read_text() == "start\nquit\n"


def test_not_asked_for(control):
    with mps.shared_gpu(False) as told:
        assert told == "without the multi-process service"
    assert not control.exists()
