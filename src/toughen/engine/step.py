"""One micro-batch on its way through a method: the passes, the search, the comparison."""

import warnings
from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass, field, replace
from typing import Any, TypeAlias, cast

import torch
from torch import Tensor, nn

from ..compare import loss_of
from ..compare.base import Compare, HasComponents
from ..compare.divergence import pointwise
from ..compare.model_outputs import ModelOutputs, loss_alone, parse_output
from ..compare.rowwise import distances
from ..errors import MethodError, RobustnessWarning, SiteError, StepError
from ..internal.architectures import HeadType, is_compiled
from ..internal.distributed import reshard, swap_weights
from ..internal.foreach import add_pairs, l2_norm, no_autocast, zero
from ..internal.rng import DropoutSwitch, RngSnapshot
from ..method import Method
from ..needs import declared
from ..options import Dropout
from ..schedules import TrainingProgress
from ..sites import Weights
from ..sites.base import Activation, Detach
from ..sites.text import SeenText
from .features import FeatureHook
from .label_variance import RunningLabelVariance
from .perturbation import Injector, Perturbation, per_example
from .side_stream import SideStream
from .text_views import COUNTS, PLACES, align, choose, join, stack_texts

Forward: TypeAlias = Callable[[Mapping[str, Any]], Any]
"""Runs the model once on the inputs it is given, and returns its output."""
NoSync: TypeAlias = Callable[[], AbstractContextManager[Any]]

# Keeps the search's half-precision gradients off zero, as GradScaler does for the training's. A loss is a mean over
# examples: with few of them each one's gradient is as much larger, and would overflow.
INNER_SCALE, INNER_ROWS = 2.0**16, 16
EXAMPLE_SCALE = 2.0**10  # the largest element of a prediction's gradient, where each example has a scale of its own


@dataclass
class PassCounts:
    """The passes of one micro-batch, over whatever texts."""

    forwards: int = 0
    backwards: int = 0


@dataclass
class SharedPasses:
    """The forward passes of one micro-batch, which all methods of a sum share: dropout policy, clean pass, counts."""

    model: nn.Module
    forward: Forward
    inputs: Mapping[str, Any]
    no_sync: NoSync
    task: HeadType
    device: torch.device
    switch: DropoutSwitch
    hook: FeatureHook | None
    compares: bool = True  # predictions, and not losses alone
    counts: PassCounts = field(default_factory=PassCounts)
    halves: "tuple[SharedPasses, SharedPasses] | None" = None  # clean texts and their views, if these are both
    side: str = "right"  # of the padding of both
    branch: SideStream | None = None  # of a captured step, for the clean pass
    _snapshot: RngSnapshot | None = field(default=None, repr=False)
    _clean: ModelOutputs | None = field(default=None, repr=False)

    def over(self, inputs: Mapping[str, Any]) -> "SharedPasses":
        """Return the passes over another text of this micro-batch, which count with these."""
        return replace(self, inputs=inputs, _snapshot=None, _clean=None)

    def run(self, dropout: Dropout) -> ModelOutputs:
        if self._snapshot is None:
            self._snapshot = RngSnapshot(self.device)
        elif dropout == "shared":
            self._snapshot.restore()
        if dropout == "off":
            self.switch.off()
        self.counts.forwards += 1
        return self.predict() if self.hook is None else self.hook.capture(self.predict, self.inputs)

    @contextmanager
    def without_weights(self) -> Generator[None]:
        """Run a pass and its backward pass, which is to give no gradient of the weights.

        Autograd leaves out what nobody asks for. A compiled layer does not: it gives the gradient of every input that
        requires one. Shards keep their flags, which FSDP2 reads itself.
        """
        weights = list(self.model.parameters()) if is_compiled(self.model) else []
        weights = [weight for weight in weights if weight.requires_grad and not hasattr(weight, "to_local")]
        for weight in weights:
            weight.requires_grad_(False)
        try:
            yield
        finally:
            for weight in weights:
                weight.requires_grad_(True)

    def rewind(self) -> None:
        """Back to the dropout mask of the first pass."""
        if self._snapshot is not None:
            self._snapshot.restore()

    def predict(self) -> ModelOutputs:
        """Run one pass, with dropout as the model has it."""
        output = self.forward(self.inputs)
        try:
            return parse_output(output, self.inputs, self.task, getattr(self.model, "config", None))
        except (StepError, TypeError):
            loss = None if self.compares else loss_alone(output)
            if loss is None:
                raise
            return ModelOutputs(loss, ())

    def clean(self, dropout: Dropout) -> ModelOutputs:
        if self.halves is not None:
            clean, view = (half.clean(dropout) for half in self.halves)
            return join(clean, view, self.side)
        if self._clean is None:
            self._snapshot = None if dropout == "fresh" else self._snapshot  # who shares its mask goes back to here
            with nullcontext() if self.branch is None else self.branch.fork():
                self._clean = self.run(dropout)
        return self._clean

    def again(self, dropout: Dropout) -> ModelOutputs:
        """Run one more pass, and wait for a clean one that runs beside it."""
        outcome = self.run(dropout)
        if self.branch is not None:
            self.branch.join()
        return outcome

    def release(self) -> None:
        """Let go of graphs once the step is over; what is reported stays."""
        if self.branch is not None:
            self.branch.close()
        self._clean = None if self._clean is None else self._clean.detach()


