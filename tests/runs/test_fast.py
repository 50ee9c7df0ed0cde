"""`--fast`: on a CPU steps run eagerly, train the same, and the run says why."""

import json
import re

import pytest
import torch
from safetensors.torch import load_file
from transformers import AutoConfig

from toughen.runs.prepare import resolve_precision

from ..cuda_graphs.rerun import Rerun, rerun_graphs

pytestmark = pytest.mark.usefixtures("no_page")

NO_DROPOUT = {"hidden_dropout_prob": 0.0, "attention_probs_dropout_prob": 0.0}


def test_a_fast_run_on_a_cpu(start, capsys):
    fast = start("plain", name="fast", fast=True, model_config=NO_DROPOUT)
    said = capsys.readouterr()
    slow = start("plain", name="slow", model_config=NO_DROPOUT)
    assert "0 of 12 steps captured; the others ran eagerly: the model is on the cpu" in said.out + said.err
    assert "fast: true" in (fast.path / "config.yaml").read_text()
    ours, theirs = (json.loads((run.path / "results.json").read_text()) for run in (fast, slow))
    # Padded to few lengths here and to the longest row there: the same numbers, as padding changes nothing.
    assert ours["mean"]["accuracy"] == theirs["mean"]["accuracy"]
    assert ours["mean"]["loss"] == pytest.approx(theirs["mean"]["loss"], abs=1e-5)


def test_a_fast_run_with_edited_texts_is_the_same(start):
    """Its views are as wide as its batches, and the rows that make them travel with the batch."""
    runs = [start("typos+r3f", name=str(fast), fast=fast, model_config=NO_DROPOUT) for fast in (True, False)]
    ours, theirs = (json.loads((run.path / "results.json").read_text()) for run in runs)
    assert ours["mean"]["accuracy"] == theirs["mean"]["accuracy"]
    rows = [json.loads(line) for line in (runs[0].path / "metrics.jsonl").read_text().splitlines()]
    assert any(row.get("robust/0/words", 0) > 0 for row in rows)


def test_a_fast_run_begins_in_training_mode(start, capsys):
    """An epoch ends with an evaluation; a graph is known by the mode, and would be made twice."""
    from toughen.cuda_graphs.graph_cache import GraphCache

    modes, own = [], GraphCache.__call__

    def seen(self, *args, **kwargs):
        modes.append(self.model.training)
        return own(self, *args, **kwargs)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(GraphCache, "__call__", seen)
        start("smart", fast=True)
    said = capsys.readouterr()
    assert "eval mode" not in said.out + said.err
    assert modes == [True] * 12


def test_a_run_captures_unasked_and_says_so_in_a_line(start, little, capsys):
    """It trains as `--fast false` does, also where memory runs out half-way. Graphs are stand-ins."""
    train = {**little.train, "micro_batch": 4}
    with rerun_graphs() as patch:
        patch.setattr("toughen.trainers.cuda_graph_step.capture_pays", lambda *_: True)
        replay = Rerun.replay

        def small_memory(self, batch):
            if len(batch["input_ids"]) > 4:
                raise torch.OutOfMemoryError("CUDA out of memory.")
            return replay(self, batch)

        patch.setattr(Rerun, "replay", small_memory)
        fast = start("smart", "fast")
        said = capsys.readouterr()
        assert re.search(r"seed 1: 1\d of 24 steps captured\n", said.out + said.err)
        eager = start("smart", "eager", fast=False, train=train)
        start("smart", "padded", data={**little.data, "pad_to_max_length": True}, train={**train, "max_steps": 1})
        said = capsys.readouterr()
        lines = [line for line in (said.out + said.err).splitlines() if "captured" in line]
        assert len(lines) == 1
        assert "data.pad_to_max_length keeps it" in lines[0]
    assert "out of memory with 8 rows a pass: 4 a pass, the update as before" in fast.results.notes
    ours, theirs = (load_file(run.path / "model" / "model.safetensors") for run in (fast, eager))
    for name, value in theirs.items():
        torch.testing.assert_close(ours[name], value, rtol=1e-4, atol=1e-5)


@pytest.mark.skipif(torch.cuda.is_available(), reason="a GPU decides")
@pytest.mark.parametrize(("has", "width", "expected"), [(True, 128, "bf16"), (True, 32, "fp32"), (False, 384, "fp32")])
def test_processors_that_have_bfloat16_compute_in_it(has, width, expected, monkeypatch, tmp_path):
    monkeypatch.setattr(torch.cpu, "_is_amx_tile_supported", lambda: False)
    monkeypatch.setattr(torch.cpu, "_is_avx512_bf16_supported", lambda: has)
    AutoConfig.for_model("bert", hidden_size=width).save_pretrained(tmp_path)
    (tmp_path / "vocab.txt").touch()
    assert resolve_precision("auto", str(tmp_path))[0] == expected
