"""The way of a step through its capture, on a CPU: graphs that repeat nothing stand in for those of CUDA."""

import contextlib
import gc
from types import SimpleNamespace

import pytest
import torch

import toughen
from tests.tiny import LETTERS, TOKENIZER, bert, make, text_batch
from toughen.cuda_graphs import capture as graph
from toughen.cuda_graphs import graph_cache as capturing
from toughen.cuda_graphs import half_weights
from toughen.cuda_graphs.gradient_exchange import exchange_of
from toughen.engine import attached as attaching
from toughen.engine.text_views import ViewMaker
from toughen.errors import RobustnessWarning


class Recorded:
    """A graph. What is recorded is run, once; a replay does nothing."""

    replays = 0

    def register_generator_state(self, _generator):
        pass

    def replay(self):
        Recorded.replays += 1


class Stream:
    def __init__(self, _device):
        pass


class Tape:
    resets = 0

    def __init__(self, _device):
        pass

    def reset(self):
        Tape.resets += 1

    @contextlib.contextmanager
    def recording(self):
        yield

    captured = replaying = recording

    def register_streams(self, _graph):
        pass


streams = []


@contextlib.contextmanager
def record(_graph, _pool, stream, capture_error_mode):
    streams.append(stream)
    assert capture_error_mode == "thread_local"
    assert not gc.isenabled()
    yield


@pytest.fixture
def stand_ins(monkeypatch):
    monkeypatch.setattr(torch.cuda, "CUDAGraph", Recorded)
    monkeypatch.setattr(torch.cuda, "graph", record)
    monkeypatch.setattr(torch.cuda, "graph_pool_handle", object)
    monkeypatch.setattr(torch.cuda, "Stream", Stream)
    monkeypatch.setattr(capturing, "GraphSafeRng", Tape)
    monkeypatch.setattr(capturing, "model_reason", lambda *_: None)
    monkeypatch.setattr(Recorded, "replays", 0)
    monkeypatch.setattr(Tape, "resets", 0)
    streams.clear()
    graph.stream_of.cache_clear()
    yield
    graph.stream_of.cache_clear()


@pytest.mark.parametrize("name", ["plain", "smart", "freelb", "sam", "asa", "freeat", "words"])
def test_a_whole_update_is_one_graph(stand_ins, name):
    model = bert(torch.float32)
    with make(name).attach(model, TOKENIZER, seed=3) as attached:
        optimizer = torch.optim.AdamW(model.parameters(), fused=True)
        step = attached.capture(model, optimizer=optimizer, max_norm=1.0)
        for _ in range(4):
            step(text_batch())
        assert step.obstacle is None
        assert step.steps == {"eager": 1, "captured": 3}
        assert Recorded.replays == 3
        assert not step.captured.grad_buffers  # no gradient leaves the graph
        assert attached.updates == 4
        assert gc.isenabled()
        optimizer.param_groups[0]["weight_decay"] = 0.5
        step(text_batch())
        assert step.steps == {"eager": 2, "captured": 3}  # a graph holds such a number for ever


@pytest.mark.parametrize("name", ["smart", "freelb", "sam", "bregman"])
def test_weights_are_cast_in_each_run_and_capture_where_they_stay(stand_ins, name, monkeypatch):
    casts, model = [], bert(torch.float32)
    of_step = half_weights.HalfWeights.of_step
    monkeypatch.setattr(half_weights.HalfWeights, "of_step", lambda self: casts.append(1) or of_step(self))
    method = make(name, **({"switch_at": 3} if name == "bregman" else {}))
    with method.attach(model, TOKENIZER, seed=3) as attached, torch.autocast("cpu", torch.bfloat16):
        step = attached.capture(model)
        for _ in range(3):
            model.zero_grad()
            step(text_batch())
        assert len(casts) == (2 if name in ("smart", "freelb") else 0)  # a replay is not run
        assert step.obstacle is None


