"""A method bound to a model: it turns a micro-batch into losses, and gives the model back as it was."""

from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from functools import partial
from typing import Any, cast

import torch
from torch import Tensor, nn
from typing_extensions import Unpack  # torch needs it, too; Python has it from 3.11 on

from ..combine.base import BackwardPass
from ..combine.single_pass import Add
from ..cuda_graphs.step import CapturedStep, Options
from ..errors import MethodError
from ..internal.architectures import HeadType, infer_head_type
from ..internal.distributed import no_sync, reshard
from ..internal.foreach import no_autocast
from ..internal.rng import DropoutSwitch, NoiseGenerators, per_rank_seed
from ..schedules import TrainingProgress
from ..sites.base import Detach
from ..sites.locate import unwrap_parallel
from .adversary_state import get_adversary, refuse_wrapped
from .checkpointing import CheckpointedLayers
from .diagnostics import measure_divergence, step_metrics
from .driving import run_backward_passes
from .features import FeatureHook
from .fitting import install_hooks
from .perturbation import Injector
from .state import MethodState, under
from .step import Batch, Forward, Quiet, Recipe, Step
from .validation import (
    check_accumulate,
    refuse_detached,
    special_ids,
    warn_at_start,
    warn_if_special_unknown,
    warn_incompatible,
)

_MARK = "_toughen_attached"


