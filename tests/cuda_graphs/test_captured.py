"""What of a captured step can be seen without a GPU: it runs eagerly, and says why."""

import warnings

import pytest
import torch

import toughen
from tests.tiny import TOKENIZER, assert_same_gradients, bert, gradients, text_batch
from toughen.cuda_graphs import compile_layers, prefetch, uncompile_layers
from toughen.cuda_graphs.eligibility import error_reason, method_reason, model_reason
from toughen.errors import RobustnessWarning


@pytest.mark.parametrize("name", ["smart", "freelb", "sam", "bregman"])
def test_on_a_cpu_it_is_the_eager_step(name):
    results = []
    settings = {"switch_at": 3} if name == "bregman" else {}
    for captured in (True, False):
        model = bert()
        with toughen.make(name, **settings).attach(model, TOKENIZER, seed=3) as attached:
            step = attached.capture(model)
            for seed in range(3):
                model.zero_grad()
                batch = text_batch(seed=seed)
                if captured and seed == 0:
                    with pytest.warns(RobustnessWarning, match="eagerly: the model is on the cpu"):
                        step(batch)
                else:
                    step(batch) if captured else attached.backward(model, batch)
            assert attached.updates == 3
            assert step.steps == {"eager": 3 * captured, "captured": 0}
        results.append(gradients(model))
    assert_same_gradients(*results, tolerance=0)


@pytest.mark.parametrize("accumulate", [1, 2])
@pytest.mark.parametrize("fused", [True, False])
@pytest.mark.parametrize(("name", "max_norm"), [("smart", 0.1), ("smart", 100.0), ("smart", None), ("freeat", 0.1)])
def test_with_an_optimizer_it_is_the_whole_update(accumulate, fused, name, max_norm):
    if name == "freeat" and accumulate > 1:
        pytest.skip("FreeAT updates within a micro-batch")
    results = []
    for captured in (True, False):
        model = bert(torch.float32 if fused else torch.float64)
        optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2, fused=fused, eps=1e-4)

        def move(model=model, optimizer=optimizer):
            if max_norm is not None:
                torch.nn.utils.clip_grad_norm_(model.parameters(), max_norm)
            optimizer.step()
            optimizer.zero_grad()

        with toughen.make(name).attach(model, TOKENIZER, seed=3) as attached, warnings.catch_warnings():
            warnings.simplefilter("ignore", RobustnessWarning)
            step = attached.capture(model, optimizer=optimizer, max_norm=max_norm)
            for number in range(4):
                last = number % accumulate == accumulate - 1
                given = {"accumulate": accumulate, "last": last}
                batch = text_batch(seed=number)
                if captured:
                    step(batch, **given)
                    assert (model.classifier.weight.grad is None) is last
                    continue
                attached.backward(model, batch, **given, step=move)
                if last:
                    move()
        assert not hasattr(optimizer, "grad_scale")
        results.append({name: weight.detach() for name, weight in model.named_parameters()})
    assert_same_gradients(*results, tolerance=1e-6 if fused else 0)


def test_an_update_that_cannot_be_made_is_refused():
    model = bert()
    optimizer = torch.optim.AdamW(model.parameters())
    with toughen.smart().attach(model, TOKENIZER) as attached:
        with pytest.raises(toughen.errors.MethodError, match="needs its optimizer="):
            attached.capture(model, max_norm=1.0)
        with pytest.raises(toughen.errors.MethodError, match="GradScaler"):
            attached.capture(model, optimizer=optimizer, backward=lambda loss: loss.backward())


def test_former_names_still_work():
    model = bert()
    with toughen.smart().attach(model, TOKENIZER) as attached:
        with pytest.warns(DeprecationWarning, match=r"attached\.capture\b"):
            assert attached.captured(model).obstacle is None
        with pytest.raises(AttributeError, match="nothing"):
            attached.nothing


def test_what_of_an_update_can_be_a_graph():
    """Gradients where captured steps put them, and an optimizer that does the same each time."""
    from toughen.cuda_graphs import CapturedUpdate, GraphCache

    model = bert(torch.float32)
    weights = list(model.parameters())
    with toughen.plain().attach(model, TOKENIZER) as attached:
        captured = GraphCache(attached, model)
        optimizer = torch.optim.AdamW(weights, lr=1e-3, fused=True)
        update = CapturedUpdate(captured, optimizer)
        attached.backward(model, text_batch())
        key = update._settings()
        assert key is not None
        assert update._places(weights, key) is None  # gradients of its own
        captured.grad_buffers.update({weight: weight.grad for weight in weights if weight.grad is not None})
        places = update._places(weights, key)
        assert places is not None
        weights[0].grad = weights[0].grad.clone()
        assert update._places(weights, key) is None
        assert update.in_graph_key() is None  # there are gradients already, which the graph would not see
        optimizer.zero_grad()
        assert update.in_graph_key() == key
        optimizer.param_groups[0]["lr"] = 2e-3
        assert update._settings() == key  # the graph reads it
        assert update.in_graph_key() == key
        assert float(update._rates[0]) == pytest.approx(2e-3)
        optimizer.param_groups[0]["weight_decay"] = 0.5
        assert update._settings() not in (None, key)
        optimizer.param_groups[0]["weight_decay"] = 0.01
        assert update._settings() == key
        optimizer.load_state_dict(optimizer.state_dict())
        assert update._settings() not in (None, key)  # the graph would go on with the state before
        assert CapturedUpdate(captured, torch.optim.SGD(weights, lr=0.1))._settings() is None
        assert CapturedUpdate(captured, torch.optim.AdamW(weights))._settings() is None
        hooked = torch.optim.AdamW(weights, fused=True)
        assert CapturedUpdate(captured, hooked)._settings() is not None
        hooked.register_step_post_hook(lambda *_: None)
        assert CapturedUpdate(captured, hooked)._settings() is None