def test_a_capture_that_fails_is_tried_again_without_branches_then_without_copies(stand_ins, monkeypatch):
    """Each fails here while it is captured. Steps run eagerly only if nothing is left to give up."""
    model, of_step, capturing_now = bert(torch.float32), half_weights.HalfWeights.of_step, []

    def failing(*_):
        raise RuntimeError("operation not permitted when stream is capturing")

    @contextlib.contextmanager
    def recorded(*_):
        capturing_now.append(True)
        try:
            yield
        finally:
            capturing_now.clear()

    branch = SimpleNamespace(fork=failing, join=lambda: None, close=lambda: None)
    monkeypatch.setattr(Tape, "captured", recorded)
    monkeypatch.setattr(attaching, "side_stream_of", lambda *_: branch if capturing_now else None)
    monkeypatch.setattr(
        half_weights.HalfWeights,
        "of_step",
        lambda self: failing() if capturing_now else of_step(self),
    )
    with toughen.smart().attach(model, TOKENIZER, seed=3) as attached, torch.autocast("cpu", torch.bfloat16):
        step = attached.capture(model)
        for _ in range(5):
            model.zero_grad()
            step(text_batch())
        assert step.obstacle is None
        assert step.steps == {"eager": 3, "captured": 2}
        assert not attached.overlap


@pytest.mark.parametrize("name", ["plain", "smart", "freelb", "sam", "asa"])
def test_gradients_are_lent_to_an_update_of_its_own(stand_ins, name):
    model = bert(torch.float32)
    with make(name).attach(model, TOKENIZER, seed=3) as attached:
        step = attached.capture(model, optimizer=torch.optim.SGD(model.parameters(), lr=0.1))
        for _ in range(4):
            step(text_batch())
        assert step.steps == {"eager": 1, "captured": 3}
        assert set(step.captured.grad_buffers) == {weight for weight in model.parameters() if weight.requires_grad}
        step.close()
        assert not step.captured.grad_buffers


@pytest.mark.parametrize(
    "method",
    [
        lambda: toughen.typos(rate=1.0),
        lambda: toughen.typos(rate=1.0, worst_of=2, on="both") + toughen.freelb(),
    ],
    ids=["typos", "typos+freelb"],
)
def test_views_of_texts_are_inputs_of_the_graph(stand_ins, method, monkeypatch):
    """Each replay gets the views of its own update, padded to the clean batch's length or to a few others."""
    model, inside = bert(torch.float32), []
    with method().attach(model, LETTERS, seed=3) as attached:
        step = attached.capture(model, optimizer=torch.optim.AdamW(model.parameters(), fused=True))
        batch = text_batch(length=14)
        batch["input_ids"] = batch["input_ids"].where(batch["input_ids"] < 5, 25 + batch["input_ids"] % 23)
        seen = []
        replay = graph.Graph.replay
        monkeypatch.setattr(graph.Graph, "replay", lambda self, given: seen.append(given) or replay(self, given))
        make = ViewMaker.__call__

        def watched(maker, *given):
            inside.append(attached._inside)
            return make(maker, *given)

        monkeypatch.setattr(ViewMaker, "__call__", watched)
        for _ in range(6):
            step(batch)
        assert step.obstacle is None
        assert step.packing is None
        assert step.steps["captured"] >= 3
        assert not any(inside)  # no view is made in a step, where ids would be read from the device
        name = next(name for name in seen[0] if name.endswith("_input_ids"))
        assert {given[name].shape[-1] for given in seen} <= {14, 22}
        assert any(not torch.equal(seen[0][name], given[name]) for given in seen[1:])


def test_under_accumulation_the_update_is_two_graphs(stand_ins):
    model = bert(torch.float32)
    with toughen.smart().attach(model, TOKENIZER, seed=3) as attached:
        optimizer = torch.optim.AdamW(model.parameters(), fused=True)
        step = attached.capture(model, optimizer=optimizer, max_norm=1.0)
        for number in range(8):
            step(text_batch(), accumulate=2, last=number % 2 == 1)
        assert step.obstacle is None
        assert len(step.update._steps._graphs) == len(step.update._clips._graphs) == 1


def test_a_compiled_model_runs_twice_before(stand_ins):
    model = bert(torch.float32)
    with toughen.plain().attach(model, TOKENIZER) as attached:
        toughen.cuda_graphs.compile_layers(model, backend="eager")
        step = attached.capture(model)
        for _ in range(4):
            model.zero_grad()
            step(text_batch())
        assert step.steps == {"eager": 2, "captured": 2}
    toughen.cuda_graphs.uncompile_layers(model)


