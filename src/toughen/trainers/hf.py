"""Hugging Face Trainer: overrides that call super, nothing copied."""

import inspect
import logging
import warnings
from collections.abc import Callable, Generator, Mapping
from contextlib import nullcontext
from typing import Any, Literal, TypeAlias, TypeVar, cast

import torch
from torch import Tensor
from transformers import PreTrainedModel, Trainer, TrainerCallback

from ..combine.base import BackwardPass
from ..compare.model_outputs import ModelOutputs
from ..cuda_graphs.eligibility import ALL_THE_SAME, CHECKPOINTING, class_reason, code_reason, model_reason, part_reason
from ..cuda_graphs.packing import padding_token
from ..engine.attached import Attached
from ..errors import MethodError, RobustnessWarning
from ..method import Method, MethodSum
from . import checkpoint as state
from .cuda_graph_step import CapturedTraining, TokenCountCollator, pad_to_few_lengths
from .hf_loss_scaling import (
    PASS_COUNTS,
    STEP_COUNTS,
    compares_predictions,
    divides_by_items,
    keep_counts,
    logits_of,
    replayable_forward,
    trainer_scales_loss,
    with_loss,
)
from .view_collator import ViewCollator

T = TypeVar("T", bound=Trainer)
Fast: TypeAlias = bool | Literal["auto"]
CAPTURING_DEVICES = ("cuda",)  # where steps are captured unasked
PROBE_EVERY = 50  # updates at least between two probes, which cost a few forward passes


def robust(trainer: type[T] = Trainer) -> type[T]:
    """Return the given Trainer class with a `method=` argument: `robust(Seq2SeqTrainer)(..., method=toughen.smart())`.

    On CUDA steps are captured as CUDA graphs where that saves time within the training; texts are padded to multiples
    of 32 then, and padding is left out of the layers where that pays (`docs/fast.md`). Other steps run as always, and
    one line of the log says why. `fast=False` captures none; `fast=True` captures also what runs Python of yours in a
    step, and warns of what it cannot capture. Evaluation, checkpoints and the saved model are the Trainer's own. What
    the method did is logged as `robust/...`.

    Args:
        trainer: The Trainer class, yours or one of transformers and TRL.

    Returns:
        A subclass that takes `method`, `fast` and `probe` beside the Trainer's own arguments.

    Raises:
        MethodError: An object was given and not a class.

    Examples:
        >>> from transformers import Trainer, TrainingArguments
        >>> arguments = TrainingArguments(output_dir=folder, max_steps=1, report_to="none", disable_tqdm=True)
        >>> trainer = toughen.robust(Trainer)(
        ...     model, arguments, train_dataset=data, method=toughen.smart(), processing_class=tokenizer
        ... )
        >>> trainer.train().global_step
        1
    """
    if not (isinstance(trainer, type) and issubclass(trainer, Trainer)):  # pyright: ignore[reportUnnecessaryIsInstance]
        raise MethodError(f"robust({str(trainer).partition('(')[0]}): give the class of a Trainer, not an object.")

    driver = RobustTrainer
    if any(kind.__module__.startswith("sentence_transformers.") for kind in trainer.__mro__):
        from .sentence import SentenceTrainer as driver

    class Robust(driver, trainer):  # pyright: ignore[reportGeneralTypeIssues, reportUntypedBaseClass]
        pass

    Robust.__name__ = Robust.__qualname__ = f"Robust{trainer.__name__}"
    return cast("type[T]", Robust)


class _OverrideGuard(TrainerCallback):
    """Refuses a class over robust(Trainer) that replaces what runs the method."""

    def __init__(self, kind: type[Trainer], ours: type[Trainer]) -> None:
        self.kind, self.step_ran = kind, False
        if kind.compute_loss is not ours.compute_loss:
            self._refuse("compute_loss")

    def on_pre_optimizer_step(self, *args: Any, **kwargs: Any) -> None:
        """Check before any weight moves. Only a step shows it: the user's may call ours by any name."""
        if not self.step_ran:
            self._refuse("training_step")

    def _refuse(self, name: str) -> None:
        raise MethodError(
            f"{self.kind.__name__}.{name} overrides the one that runs the method. Move it into a subclass "
            "of Trainer, and wrap that: robust(MyTrainer)(..., method=...)."
        )


