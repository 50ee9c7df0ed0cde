"""`robust(Trainer)`: the same training where the method does nothing, the true loss, and nothing left behind."""

import json
import math
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file
from transformers import (
    BertForQuestionAnswering,
    BertForSequenceClassification,
    Seq2SeqTrainer,
    Seq2SeqTrainingArguments,
    Trainer,
    TrainerCallback,
)

import toughen
from toughen.errors import MethodError, RobustnessWarning, StepError

from ..tiny import LETTERS, gpt2, llama, make, t5, tagger
from ..tiny import small_bert as bert
from .driving import ALL, Gradients, assert_equal, collated, language, made, settings, texts, weights

pytestmark = pytest.mark.filterwarnings("ignore::toughen.errors.RobustnessWarning")


def own_loss(outputs: Any, labels: Any, num_items_in_batch: Any = None) -> Any:
    flat = torch.nn.functional.cross_entropy(outputs.logits, labels, reduction="sum")
    return flat / num_items_in_batch


@pytest.mark.parametrize(
    ("model", "data", "changes", "more"),
    [
        (bert, texts, {}, {}),
        (bert, texts, {"label_smoothing_factor": 0.1}, {}),
        (bert, texts, {"gradient_checkpointing": True}, {}),
        (bert, texts, {"bf16": True}, {}),
        (bert, texts, {"gradient_accumulation_steps": 2}, {"compute_loss_func": own_loss}),
        (tagger, language, {"gradient_accumulation_steps": 2, "label_smoothing_factor": 0.1}, {}),
        (gpt2, language, {"gradient_accumulation_steps": 2}, {}),
        (gpt2, language, {"gradient_accumulation_steps": 2, "label_smoothing_factor": 0.1}, {}),
        (llama, language, {"gradient_accumulation_steps": 4}, {}),
    ],
    ids=[
        "plain",
        "smoothing",
        "checkpointing",
        "bf16",
        "loss_func",
        "tokens-smoothing",
        "gpt2",
        "gpt2-smoothing",
        "llama",
    ],
)
def test_with_a_method_that_does_nothing_it_is_the_trainer(
    model: Any, data: Any, changes: dict[str, Any], more: dict[str, Any], tmp_path: Path
) -> None:
    kwargs = {"args": settings(tmp_path, **changes), "train_dataset": data(32), **more}
    stock = Trainer(model(), **kwargs)
    stock.train()
    ours = toughen.robust(Trainer)(model(), **kwargs, method=toughen.plain())
    ours.train()
    assert_equal(weights(ours.model), weights(stock.model))
    for one, other in zip(ours.state.log_history, stock.state.log_history, strict=True):
        assert one.get("loss") == other.get("loss")
        assert one.get("grad_norm") == other.get("grad_norm")


class Keywords(Trainer):
    def compute_loss(self, model: Any, inputs: Any, return_outputs: bool = False, **_: Any) -> Any:
        outputs = model(**{key: value for key, value in inputs.items() if key != "labels"})
        loss = torch.nn.functional.cross_entropy(outputs.logits, inputs["labels"])
        return (loss, outputs) if return_outputs else loss


class OtherOrder(Keywords):
    def compute_loss(
        self, model: Any, inputs: Any, num_items_in_batch: Any = None, return_outputs: bool = False
    ) -> Any:
        return super().compute_loss(model, inputs, return_outputs=return_outputs)


class Scores(Keywords):
    def compute_loss(self, model: Any, inputs: Any, return_outputs: bool = False, **_: Any) -> Any:
        loss, outputs = super().compute_loss(model, inputs, return_outputs=True)
        return (loss, outputs.logits) if return_outputs else loss


@pytest.mark.parametrize("kind", [Keywords, OtherOrder, Scores])
@pytest.mark.parametrize("name", ["plain", "smart", "freelb"])
def test_a_loss_of_one_s_own_may_name_its_arguments_as_trainer_lets_it(name: str, kind: Any, tmp_path: Path) -> None:
    found = []
    for trainer in (Trainer, kind):
        ours = toughen.robust(trainer)(bert(), settings(tmp_path), train_dataset=texts(16), method=toughen.make(name))
        ours.train()
        found.append(weights(ours.model))
    assert_equal(*found)


