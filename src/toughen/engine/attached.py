"""A method bound to a model: it turns a micro-batch into losses, and gives the model back as it was."""

import warnings
import weakref
from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import closing, contextmanager, nullcontext
from functools import partial
from typing import TYPE_CHECKING, Any, cast

import torch
from torch import Tensor, nn
from torch.optim import Optimizer

from ..combine.base import BackwardPass
from ..combine.single_pass import Add
from ..errors import MethodError, warn_renamed
from ..internal.architectures import OLD_HEAD_TYPES, HeadType, infer_head_type
from ..internal.distributed import no_sync, reshard
from ..internal.foreach import no_autocast
from ..internal.rng import DropoutSwitch, NoiseGenerators, per_rank_seed
from ..method import Method
from ..needs import declared
from ..schedules import TrainingProgress
from ..search.constraint import HookedConstraint
from ..sites import EditedText
from ..sites.base import Detach
from ..sites.locate import unwrap_parallel
from .adversary_state import build, get_adversary, refuse_wrapped
from .checkpointing import CheckpointedLayers
from .diagnostics import measure_divergence, step_metrics
from .features import FeatureHook
from .float32_logits import keep_logits_in_float32
from .model_calls import remember_signatures, watch_calls
from .perturbation import Injector
from .side_stream import side_stream_of
from .state import MethodState, under
from .step import Forward, MethodStep, NoSync, SharedPasses
from .text_views import ViewMaker, add_views, split_views
from .validation import (
    candidate_table,
    special_ids,
    warn_at_start,
    warn_if_method_unused,
    warn_if_multiple_inputs,
    warn_if_special_unknown,
    warn_incompatible,
)

if TYPE_CHECKING:
    from ..cuda_graphs.step import CapturedStep


_MARK = "_toughen_attached"
_RENAMED = {"captured": "capture", "masks": "attention_masks", "perturbed": "perturbed_forward"}


class _Mark:
    """Says on a model whose method is attached to it; the mark of a copied model has no owner to detach."""

    def __init__(self, owner: "Attached | None" = None, undo: list[Detach] | None = None) -> None:
        self.copied = owner is None
        self.owner: Callable[[], Attached | None] = (lambda: None) if owner is None else weakref.ref(owner)
        self.undo: list[Detach] = [] if undo is None else undo

    def __reduce__(self) -> Any:
        return _Mark, ()

    def release(self) -> bool:
        """Detach a method that nobody holds any more, or that gives way; return whether the model is free."""
        owner = self.owner()
        if self.copied or (owner is not None and not owner.gives_way):
            return False
        while self.undo:
            self.undo.pop()()
        return True


