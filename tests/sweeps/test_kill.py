"""Nothing is lost: the driver is killed in the middle, on Ray and without, and the table is that of a whole sweep."""

import json
import os
import signal
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path

import psutil
import yaml

import toughen
from toughen.cli.main import main

SOURCE = Path(__file__).resolve().parents[2] / "src"
PATIENCE = 240.0


def test_kill_9_and_a_signal_leave_the_same_table(values, tmp_path, capsys):
    weights = {"method.weight": {"values": [0.5, 1.0, 2.0]}}
    values = {**values, "parameters": weights, "seeds": [1, 2], "base": {**values["base"], "method": "rdrop"}}
    file = tmp_path / "grid.yaml"
    file.write_text(yaml.safe_dump(values))
    whole = toughen.sweep(file, engine="serial", output_dir=tmp_path / "whole")

    folder = tmp_path / "cut"
    with tempfile.TemporaryDirectory(prefix="ray") as short:  # sockets want short paths
        driver = started(file, folder, "--engine", "ray", RAY_TMPDIR=short)
        until(lambda: done(folder), driver)
        driver.kill()
        driver.wait()
        until(lambda: not alive(folder, short))
    first = done(folder)
    assert 1 <= len(first) < 6

    handler = signal.getsignal(signal.SIGTERM)
    thread = in_background(lambda: len(done(folder)) > len(first), lambda: os.kill(os.getpid(), signal.SIGTERM))
    assert main(["sweep", str(file), "--output_dir", str(folder), "--engine", "serial", "--resume"]) == 130
    thread.join()
    assert signal.getsignal(signal.SIGTERM) == handler
    assert f"; continue with: toughen sweep {folder} --resume" in capsys.readouterr().out
    assert not alive(folder)
    second = done(folder)
    assert len(second) < 6

    resumed = toughen.sweep(folder, resume=True, engine="serial")
    assert resumed.rows[0].scores == whole.best.scores
    for name in ("leaderboard.csv", "leaderboard.md", "best.yaml", "rows.jsonl"):
        assert (folder / name).read_text() == (whole.path / name).read_text(), name
    assert {**first, **second}.items() <= done(folder).items()  # what had ended was not run again
    assert len(done(folder)) == 6
    for trial in (folder / "trials").iterdir():
        rows = [json.loads(line) for line in (trial / "metrics.jsonl").read_text().splitlines()]
        steps = [row["step"] for row in rows if row["kind"] == "train"]
        assert steps == sorted(set(steps))  # and no step twice


def started(file, folder, *words, **environment):
    command = [sys.executable, "-m", "toughen.cli.main", "sweep", file, "--output_dir", folder, *words]
    environment = {**os.environ, "PYTHONPATH": str(SOURCE), "RAY_USAGE_STATS_ENABLED": "0", **environment}
    return subprocess.Popen(
        list(map(str, command)), env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
    )


def in_background(wanted, action):
    def wait():
        until(wanted)
        action()

    thread = threading.Thread(target=wait, daemon=True)
    thread.start()
    return thread


def done(folder):
    """Trial -> when it ended."""
    return {file.parent.name: file.stat().st_mtime for file in folder.glob("trials/*/results.json")}


def alive(folder, *more):
    """Processes that hold a trial's lock, or have one of these words in their command."""
    held = [process for process in psutil.process_iter() if _holds(process, folder)]
    words = [process for process in psutil.process_iter(["cmdline"]) if _says(process, more)]
    return [*held, *words]


def _holds(process, folder):
    try:
        return any(file.path.startswith(str(folder)) for file in process.open_files())
    except psutil.Error:
        return False


def _says(process, words):
    line = " ".join(process.info["cmdline"] or ())
    return any(word in line for word in words)


def until(wanted, driver=None):
    end = time.monotonic() + PATIENCE
    while not wanted():
        assert driver is None or driver.poll() is None, driver.stdout.read()
        assert time.monotonic() < end, "took too long"
        time.sleep(0.05)