class Divided(Trainer):
    def compute_loss(
        self, model: Any, inputs: Any, return_outputs: bool = False, num_items_in_batch: Any = None
    ) -> Any:
        labels = inputs.pop("labels")
        outputs = model(**inputs)
        loss = own_loss(outputs, labels, num_items_in_batch)
        return (loss, outputs) if return_outputs else loss


class DividedBelow(Divided):
    def compute_loss(self, model: Any, inputs: Any, *args: Any, **kwargs: Any) -> Any:
        return super().compute_loss(model, dict(inputs), *args, **kwargs)


class SaidToBeDivided(Trainer):
    loss_is_scaled_for_ga = True

    def compute_loss(self, *args: Any, **kwargs: Any) -> Any:
        return Divided.compute_loss(self, *args, **kwargs)


@pytest.mark.parametrize("kind", [Divided, DividedBelow, SaidToBeDivided])
def test_a_loss_of_one_s_own_is_told_the_number_of_labels(kind: Any, tmp_path: Path) -> None:
    kwargs = {"args": settings(tmp_path, gradient_accumulation_steps=2), "train_dataset": texts(32)}
    stock = kind(bert(), **kwargs)
    stock.train()
    ours = toughen.robust(kind)(bert(), **kwargs, eval_dataset=texts(8), method=toughen.plain())
    ours.train()
    assert_equal(weights(ours.model), weights(stock.model))
    assert ours.state.log_history[0]["loss"] == stock.state.log_history[0]["loss"]
    assert math.isfinite(ours.evaluate()["eval_loss"])


@pytest.mark.parametrize("smoothing", [0.0, 0.1])
@pytest.mark.parametrize("name", ["smart", "freelb", "bregman"])
def test_outputs_as_tuples_are_read_as_named_ones(name: str, smoothing: float, tmp_path: Path) -> None:
    """With label smoothing the model gets no labels, and its tuple no loss: the logits come first."""
    found = []
    for named in (True, False):
        model = bert()
        model.config.return_dict = named
        arguments = settings(tmp_path, label_smoothing_factor=smoothing)
        trainer = toughen.robust(Trainer)(model, arguments, train_dataset=texts(16), method=made(name))
        trainer.train()
        found.append(weights(trainer.model))
    assert_equal(*found)


def test_spans_as_tuples_are_read_as_named_ones(tmp_path: Path) -> None:
    rows = [{**row, "start_positions": row["labels"], "end_positions": row["labels"] + 1} for row in texts(16)]
    found = []
    for named in (True, False):
        torch.manual_seed(0)
        config = bert().config
        config.num_labels = 2  # start and end
        model = BertForQuestionAnswering(config)
        model.config.return_dict = named
        trainer = toughen.robust(Trainer)(model, settings(tmp_path), train_dataset=rows, method=made("smart"))
        trainer.train()
        found.append(weights(trainer.model))
    assert_equal(*found)


@pytest.mark.parametrize("steps", [1, 4])
@pytest.mark.parametrize("name", ["plain", "smart", "freelb", "sam", "bregman", "rdrop"])
def test_loss_and_gradient_are_the_true_means(name: str, steps: int, tmp_path: Path) -> None:
    rows, gradients = texts(4 * steps), Gradients()
    arguments = settings(tmp_path, gradient_accumulation_steps=steps, max_steps=1, max_grad_norm=0.0)
    trainer = toughen.robust(Trainer)(
        bert(0.0), arguments, train_dataset=rows, method=made(name), callbacks=[gradients]
    )
    trainer.train()
    model = bert(0.0).train()
    with made(name).attach(model, total_steps=1) as attached:
        loss = attached.backward(model, collated(rows))
    assert trainer.state.log_history[0]["loss"] == pytest.approx(float(loss), abs=1e-5)
    for key, parameter in model.named_parameters():
        torch.testing.assert_close(gradients.seen[0][key], parameter.grad, rtol=1e-4, atol=1e-6, msg=key)