def test_what_was_compiled_before_stays_compiled():
    model = bert(torch.float32)
    first, second = model.bert.encoder.layer
    first.compile(backend="eager")
    model.compile(backend="eager")
    own = model._compiled_call_impl, first._compiled_call_impl
    for _ in range(2):
        toughen.cuda_graphs.compile_layers(model, backend="eager")
    assert second._compiled_call_impl is not None
    assert first._compiled_call_impl is not own[1]
    for _ in range(2):
        toughen.cuda_graphs.uncompile_layers(model)
        assert (model._compiled_call_impl, first._compiled_call_impl) == own
        assert second._compiled_call_impl is None


def test_captures_share_a_stream(stand_ins):
    for _ in range(2):
        model = bert(torch.float32)
        with toughen.plain().attach(model, TOKENIZER) as attached:
            step = attached.capture(model)
            for _ in range(2):
                step(text_batch())
                model.zero_grad()
    assert len(streams) == 2
    assert streams[0] is streams[1]


@pytest.mark.parametrize("error", [KeyboardInterrupt, torch.OutOfMemoryError])
def test_a_capture_that_is_broken_off_leaves_nothing(stand_ins, monkeypatch, error):
    """After Ctrl-C the next step is captured; where memory ran out, steps run eagerly from then on."""
    model = bert(torch.float32)
    with toughen.smart().attach(model, TOKENIZER, seed=3) as attached:
        step = attached.capture(model)
        step(text_batch())
        noise = dict(attached.noise.generators)
        grads = [weight.grad for weight in model.parameters()]
        model.zero_grad()

        def broken(*_):
            raise error("CUDA out of memory")

        with monkeypatch.context() as patch, contextlib.ExitStack() as stack:
            patch.setattr(Tape, "captured", contextlib.contextmanager(broken))
            expected = pytest.raises if error is KeyboardInterrupt else pytest.warns
            stack.enter_context(expected(error if error is KeyboardInterrupt else RobustnessWarning))
            step(text_batch())
        assert Tape.resets == 1
        assert gc.isenabled()
        assert attached.noise.generators.keys() == noise.keys()
        if error is KeyboardInterrupt:
            assert step.obstacle is None
            assert all(weight.grad is None for weight in model.parameters())
            attached.reset_accumulation()
            for _ in range(2):
                model.zero_grad()
                step(text_batch())
            assert step.steps == {"eager": 2, "captured": 1}
        else:
            assert "out of memory" in step.obstacle
            assert step.steps == {"eager": 2, "captured": 0}
            same = [weight.grad is None for weight in model.parameters()]
            assert same == [grad is None for grad in grads]


def test_a_shape_too_many_runs_eagerly_and_the_others_go_on(stand_ins, monkeypatch):
    monkeypatch.setattr(capturing, "MOST_GRAPHS", 1)
    model = bert(torch.float32)
    with toughen.plain().attach(model, TOKENIZER) as attached:
        step = attached.capture(model)
        warned = [False, False, False, True, False, False]
        for length, warns in zip((10, 10, 8, 8, 10, 8), warned, strict=True):
            model.zero_grad()
            said = pytest.warns(RobustnessWarning, match="Steps of other shapes .* more than 1 shapes")
            with said if warns else contextlib.nullcontext():
                step(text_batch(length=length))
        assert step.steps == {"eager": 4, "captured": 2}


def test_whose_gradients_may_wait_for_the_end_of_the_step(monkeypatch):
    """DDP's mean is needed within SAM's step, and what else DDP was told to do is not taken from it."""
    wrapped = type("Wrapped", (torch.nn.parallel.DistributedDataParallel,), {"__init__": torch.nn.Module.__init__})()
    wrapped.module, wrapped.process_group = bert(), None
    wrapped._comm_hooks, wrapped.parameters_to_ignore = [], set()
    for name, waits in {"smart": True, "freelb": True, "sam": False, "freeat": False}.items():
        with make(name).attach(wrapped.module, TOKENIZER) as attached:
            found = exchange_of(wrapped, attached.backward_passes())
            assert (found is not None) is waits
            assert attached.capture(wrapped).model is (wrapped.module if waits else wrapped)
            assert exchange_of(wrapped.module, attached.backward_passes()) is None
    wrapped._comm_hooks = [print]
    with toughen.smart().attach(wrapped.module, TOKENIZER) as attached:
        assert exchange_of(wrapped, attached.backward_passes()) is None
