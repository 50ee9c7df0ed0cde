"""Real trials, one after the other: those that raise, hang or exhaust memory do not stop the others."""

import csv
import json
import os
import signal
import subprocess
import sys
import time

import psutil
import pytest
import yaml

from toughen.cli.main import main
from toughen.reports import find_runs
from toughen.runs.config_io import build
from toughen.sweeps import api
from toughen.sweeps.worker import GRACE, Limits, Worker, _launch

BROKEN = '''
import os
import time
from dataclasses import replace
from pathlib import Path

import toughen


def breaks(*_):
    raise ZeroDivisionError("on purpose")


def is_first(name):
    marker = Path(__file__).with_name(name)
    if marker.exists():
        return False
    marker.touch()
    return True


def sleeps(bent, *_):
    if is_first("slept"):
        time.sleep(600)
    return bent.loss


def dies(bent, *_):
    """Ends its process as the system does that has no memory left."""
    if is_first("died"):
        os.kill(os.getpid(), 9)
    return bent.loss


def hoards(*_):
    kept = []
    while True:
        kept.append(bytearray(64 * 2**20))
        time.sleep(0.02)


@toughen.register_method("raising")
def raising():
    return replace(toughen.r3f(), compare=breaks)


@toughen.register_method("hanging")
def hanging():
    return replace(toughen.r3f(), compare=sleeps)


@toughen.register_method("dying")
def dying():
    return replace(toughen.r3f(), compare=dies)


@toughen.register_method("hoarding")
def hoarding():
    return replace(toughen.r3f(), compare=hoards)
'''


@pytest.fixture
def swept(values, tmp_path, capsys):
    """The folder of a sweep with broken methods among good ones, from the command line, and what was said."""
    (tmp_path / "broken.py").write_text(BROKEN)
    bad = [f"{tmp_path}/broken.py:{name}" for name in ("raising", "hanging", "hoarding", "dying")]
    values["parameters"] = {"method.name": {"values": ["plain", *bad, "r3f"]}}
    values["resources"] = {"minutes": 0.5, "memory_gb": 2, "cpu": 1}
    file = tmp_path / "faults.yaml"
    file.write_text(yaml.safe_dump({**values, "retries": 1, "base": {**values["base"], "method": "plain"}}))
    folder = tmp_path / "sweep"
    words = ["sweep", str(file), "--engine", "serial", "--output_dir", str(folder), "--train.max_steps", "3"]
    assert main(words) == 1  # some failed
    return folder, words, capsys.readouterr().out


def test_broken_trials_do_not_stop_the_others(swept, little, capsys, monkeypatch):
    folder, words, said = swept
    with (folder / "leaderboard.csv").open() as lines:
        rows = {row["row"]: row for row in csv.DictReader(lines)}
    assert [rows[number]["state"] for number in "123456"] == ["done", "failed", "done", "failed", "done", "done"]
    assert "ZeroDivisionError: on purpose" in rows["2"]["error"]
    assert "used more memory than resources.memory_gb=2" in rows["4"]["error"]
    assert rows["2"]["error"] in said.replace("\n", " ")
    for number in (2, 4):  # each was tried twice
        assert [line["last"] for line in _attempts(folder, number)] == [False, True]
    hung, lost = _attempts(folder, 3), _attempts(folder, 5)  # these came through at the second try
    assert [(line["error"], line["last"]) for line in hung] == [("took longer than resources.minutes=0.5", False)]
    assert [(line["error"][:17], line["last"]) for line in lost] == [("killed by SIGKILL", False)]
    assert "003-seed1: another attempt after: took longer" in said
    assert "on purpose" in (folder / "trials" / "002-seed1" / "trial.log").read_text()
    assert "6/6 trials · running 0 · failed 2" in said
    _assert_full_folders(folder)
    _assert_shared_tokens(folder, little)
    assert not [each for each in psutil.process_iter(["cmdline"]) if _is_of(each, os.getpid())]
    # The same sweep again is refused; resumed, it tries what failed again and nothing else.
    assert main(words) == 2
    assert "already holds this sweep (4 trials done)" in capsys.readouterr().err
    handed = []
    monkeypatch.setattr(api, "run_trials", lambda controller, *_: handed.extend(_all(controller)))
    main(["sweep", str(folder), "--resume", "--engine", "serial"])
    assert handed == ["002-seed1", "004-seed1"]


def _attempts(folder, number):
    lines = (folder / "trials" / f"{number:03}-seed1" / "attempts.jsonl").read_text().splitlines()
    return [json.loads(line) for line in lines]