@pytest.mark.parametrize("name", ["smart", "bregman", "freelb"])
def test_regularisers_of_language_models_are_means_too(name: str, tmp_path: Path) -> None:
    """The task's loss is divided by the labels of the update, the regulariser by its micro-batches."""
    rows = [{**row, "attention_mask": torch.ones(10).long(), "labels": row["input_ids"]} for row in language(8)]
    found = []
    for steps, size in ((1, 8), (2, 4)):
        gradients = Gradients()
        arguments = settings(
            tmp_path,
            gradient_accumulation_steps=steps,
            per_device_train_batch_size=size,
            max_steps=2,
            max_grad_norm=0.0,
        )
        model = llama()  # without dropout
        toughen.robust(Trainer)(model, arguments, train_dataset=rows, method=made(name), callbacks=[gradients]).train()
        found.append(gradients.seen[1])
    for key in found[0]:
        torch.testing.assert_close(found[0][key], found[1][key], rtol=1e-3, atol=1e-5, msg=key)


def test_heads_that_ignore_the_number_of_labels_are_not_multiplied(tmp_path: Path) -> None:
    rows = language(8)
    arguments = settings(tmp_path, Seq2SeqTrainingArguments, gradient_accumulation_steps=2, max_steps=1)
    trainer = toughen.robust(Seq2SeqTrainer)(t5(), arguments, train_dataset=rows, method=toughen.plain())
    trainer.train()
    with torch.no_grad():
        order = [float(t5()(**collated(rows)).loss)]
    assert trainer.state.log_history[0]["loss"] == pytest.approx(order[0], rel=0.1)  # stock logs twice that


@pytest.mark.parametrize("name", ALL)
def test_every_method_trains_and_says_what_it_did(name: str, tmp_path: Path) -> None:
    trainer = toughen.robust(Trainer)(
        bert(),
        settings(tmp_path, gradient_accumulation_steps=2),
        train_dataset=texts(24),
        data_collator=collated,
        method=make(name),
        processing_class=LETTERS,
    )
    trainer.train()
    logs = [entry for entry in trainer.state.log_history if "loss" in entry]
    assert len(logs) == 3
    for entry in logs:
        assert entry["robust/forwards"] >= 1
        assert all(math.isfinite(value) for value in entry.values())
    assert "robust/divergence_dropout" in logs[0]
    assert weights(trainer.model).keys() == weights(bert()).keys()


@pytest.mark.parametrize("name", ["smart", "freelb", "r3f", "sam"])
def test_seq2seq(name: str, tmp_path: Path) -> None:
    arguments = settings(tmp_path, Seq2SeqTrainingArguments, predict_with_generate=True, generation_max_length=4)
    trainer = toughen.robust(Seq2SeqTrainer)(
        t5(), arguments, train_dataset=language(), eval_dataset=language(4), method=toughen.make(name)
    )
    trainer.train()
    assert all(math.isfinite(entry["loss"]) for entry in trainer.state.log_history if "loss" in entry)
    assert math.isfinite(trainer.evaluate()["eval_loss"])


@pytest.mark.parametrize(
    "name", ["smart", "bregman", "smart+bregman", "freelb", "freeat", "neftune", "sam", "words", "temperature"]
)
@pytest.mark.parametrize("steps", [1, 2])
def test_a_resumed_run_is_bit_for_bit_the_same(name: str, steps: int, tmp_path: Path) -> None:
    def trainer(folder: Path, **changes: Any) -> Any:
        arguments = settings(folder, max_steps=5, gradient_accumulation_steps=steps, **changes)
        return toughen.robust(Trainer)(bert(), arguments, train_dataset=texts(32), method=make(name))

    whole = trainer(tmp_path, save_strategy="steps", save_steps=2)
    whole.train()
    again = trainer(tmp_path / "again")
    again.train(resume_from_checkpoint=str(tmp_path / "checkpoint-2"))
    assert_equal(weights(again.model), weights(whole.model))
    assert_equal(again.attached.state_dict(), whole.attached.state_dict())
    losses = [[e["loss"] for e in t.state.log_history if "loss" in e] for t in (again, whole)]
    assert losses[0] == losses[1]


def test_the_method_s_state_comes_back_where_data_is_not_skipped(tmp_path: Path) -> None:
    def trainer(**changes: Any) -> Any:
        arguments = settings(tmp_path, max_steps=3, **changes)
        return toughen.robust(Trainer)(bert(), arguments, train_dataset=texts(32), method=toughen.bregman())

    trainer(save_strategy="steps", save_steps=2).train()
    saved = load_file(tmp_path / "checkpoint-2" / "toughen_state_0.safetensors")
    assert int(saved["updates"]) == 2
    again = trainer(ignore_data_skip=True)
    again.train(resume_from_checkpoint=str(tmp_path / "checkpoint-2"))
    assert again.attached.updates == 3