class _EpochClock(TrainerCallback):
    """Tells the workers which epoch they draw views of texts for."""

    views: ViewCollator | None = None

    def on_epoch_begin(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        if self.views is not None:  # a resumed epoch has begun already
            self.views.set_epoch(int((state.epoch or 0.0) + 1e-6))


class RobustTrainer(Trainer):
    """Runs a method in the training steps of the Trainer that it is mixed into."""

    def __init__(
        self, *args: Any, method: Method | MethodSum, probe: bool = True, fast: Fast = "auto", **kwargs: Any
    ) -> None:
        if fast not in (True, False, "auto"):
            raise MethodError(f'fast={fast!r}: give True, False or "auto".')
        if not isinstance(method, (Method, MethodSum)):  # pyright: ignore[reportUnnecessaryIsInstance]
            raise MethodError(f"method={method!r} is not a method. Give e.g. method=toughen.smart().")
        self._guard = _OverrideGuard(type(self), RobustTrainer)
        super().__init__(*args, **kwargs)
        self.add_callback(self._guard)
        self._epochs = _EpochClock()
        self.add_callback(self._epochs)
        if getattr(self.args, "n_gpu", 1) > 1:
            raise MethodError("DataParallel copies the model in every pass; start one process a GPU with torchrun.")
        self._method, self._fast = method, fast
        self._capturing = fast is True
        self._graphs: CapturedTraining | None = None
        self.fast_steps = ""  # after training: how many were captured, and why not all
        self.tell: Callable[[str], None] = logging.getLogger("toughen").warning  # where lines about steps go
        self._attach(self.model)
        self._compares = compares_predictions(method)
        self._probe = probe
        self._probed: dict[str, Tensor] = {}
        self._losses: Generator[Tensor] | None = None  # those of the training step that is under way

    def _attach(self, model: Any) -> None:
        own = cast(PreTrainedModel, self.accelerator.unwrap_model(model))
        self._code_reason = code_reason(own)
        self.attached: Attached = self._method.attach(own, self.processing_class, seed=self.args.seed)
        self.attached.gives_way = True  # to another Trainer on this model, but not while this one trains
        # Some language models divide by the number of labels of the whole update, and so does Trainer's smoothed loss;
        # other heads only say they would, and Trainer would multiply their loss by accumulation steps and processes.
        divided = divides_by_items(own, self.attached.task) or trainer_scales_loss(self, RobustTrainer)
        self.model_accepts_loss_kwargs = self.model_accepts_loss_kwargs and divided

    def call_model_init(self, trial: Any = None) -> Any:
        """`model_init=` makes a new model for every `train()`: the method moves over to it."""
        model = super().call_model_init(trial)
        if hasattr(self, "attached"):
            self.attached.detach()
            self._attach(model)
        return model

    def _loss_divisor(self, num_items_in_batch: Any) -> int:
        """Return the number of micro-batches that Trainer will not divide a loss by, because it already is divided."""
        scaled: bool | None = getattr(self, "loss_is_scaled_for_ga", None)  # transformers 5.19 and later
        if scaled is None:
            counted = self.model_accepts_loss_kwargs and num_items_in_batch is not None
            scaled = counted or self.compute_loss_func is not None
        return self._micro_batches if scaled else 1

    @property
    def _micro_batches(self) -> int:
        """The number of micro-batches in this update; outside `train()`, which counts them, that of the settings."""
        return getattr(self, "current_gradient_accumulation_steps", self.args.gradient_accumulation_steps)

    def train(self, *args: Any, **kwargs: Any) -> Any:
        self.attached.attach()
        self.attached.gives_way = False
        if self._fast == "auto" and self.args.device.type in CAPTURING_DEVICES:
            reason = self._eager_reason()
            self._capturing = reason is None
            if reason is not None:
                self._tell_on_main(f"Steps are not captured, they run eagerly: {reason}.")
        try:
            return super().train(*args, **kwargs)
        finally:
            if self._graphs is not None:
                self.fast_steps = str(self._graphs)
                self._graphs.close()
                self._graphs = None
            self.attached.detach()  # the trained model is a plain one
            self.attached.gives_way = True

    def _eager_reason(self) -> str | None:
        """Return why steps are not captured unasked, as far as it is known before the first, or None."""
        kinds = type(self).__mro__
        classes, model = kinds[kinds.index(RobustTrainer) + 1 :], self.attached.model
        if self.compute_loss_func is not None:
            return f"a replay does not run the Python of compute_loss_func; {ALL_THE_SAME}"
        if self.is_deepspeed_enabled or self.is_fsdp_enabled:
            return "gradients are exchanged between processes in the middle of the step"
        if self.args.world_size > 1:  # tested with gloo and stand-ins for graphs, not yet on several GPUs
            return "there are several processes; with fast=True their gradients are averaged after the graph"
        if self.args.gradient_checkpointing:
            return CHECKPOINTING
        names = ("training_step", "compute_loss", "compute_loss_context_manager")
        parts = next(filter(None, (part_reason(each.method) for each in self.attached.states)), None)
        return (
            class_reason(classes, names)
            or self._code_reason
            or parts
            or model_reason(model, next(model.parameters()).device)
        )

    def _tell_on_main(self, line: str) -> None:
        if self.is_world_process_zero():
            self.tell(line)

    def _inner_training_loop(self, *args: Any, **kwargs: Any) -> Any:
        """Trainer counts from 0 in every training that it does not resume, and so do schedules, teachers, spreads."""
        self.attached.reset_accumulation()  # a window that an earlier run left open when it was interrupted
        self.attached.updates = 0
        for states in self.attached.states:
            states.restart()
        return super()._inner_training_loop(*args, **kwargs)

    def get_train_dataloader(self) -> Any:
        collate: Any = self.data_collator
        if self._capturing:
            self.data_collator = pad_to_few_lengths(collate, self.attached.model)
        if self.attached.view_makers:
            self.data_collator = cast(Any, ViewCollator(self.data_collator, self.attached))
            self._epochs.views = self.data_collator
        if self._capturing:
            self.data_collator = cast(Any, TokenCountCollator(self.data_collator, padding_token(self.attached.model)))
        try:
            return super().get_train_dataloader()
        finally:
            self.data_collator = collate

    def compute_loss(
        self, model: Any, inputs: Any, return_outputs: bool = False, num_items_in_batch: Any = None
    ) -> Any:
        if self._losses is None:  # evaluation
            return self._class_loss(model, inputs, return_outputs, num_items_in_batch)
        if return_outputs:
            raise MethodError(
                f"The training_step under {type(self).__name__} calls compute_loss(return_outputs=True), but a method "
                "makes several passes for one loss. Override compute_loss to read the outputs: every pass calls it."
            )
        # A regulariser is a mean over its micro-batch and so must be divided whatever the model's loss is.
        return next(self._losses) / self._loss_divisor(num_items_in_batch)

    def _class_loss(self, model: Any, inputs: Any, return_outputs: bool, num_items_in_batch: Any) -> Any:
        """Return the loss of one pass as the Trainer's class makes it: with label smoothing, by the user's function."""
        # By name, as Trainer does: a loss of the user's may have them in another order, or as **kwargs.
        named = {"return_outputs": return_outputs, "num_items_in_batch": num_items_in_batch}
        return super().compute_loss(model, inputs, **named)

    def _forward(self, model: Any, inputs: Mapping[str, Any], num_items_in_batch: Any) -> Any:
        """Run one pass for the method; the result has the loss of the Trainer's class."""
        divisor = self._loss_divisor(num_items_in_batch)
        if torch.is_grad_enabled() and not self._compares:
            return ModelOutputs(self._class_loss(model, dict(inputs), False, num_items_in_batch) * divisor, ())
        again = replayable_forward(model, inputs, self.args.device)
        try:
            loss, outputs = self._class_loss(model, dict(inputs), True, num_items_in_batch)
        except ValueError as error:
            if "returning outputs" not in str(error):  # GRPO's and RLOO's words
                raise
            raise MethodError(
                f"{type(self).__name__} computes a loss and gives no predictions, and this method compares them. Use "
                "one that needs losses alone: toughen.freelb(), fgm(), pgd(), neftune() or sam()."
            ) from error
        if torch.is_grad_enabled() and not logits_of(outputs).requires_grad:
            outputs = again()
        return with_loss(outputs, loss * divisor)

    def training_step(self, model: Any, inputs: Any, num_items_in_batch: Any = None) -> Tensor:
        self._guard.step_ran = True
        inputs = self._prepare_inputs(inputs)
        sync = self.accelerator.sync_gradients
        self.attached.total_steps = self.state.max_steps
        if self._capturing:
            if self._graphs is None:
                half = torch.bfloat16 if self.args.bf16 else torch.float16 if self.args.fp16 else None
                scaled = self.accelerator.scaler is not None
                optimizer = None if scaled else getattr(self.optimizer, "optimizer", None)
                tell = self._tell_on_main if self._fast == "auto" else None
                self._graphs = CapturedTraining(self.attached, model, half, optimizer, tell)
            own = self._graphs.model

            def passes(inputs: Any, items: Any) -> Tensor:
                return self._passes(own, inputs, items)

            spread = self._micro_batches
            left = (self.state.max_steps - self.state.global_step) * spread
            total = self._graphs(passes, inputs, num_items_in_batch, sync, spread, left)
        else:
            total = self._passes(model, inputs, num_items_in_batch)
        if self._probe and sync and self._probe_is_due():
            self._run_probe()
        return total

    def _prepare_inputs(self, inputs: Any) -> Any:
        """Prepare a batch once: each pass asks for it, and GRPO generates texts and scores them here."""
        return inputs if self._losses is not None else super()._prepare_inputs(inputs)

    def _run_probe(self) -> None:
        """Measure divergences for the log. Where that is impossible, training goes on."""
        try:
            with self.compute_loss_context_manager():
                self._probed = self.attached.probe()
        except Exception as error:
            self._probe = False
            warnings.warn(
                f"The probe cannot measure divergences here ({type(error).__name__}: {str(error).splitlines()[0][:200]}"
                "), so robust/divergence_... is not logged. Training goes on; probe=False turns the probe off.",
                RobustnessWarning,
                stacklevel=2,
            )

    def _passes(self, model: Any, inputs: Any, num_items_in_batch: Any) -> Tensor:
        """Run and back-propagate all passes of one micro-batch."""
        sync = self.accelerator.sync_gradients

        def no_sync() -> Any:
            # Trainer already holds no_sync open when sync is off, and accelerate's does not nest under FSDP2.
            return self.accelerator.no_sync(model) if sync else nullcontext()

        counted = False

        def forward(given: Mapping[str, Any]) -> Any:
            nonlocal counted
            uncounted = counted or not torch.is_grad_enabled()  # as teachers' passes and the probe's
            counted = counted or not uncounted
            with keep_counts(self, PASS_COUNTS) if uncounted else nullcontext():
                return self._forward(model, given, num_items_in_batch)

        backward_passes = self.attached.backward_passes(last=sync)
        losses = self._losses = self.attached.losses(forward, inputs, last=sync, no_sync=no_sync)
        gradients: Any = self.accelerator.gradient_state
        step = super().training_step
        stepped = False

        def take(each: BackwardPass) -> Tensor:
            nonlocal stepped
            with keep_counts(self, STEP_COUNTS) if stepped else nullcontext():
                stepped = True
                return take_one(each)

        def take_one(each: BackwardPass) -> Tensor:
            gradients._set_sync_gradients(each.sync_gradients)  # DeepSpeed steps its engine inside backward when True
            loss = step(model, inputs, num_items_in_batch)
            if inspect.getgeneratorstate(losses) == inspect.GEN_CREATED:
                raise MethodError(
                    f"The training_step under {type(self).__name__} does not call self.compute_loss, so the "
                    "method never runs. Call it, or super().training_step."
                )
            return loss.float()  # in half precision a sum of several would be rounded

        try:
            return self.attached.run_backward_passes(
                losses, backward_passes, take, no_sync=no_sync, step=lambda: self._inner_update(model)
            )
        finally:
            self._losses = None
            gradients._set_sync_gradients(sync)

    def _clip_grad_norm(self, model: Any) -> Any:
        clip = cast("Callable[[Any], Any]", super()._clip_grad_norm)
        update = None if self._graphs is None else self._graphs.update
        if update is None:
            return clip(model)
        return update.clip(model.parameters(), self.args.max_grad_norm, lambda: clip(model))

    def _inner_update(self, model: Any) -> None:
        """Step the optimizer between two passes (FreeAT); the schedule moves with the Trainer's own steps only."""
        if self.args.max_grad_norm:
            self.accelerator.clip_grad_norm_(model.parameters(), self.args.max_grad_norm)
        optimizer: Any = self.optimizer
        optimizer.step()
        model.zero_grad()

    def _probe_is_due(self) -> bool:
        """Tell by the step alone, so that a resumed training probes where the whole one does."""
        every = max(int(self.state.logging_steps), 1)
        row, rest = divmod(self.state.global_step + 1, every)
        return self.args.logging_strategy == "steps" and not rest and (row - 1) % -(-PROBE_EVERY // every) == 0

    def figures(self) -> dict[str, Tensor]:
        """Return what is logged as `robust/...`: the last micro-batch, as this process saw it."""
        return {**self.attached.report(), **self._probed}

    def log(self, logs: dict[str, float], *args: Any, **kwargs: Any) -> None:
        if "loss" in logs:  # the one place where the figures are read from the device
            logs |= {f"robust/{name}": float(value) for name, value in self.figures().items()}
            self._probed = {}
        super().log(logs, *args, **kwargs)

    def _save_rng_state(self, output_dir: str) -> None:
        super()._save_rng_state(output_dir)
        state.save(self.attached, output_dir, self.args.process_index)

    def _load_optimizer_and_scheduler(self, checkpoint: str | None) -> None:
        super()._load_optimizer_and_scheduler(checkpoint)  # made on every resume, which loading random states is not
        if checkpoint is not None:
            state.load(self.attached, checkpoint, self.args.process_index)
