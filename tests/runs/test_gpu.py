"""What only a GPU can show: half precision by default, a loss scaler under fp16, and memory that really runs out."""

import json

import pytest
import torch
from safetensors.torch import load_file
from transformers import AutoTokenizer, BertConfig, BertForSequenceClassification

from toughen.runs.folder import RunFolder
from toughen.runs.prepare import resolve_precision
from toughen.runs.trainer import RunTrainer

from .seeds import run_seed

pytestmark = [
    pytest.mark.gpu,
    pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device"),
]


@pytest.fixture
def seen(monkeypatch):
    """What the forward passes of training computed in, and whether a loss scaler was there."""
    found: dict = {"dtypes": set(), "scaler": None}
    step = RunTrainer.training_step

    def look(self, model, inputs, *args, **kwargs):
        def note(_module, _inputs, output):
            found["dtypes"].add(output.dtype)

        layer = self.accelerator.unwrap_model(model).bert.encoder.layer[0].intermediate.dense
        handle = layer.register_forward_hook(note)
        try:
            return step(self, model, inputs, *args, **kwargs)
        finally:
            handle.remove()
            found["scaler"] = self.accelerator.scaler

    monkeypatch.setattr(RunTrainer, "training_step", look)
    return found


def losses(folder) -> list[dict]:
    rows = [json.loads(line) for line in (folder / "metrics.jsonl").read_text().splitlines()]
    return [row for row in rows if row["kind"] == "train"]


def test_bf16_is_the_default_where_the_gpu_has_it(little, tmp_path, seen):
    if not torch.cuda.is_bf16_supported(including_emulation=False):
        pytest.skip("this GPU has no bfloat16")
    precision, note = resolve_precision("auto", "any")
    assert (precision, note) == ("bf16", None)
    result = run_seed(tmp_path / "run", little.model, precision=precision)
    assert seen["dtypes"] == {torch.bfloat16}
    assert seen["scaler"] is None
    weights = load_file(tmp_path / "run/seeds/1/model/model.safetensors")
    assert {weight.dtype for weight in weights.values()} == {torch.float32}  # halves are for the passes alone
    assert result.peak_memory_mb > 0
    assert all(0 <= row["loss"] < 3 for row in losses(tmp_path / "run"))


@pytest.mark.parametrize("method", ["smart", "freelb", "asa"])
def test_fp16_with_a_scaler_trains_as_fp32_does(method, still, tmp_path, seen):
    run_seed(tmp_path / "half", still, method, precision="fp16")
    assert torch.float16 in seen["dtypes"]
    assert seen["scaler"].get_scale() > 1
    run_seed(tmp_path / "whole", still, method, precision="fp32")
    half, whole = losses(tmp_path / "half"), losses(tmp_path / "whole")
    assert [row["step"] for row in half] == [row["step"] for row in whole]
    # The first rows: later ones drift apart, as the scaler leaves out steps while it finds its scale.
    assert half[0]["loss"] == pytest.approx(whole[0]["loss"], rel=0.01)
    if "robust/delta_relative" in whole[0]:
        assert half[0]["robust/delta_relative"] == pytest.approx(whole[0]["robust/delta_relative"], rel=0.01)


@pytest.fixture
def wide(little, tmp_path):
    """A model whose passes need real memory."""
    torch.manual_seed(0)
    size = {"hidden_size": 256, "num_hidden_layers": 4, "num_attention_heads": 4, "intermediate_size": 1024}
    drop = {"hidden_dropout_prob": 0.0, "attention_probs_dropout_prob": 0.0}
    BertForSequenceClassification(BertConfig(vocab_size=40, **size, **drop)).save_pretrained(tmp_path / "wide")
    AutoTokenizer.from_pretrained(little.model).save_pretrained(tmp_path / "wide")
    return str(tmp_path / "wide")


def test_memory_that_runs_out_gives_smaller_passes_and_the_same_update(wide, tmp_path):
    options = {"method": "fgm", "length": 256, "batch_size": 64, "epochs": 3}
    eight = run_seed(tmp_path / "eight", wide, **options, micro_batch=8)
    total = torch.cuda.get_device_properties(0).total_memory / 2**20
    torch.cuda.empty_cache()
    torch.cuda.set_per_process_memory_fraction(min(1.6 * eight.peak_memory_mb / total, 1.0))
    try:
        found = run_seed(tmp_path / "found", wide, **options)
    finally:
        torch.cuda.set_per_process_memory_fraction(1.0)
        torch.cuda.empty_cache()
    known = RunFolder(tmp_path / "found").oom_history()["method"]
    assert 1 <= known["rows"] < 64
    assert known["notes"][0] == "out of memory with 64 rows a pass: 32 a pass, the update as before"
    assert [row["step"] for row in losses(tmp_path / "found")] == [row["step"] for row in losses(tmp_path / "eight")]
    assert found.metrics == pytest.approx(eight.metrics, abs=1e-3)
    one, other = (load_file(tmp_path / name / "seeds/1/model/model.safetensors") for name in ("found", "eight"))
    for name, value in other.items():
        torch.testing.assert_close(
            one[name], value, rtol=0, atol=2e-3, msg=name
        )  # one update of Adam, in another order