def test_a_teacher_is_saved_however_its_weights_lie_in_memory(tmp_path: Path) -> None:
    model = bert()
    model.classifier.weight.data = model.classifier.weight.data.t().contiguous().t()
    arguments = settings(tmp_path, max_steps=2, save_strategy="steps", save_steps=2)
    toughen.robust(Trainer)(model, arguments, train_dataset=texts(32), method=toughen.bregman()).train()
    saved = load_file(tmp_path / "checkpoint-2" / "toughen_state_0.safetensors")
    assert any(value.shape == model.classifier.weight.shape for value in saved.values())


def test_a_checkpoint_without_the_method_is_refused(tmp_path: Path) -> None:
    arguments = settings(tmp_path, save_strategy="steps", save_steps=2)
    Trainer(bert(), arguments, train_dataset=texts()).train()
    ours = toughen.robust(Trainer)(bert(), arguments, train_dataset=texts(), method=toughen.smart())
    with pytest.raises(StepError, match="toughen_state_0"):
        ours.train(resume_from_checkpoint=str(tmp_path / "checkpoint-2"))


def test_the_saved_model_is_a_plain_checkpoint(tmp_path: Path) -> None:
    method = toughen.smart() + toughen.bregman()
    trainer = toughen.robust(Trainer)(bert(), settings(tmp_path), train_dataset=texts(), method=method)
    trainer.train()
    trainer.save_model(str(tmp_path / "model"))
    assert load_file(tmp_path / "model" / "model.safetensors").keys() == bert().state_dict().keys()
    config = json.loads((tmp_path / "model" / "config.json").read_text())
    assert "toughen" not in json.dumps(config)
    loaded, info = BertForSequenceClassification.from_pretrained(tmp_path / "model", output_loading_info=True)
    assert not info["missing_keys"]
    assert not info["unexpected_keys"]
    inputs = {k: v for k, v in collated(texts()).items() if k != "labels"}
    with torch.no_grad():
        assert torch.equal(loaded.eval()(**inputs).logits, trainer.model.eval()(**inputs).logits)


@pytest.mark.parametrize("name", ["smart", "freelb", "alum", "sam", "bregman"])
def test_evaluation_neither_changes_training_nor_is_changed(name: str, tmp_path: Path) -> None:
    def trainer(**changes: Any) -> Any:
        return toughen.robust(Trainer)(
            bert(0.0),  # a DataLoader draws from dropout's stream when it starts, so with dropout even Trainer differs
            settings(tmp_path, **changes),
            train_dataset=texts(),
            eval_dataset=texts(8),
            method=toughen.make(name),
        )

    watched, alone = trainer(eval_strategy="steps", eval_steps=1), trainer()
    watched.train()
    alone.train()
    assert_equal(weights(watched.model), weights(alone.model))
    stock = Trainer(watched.model, settings(tmp_path), eval_dataset=texts(8))
    assert watched.state.log_history[-2]["eval_loss"] == stock.evaluate()["eval_loss"]


def test_a_model_made_anew_gets_the_method(tmp_path: Path) -> None:
    trainer = toughen.robust(Trainer)(
        model_init=lambda: bert(), args=settings(tmp_path), train_dataset=texts(), method=toughen.smart()
    )
    trainer.train()
    assert trainer.attached.model is trainer.model
    assert trainer.attached.updates == 3


def test_an_interrupted_window_is_forgotten(tmp_path: Path) -> None:
    class Stop(TrainerCallback):
        def on_substep_end(self, args: Any, state: Any, control: Any, **_: Any) -> None:
            raise KeyboardInterrupt

    found = []
    for interrupted in (False, True):
        stop, gradients = Stop(), Gradients()
        arguments = settings(tmp_path, gradient_accumulation_steps=2, max_steps=1)
        trainer = toughen.robust(Trainer)(
            bert(0.0), arguments, train_dataset=texts(32), method=toughen.sam(), callbacks=[gradients]
        )
        if interrupted:
            trainer.add_callback(stop)
            with pytest.raises(KeyboardInterrupt):
                trainer.train()
            trainer.remove_callback(stop)
        trainer.train()
        found.append(gradients.seen[0])
    assert_equal(*found)


