"""Nothing is lost: signals, kill -9, half-written checkpoints; a resumed run ends on the same bits."""

import json
import os
import shutil
import signal
import subprocess
import sys
import warnings
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from types import SimpleNamespace

import pytest
import torch
from safetensors.torch import load_file, save_file
from transformers import BertForSequenceClassification

from toughen.internal.atomic import remove_folder
from toughen.runs import Interrupted, RunError
from toughen.runs.api import resume
from toughen.runs.checkpoints import last_usable
from toughen.runs.config_io import build
from toughen.runs.folder import RunFolder
from toughen.runs.launch import _wait, execute, launch_new
from toughen.runs.progress import ProgressLogger, silence_libraries
from toughen.runs.trainer import COST_FILE, RunTrainer

from .conftest import create, python

pytestmark = pytest.mark.usefixtures("no_page")

KILLED = """
import os, signal
from pathlib import Path
from toughen.runs.launch import execute
from toughen.runs.trainer import RunTrainer
whole = RunTrainer.training_step
def step(self, *args, **kwargs):
    if self.state.global_step == int(sys.argv[2]):
        os.kill(os.getpid(), signal.SIGKILL)
    return whole(self, *args, **kwargs)
RunTrainer.training_step = step
execute(Path(sys.argv[1]))
"""


def config_of(little, folder, method="smart+bregman", **train):
    given = {**little.train, "keep_checkpoints": True, **train}
    return build(
        {"model": little.model, "data": little.data, "train": given, "method": method, "output_dir": str(folder)}
    )


def last_weights(folder):
    return load_file(RunFolder(folder).checkpoints("method", 1)[-1] / "model.safetensors")


def spent(run):
    return json.loads((run / "seeds" / "1" / "result.json").read_text())


def assert_same_end(one, other):
    weights, expected = last_weights(one), last_weights(other)
    assert weights.keys() == expected.keys()
    assert all(weights[name].equal(expected[name]) for name in expected)
    assert (one / "model" / "model.safetensors").read_bytes() == (other / "model" / "model.safetensors").read_bytes()
    metrics = [json.loads((run / "results.json").read_text())["seeds"][0]["metrics"] for run in (one, other)]
    assert metrics[0] == metrics[1]


def test_a_config_that_was_changed_meanwhile(little, tmp_path):
    run = create(config_of(little, tmp_path / "run", method="fgm", max_steps=2))
    execute(run)
    text = (run / "config.yaml").read_text()
    for before, after, message in (
        ("learning_rate: 0.003", "learning_rate: 0.3", r"began with train\.learning_rate 0\.003, and now it is 0\.3"),
        ("name: fgm", "name: r3f", r"began with method {'name': 'fgm'}"),
    ):
        (run / "config.yaml").write_text(text.replace(before, after))
        with pytest.raises(RunError, match=message):
            execute(run)


def test_kill_9_in_the_middle_of_an_epoch(little, tmp_path):
    whole = create(config_of(little, tmp_path / "whole", save_steps=2))
    execute(whole)
    killed = create(config_of(little, tmp_path / "killed", save_steps=2))
    process = python(KILLED, killed, "9", check=False)
    assert process.returncode == -signal.SIGKILL, process.stderr
    assert [path.name for path in RunFolder(killed).checkpoints("method", 1)][-1] == "checkpoint-8"
    assert not (killed / "results.json").exists()
    # What a kill in the middle of a save leaves: weights, but no whole state. It must be passed over.
    half = killed / "seeds" / "1" / "checkpoint-10"
    half.mkdir()
    (half / "trainer_state.json").write_text('{"global_step": 10, "log_hist')
    resume(killed)
    assert_same_end(whole, killed)
    rows = [json.loads(line) for line in (killed / "metrics.jsonl").read_text().splitlines()]
    steps = [row["step"] for row in rows if row["kind"] == "train"]
    assert steps == sorted(set(steps))  # no row twice
    logged = [json.loads(line) for line in (whole / "metrics.jsonl").read_text().splitlines()]
    assert [row for row in rows if row["kind"] == "train"] == [row for row in logged if row["kind"] == "train"]
    assert spent(killed)["passes"] == spent(whole)["passes"]


