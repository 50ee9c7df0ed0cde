"""Several processes: one run however it is spread, stopped together, resumed, and smaller passes for all of them."""

import json
import os
import signal
import socket
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file

from toughen.cli.main import main
from toughen.runs import RunError, RunFolder, launch, worker
from toughen.runs.trainer import RunTrainer

SOURCE = str(Path(__file__).resolve().parents[2] / "src")

# A method from a file is executed in every worker: the place to look into one, or to trouble it.
LOOK = """
import json, os, signal
import toughen
from toughen.runs.trainer import RunTrainer
whole = RunTrainer.training_step
def step(self, model, inputs, *args, **kwargs):
    rank = os.environ.get("RANK", "0")
    {what}
    return whole(self, model, inputs, *args, **kwargs)
RunTrainer.training_step = step
@toughen.register_method("looked-at")
def looked_at():
    return toughen.fgm()  # finds its perturbation without noise: the same on one process and on two
"""
STOP = """
    weight = self.model.bert.encoder.layer[0].output.dense.weight
    local = getattr(weight, "to_local", lambda: weight)()
    with open(os.environ["SEEN"] + rank, "w") as file:
        json.dump([local.numel(), weight.numel()], file)
    if rank == "1" and self.state.global_step == 3:
        os.kill(int(os.environ["LAUNCHER"]), int(os.environ["SIGNAL"]))
"""
SMALL = """
    import torch
    if rank == "1" and len(inputs["input_ids"]) > 2:
        raise torch.OutOfMemoryError("CUDA out of memory.")
"""


@pytest.fixture(scope="session")
def words(little, still):
    """Arguments of a run without chance: no dropout, no noise, and an optimizer that does not blow rounding up."""
    given = [f"--data.{key}={value}" for key, value in little.data.items()]
    given += [f"--model={still}", "--trainer.adam_epsilon=0.1", "--train.learning_rate=0.03"]
    given += ["--train.eval_batch_size=10"]  # 20 rows: Trainer repeats rows where batches do not come out even
    return ["train", *given, "--train.batch_size=8", "--train.epochs=2", "--train.log_steps=2"]


@pytest.fixture(scope="session")
def alone(words, tmp_path_factory):
    """The same run in one process."""
    folder = tmp_path_factory.mktemp("alone") / "run"
    assert main([*words, "--method", "fgm", f"--output_dir={folder}"]) == 0
    return folder


@pytest.fixture
def launcher(monkeypatch, tmp_path):
    """This process as the one that starts torchrun: its workers find the package, and where to leave what they saw."""
    for name, value in {"PYTHONPATH": SOURCE, "OMP_NUM_THREADS": "1", "SEEN": f"{tmp_path}/rank"}.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setenv("LAUNCHER", str(os.getpid()))
    monkeypatch.setattr(RunTrainer, "training_step", RunTrainer.training_step)  # the method's file is executed here too
    return monkeypatch


def method(folder: Path, what: str) -> str:
    file = folder / "looked.py"
    file.write_text(LOOK.format(what=what.strip()))
    return f"--method={file}:looked-at"


def start(words) -> subprocess.Popen:
    command = [sys.executable, "-c", "import sys; from toughen.cli.main import main; sys.exit(main())", *words]
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)


def assert_same_run(one: Path, other: Path) -> None:
    weights, expected = (load_file(run / "model" / "model.safetensors") for run in (one, other))
    assert weights.keys() == expected.keys()
    for name, value in expected.items():
        torch.testing.assert_close(weights[name], value, rtol=0, atol=2e-5, msg=name)
    first, second = (json.loads((run / "results.json").read_text()) for run in (one, other))
    assert first["seeds"][0]["metrics"] == pytest.approx(second["seeds"][0]["metrics"], abs=1e-4)