@pytest.mark.parametrize("name", ["growth", "bregman"])
def test_a_second_training_begins_anew(name: str, tmp_path: Path) -> None:
    """Trainer's step count and learning rates do; a ramp that stayed at its end would not match them."""
    method = toughen.smart(radius_schedule=(0.1, 1.0)) if name == "growth" else toughen.bregman(decay=0.5)
    trainer = toughen.robust(Trainer)(
        bert(0.0), settings(tmp_path, max_steps=4), train_dataset=texts(32), method=method
    )
    sizes: list[float] = []
    for _ in range(2):
        trainer.train()
        assert trainer.attached.updates == 4
        logs = [entry for entry in trainer.state.log_history if "loss" in entry]
        sizes.append(float(logs[0].get("robust/delta_relative", logs[0]["robust/term"])))
    if name == "growth":
        assert sizes[1] == pytest.approx(sizes[0], rel=0.2)
    else:  # at the first update the teacher is the model itself
        assert sizes == pytest.approx([0.0, 0.0], abs=1e-10)


def test_a_loss_that_would_leave_the_method_out_is_refused(tmp_path: Path) -> None:
    class Mine(toughen.robust(Trainer)):
        def compute_loss(self, model: Any, inputs: Any, return_outputs: bool = False, **_: Any) -> Any:
            outputs = model(**inputs)
            return (outputs.loss, outputs) if return_outputs else outputs.loss

    with pytest.raises(MethodError, match=r"Mine\.compute_loss overrides"):
        Mine(bert(), settings(tmp_path), train_dataset=texts(), method=toughen.smart())


def test_a_step_over_the_method_s_is_refused_unless_it_calls_that(tmp_path: Path) -> None:
    class Mine(toughen.robust(Trainer)):
        def training_step(self, model: Any, inputs: Any, num_items_in_batch: Any = None) -> Any:
            loss = model(**inputs).loss
            self.accelerator.backward(loss)
            return loss.detach()

    class LooksOn(toughen.robust(Trainer)):
        steps = 0

        def training_step(self, *args: Any, **kwargs: Any) -> Any:
            self.steps += 1
            return super().training_step(*args, **kwargs)

    model = bert()
    before = {name: weight.clone() for name, weight in model.state_dict().items()}
    with pytest.raises(MethodError, match=r"Mine\.training_step overrides"):
        Mine(model, settings(tmp_path), train_dataset=texts(), method=toughen.smart()).train()
    assert all(torch.equal(weight, before[name]) for name, weight in model.state_dict().items())
    trainer = LooksOn(bert(), settings(tmp_path), train_dataset=texts(), method=toughen.freelb())
    trainer.train()
    assert trainer.steps == 3
    whole = LooksOn.training_step
    LooksOn.training_step = lambda *args, **kwargs: whole(*args, **kwargs)  # ours by another name
    LooksOn(bert(), settings(tmp_path), train_dataset=texts(), method=toughen.freelb()).train()


def test_a_step_that_asks_for_outputs_is_told_where_they_are(tmp_path: Path) -> None:
    class Mine(Trainer):
        def training_step(self, model: Any, inputs: Any, num_items_in_batch: Any = None) -> Any:
            loss, _outputs = self.compute_loss(model, inputs, return_outputs=True)
            self.accelerator.backward(loss)
            return loss.detach()

    trainer = toughen.robust(Mine)(bert(), settings(tmp_path), train_dataset=texts(), method=toughen.freelb())
    with pytest.raises(MethodError, match=r"Override compute_loss"):
        trainer.train()


def test_a_step_that_would_leave_the_method_out_is_refused(tmp_path: Path) -> None:
    class Mine(Trainer):
        def training_step(self, model: Any, inputs: Any, num_items_in_batch: Any = None) -> Any:
            loss = model(**inputs).loss
            self.accelerator.backward(loss)
            return loss.detach()

    trainer = toughen.robust(Mine)(bert(), settings(tmp_path), train_dataset=texts(), method=toughen.freelb())
    with pytest.raises(MethodError, match=r"does not call self\.compute_loss"):
        trainer.train()