@pytest.mark.parametrize(("method", "at"), [("asa", 3), ("freelb", 6)], ids=["in an epoch", "at its end"])
def test_sigterm_saves_and_resumes_on_the_same_bits(little, tmp_path, monkeypatch, method, at):
    whole = create(config_of(little, tmp_path / "whole", method=method))
    execute(whole)
    stopped = create(config_of(little, tmp_path / "stopped", method=method))
    step = RunTrainer.training_step

    def then_signal(self, *args, **kwargs):
        if self.state.global_step == at - 1:
            os.kill(os.getpid(), signal.SIGTERM)
        return step(self, *args, **kwargs)

    monkeypatch.setattr(RunTrainer, "training_step", then_signal)
    handler = signal.getsignal(signal.SIGTERM)
    with pytest.raises(Interrupted) as told:
        execute(stopped)
    cost = RunFolder(stopped).checkpoints("method", 1)[-1] / COST_FILE
    kept = json.loads(cost.read_text())
    assert kept["steps"] == at
    cost.write_text(json.dumps({**kept, "seconds": 1e7, "in_steps": 1e6}))
    assert (told.value.step, told.value.signal) == (at, signal.SIGTERM)
    assert signal.getsignal(signal.SIGTERM) == handler
    monkeypatch.setattr(RunTrainer, "training_step", step)
    resume(stopped)
    assert_same_end(whole, stopped)
    assert spent(stopped)["train_seconds"] > 1e7  # of both processes, however slow the machine
    assert 1e6 / 12 < spent(stopped)["seconds_per_step"] < 1.1e6 / 12
    assert spent(stopped)["passes"] == spent(whole)["passes"]


