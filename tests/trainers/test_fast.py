"""Captured steps under the Trainer, unasked: what they survive, and when they are not made. Graphs are stand-ins."""

import logging
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn
from transformers import DataCollatorWithPadding, Trainer, TrainerCallback

import toughen
from toughen.cuda_graphs import compile as compiling
from toughen.cuda_graphs import eligibility
from toughen.cuda_graphs.estimate import capture_pays, compile_seconds
from toughen.trainers import cuda_graph_step
from toughen.trainers.cuda_graph_step import pad_to_few_lengths

from ..cuda_graphs.rerun import Rerun, rerun_graphs
from ..tiny import LETTERS, gpt2, llama, t5
from ..tiny import small_bert as bert
from .driving import assert_equal, collated, settings, texts, weights

STEPS = 24


@pytest.fixture
def graphs() -> Iterator[pytest.MonkeyPatch]:
    with rerun_graphs() as patch:
        patch.setattr("toughen.cuda_graphs.estimate.CAPTURE_STEPS", 1)
        yield patch


class TwoLengths:
    """Batches of 10 tokens and of 9 in turn."""

    def __init__(self) -> None:
        self.count = 0

    def __call__(self, rows: list[dict[str, Any]]) -> dict[str, Any]:
        self.count += 1
        return {name: v[:, : 10 - self.count % 2] if v.dim() > 1 else v for name, v in collated(rows).items()}


def trainer(folder: Path, fast: Any = "auto", model: nn.Module | None = None, **changes: Any) -> Any:
    kind, more = changes.pop("kind", Trainer), changes.pop("more", {})
    method = changes.pop("method", None) or toughen.smart()
    given = {"max_steps": STEPS, "max_grad_norm": 0.5, **changes}
    rows = texts(32)
    return toughen.robust(kind)(
        bert() if model is None else model,
        settings(folder, **given),
        train_dataset=rows,
        eval_dataset=rows[:6],
        method=method,
        fast=fast,
        **more,
    )


def captured(trained: Any) -> int:
    return int(trained.fast_steps.partition(" ")[0] or 0)


@pytest.mark.parametrize(
    "changes",
    [
        {"eval_strategy": "steps", "eval_steps": 3},
        {"two_lengths": True},
        {"gradient_accumulation_steps": 2},
        {"method": toughen.freelb()},
    ],
    ids=["evaluation", "shapes", "accumulation", "freelb"],
)
def test_it_trains_as_eager_steps_do(graphs: Any, changes: dict[str, Any], tmp_path: Path) -> None:
    runs, two_lengths = [], changes.pop("two_lengths", False)
    for fast in ("auto", False):
        changes["more"] = {"data_collator": TwoLengths()} if two_lengths else {}
        runs.append(trainer(tmp_path, fast=fast, **changes))  # starts the random numbers
        runs[-1].train()
    assert captured(runs[0]) >= 18
    assert runs[1].fast_steps == ""
    assert_equal(*(weights(each.model) for each in runs))
    losses = [[row["loss"] for row in each.state.log_history if "loss" in row] for each in runs]
    assert losses[0] == losses[1]


def test_a_resumed_training_is_the_same(graphs: Any, tmp_path: Path) -> None:
    whole = trainer(tmp_path, save_strategy="steps", save_steps=11)
    whole.train()
    again = trainer(tmp_path)
    again.train(resume_from_checkpoint=str(tmp_path / "checkpoint-11"))
    assert captured(again) >= 8
    assert_equal(weights(again.model), weights(whole.model))