def test_why_not():
    cuda = torch.device("cuda", 0)
    model = bert()
    assert "several devices" in model_reason(model, cuda)
    with toughen.freeat().attach(bert(), TOKENIZER) as attached:
        assert "FreeAT" in method_reason(attached.states, attached.backward_passes(), last=True)
        assert method_reason(attached.states, attached.backward_passes(), last=True, updates=True) is None
    with toughen.sam().attach(bert(), TOKENIZER) as attached:
        assert method_reason(attached.states, attached.backward_passes(), last=True) is None
        assert "accumulation" in method_reason(attached.states, attached.backward_passes(last=False), last=False)


def test_what_broke_a_capture_is_told():
    error = RuntimeError("capture is broken")
    error.__context__ = RuntimeError("would make the legacy stream depend on a capturing blocking stream")
    assert "detach the losses" in error_reason(error)
    assert error_reason(ValueError("why\n  not")) == "ValueError: why not"


def test_masks_are_made_for_every_batch_and_only_inside():
    from transformers.masking_utils import ALL_MASK_ATTENTION_FUNCTIONS as TABLE

    from toughen.cuda_graphs.attention_masks import explicit_attention_masks

    model, seen, before = bert(), [], dict(TABLE.items())
    layer = model.bert.encoder.layer[0].attention.self
    layer.register_forward_pre_hook(lambda _, args, kwargs: seen.append(args[1:] or kwargs), with_kwargs=True)
    batch = text_batch()
    batch["attention_mask"] = torch.ones_like(batch["attention_mask"])
    reference = model(**batch).logits
    with explicit_attention_masks():
        assert torch.allclose(model(**batch).logits, reference)
    model(**batch)
    given = [any(isinstance(v, torch.Tensor) for v in (s.values() if isinstance(s, dict) else s)) for s in seen]
    assert given == [False, True, False]
    assert dict(TABLE.items()) == before


def test_dials_follow_a_schedule():
    """A captured step reads settings that change from tensors; eager steps through them give the same."""
    results = []
    for on_device in (True, False):
        model = bert()
        method = toughen.asa(weight=(0.1, 1.0, 4), temperature=(2.0, 1.0, 4), adversary_weight=(0.0, 1.0, 4))
        with method.attach(model, TOKENIZER, seed=3) as attached:
            if on_device:
                attached.keep_schedules_on_device()
            for seed in range(5):
                model.zero_grad()
                attached.backward(model, text_batch(seed=seed))
        results.append(gradients(model))
    assert_same_gradients(*results, tolerance=1e-9)


def test_compiled_layers_give_the_same_gradients():
    batch, results = text_batch(), []
    for compiled in (True, False):
        model = bert()
        if compiled:
            assert compile_layers(model, backend="eager") == 2
        with toughen.smart().attach(model, TOKENIZER, seed=3) as attached:
            attached.backward(model, batch)
        results.append(gradients(model))
        uncompile_layers(model)
        assert all(module._compiled_call_impl is None for module in model.modules())
    assert_same_gradients(*results, tolerance=1e-9)


def test_a_memory_budget_is_a_share():
    from torch._functorch import config

    before = config.activation_memory_budget
    model = bert()
    try:
        with pytest.raises(ValueError, match="at most 1"):
            compile_layers(model, memory_budget=1.5)
        compile_layers(model, memory_budget=0.9, backend="eager")
        assert config.activation_memory_budget == 0.9
    finally:
        config.activation_memory_budget = before


def test_prefetch_on_a_cpu():
    batches = [{"x": torch.tensor([i]), "name": "a"} for i in range(5)]
    assert [int(batch["x"]) for batch in prefetch(batches, "cpu")] == list(range(5))


def test_prefetch_names_what_it_cannot_take():
    rows = torch.utils.data.TensorDataset(torch.arange(4), torch.arange(4))
    with pytest.raises(TypeError, match=r"batches that are a list.*collate_fn"):
        next(prefetch(torch.utils.data.DataLoader(rows), "cpu"))


def test_nothing_of_a_step_stays_alive():
    """A graph that outlived its step would hold its activations, and run on the stream of its time."""
    import gc
    import weakref

    model = bert()
    with toughen.asa().attach(model, TOKENIZER) as attached:
        gc.disable()
        try:
            attached.backward(model, text_batch())
            assert all(delta.grad_fn is None for batch in attached.last_batches for delta in batch.perturbation.deltas)
            gone = weakref.ref(attached.last_batches[0])
            attached.backward(model, text_batch())
            assert gone() is None
        finally:
            gc.enable()