@pytest.mark.distributed
@pytest.mark.parametrize(
    ("shard", "number"), [("false", signal.SIGINT), ("true", signal.SIGTERM)], ids=["ddp, Ctrl-C", "fsdp2, SIGTERM"]
)
def test_a_signal_stops_all_and_the_run_goes_on(shard, number, words, alone, launcher, tmp_path, capfd):
    run = tmp_path / "two"
    launcher.setenv("SIGNAL", str(int(number)))
    words = [*words, method(tmp_path, STOP), "--nproc=2", f"--train.shard={shard}", f"--output_dir={run}"]
    handler = signal.getsignal(number)
    code, said = main(words), capfd.readouterr()
    assert code == 128 + number, said
    assert signal.getsignal(number) == handler
    assert f"stopped at step 10; saved {run}/seeds/1/checkpoint-10" in said.out
    assert f"continue with: toughen train --resume {run}" in said.out
    shares = [json.loads(Path(f"{tmp_path}/rank{rank}").read_text()) for rank in (0, 1)]
    assert all(mine == (whole // 2 if shard == "true" else whole) for mine, whole in shares), shares
    code, said = main(["train", f"--resume={run}"]), capfd.readouterr()
    assert code == 0, said
    assert "from step 10" in said.out
    assert_same_run(run, alone)


@pytest.mark.distributed
def test_two_machines_and_one_of_them_out_of_memory(words, alone, launcher, tmp_path, capfd):
    """One process ends in the middle of a step; all of them start again with smaller passes, and none waits forever."""
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        port = one.getsockname()[1]
    run = tmp_path / "two"
    words = [*words, method(tmp_path, SMALL), f"--output_dir={run}", "--nnodes=2", f"--rdzv_endpoint=127.0.0.1:{port}"]
    other = start([*words, "--node_rank=1"])
    code, said = main([*words, "--node_rank=0"]), capfd.readouterr()
    told, _ = other.communicate()
    assert (code, other.returncode) == (0, 0), (said, told)
    assert " x 2 · " in said.out  # the first machine tells
    note = "out of memory with 4 rows a pass: 2 a pass, the update as before"
    assert note in said.out
    assert note in json.loads((run / "results.json").read_text())["notes"]
    assert json.loads((run / "began.json").read_text())["processes"] == 2
    assert_same_run(run, alone)


def test_the_first_fault_is_the_one_that_is_told(tmp_path, monkeypatch):
    """A worker that dies takes the others with it, and they have nothing to say but that their peer is gone."""
    faults = iter([ValueError("a stone in the shoe"), RuntimeError("Connection closed by peer")])

    def broken(folder):
        raise next(faults)

    monkeypatch.setattr("toughen.runs.worker.execute", broken)
    monkeypatch.setattr(sys, "argv", ["worker", str(tmp_path)])
    assert [worker.main(), worker.main()] == [1, 1]
    with pytest.raises(RunError, match=r"^a stone in the shoe$"):
        launch._raise_worker_error(RunFolder(tmp_path), 1)


def test_machines_that_cannot_be(words, tmp_path, capsys):
    assert main([*words, "--nnodes=2", "--node_rank=2", "--rdzv_endpoint=x:1", f"--output_dir={tmp_path}/two"]) == 2
    assert "--node_rank 2: it must be 0 to 1" in capsys.readouterr().err
    assert main([*words, "--nnodes=2", "--rdzv_endpoint=here", f"--output_dir={tmp_path}/two"]) == 2
    assert "--rdzv_endpoint here: give host:port" in capsys.readouterr().err
    assert main([*words, "--train.batch_size=9", "--nproc=2", f"--output_dir={tmp_path}/two"]) == 2
    assert "does not divide evenly by 2 processes" in capsys.readouterr().err


@pytest.mark.parametrize("code", [0, 3])
def test_a_worker_ends_before_torch_can_abort_it(code):
    """Threads that Python's end finds alive have aborted processes whose run was done."""
    program = f"""
import atexit, os, sys, types
sys.modules["toughen.runs.launch"] = types.SimpleNamespace(execute=None)  # it is slow to import
from toughen.runs.worker import leave

class Threads:
    def __del__(self, abort=os.abort):
        abort()

threads = Threads()
atexit.register(print, "last line")
leave({code})
"""
    ended = subprocess.run(
        [sys.executable, "-c", program], env={**os.environ, "PYTHONPATH": SOURCE}, capture_output=True, text=True
    )
    assert ended.returncode == code, ended.stderr
    assert ended.stdout == ("last line\n" if code == 0 else "")
