"""One seed of a run on rows in memory: what a run does, without the package `datasets`."""

import random
from pathlib import Path
from typing import Any

from transformers import AutoTokenizer

from toughen.runs.config import Config, DataConfig, TrainConfig
from toughen.runs.folder import RunFolder
from toughen.runs.launch import GracefulStop
from toughen.runs.method_config import make_method
from toughen.runs.prepare import PreparedRun, SeedJob
from toughen.runs.progress import ProgressLogger
from toughen.runs.results import SeedResult
from toughen.runs.train_seed import train_seed
from toughen.tasks import Data, Task

TASK = Task("toy", "Toy", "sentence", "classes", ("text",), ("neg", "pos"))


def texts(count: int, length: int = 12, seed: int = 0) -> list[dict[str, Any]]:
    """Rows of token ids; the class is whether a good or a bad word of tests/little.py comes among the others."""
    dice = random.Random(seed)
    rows = []
    for number in range(count):
        label = number % 2
        ids = [2, *dice.choices(range(15, 25), k=length - 2), 3]
        ids[dice.randrange(1, length - 1)] = dice.randrange(5, 10) if label else dice.randrange(10, 15)
        rows.append({"input_ids": ids, "attention_mask": [1] * length, "labels": label})
    return rows


def run_seed(
    folder: Path, model: str, method: str = "smart", precision: str = "fp32", length: int = 12, **train: Any
) -> SeedResult:
    """Train seed 1 in `folder` and give its result."""
    settings = {"batch_size": 16, "learning_rate": 1e-3, "epochs": 2, "log_steps": 2, **train}
    config = Config(
        model,
        method={"name": method},
        data=DataConfig(max_length=length),
        train=TrainConfig(**settings),
        trainer={"adam_epsilon": 1e-3},  # Adam would blow the rounding of gradients near 0 up to whole steps
    )
    data = Data(TASK, train=texts(64, length), validation=texts(32, length, seed=1))
    prepared = PreparedRun(data, {}, AutoTokenizer.from_pretrained(model), make_method(config.method), precision)
    (folder / "seeds" / "1").mkdir(parents=True)
    job = SeedJob(config, RunFolder(folder), folder / "seeds" / "1", "method", 1, 1, prepared)
    with GracefulStop(RunFolder(folder)) as stop:
        return train_seed(job, ProgressLogger(folder / "train.log"), stop)
