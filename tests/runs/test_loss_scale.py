"""The logged loss is the true mean, however an update is split over accumulation and processes."""

import json

import pytest

from toughen.runs.configuring import build
from toughen.runs.folder import create
from toughen.runs.launch import execute_everywhere

pytestmark = pytest.mark.distributed


def losses(little, folder, nproc: int, micro: int) -> tuple[float, float, float]:
    """Mean training loss of an epoch, gradient norm of its only update, evaluation loss; nothing is learnt."""
    train = {"batch_size": 48, "micro_batch": micro, "epochs": 1, "learning_rate": 1e-30, "log_steps": 1}
    train["eval_batch_size"] = 10  # 20 rows: Trainer repeats rows where batches do not come out even
    config = {"model": little.still, "data": little.data, "method": "plain", "train": train, "nproc": nproc}
    run = create(build({**config, "output_dir": str(folder)}))
    execute_everywhere(run)
    rows = [json.loads(line) for line in (run / "metrics.jsonl").read_text().splitlines()]
    trained = next(row for row in rows if row["kind"] == "train")
    scored = next(row for row in rows if row["kind"] == "eval")
    return trained["loss"], trained["grad_norm"], scored["eval_loss"]


def test_table(little, tmp_path):
    from transformers import BertForSequenceClassification

    # No dropout, so that every way to split the one batch has the same loss.
    model = BertForSequenceClassification.from_pretrained(little.model)
    model.config.hidden_dropout_prob = model.config.attention_probs_dropout_prob = 0.0
    little.still = str(tmp_path / "still")
    model.save_pretrained(little.still)
    from transformers import AutoTokenizer

    AutoTokenizer.from_pretrained(little.model).save_pretrained(little.still)
    table = {(1, 1): 48, (1, 4): 12, (2, 1): 24, (2, 4): 6}  # (processes, accumulation) -> rows of a pass
    found = {key: losses(little, tmp_path / f"{key[0]}-{key[1]}", key[0], micro) for key, micro in table.items()}
    for key, values in found.items():
        assert values == pytest.approx(found[1, 1], rel=1e-4), f"(processes, accumulation) = {key}: {found}"
    assert 0.3 < found[1, 1][0] < 1.5