def _assert_full_folders(folder):
    """Every trial that ended is a run like any other, and the best config can be run again."""
    runs = find_runs([folder / "trials"])
    assert [run.name for run in runs] == ["001-seed1", "003-seed1", "005-seed1", "006-seed1"]
    for run in runs:
        assert (run.path / "model" / "model.safetensors").is_file()
        assert (run.path / "README.md").is_file()
    best = yaml.safe_load((folder / "best.yaml").read_text())
    assert "output_dir" not in best
    assert build(best).seed == (1,)
    assert (folder / "leaderboard.md").read_text().startswith("| rank | row | method.name | accuracy |")
    assert "Parallel coordinates" in (folder / "leaderboard.html").read_text()


def _assert_shared_tokens(folder, little):
    """Tokens were made once, before the first trial; no trial made any."""
    cache = list((little.folder / "cache").glob("tokens-*.arrow"))
    began = min((trial / "began.json").stat().st_mtime for trial in (folder / "trials").iterdir())
    assert len(cache) == 2  # train and dev
    assert all(file.stat().st_mtime < began for file in cache)


def _is_of(process, parent):
    return process.ppid() == parent and "toughen.sweeps.trial_process" in (process.info["cmdline"] or [])


def _all(controller):
    while (trial := controller.next_trial()) is not None:
        yield trial.name


@pytest.fixture
def fake_python(tmp_path, monkeypatch):
    """Let a shell script stand for the process of a trial."""

    def write(script):
        file = tmp_path / "python"
        file.write_text(f"#!/bin/sh\n{script}\n")
        file.chmod(0o755)
        monkeypatch.setattr("toughen.sweeps.worker.sys.executable", str(file))

    return write


@pytest.fixture
def processes(monkeypatch):
    """The processes that workers start."""
    started = []

    def launch(folder, limits):
        started.append(_launch(folder, limits))
        return started[-1]

    monkeypatch.setattr("toughen.sweeps.worker._launch", launch)
    return started


def begin(folder, **limits):
    worker = Worker(Limits("accuracy", **limits))
    worker.start(folder)
    assert worker.poll().kind == "alive"
    return worker


def next_news(worker):
    while (event := worker.poll()).kind == "alive":
        pass
    return event


def test_no_pipe_and_no_zombie_is_left(tmp_path, fake_python, processes):
    fake_python("read line")  # ends with the process that started it
    worker = begin(tmp_path, retries=1)
    processes[0].kill()
    retried = next_news(worker)
    assert (retried.kind, retried.error[:17]) == ("retry", "killed by SIGKILL")
    worker.poll()
    processes[1].stdin.close()
    failed = next_news(worker)
    assert (failed.kind, failed.error[:17]) == ("failed", "ended with code 1")
    worker.start(tmp_path)
    worker.poll()
    worker.stop()
    assert len(processes) == 3
    for process in processes:
        assert process.returncode is not None
        assert process.stdin.closed


def test_a_process_that_still_imports_ends_at_once(tmp_path, fake_python):
    fake_python("exec sleep 60")
    worker = begin(tmp_path)
    began = time.monotonic()
    worker.stop()
    assert time.monotonic() - began < GRACE / 2


def test_a_process_that_ignores_sigterm_is_killed(tmp_path, fake_python, processes, monkeypatch):
    monkeypatch.setattr("toughen.sweeps.worker.GRACE", 0.5)
    fake_python(f"trap '' TERM\nsleep 600 &\necho $! > {tmp_path}/child\nwait")
    worker = begin(tmp_path)
    while not (tmp_path / "child").is_file() or not (tmp_path / "child").read_text().strip():
        time.sleep(0.02)
    child = psutil.Process(int((tmp_path / "child").read_text()))
    worker.stop()
    assert processes[0].returncode == -signal.SIGKILL
    psutil.wait_procs([child], timeout=10)
    assert not child.is_running() or child.status() == psutil.STATUS_ZOMBIE


def test_a_trial_ends_with_the_process_that_started_it():
    code = (
        "import subprocess, time; from toughen.sweeps.trial_process import _end_with_parent; _end_with_parent();"
        "print(subprocess.Popen(['sleep', '600']).pid, flush=True); time.sleep(600)"
    )
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True}
    trial = subprocess.Popen([sys.executable, "-c", code], start_new_session=True, **pipes)
    child = psutil.Process(int(trial.stdout.readline()))
    trial.stdin.close()  # as the system does when the other process is killed
    assert trial.wait(timeout=60) == -signal.SIGKILL
    psutil.wait_procs([child], timeout=10)
    assert not child.is_running() or child.status() == psutil.STATUS_ZOMBIE
    trial.stdout.close()
