"""A tiny model and tiny data on disk, and one finished run that several tests look at."""

import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest

from toughen.runs import RunFolder, train

from ..tiny import rows, save_model, write_csv, write_jsonl


@pytest.fixture(scope="session")
def little(tmp_path_factory):
    """Paths of a model and of train, dev and test files, and the options every run here shares."""
    folder = tmp_path_factory.mktemp("little")
    data = {
        "train_file": str(write_csv(folder / "train.csv", rows(48))),
        "validation_file": str(write_csv(folder / "dev.csv", rows(20, seed=1))),
        "cache_dir": str(folder / "cache"),
    }
    return SimpleNamespace(
        folder=folder,
        model=str(save_model(folder / "model")),
        data=data,
        test_file=str(write_jsonl(folder / "test.jsonl", rows(10, seed=2))),
        train={"batch_size": 8, "learning_rate": 3e-3, "epochs": 2, "log_steps": 2},
    )


@pytest.fixture(scope="session")
def still(little):
    """The model without dropout: no chance in its passes, however a batch is split."""
    from transformers import AutoTokenizer, BertForSequenceClassification

    folder = little.folder / "still"
    model = BertForSequenceClassification.from_pretrained(little.model)
    model.config.hidden_dropout_prob = model.config.attention_probs_dropout_prob = 0.0
    model.save_pretrained(folder)
    AutoTokenizer.from_pretrained(little.model).save_pretrained(folder)
    return str(folder)


@pytest.fixture(scope="session")
def finished(little, tmp_path_factory):
    """Two seeds of SMART and their plain twins, with a test set."""
    folder = tmp_path_factory.mktemp("finished") / "run"
    data = {**little.data, "test_file": little.test_file}
    return train(
        "smart", model=little.model, data=data, train=little.train, seeds=[1, 2], baseline=True, output_dir=folder
    )


@pytest.fixture
def no_page():
    """Runs without their report, half of a tiny run's time, where nobody looks at it; `no_page.undo()`: with it."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("toughen.runs.launch.write_page", lambda *_: None)
        yield patch


@pytest.fixture
def start(little, tmp_path):
    """`start("freelb", steps=2)`: a run of its own with the shared options."""

    def make(method: str = "smart", name: str = "run", **changes):
        options = {"model": little.model, "data": little.data, "train": little.train, **changes}
        return train(method, output_dir=tmp_path / name, **options)

    return make


def create(config):
    """The path of a new run folder."""
    return RunFolder.create(config).path


def python(code: str, *arguments: str, check: bool = True) -> subprocess.CompletedProcess:
    """A program of its own, with the package to be tested."""
    source = str(Path(__file__).resolve().parents[2] / "src")
    path = f"import sys; sys.path.insert(0, {source!r});"
    return subprocess.run(
        [sys.executable, "-c", path + code, *map(str, arguments)], check=check, capture_output=True, text=True
    )
