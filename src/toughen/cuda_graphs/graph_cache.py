"""A whole training step - all passes, the search, the backward passes - as one CUDA graph for each shape of batch.

Small and base models at fine-tuning batch sizes are bound by kernel launches. A graph launches them all at once.
"""

import random
import warnings
from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeAlias, cast

import torch
from torch import Tensor, nn

from ..engine.attached import Attached
from ..errors import RobustnessWarning
from ..internal.foreach import add, copy_all, zero
from ..internal.rng import GraphSafeRng
from .attention_masks import explicit_attention_masks
from .capture import EagerTrace, Graph, Key, on_device, recording, runs_before, shape_of, state_of, stream_of
from .eligibility import error_reason, model_reason

StepFn: TypeAlias = Callable[[dict[str, Any]], Tensor]

MOST_GRAPHS = 64


class GraphCache:
    """Runs training steps, from the second sight of a shape on as a replay of its CUDA graph.

    The first step of a shape runs eagerly; its result counts. Compiled models need two: the second may go other ways
    through what the first compiled, and compile more. Where a step cannot be captured it goes on running eagerly, and
    a warning says why: `obstacle` has the reason. What is captured by then is replayed. `steps` counts both kinds.

    Args:
        attached: The attached method.
        model: The model as it is called, also wrapped for several processes.

    Examples:
        >>> attached = toughen.smart().attach(model, tokenizer)
        >>> toughen.cuda_graphs.GraphCache(attached, model).steps
        {'eager': 0, 'captured': 0}
    """

    def __init__(self, attached: Attached, model: nn.Module) -> None:
        self.attached, self.model = attached, model
        self.obstacle: str | None = None
        self.pays: Callable[[int], bool] = lambda seen: True  # whether to capture a shape that came so often
        self.warn: Callable[[str], None] = _warn
        self.simplify: Callable[[], bool] = lambda: False  # after a capture that failed: whether to try once more
        self.compiled = False  # by whoever makes the steps, inside them alone
        self.steps = {"eager": 0, "captured": 0}
        self._weights = list(model.parameters())  # as an optimizer has them: those of the model at this time
        self._graphs: dict[Key, Graph] = {}
        self._traces: dict[Key, EagerTrace] = {}
        self.grad_buffers: dict[nn.Parameter, Tensor] = {}  # a gradient for each weight, which all graphs write to
        self._pool: Any = None

    def __call__(
        self,
        run: StepFn,
        batch: Mapping[str, Any],
        *,
        last: bool = True,
        multiple_backwards: bool = False,
        extra_key: Key = (),
        obstacle: str | None = None,
    ) -> Tensor:
        """`run` on the batch, which does one micro-batch with its backward passes, or `multiple_backwards`.

        `extra_key` tells steps of the same shape apart, `obstacle` says why this one must not be captured.
        """
        weights, device = self._weights, self._weights[0].device
        self.fall_back(obstacle)
        with self.attached.window(last):
            if obstacle is not None or (self.obstacle is not None and not self._graphs):
                return self._eager(run, batch, device)
            fresh = all(weight.grad is None for weight in weights)
            key = (*shape_of(batch), *extra_key, last, fresh, *state_of(self.model, weights))
            if key in self._graphs:
                return self._replay(self._graphs[key], batch, fresh)
            self.fall_back(model_reason(self.model, device))
            trace = self._traces.get(key)
            if trace is not None and self.obstacle is None and self._is_due(trace.runs):
                graph = self._capture(run, batch, self._traces.pop(key), device, fresh, multiple_backwards)
                if graph is not None:
                    self._graphs[key] = graph
                    return self._replay(graph, batch, fresh)
            if self.obstacle is not None:
                return self._eager(run, batch, device)
            tape = GraphSafeRng(device)
            loss = self._eager(run, batch, device, tape)
            seen = [weight for weight in weights if weight.grad is not None]
            self._traces[key] = EagerTrace(tape, seen, 1 if trace is None else trace.runs + 1)
            return loss

    def _is_due(self, seen: int) -> bool:
        return seen >= runs_before(self.model, self.compiled) and self.pays(seen)

    @property
    def shapes(self) -> int:
        """The number of kinds of steps seen so far."""
        return len(self._graphs) + len(self._traces)

    @property
    def captures(self) -> int:
        return len(self._graphs)

    def _eager(
        self, run: StepFn, batch: Mapping[str, Any], device: torch.device, tape: GraphSafeRng | None = None
    ) -> Tensor:
        self.steps["eager"] += 1
        moved = {name: on_device(value, device) for name, value in batch.items()}
        if tape is None:
            return run(moved)
        with tape.recording(), explicit_attention_masks():
            return run(moved)

    def _replay(self, graph: Graph, batch: Mapping[str, Any], fresh: bool) -> Tensor:
        self.steps["captured"] += 1
        self._bind_grad_buffers(graph.weights, fresh)
        self.attached.last_batches = graph.last_batches
        return graph.replay(batch)

    def _bind_grad_buffers(self, weights: Sequence[nn.Parameter], fresh: bool) -> None:
        """Make the graph's buffers the weights' gradients, and keep what is there already."""
        empty: list[Tensor] = []
        for weight in weights:
            buffer = self.grad_buffers[weight]
            if weight.grad is buffer:
                continue
            if weight.grad is None:
                empty.append(buffer)
            else:
                buffer.copy_(weight.grad)
            weight.grad = buffer
        if not fresh:  # a fresh graph writes over them
            zero(empty)

    def _capture(
        self,
        run: StepFn,
        batch: Mapping[str, Any],
        trace: EagerTrace,
        device: torch.device,
        fresh: bool,
        multiple_backwards: bool,
    ) -> Graph | None:
        """Capture a step as a graph, without executing it; return None if that is not possible.

        Gradients of one backward pass are made inside the graph and copied to the buffers, which takes fewer launches;
        those of several are added to the buffers themselves, which takes less memory.
        """
        if len(self._graphs) >= MOST_GRAPHS:
            self.fall_back(f"there are more than {MOST_GRAPHS} shapes of batches: pad lengths to a few, as --fast does")
            return None
        tape, weights = trace.tape, [weight for weight in self._weights if weight.requires_grad]
        before = [weight.grad for weight in weights]
        inputs = {name: on_device(value, device, own=True) for name, value in batch.items()}
        graph, loss = torch.cuda.CUDAGraph(), torch.zeros((), device=device)
        if self._pool is None:
            self._pool = torch.cuda.graph_pool_handle()
        tape.register_streams(graph)
        for generator in self.attached.noise.generators.values():
            if generator.device.type == "cuda":
                graph.register_generator_state(generator)
        for weight in weights:
            weight.grad = None
        for weight in trace.weights:
            if weight not in self.grad_buffers:
                self.grad_buffers[weight] = torch.zeros_like(weight)
            weight.grad = self.grad_buffers[weight] if multiple_backwards else None
        torch.clear_autocast_cache()  # half-precision copies made before would be the graph's for ever
        chance, streams = (torch.get_rng_state(), random.getstate()), self.attached.noise.clone()
        self.attached.last_batches = []  # graphs of the eager step, whose nodes would run on its stream
        try:
            with recording(graph, self._pool, stream_of(device)), tape.captured(), explicit_attention_masks():
                buffers = [self.grad_buffers[weight] for weight in trace.weights]
                if multiple_backwards and fresh:
                    zero(buffers)
                loss.copy_(run(inputs))
                if {weight for weight in weights if weight.grad is not None} != set(trace.weights):
                    raise RuntimeError("other weights got a gradient than in the step before")
                if not multiple_backwards:
                    write = copy_all if fresh else add
                    write(buffers, [cast(Tensor, weight.grad) for weight in trace.weights])
            last_batches = self.attached.last_batches
        except BaseException as error:  # Ctrl-C as well
            # A capture that broke off leaves its generators behind as if it still went on.
            tape.reset()
            self.attached.noise.generators.update(streams)
            if not isinstance(error, Exception):
                raise
            if isinstance(error, torch.OutOfMemoryError) or not self.simplify():
                self.fall_back(error_reason(error))
            return None
        finally:
            torch.clear_autocast_cache()
            for weight, grad in zip(weights, before, strict=True):
                weight.grad = grad
        if not torch.equal(chance[0], torch.get_rng_state()) or chance[1] != random.getstate():
            self.fall_back("the model draws random numbers on the CPU, which a replay would not draw again")
            return None
        return Graph(graph, tape, inputs, loss, trace.weights, last_batches)

    def clear(self) -> None:
        """Forget all graphs."""
        self._graphs.clear()
        self._traces.clear()
        self.grad_buffers.clear()

    def fall_back(self, obstacle: str | None) -> None:
        """Capture nothing more, and say why; None changes nothing."""
        if obstacle is None or self.obstacle is not None:
            return
        self.obstacle = obstacle
        kind = "Steps of other shapes" if self._graphs else "Steps"
        self.warn(f"{kind} are not captured, they run eagerly: {obstacle}.")


def _warn(line: str) -> None:
    warnings.warn(line, RobustnessWarning, stacklevel=5)