def test_a_second_trainer_takes_over_from_one_that_does_not_train(tmp_path: Path) -> None:
    """As of a notebook's cell that is run twice, or of a Trainer that only evaluates."""
    model, kwargs = bert(), {"args": settings(tmp_path), "train_dataset": texts(), "method": toughen.smart()}
    first = toughen.robust(Trainer)(model, **kwargs)
    second = toughen.robust(Trainer)(model, **kwargs)
    second.train()
    first.train()
    assert "robust/term" in first.state.log_history[0]

    class Greedy(TrainerCallback):
        def on_step_end(self, *args: Any, **_: Any) -> None:
            with pytest.raises(MethodError, match=r"trainer\.attached\.detach\(\), once its train\(\) is over"):
                toughen.robust(Trainer)(model, **kwargs)

    toughen.robust(Trainer)(model, **kwargs, callbacks=[Greedy()]).train()
    assert not [name for name in vars(model) if "toughen" in name]


def test_a_step_outside_of_a_training(tmp_path: Path) -> None:
    batch = collated(language(4))
    losses = []
    for kind, more in ((Trainer, {}), (toughen.robust(Trainer), {"method": toughen.plain()})):
        model = llama()
        trainer = kind(model, settings(tmp_path), **more)
        losses.append(trainer.training_step(model, dict(batch), torch.tensor(14)))
    assert losses[0] == losses[1]


def test_a_probe_that_fails_does_not_end_a_training(tmp_path: Path) -> None:
    class NoOutputs(Trainer):
        def compute_loss(self, model: Any, inputs: Any, return_outputs: bool = False, **_: Any) -> Any:
            assert not return_outputs, "there are none"
            return model(**inputs).loss

    trainer = toughen.robust(NoOutputs)(bert(), settings(tmp_path), train_dataset=texts(), method=toughen.freelb())
    with pytest.warns(RobustnessWarning, match="there are none.*probe=False"):
        trainer.train()
    assert "robust/term" in trainer.state.log_history[0]


def test_what_is_not_a_method_is_refused(tmp_path: Path) -> None:
    with pytest.raises(MethodError, match="give the class of a Trainer"):
        toughen.robust("Trainer")  # pyright: ignore[reportArgumentType]
    with pytest.raises(MethodError, match=r"^robust\(BertForSequenceClassification\): give"):  # and not all its layers
        toughen.robust(bert())  # pyright: ignore[reportArgumentType]
    with pytest.raises(MethodError, match="not a method"):
        toughen.robust(Trainer)(bert(), settings(tmp_path), train_dataset=texts(), method="smart")


class Stages(torch.nn.Sequential):
    """As SentenceTransformer: stages that take a batch in one argument, here with one column of texts."""

    class Encoder(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.auto_model = bert()

        def forward(self, features: dict[str, Any]) -> Any:
            return self.auto_model(**features)

    def __init__(self) -> None:
        super().__init__(self.Encoder())


class Columns(Trainer):
    def compute_loss(self, model: Any, inputs: Any, return_outputs: bool = False, **_: Any) -> Any:
        features = {name.removeprefix("anchor_"): value for name, value in inputs.items() if name != "labels"}
        logits = model(features).logits
        loss = torch.nn.functional.cross_entropy(logits, inputs["labels"])
        return (loss, logits) if return_outputs else loss


@pytest.mark.parametrize("name", ["fgm", "freelb", "smart", "asa", "sam"])
def test_a_model_of_stages_and_a_batch_of_columns(name: str, tmp_path: Path) -> None:
    names = {"input_ids": "anchor_input_ids", "attention_mask": "anchor_attention_mask"}
    rows = [{names.get(key, key): value for key, value in row.items()} for row in texts()]
    trainer = toughen.robust(Columns)(
        Stages(), settings(tmp_path, remove_unused_columns=False), train_dataset=rows, data_collator=collated,
        method=toughen.make(name),
    )  # fmt: skip
    trainer.train()
    assert math.isfinite(trainer.state.log_history[0]["loss"])
    (step, *_) = trainer.attached.last_batches
    if name in ("fgm", "freelb", "smart"):
        moved = step.perturbation.deltas[0].abs().amax(-1) > 0
        assert not moved[step.passes.inputs["anchor_attention_mask"] == 0].any()
        assert moved.any()