@dataclass
class MethodStep:
    """One micro-batch on its way through one method: the `StepContext` that its Combine sees."""

    method: Method
    passes: SharedPasses
    injector: Injector
    is_last: bool
    accumulation_window: Sequence["MethodStep"] = ()
    teacher: ModelOutputs | None = None
    label_variance: RunningLabelVariance | None = None
    perturbation: Perturbation = field(default_factory=Perturbation)
    metrics: dict[str, Tensor] = field(default_factory=dict[str, Tensor])
    views: Mapping[str, Tensor] = field(default_factory=dict[str, Tensor])  # of a site that edits the text
    _view: tuple[SharedPasses, Tensor | None] | None = field(default=None, repr=False)

    @property
    def progress(self) -> TrainingProgress:
        return self.injector.progress

    def clean(self) -> ModelOutputs:
        outcome = self.passes.clean(self.method.dropout)
        if outcome.loss is not None:
            self.metrics["loss_clean"] = outcome.loss.detach()
        return outcome

    def forward_again(self) -> ModelOutputs:
        outcome = self.passes.again(self.method.dropout)
        if outcome.loss is not None:
            self.metrics["loss_perturbed"] = outcome.loss.detach()
        return outcome

    def task_loss(self) -> Tensor:
        return loss_of(self.clean())

    def reference(self, compare: Compare) -> ModelOutputs | None:
        if self.teacher is not None:
            return self.teacher
        return self.clean() if declared(compare, "needs_clean") else None

    def perturbed(self) -> ModelOutputs:
        """Run a perturbed pass."""
        site = self.method.site
        if declared(site, "target") == "none":
            return self.clean()
        if declared(site, "target") == "dropout":
            if not self.passes.model.training:
                warnings.warn(
                    "R-Drop compares two dropout masks, and the model is in eval mode: both passes are the same and "
                    "the term is 0. Call model.train() first.",
                    RobustnessWarning,
                    stacklevel=2,
                )
            return self.forward_again()
        if declared(site, "target") == "text":
            return self._perturbed_text()
        outcome = self.under_perturbation(self.forward_again)
        if not self.perturbation.at:
            raise SiteError(
                f"{site!r} is attached, but the forward pass never reached it. Did you pass inputs_embeds, or run "
                "another model than the one with the method? If the model was compiled before attach(), call "
                "torch._dynamo.reset(). If it skips layers at random, set layerdrop=0 in its config."
            )
        return outcome

    def _perturbed_text(self) -> ModelOutputs:
        passes, places = self.read_view()
        outcome = passes.clean(self.method.dropout)
        if outcome.loss is not None:
            self.metrics["loss_perturbed"] = outcome.loss.detach()
        return outcome if places is None else align(outcome, places, passes.inputs["input_ids"].shape[-1])

    def read_view(self) -> tuple[SharedPasses, Tensor | None]:
        """Return the passes over the view of the text, and where the clean tokens are in it (tags)."""
        if self._view is None:
            words, edited = self.views[COUNTS].sum(0)
            self.metrics |= {"words": words.float(), "words_edited": edited.float()}
            best = self._worst_view() if self.views["input_ids"].shape[1] > 1 else 0
            self._view = self._read(best)
        return self._view

    def _read(self, best: Tensor | int) -> tuple[SharedPasses, Tensor | None]:
        view = choose(self.views, best)
        places = view.pop(PLACES, None)
        return self.passes.over({**self.passes.inputs, **view}), places

    def _worst_view(self) -> Tensor:
        """Return for each example the number of the view whose prediction is farthest from the clean one."""
        clean, found = self.clean().detach(), list[Tensor]()
        function = pointwise("kl", "nothing")
        for number in range(self.views["input_ids"].shape[1]):
            passes, places = self._read(number)
            with torch.no_grad(), self.passes.no_sync():
                outcome = passes.run(self.method.dropout)
            if places is not None:
                outcome = align(outcome, places, passes.inputs["input_ids"].shape[-1])
            pairs = zip(outcome.predictions, clean.predictions, strict=True)
            found.append(torch.stack([distances(function, a, b) for a, b in pairs]).sum(0))
        return torch.stack(found).argmax(0)

    def texts(self, on: SeenText, pad: int, side: str) -> SharedPasses:
        """Return the passes over the texts that the other methods of a sum perturb."""
        if on == "clean":
            return self.passes
        view, _ = self.read_view()
        if on == "view":
            return view
        inputs = stack_texts(self.passes.inputs, view.inputs, pad, side)
        return replace(self.passes.over(inputs), halves=(self.passes, view), side=side)

    @property
    def edit_counts(self) -> Tensor | None:
        """Words, and edited words."""
        return self.views[COUNTS].sum(0) if self.views else None

    def release(self) -> None:
        """Let go of graphs once the step is over; what is reported stays."""
        for passes in (self.passes, *(self._view or ())[:1]):
            passes.release()

    def under_perturbation(self, run: Callable[[], ModelOutputs]) -> ModelOutputs:
        self.injector.set_batch(self.passes.inputs)
        with self.injector.perturbing(self.perturbation):
            return run()

    def run_search(self) -> None:
        search = self.method.search
        if search.steps == 0:
            return
        goal = self.method.objective
        reference = self.reference(goal)
        fixed = None if reference is None else reference.detach()
        for _ in range(search.steps):
            with self.passes.without_weights():
                with self.passes.no_sync():
                    outcome = self.perturbed()
                    objective = goal(outcome, fixed, self.perturbation.deltas)
                with no_autocast(objective):
                    grads = self._gradients(objective, outcome if declared(goal, "from_predictions") else None)
            if self._points_outward(goal):
                grads = self.perturbation.point_outward(grads)
            self.perturbation.ascend(search, grads)
        self.perturbation.project_final(search)

    def _points_outward(self, goal: Compare) -> bool:
        """Tell whether the sign of a half-precision gradient is known without it.

        It is if `goal` is least at the clean pass, and that pass has the same dropout mask.
        """
        same_mask = self.method.dropout != "fresh" and self.teacher is None
        return self.injector.half is not None and same_mask and declared(goal, "least_at_clean")

    def _gradients(self, objective: Tensor, outcome: ModelOutputs | None) -> list[Tensor | None]:
        """Return the gradient of the perturbation alone; the weights get none.

        `outcome` is that of the pass, if `objective` depends on its predictions alone.
        """
        deltas = self.perturbation.deltas
        if self.injector.half != torch.float16:
            return list(torch.autograd.grad(objective, deltas, allow_unused=True))
        if outcome is not None:
            return self._gradients_by_example(objective, [p.scores for p in outcome.predictions], deltas)
        scale = INNER_SCALE * min(len(deltas[0]) / INNER_ROWS, 1.0)
        grads = cast("tuple[Tensor | None, ...]", torch.autograd.grad(objective * scale, deltas, allow_unused=True))
        return [None if grad is None else grad / scale for grad in grads]

    @staticmethod
    def _gradients_by_example(objective: Tensor, scores: list[Tensor], deltas: list[Tensor]) -> list[Tensor | None]:
        """Return the same gradient, with a scale for each example.

        The divergence of a confident prediction has a gradient so small that no common scale keeps it from underflow in
        float16 and others from overflow.
        """
        upstream = torch.autograd.grad(objective, scores, retain_graph=True)
        sizes = torch.stack([each.flatten(1).abs().amax(1).float() for each in upstream]).amax(0)
        scale = EXAMPLE_SCALE / sizes.clamp(min=1e-30)
        scaled = [each * per_example(scale, each).to(each.dtype) for each in upstream]
        grads = cast("tuple[Tensor | None, ...]", torch.autograd.grad(scores, deltas, scaled, allow_unused=True))
        rows = scale.repeat_interleave(len(deltas[0]) // len(scale))  # multiple choice: an example has several texts
        return [None if grad is None else grad / per_example(rows, grad) for grad in grads]

    def regularizer(self) -> Tensor:
        reference = self.reference(self.method.compare)
        perturbed, compare = self.perturbed(), self.method.compare
        if self.label_variance is not None:
            perturbed = self.label_variance.annotate(perturbed, self.passes.inputs.get("labels"))
        if hasattr(compare, "components"):  # isinstance of a protocol takes as long as several launches
            components = cast(HasComponents, compare).components
            regularizer, pieces = components(perturbed, reference, self.perturbation.deltas)
            self.metrics |= {name: piece.detach() for name, piece in pieces.items()}
        else:
            regularizer = compare(perturbed, reference, self.perturbation.deltas)
        self.metrics["term"] = regularizer.detach()
        return regularizer

    def ascend(self) -> None:
        self.perturbation.ascend(self.method.search, [delta.grad for delta in self.perturbation.deltas])

    @torch.no_grad()
    def perturb_weights(self, keep_gradient: bool) -> Detach:
        site = self.method.site
        if declared(site, "target") != "weights":
            raise MethodError(f"Only site=Weights() moves weights; this method perturbs at {site!r}.")
        reshard(self.passes.model)
        weights = cast(Weights, site).parameters(self.passes.model)
        if not weights:
            raise StepError(
                f"{site!r} matches no weight of {type(self.passes.model).__name__} that has a gradient. Either no name "
                "contains such a word or the weights are frozen (see model.named_parameters()), or the first loss was "
                "not back-propagated."
            )
        grads = [weight.grad for weight in weights if weight.grad is not None]
        grads = [grad.clone() for grad in grads] if keep_gradient else grads  # the search writes over them
        views = [Activation(weight.detach(), index=i) for i, weight in enumerate(weights)]
        moves = self.method.search.ascend([], grads, views)
        self.metrics["weight_move"] = l2_norm(moves)
        restore = swap_weights(self.passes.model, weights, add_pairs(weights, moves))
        if not keep_gradient:
            self._drop_gradients()
        return restore

    def _drop_gradients(self) -> None:
        """Let go of them: the next backward pass then leaves its own, with no zeros to add to. A CUDA graph that is
        being captured goes on writing to the same memory.
        """
        parameters = list(self.passes.model.parameters())
        if self.passes.device.type == "cuda" and torch.cuda.is_current_stream_capturing():
            zero([parameter.grad for parameter in parameters if parameter.grad is not None])
            return
        for parameter in parameters:
            parameter.grad = None