class Attached:
    """A method on a model. Use as a context manager, or call `detach` when training is over."""

    def __init__(
        self,
        methods: Sequence[Recipe],
        model: nn.Module,
        tokenizer: Any = None,
        seed: int | None = None,
        task: HeadType | None = None,
        total_steps: int | None = None,
    ) -> None:
        self.model = unwrap_parallel(model)
        for method in methods:
            refuse_wrapped(model, method.search)
            warn_incompatible(self.model, method)
            warn_if_special_unknown(self.model, method, tokenizer)
        self.task: HeadType = task or infer_head_type(self.model)
        self.total_steps, self.updates = total_steps, 0
        self.noise = NoiseGenerators(per_rank_seed(seed))
        self._seed = torch.initial_seed() if seed is None else seed  # of what must be the same on every process
        self._clock = TrainingProgress(total=total_steps)
        ids = special_ids(self.model, tokenizer)
        self.bound = [MethodState(m, Injector(m.search, self.noise, ids, self._clock)) for m in methods]
        self.passed: list[Batch] = []  # the last micro-batch, one for each method
        self._window: list[Batch] = []
        self._open = self._inside = False  # an accumulation window has begun; one of its micro-batches is under way
        self._switch = DropoutSwitch(self.model)
        self._undo: list[Detach] = []
        self._watch: FeatureHook | None = None
        self._checkpoints: CheckpointedLayers | None = None
        self.attach()

    def attach(self) -> None:
        """Put the hooks in; again after a `detach`, with the method's state as it was."""
        if self._undo:
            return
        if getattr(self.model, _MARK, False):
            raise MethodError(
                f"{type(self.model).__name__} already has a method attached. Detach it first (that of a Trainer by "
                "trainer.attached.detach()), or attach a sum: (a + b).attach(model). Copy a model after its detach."
            )
        try:
            self._watch, self._checkpoints = install_hooks(self.model, self.bound, self._seed, self._undo)
        except BaseException:
            self.detach()
            raise
        setattr(self.model, _MARK, True)
        self._undo.append(partial(delattr, self.model, _MARK))

    def backward_passes(self, last: bool = True) -> tuple[BackwardPass, ...]:
        """The backward passes of the coming micro-batch. Ask before `losses`; `last` closes an accumulation window."""
        return self.bound[0].method.combine.backward_passes(last, len(self._window) + 1)

    def losses(
        self, forward: Forward, batch: Mapping[str, Any], *, last: bool = True, quiet: Quiet = nullcontext
    ) -> Generator[Tensor]:
        """Losses of one micro-batch, in order; back-propagate each one before the next is asked for.

        `forward` runs the model once on the batch and returns its output. `quiet` is the context in which passes of
        the search run, e.g. `model.no_sync`. Under gradient accumulation, `last` marks the last micro-batch.
        """
        device = next(self.model.parameters()).device
        step = Step(self.model, forward, batch, quiet, self.task, device, self._switch, self._watch)
        if self._checkpoints is not None:
            self._checkpoints.follow()
        with self.window(last):
            yield from self._losses(step, last)

    def _losses(self, step: Step, last: bool) -> Generator[Tensor]:
        self.passed = batches = [
            Batch(b.method, step, b.injector, last, self._window, b.teach(step), b.spread) for b in self.bound
        ]
        main, *others = batches
        self._window.append(main)
        backward_passes, whole = main.method.combine.backward_passes(last, len(self._window)), False
        try:
            for number, loss in enumerate(main.method.combine(main), start=1):
                step.backwards += 1
                if number == len(backward_passes) and others:
                    added = [cast(Add, other.method.combine).added(other) for other in others]  # Sum takes no other
                    loss = torch.stack([loss, *added]).sum()
                yield loss
            whole = True
        finally:
            self._switch.restore()
            step.release()
            again = not last and whole and hasattr(main.method.combine, "num_rounds")  # goes over the window once more
            if not again:
                self._window[:] = [batch for batch in self._window if batch is not main]
                for bound, batch in zip(self.bound, batches, strict=True):
                    bound.gradients.add(batch.perturbation)
                    batch.perturbation.release()

    def backward(
        self,
        model: nn.Module,
        batch: Mapping[str, Any],
        *,
        accumulate: int = 1,
        last: bool = True,
        backward: Callable[[Tensor], Any] | None = None,
        step: Callable[[], Any] | None = None,
    ) -> Tensor:
        """Forward and backward for one micro-batch of a plain PyTorch loop; returns the loss, detached.

        In place of `model(**batch).loss.backward()`. With gradient accumulation give the number of micro-batches as
        `accumulate` and say which is the `last`. `backward` replaces `loss.backward()`: `lambda loss: scaler.scale(
        loss).backward()`. `step` (FreeAT) updates and clears gradients between the passes; the last update is yours.
        """
        backward_passes, share = self.backward_passes(last), check_accumulate(accumulate)
        if step is None and any(turn.step for turn in backward_passes):
            raise MethodError(
                "This method updates the weights after every pass (FreeAT). Give it the update as step=..., a function "
                "that calls optimizer.step() and optimizer.zero_grad()."
            )

        def take(_turn: BackwardPass) -> Tensor:
            loss = next(losses) / share
            with no_autocast(loss):  # which would round the gradients of what was computed in float32
                loss.backward() if backward is None else backward(loss)
            return loss

        losses = self.losses(lambda: model(**batch), batch, last=last, quiet=lambda: no_sync(model))
        total = run_backward_passes(losses, backward_passes, take, quiet=lambda: no_sync(model), step=step)
        return torch.zeros((), device=next(self.model.parameters()).device) if total is None else total

    def captured(self, model: nn.Module, **options: Unpack[Options]) -> CapturedStep:
        """Steps as CUDA graphs: `step = attached.captured(model, optimizer=..., max_norm=1)`, `loss = step(batch)`."""
        self.keep_schedules_on_device()
        return CapturedStep(self, model, **options)

    def keep_schedules_on_device(self) -> None:
        """Keep settings that change with training as tensors: a graph would hold a number for ever."""
        self._clock.device = next(self.model.parameters()).device

    def report(self) -> dict[str, Tensor]:
        """Is it adversarial? Norms, shares and losses of the last micro-batch, as tensors; nothing is read here."""
        return step_metrics(self.passed)

    def probe(self) -> dict[str, Tensor]:
        """How much of the regulariser is dropout: divergences caused by a second mask and by the perturbation alone.

        Costs three forward passes on the last micro-batch, so it is made on request only.
        """
        try:
            return measure_divergence(self.passed)
        finally:
            reshard(self.model)

    def reset_accumulation(self) -> None:
        """Forget an accumulation window that was begun and not finished, as after an interruption."""
        self._window.clear()  # its batches know it as well: another list in its place would keep them alive
        self._open = False

    @property
    def adversary(self) -> nn.Module:
        """The weights of a learnt search (ASA), one module a layer, under the layer's number."""
        return get_adversary(bound.adversary for bound in self.bound).module

    def masks(self, batch: Mapping[str, Any], *, sample: bool = False) -> dict[int, Tensor]:
        """Which attention pairs a learnt adversary leaves visible, by layer: (batch, queries, keys), with a dimension
        for heads in second place if each has its own. Without `sample` a pair is visible if that is the likelier.
        """
        return self.perturbed(batch, sample=sample)[1]

    def perturbed(self, batch: Mapping[str, Any], *, sample: bool = False) -> tuple[Any, dict[int, Tensor]]:
        """The model's output under a learnt adversary, without gradients, and the `masks` it was made with."""
        return get_adversary(bound.adversary for bound in self.bound).ask(batch, sample)

    def detach(self) -> None:
        """Give the model back: no hook, no flag, no wrapped function stays."""
        while self._undo:
            self._undo.pop()()
        self._switch.restore()

    def __enter__(self) -> "Attached":
        return self

    def __exit__(self, *_: object) -> None:
        self.detach()

    @contextmanager
    def window(self, last: bool) -> Generator[None]:
        """Round a micro-batch: the first of an update opens a window, the last closes it. Inside another it is idle."""
        if self._inside:
            yield
            return
        refuse_detached(self._undo)
        self._clock.updates, self._clock.total = self.updates, self.total_steps
        if not self._open:
            reshard(self.model)  # an evaluation may have come before
            warn_at_start(self.model, [bound.method for bound in self.bound], self.updates)
            for bound in sorted(self.bound, key=lambda one: one.method.constraint is None):  # then teachers
                bound.open_window(self.model, self._clock)
            self._clock.update_values()
            self._open = True  # only now: what was refused above is refused again by the next step
        self._inside = True
        try:
            yield
        finally:
            self._inside = False
            if last:
                self.reset_accumulation()
                self.updates += 1

    def state_dict(self) -> dict[str, Tensor]:
        """What a resumed run needs: updates made, noise generators, the weights of teachers and adversaries."""
        state = {"updates": torch.tensor(self.updates)}
        state |= {f"noise/{device}": value for device, value in self.noise.state_dict().items()}
        for i, bound in enumerate(self.bound):
            state |= bound.state_dict(i)
        return state

    def load_state_dict(self, state: Mapping[str, Tensor]) -> None:
        self.updates = int(state["updates"])
        self.noise.load_state_dict(under("noise/", state))
        for i, bound in enumerate(self.bound):
            bound.load_state_dict(i, self.model, state)