class Attached:
    """A method on a model. Use as a context manager, or call `detach` when training is over.

    `Method.attach` makes it.

    Args:
        methods: The methods, adapted to each other.
        model: The model.
        tokenizer: Says which tokens are special.
        seed: Starts the noise; by default torch's own seed.
        task: What the head predicts, where its class name does not say it.
        total_steps: The number of updates, for methods with a schedule.

    Examples:
        >>> attached = toughen.smart().attach(model, tokenizer)
        >>> for batch in batches:
        ...     loss = attached.backward(model, batch)
        ...     optimizer.step()
        ...     optimizer.zero_grad()
        >>> attached.detach()
    """

    def __init__(
        self,
        methods: Sequence[Method],
        model: nn.Module,
        tokenizer: Any = None,
        seed: int | None = None,
        task: HeadType | None = None,
        total_steps: int | None = None,
    ) -> None:
        if not isinstance(model, nn.Module):  # pyright: ignore[reportUnnecessaryIsInstance]
            raise MethodError(f"attach() expects an nn.Module, got {type(model).__name__}. Load the model first.")
        self.model = unwrap_parallel(model)
        for method in methods:
            refuse_wrapped(model, method.search)
            warn_incompatible(self.model, method)
            warn_if_special_unknown(self.model, method, tokenizer)
        if task in OLD_HEAD_TYPES:
            warn_renamed(repr(task), repr(OLD_HEAD_TYPES[task]))
        self.task: HeadType = OLD_HEAD_TYPES.get(task, task) if task else infer_head_type(self.model)
        self.total_steps, self.updates = total_steps, 0
        self.gives_way = False  # another method may take its place on the model, as a Trainer's that does not train
        self.noise = NoiseGenerators(per_rank_seed(seed))
        self._seed = torch.initial_seed() if seed is None else seed  # of what must be the same on every process
        self._clock = TrainingProgress(total=total_steps)
        ids = special_ids(self.model, tokenizer)
        tables = [candidate_table(self.model, method, tokenizer) for method in methods]
        self.states = [
            MethodState(method, Injector(method.search, self.noise, ids, self._clock, table))
            for method, table in zip(methods, tables, strict=True)
        ]
        for number, states in enumerate(self.states):
            if isinstance(states.method.site, EditedText):
                states.view_maker = ViewMaker.of(
                    states.method.site, number, self.model, tokenizer, self._seed, self.task
                )
        self.overlap, self.overlapped = True, False  # passes of a captured step: may they, did they
        self.last_batches: list[MethodStep] = []  # the last micro-batch, one for each method
        self._window: list[MethodStep] = []
        self._open = self._inside = False  # an accumulation window has begun; one of its micro-batches is under way
        self._switch = DropoutSwitch(self.model)
        self._undo: list[Detach] = []
        self._feature_hook: FeatureHook | None = None
        self.attach()

    def attach(self) -> None:
        """Put the hooks in; again after a `detach`, with the method's state as it was."""
        if self._undo:
            return
        mark: _Mark | None = getattr(self.model, _MARK, None)
        if mark is not None and not mark.release():
            raise MethodError(
                f"{type(self.model).__name__} already has a method attached. Detach it first (that of a Trainer by "
                "trainer.attached.detach(), once its train() is over), or attach a sum: (a + b).attach(model). Copy a "
                "model after its detach."
            )
        try:
            self._feature_hook = install_hooks(self.model, self.states, self._seed, self._undo)
        except BaseException:
            self.detach()
            raise
        setattr(self.model, _MARK, _Mark(self, self._undo))
        self._undo.append(partial(delattr, self.model, _MARK))

    def backward_passes(self, last: bool = True) -> tuple[BackwardPass, ...]:
        """Return the backward passes of the coming micro-batch. Ask before `losses`; `last` closes a window."""
        return self.states[0].method.combine.backward_passes(last, len(self._window) + 1)

    def losses(
        self, forward: Forward, batch: Mapping[str, Any], *, last: bool = True, no_sync: NoSync = nullcontext
    ) -> Generator[Tensor]:
        """Yield the losses of one micro-batch; back-propagate each one before you ask for the next.

        Args:
            forward: Runs the model once on the inputs that it is given, and returns its output.
            batch: The micro-batch, by the names that the model takes.
            last: Whether this is the last micro-batch of the update.
            no_sync: The context in which passes of the search run, such as `model.no_sync`.

        Returns:
            A generator of losses.

        Raises:
            StepError: A loss that was not back-propagated, or a batch without labels for a method that needs them.

        Examples:
            >>> with toughen.freelb().attach(model, tokenizer) as attached:
            ...     for loss in attached.losses(lambda inputs: model(**inputs), batch):
            ...         loss.backward()
        """
        with self.window(last):
            self.last_batches = steps = self._steps(forward, batch, no_sync, last)
            main, *others = steps
            self._window.append(main)
            combine, finished = main.method.combine, False
            number_of_passes = len(combine.backward_passes(last, len(self._window)))
            try:
                for number, loss in enumerate(combine(main), start=1):
                    main.passes.counts.backwards += 1
                    if number == number_of_passes and others:  # a sum takes no other combine than Add
                        terms = [cast(Add, other.method.combine).regularizer(other) for other in others]
                        loss = torch.stack([loss, *terms]).sum()
                    yield loss
                finished = True
            finally:
                self._switch.restore()
                for step in steps:
                    step.release()
                # SAM and its like go over the window once more at its last micro-batch.
                if last or not finished or declared(combine, "num_rounds") <= 1:
                    self._window[:] = [step for step in self._window if step is not main]
                    for states, step in zip(self.states, steps, strict=True):
                        states.finish(step)

    def _steps(self, forward: Forward, batch: Mapping[str, Any], no_sync: NoSync, last: bool) -> list[MethodStep]:
        """Start a micro-batch for each method; in a sum they read the clean texts or, if one says so, its views."""
        clean, views = split_views(self.add_views(batch))
        device = next(self.model.parameters()).device
        compares = any(one.method.needs("needs_predictions") for one in self.states)
        passes = SharedPasses(
            self.model, forward, clean, no_sync, self.task, device, self._switch, self._feature_hook, compares
        )
        methods = [one.method for one in self.states]
        passes.branch = side_stream_of(self.model, methods, clean) if self.overlap else None
        self.overlapped = passes.branch is not None
        steps, seen = dict[int, MethodStep](), passes
        for maker in self.view_makers:
            number = maker.number
            steps[number] = step = self.states[number].step(passes, last, self._window, views[number])
            seen = seen if maker.site.on == "clean" else step.texts(maker.site.on, maker.pad, maker.side)
        for number, one in enumerate(self.states):
            if number not in steps:
                texts = passes if declared(one.method.site, "target") == "none" else seen
                steps[number] = one.step(texts, last, self._window, {})
        return [steps[number] for number in range(len(self.states))]

    def add_views(self, batch: Mapping[str, Any]) -> Mapping[str, Any]:
        """Return the batch with what methods that edit its text need beside it, unless a collator put it there."""
        return add_views(batch, self.view_makers, f"update {self.updates}") if self.view_makers else batch

    @property
    def view_makers(self) -> list[ViewMaker]:
        """What edits the text, one for each method that reads views of it."""
        return [one.view_maker for one in self.states if one.view_maker is not None]

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
        """Run forward and backward for one micro-batch, in place of `model(**batch).loss.backward()`.

        Args:
            model: The model, wrapped for several processes or not.
            batch: The micro-batch, by the names that the model takes.
            accumulate: The number of micro-batches of one update.
            last: Whether this is the last of them.
            backward: Stands in place of `loss.backward()`: `lambda loss: scaler.scale(loss).backward()`.
            step: Updates the weights and clears gradients between passes, for FreeAT. The last update is yours.

        Returns:
            The loss, detached.

        Raises:
            MethodError: The method was detached, or FreeAT has no `step`.
            StepError: A batch that the method cannot use.

        Examples:
            >>> with toughen.smart().attach(model, tokenizer) as attached:
            ...     for number, batch in enumerate(batches):
            ...         loss = attached.backward(model, batch, accumulate=2, last=number % 2 == 1)
        """
        if accumulate < 1:
            raise MethodError(f"accumulate={accumulate}: an update has at least one micro-batch.")
        backward_passes = self.backward_passes(last)

        def take(_each: BackwardPass) -> Tensor:
            loss = next(losses)
            loss = loss if accumulate == 1 else loss / accumulate
            with no_autocast(loss):  # which would round the gradients of what was computed in float32
                loss.backward() if backward is None else backward(loss)
            return loss

        losses = self.losses(lambda inputs: model(**inputs), batch, last=last, no_sync=lambda: no_sync(model))
        return self.run_backward_passes(losses, backward_passes, take, no_sync=lambda: no_sync(model), step=step)

    def run_backward_passes(
        self,
        losses: Generator[Tensor],
        backward_passes: Sequence[BackwardPass],
        backward: Callable[[BackwardPass], Tensor],
        *,
        no_sync: NoSync,
        step: Callable[[], Any] | None = None,
    ) -> Tensor:
        """Return the sum of the losses that count, detached.

        `backward` takes the next loss and returns it as it propagated it; `step` updates the weights between passes.
        """
        if step is None and any(each.optimizer_step for each in backward_passes):
            raise MethodError(
                "This method updates the weights after every pass (FreeAT). Give it the update as step=..., a function "
                "that calls optimizer.step() and optimizer.zero_grad()."
            )
        counted: list[Tensor] = []
        with closing(losses):  # also after an error: weights moved by SAM go back at once
            for each in backward_passes:
                with nullcontext() if each.sync_gradients else no_sync():
                    loss = backward(each)
                if each.counts:
                    counted.append(loss.detach())
                if each.optimizer_step and step is not None:
                    step()
                    torch.clear_autocast_cache()  # its half-precision copies are of the weights before the step
            next(losses, None)  # runs what stands after the last yield
        if len(counted) == 1:
            return counted[0]
        return torch.stack(counted).sum() if counted else torch.zeros((), device=next(self.model.parameters()).device)

    def capture(
        self,
        model: nn.Module,
        *,
        backward: Callable[[Tensor], Any] | None = None,
        pack: bool = True,
        optimizer: Optimizer | None = None,
        max_norm: float | None = None,
    ) -> "CapturedStep":
        """Capture steps as CUDA graphs, which run without Python: `loss = step(batch)`.

        Args:
            model: The model.
            backward: Stands in place of `loss.backward()`.
            pack: Leave padding out of the layers where that pays.
            optimizer: Capture its step, too.
            max_norm: Clip gradients at this norm; needs the optimizer.

        Returns:
            A step to call with a batch. Steps that cannot be captured run as always, and a warning says why.

        Raises:
            MethodError: `max_norm` without an optimizer, or an optimizer that cannot be captured.
        """
        from ..cuda_graphs.step import CapturedStep

        self.keep_schedules_on_device()
        return CapturedStep(self, model, backward, pack, optimizer, max_norm)

    def keep_schedules_on_device(self) -> None:
        """Keep settings that change with training as tensors: a graph would hold a number for ever."""
        self._clock.device = next(self.model.parameters()).device

    if not TYPE_CHECKING:  # for a type checker every name would exist

        def __getattr__(self, name: str) -> Any:
            if name not in _RENAMED:
                raise AttributeError(f"{type(self).__name__!r} has no attribute {name!r}.")
            warnings.warn(f"Use attached.{_RENAMED[name]}, not {name}.", DeprecationWarning, stacklevel=2)
            return getattr(self, _RENAMED[name])

    def report(self) -> dict[str, Tensor]:
        """Return norms, shares and losses of the last micro-batch, as tensors; nothing is read here."""
        return step_metrics(self.last_batches)

    def probe(self) -> dict[str, Tensor]:
        """Measure how much of the regulariser is dropout: divergences under a second mask, and under the perturbation.

        Costs three forward passes on the last micro-batch, so it is made on request only.
        """
        try:
            return measure_divergence(self.last_batches)
        finally:
            reshard(self.model)

    def reset_accumulation(self) -> None:
        """Forget an accumulation window that was begun and not finished, as after an interruption."""
        self._window.clear()  # its batches know it as well: another list in its place would keep them alive
        self._open = False

    @property
    def adversary(self) -> nn.Module:
        """The weights of a learnt search (ASA), one module a layer, under the layer's number."""
        return get_adversary(states.adversary for states in self.states).module

    def attention_masks(self, batch: Mapping[str, Any], *, sample: bool = False) -> dict[int, Tensor]:
        """Return the attention pairs that a learnt adversary leaves visible, by layer.

        Masks are (batch, queries, keys), with a dimension for heads in second place if each has its own. Without
        `sample` a pair is visible if that is the likelier.
        """
        return self.perturbed_forward(batch, sample=sample)[1]

    def perturbed_forward(self, batch: Mapping[str, Any], *, sample: bool = False) -> tuple[Any, dict[int, Tensor]]:
        """Return the model's output under a learnt adversary, without gradients, and its `attention_masks`."""
        return get_adversary(states.adversary for states in self.states).propose(batch, sample)

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
        """Open a window with the first micro-batch of an update, close it with the last; idle in another."""
        if self._inside:
            yield
            return
        if not self._undo:  # it would train plainly, or say that the batch never came by its hooks
            raise MethodError("the method was detached from its model; put it back with attached.attach() first.")
        self._clock.updates, self._clock.total = self.updates, self.total_steps
        if not self._open:
            reshard(self.model)  # an evaluation may have come before
            if not self.updates:
                warn_at_start(self.model, [states.method for states in self.states])
            for states in sorted(self.states, key=lambda one: one.method.constraint is None):  # then teachers
                states.open_window(self.model, self._clock)
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
        """Return what a resumed run needs: updates made, noise generators, the weights of teachers and adversaries."""
        state = {"updates": torch.tensor(self.updates)}
        state |= {f"noise/{device}": value for device, value in self.noise.state_dict().items()}
        for i, states in enumerate(self.states):
            state |= states.state_dict(i)
        return state

    def load_state_dict(self, state: Mapping[str, Tensor]) -> None:
        self.updates = int(state["updates"])
        self.noise.load_state_dict(under("noise/", state))
        for i, states in enumerate(self.states):
            states.load_state_dict(i, self.model, state)