def _cut(file):
    file.write_bytes(file.read_bytes()[: file.stat().st_size // 2])


DAMAGES = {
    "optimizer.pt": _cut,
    "rng_state.pth": Path.unlink,
    "model.safetensors": _cut,
    "toughen_state_0.safetensors": Path.unlink,
    "foreign": lambda file: save_file({"classifier.bias": torch.zeros(7)}, file.with_name("model.safetensors")),
}


def test_a_damaged_checkpoint_falls_back_to_the_one_before(little, tmp_path, monkeypatch, capsys):
    """All parts are checked one after the other; the run ends on the bits of the uninterrupted one."""
    stopped = create(config_of(little, tmp_path / "run", method="fgm", save_steps=2))
    step = RunTrainer.training_step

    def then_signal(self, *args, **kwargs):
        if self.state.global_step == 4:
            os.kill(os.getpid(), signal.SIGTERM)
        return step(self, *args, **kwargs)

    monkeypatch.setattr(RunTrainer, "training_step", then_signal)
    with pytest.raises(Interrupted):
        execute(stopped)
    seed = stopped / "seeds" / "1"
    assert [path.name for path in RunFolder(stopped).checkpoints("method", 1)][-2:] == ["checkpoint-4", "checkpoint-5"]
    job = SimpleNamespace(
        run=RunFolder(stopped),
        variant="method",
        seed=1,
        world_size=1,
        config=RunFolder(stopped).config(),
        prepared=SimpleNamespace(precision="fp32"),
    )
    model = BertForSequenceClassification.from_pretrained(little.model)
    assert last_usable(job, model) == (seed / "checkpoint-5", [])
    shutil.copytree(seed / "checkpoint-5", tmp_path / "whole")
    for name, harm in DAMAGES.items():
        harm(seed / "checkpoint-5" / name)
        found, problems = last_usable(job, model)
        assert found == seed / "checkpoint-4", name
        assert ("another model" if name == "foreign" else name) in problems[0]
        shutil.rmtree(seed / "checkpoint-5")
        shutil.copytree(tmp_path / "whole", seed / "checkpoint-5")
    (seed / "checkpoint-5" / "optimizer.pt").write_bytes(b"")
    leftovers = [seed / ".model-123", stopped / ".results.json.0a1b2c3d", seed / ".checkpoint-3.0a1b2c3d"]
    for path in leftovers:
        path.mkdir()
    monkeypatch.setattr(RunTrainer, "training_step", step)
    resume(stopped)
    assert not any(path.exists() for path in leftovers)
    assert "optimizer.pt is damaged; going on from checkpoint-4" in capsys.readouterr().out
    whole = create(config_of(little, tmp_path / "uninterrupted", method="fgm"))
    execute(whole)
    assert_same_end(whole, stopped)


def test_no_terminal_codes_in_the_log(tmp_path):
    log = tmp_path / "train.log"
    with silence_libraries(log, print):
        warnings.warn("\x1b[1mLOAD REPORT\x1b[0m", stacklevel=1)
    ProgressLogger(log, speak=True).log("\x1b[31mred\x1b[0m")
    assert "LOAD REPORT" in log.read_text()
    assert "\x1b" not in log.read_text()


CLOSED = """
import os, signal
from pathlib import Path
from toughen.runs.launch import execute
from toughen.runs.trainer import RunTrainer
whole = RunTrainer.training_step
def step(self, *args, **kwargs):
    if self.state.global_step == 2:
        os.close(int(sys.argv[2]))  # the terminal
        os.kill(os.getpid(), signal.SIGHUP)
        os.kill(os.getpid(), signal.SIGHUP)  # the shell sends one, and the system another
    return whole(self, *args, **kwargs)
RunTrainer.training_step = step
execute(Path(sys.argv[1]))
"""


@pytest.mark.parametrize("nohup", [False, True])
def test_a_closed_terminal_saves_and_nohup_goes_on(little, tmp_path, nohup):
    run = create(config_of(little, tmp_path / "run", method="plain"))
    master, terminal = os.openpty()

    def begin():
        signal.signal(signal.SIGHUP, signal.SIG_IGN if nohup else signal.SIG_DFL)

    words = [sys.executable, "-c", f"import sys{CLOSED}", str(run), str(master)]
    out = subprocess.DEVNULL if nohup else terminal  # it writes to a file
    process = subprocess.Popen(words, stdout=out, stderr=out, pass_fds=[master], preexec_fn=begin)
    os.close(terminal)
    os.close(master)
    process.wait(120)
    assert (run / "results.json").is_file() == nohup
    if not nohup:
        assert [path.name for path in RunFolder(run).checkpoints("method", 1)] == ["checkpoint-3"]
        resume(run)
        assert (run / "results.json").is_file()


def test_killed_between_training_and_scoring(little, tmp_path, monkeypatch, capsys):
    whole = create(config_of(little, tmp_path / "whole", method="plain", epochs=12, patience=1))
    execute(whole)
    killed = create(config_of(little, tmp_path / "killed", method="plain", epochs=12, patience=1))

    class Killed(BaseException):
        pass

    def die(*_):
        raise Killed

    monkeypatch.setattr("toughen.runs.train_seed.finish_seed", die)
    with pytest.raises(Killed):
        execute(killed)
    monkeypatch.undo()
    monkeypatch.setattr(RunTrainer, "training_step", die)  # there is nothing left to train
    moved = killed.rename(tmp_path / "moved")  # Trainer's state names the old place
    resume(moved)
    assert_same_end(whole, moved)
    (moved / "seeds" / "1" / "result.json").unlink()
    state = json.loads((RunFolder(moved).checkpoints("method", 1)[-1] / "trainer_state.json").read_text())
    remove_folder(moved / "seeds" / "1" / f"checkpoint-{state['best_global_step']}")
    with pytest.raises(Killed):  # the seed trains again
        resume(moved)
    assert "of its best epoch" in capsys.readouterr().out


def test_a_run_that_is_at_work_is_not_resumed_beside_itself(little, tmp_path):
    folder = create(config_of(little, tmp_path / "run", method="plain", max_steps=1))
    with RunFolder(folder).lock(), pytest.raises(RunError, match="is being trained by another process"):
        resume(folder)
    with RunFolder(folder).lock(), pytest.raises(RunError, match="is being trained by another process"):
        launch_new(folder)  # somebody resumed it before we began; what is theirs now is not taken away
    resume(folder)


def test_a_child_holds_the_folder_as_long_as_it_lives(little, tmp_path):
    """torchrun lives on when the process that started it is killed."""
    folder = create(config_of(little, tmp_path / "run"))
    with RunFolder(folder).lock() as lock:
        child = subprocess.Popen(["sleep", "60"], pass_fds=lock)
    try:
        with pytest.raises(RunError, match="is being trained by another process"):
            resume(folder)
    finally:
        child.kill()
        child.wait()


def test_processes_can_be_started_from_a_thread(tmp_path):
    """Signals are the main thread's alone to ask for; elsewhere there is nobody to send them."""
    with ThreadPoolExecutor(1) as pool:
        assert pool.submit(lambda: _wait(subprocess.Popen(["true"]), RunFolder(tmp_path))).result() == 0


def test_finished_seeds_are_not_trained_again(finished, monkeypatch):
    before = (finished.path / "results.json").read_bytes()
    monkeypatch.setattr(RunTrainer, "training_step", None)
    resume(finished.path)
    assert (finished.path / "results.json").read_bytes() == before
    (finished.path / "results.json").unlink()  # as if it had ended between a seed's result and the run's
    resume(finished.path)
    assert (finished.path / "results.json").read_bytes() == before


def test_other_labels_are_refused(little, tmp_path):
    from ..tiny import rows, write_csv

    file = write_csv(tmp_path / "train.csv", rows(16))
    given = {"train_file": str(file), "cache_dir": str(tmp_path / "cache")}
    folder = create(
        build({"model": little.model, "data": given, "train": little.train, "output_dir": str(tmp_path / "run")})
    )
    execute(folder)
    for path in (folder / "seeds" / "1" / "result.json", folder / "results.json"):
        path.unlink()
    write_csv(file, [{**row, "label": row["label"].upper()} for row in rows(16)])
    with pytest.raises(RunError, match=r"began with labels \['neg', 'pos'\]"):
        resume(folder)
    with pytest.raises(RunError, match="is no run folder"):
        resume(tmp_path)