@pytest.mark.parametrize("error", [KeyboardInterrupt, torch.OutOfMemoryError])
def test_after_ctrl_c_or_out_of_memory_it_trains_again(graphs: Any, error: Any, tmp_path: Path) -> None:
    expected = trainer(tmp_path)
    expected.train()
    own, replay, held = trainer(tmp_path), Rerun.replay, []

    def broken(self: Rerun, batch: Any) -> Any:
        if own.state.global_step == 7:
            held.append(own._graphs)
            raise error
        return replay(self, batch)

    graphs.setattr(Rerun, "replay", broken)
    with pytest.raises(error):
        own.train()
    graphs.setattr(Rerun, "replay", replay)
    assert own._graphs is None
    assert not held[0].captured.captures
    assert own.optimizer.optimizer.step is held[0]._own_step
    assert not own.attached._undo
    assert "captured" in own.fast_steps
    own.model.load_state_dict(bert().state_dict())  # the model is free, and trains as a new one
    again = trainer(tmp_path, model=own.model.train())
    again.train()
    assert captured(again) == captured(expected)
    assert_equal(weights(again.model), weights(expected.model))


def test_a_capture_without_room_leaves_the_steps_eager(graphs: Any, tmp_path: Path) -> None:
    room = {"max_memory_allocated": 7 * 2**30, "memory_allocated": 2**30, "memory_reserved": 7 * 2**30}
    for name, value in room.items():
        graphs.setattr(torch.cuda, name, lambda _device, value=value: value)
    for free, fits in ((2**33, True), (2**32, False)):
        graphs.setattr(torch.cuda, "mem_get_info", lambda _device, free=free: (free, 2**34))
        reason = eligibility.memory_reason(torch.device("cuda"))
        assert reason is None if fits else "6.0 GiB beside what eager steps take, and 4.0 are left" in reason
    said: list[str] = []
    graphs.setattr(cuda_graph_step, "memory_reason", lambda _device: "no room")
    full = trainer(tmp_path)
    full.tell = said.append
    full.train()
    assert captured(full) == 0
    assert said == ["Steps are not captured, they run eagerly: no room."]


class Counting(Trainer):
    def compute_loss(self, *args: Any, **kwargs: Any) -> Any:
        return super().compute_loss(*args, **kwargs)


def hooked() -> nn.Module:
    model = bert()
    model.classifier.register_forward_hook(lambda *_: None)
    return model


class Own(nn.Linear):
    def forward(self, input: Any) -> Any:
        return super().forward(input)


def rewritten() -> nn.Module:
    model = bert()
    model.classifier = Own(model.config.hidden_size, 3)
    return model


def own_loss(outputs: Any, labels: Any, num_items_in_batch: Any = None) -> Any:
    return nn.functional.cross_entropy(outputs.logits, labels)


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"kind": Counting}, "the Python of Counting.compute_loss"),
        ({"model": hooked()}, "the hook on classifier"),
        ({"model": rewritten()}, "the Python of Own.forward"),
        ({"method": toughen.freelb(init=lambda view: 0 * view.value)}, "the Python of <lambda>"),
        ({"more": {"compute_loss_func": own_loss}}, "compute_loss_func"),
        ({"gradient_checkpointing": True}, "gradient checkpointing"),
    ],
)
def test_python_of_the_users_is_never_left_out_unasked(
    graphs: Any, changes: Any, reason: str, tmp_path: Path, caplog: Any
) -> None:
    eager = trainer(tmp_path, **{**changes, "max_steps": 2})
    with caplog.at_level(logging.WARNING, "toughen"):
        eager.train()
    assert eager.fast_steps == ""
    said = [record.message for record in caplog.records if record.name == "toughen"]
    assert len(said) == 1
    assert reason in said[0]


def test_what_comes_with_the_library_is_captured() -> None:
    for name in toughen.available():
        method = toughen.make(name)
        for each in method.methods if isinstance(method, toughen.MethodSum) else (method,):
            assert eligibility.part_reason(each) is None, name
    for model in (bert(), gpt2(), llama(), t5()):
        assert eligibility.code_reason(model) is None


def test_on_a_cpu_nothing_is_captured_and_nothing_said(tmp_path: Path, caplog: Any, recwarn: Any) -> None:
    eager = trainer(tmp_path, max_steps=2)
    eager.train()
    assert eager.fast_steps == ""
    assert not caplog.records
    assert not [w for w in recwarn if "captured" in str(w.message)]
    with pytest.raises(toughen.errors.MethodError, match="fast='yes'"):
        trainer(tmp_path, fast="yes")