def install_hooks(model: nn.Module, states: Sequence[MethodState], seed: int, undo: list[Detach]) -> FeatureHook | None:
    """Put all hooks in; return what watches features.

    The functions that remove them are added to `undo` one by one, also if something is refused half-way.
    """
    for one in states:
        undo.append(one.method.site.attach(model, one.injector))
        one.adversary = one.adversary or build(model, one.injector, one.method.site, seed)
        if one.adversary is not None:
            undo.append(one.adversary.install())
        if isinstance(one.method.constraint, HookedConstraint):
            one.constrain = one.constrain or one.method.constraint.hooks(model, partial(getattr, one, "used"))
            undo.append(one.constrain())
        if declared(one.method.site, "target") == "activations":
            undo.append(warn_if_multiple_inputs(model, one.injector))
    watch = FeatureHook(model) if any(one.method.needs("needs_features") for one in states) else None
    if watch is not None:
        undo.append(watch.detach)
    if any(one.method.needs("needs_clean") for one in states):
        undo.append(keep_logits_in_float32(model))
    inside = [one.injector for one in states if declared(one.method.site, "inside_layers")]
    checkpoints = CheckpointedLayers(model, inside) if inside else None
    if checkpoints is not None:
        undo.append(checkpoints.release)
    undo.append(remember_signatures(model))
    undo.append(watch_calls(model, [one.injector for one in states], checkpoints))
    undo.append(warn_if_method_unused(model, lambda: states[0].used))
    return watch