def test_a_short_training_captures_nothing(tmp_path: Path) -> None:
    """A capture takes longer than it saves then: RTE in three epochs has 468 updates, a try-out has ten."""
    with rerun_graphs():
        short = trainer(tmp_path, max_steps=10)
        short.train()
    assert short.fast_steps == "0 of 10 steps captured"


def test_what_pays() -> None:
    assert capture_pays(seen=1, done=1, left=467)  # the first shape of RTE in 3 epochs
    assert capture_pays(seen=2, done=50, left=400)
    assert not capture_pays(seen=1, done=50, left=400)  # it will come 8 times more
    assert not capture_pays(seen=1, done=1, left=9)
    width_and_layers = 768 * 12
    saved, taken = compile_seconds(64 * 512 * 2 / 3 * width_and_layers, 5 / 3, 10_000, 4)
    assert 100 < saved < 200  # 16 ms a step were measured for SMART
    assert taken == 100
    saved, taken = compile_seconds(16 * 128 * width_and_layers, 5 / 3, 418, 5)
    assert saved < 1 < taken  # RTE, 3 epochs


def test_layers_are_compiled_within_steps_where_that_pays(graphs: Any, tmp_path: Path) -> None:
    """As many steps as pay for it; an evaluation runs the layers as they are, and compiles nothing."""
    seen: dict[str, list[bool]] = {"step": [], "evaluation": []}
    said: list[str] = []

    class Watch(TrainerCallback):
        def on_step_end(self, *_: Any, model: Any, **__: Any) -> None:
            seen["step"].append(model.bert.encoder.layer[0]._compiled_call_impl is not None)

    graphs.setattr(cuda_graph_step, "COMPILE_AFTER", 4)
    graphs.setattr(cuda_graph_step, "compiler_reason", lambda: None)
    own = compiling.CompiledLayers.__init__
    graphs.setattr(compiling.CompiledLayers, "__init__", partial_init(own, seen))
    results = []
    for paying in (True, False):
        taken = 1.0 if paying else 1e9
        graphs.setattr(cuda_graph_step, "compile_seconds", lambda *_, taken=taken: (100.0, taken))
        each = trainer(tmp_path, eval_strategy="steps", eval_steps=6, more={"callbacks": [Watch()]})
        each.tell = said.append
        each.train()
        results.append((each.fast_steps, weights(each.model)))
    assert said == ["Layers are compiled, which takes about 1 s and saves 100 in 21 steps."]
    assert "layers compiled" in results[0][0]
    assert "layers compiled" not in results[1][0]
    assert seen["evaluation"]  # the compiled layers ran
    assert not any(seen["step"])  # and are off between steps
    for name, value in results[1][1].items():
        torch.testing.assert_close(results[0][1][name], value, rtol=1e-4, atol=1e-5)


def partial_init(own: Any, seen: dict[str, list[bool]]) -> Any:
    def init(self: Any, model: nn.Module, **options: Any) -> None:
        own(self, model, backend="eager")
        active = self.active

        def watched() -> Any:
            seen["evaluation"].append(model.training)
            return active()

        self.active = watched

    return init


@pytest.mark.parametrize("positions", [32, 100])
def test_texts_are_padded_to_few_lengths(positions: int) -> None:
    model = bert()
    model.config.max_position_embeddings = positions
    collate = DataCollatorWithPadding(LETTERS)
    rows = [{"input_ids": [1, 7, 2]}, {"input_ids": [1, 2]}]
    found = pad_to_few_lengths(collate, model)(rows)["input_ids"]
    assert found.shape == (2, 32 if positions == 32 else 3)  # 100 are fewer than the next multiple
    assert pad_to_few_lengths(collate, model)(rows)["attention_mask"].sum() == 5
    told = DataCollatorWithPadding(LETTERS, pad_to_multiple_of=8)
    assert pad_to_few_lengths(told, model) is told
    plain = partial(dict)
    assert pad_to_few_lengths(plain, model) is plain
