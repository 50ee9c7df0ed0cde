"""The adversary in real training: optimizers, checkpoints, half precision, wrappers, and gone from what is saved."""

import copy
import warnings

import pytest
import torch
from torch import nn
from transformers import AutoModelForSequenceClassification, Trainer, TrainingArguments

import toughen
from toughen.engine.float32_logits import keep_logits_in_float32
from toughen.errors import MethodError, RobustnessWarning

from ..tiny import assert_same_gradients, bert, gradients, text_batch
from .families import batch as family_batch
from .families import build

BATCH = text_batch()


def step(model, batch=BATCH, seed=3, **settings):
    attached = toughen.asa(**{"visible": 0.6, **settings}).attach(model, seed=seed)
    return attached, attached.backward(model, batch)


@pytest.mark.parametrize("family", ["bert", "llama", "deberta-v2"])
@pytest.mark.parametrize("preset", ["recommended", "original"])
def test_gradient_checkpointing(family, preset):
    inputs = family_batch(family)
    plain, checkpointed = build(family, torch.float64), build(family, torch.float64)
    _, expected = step(plain, inputs, preset=preset)
    attached = toughen.asa(preset, visible=0.6).attach(checkpointed, seed=3)
    checkpointed.gradient_checkpointing_enable()
    total = attached.backward(checkpointed, inputs)
    assert torch.allclose(total, expected, atol=1e-12)
    assert_same_gradients(gradients(checkpointed), gradients(plain), 1e-9)


@pytest.mark.parametrize("implementation", ["eager", "sdpa"])
@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_autocast(dtype, implementation):
    model = bert(dtype=torch.float32, attn_implementation=implementation)
    attached = toughen.asa(visible=0.6).attach(model, seed=3)
    seen = []
    attached.states[0].injector.on_sample = lambda index, bias: seen.append((bias.dtype, bias.shape))
    with torch.autocast("cpu", dtype=dtype):
        attached.backward(model, BATCH)
    assert seen == [(dtype, (3, 1, 10, 10))] * 2, "one mask a layer, in the compute dtype, for all heads"
    for name, parameter in attached.adversary.named_parameters():
        assert parameter.dtype == torch.float32
        assert torch.isfinite(parameter.grad).all(), name
        assert parameter.grad.abs().max() > 0, name


def test_a_clean_pass_is_the_models_own_under_autocast():
    """Its attention blocks get their input cast once and not by each projection: the same numbers, and fewer copies."""
    found = []
    for attach in (False, True):
        model = bert(dtype=torch.float32)
        if attach:
            toughen.asa().attach(model, seed=3)
        else:
            keep_logits_in_float32(model)  # as a method that compares predictions does
        cast = []
        module = model.bert.encoder.layer[0].attention.self
        module.query.register_forward_pre_hook(lambda _, args, cast=cast: cast.append(args[0].dtype))
        with torch.autocast("cpu", dtype=torch.bfloat16):
            output = model(**BATCH)
        output.loss.backward()
        found.append((output.logits.detach(), gradients(model), cast))
    (logits, grads, before), (ours, our_grads, after) = found
    assert torch.equal(logits, ours)
    assert (before, after) == ([torch.float32], [torch.bfloat16])
    largest = max(grad.norm() for grad in grads.values())
    for name, grad in grads.items():
        assert (our_grads[name] - grad).norm() <= 0.01 * largest, name


def test_a_model_in_half_precision():
    model = bert(dtype=torch.bfloat16)
    attached, _ = step(model)
    assert {p.dtype for p in attached.adversary.parameters()} == {torch.bfloat16}
    assert all(torch.isfinite(p.grad).all() for p in attached.adversary.parameters())


def test_nothing_large_is_kept():
    """Between forward and backward the adversary keeps queries, keys and words of rows, nothing of length x length."""
    model = bert(dtype=torch.float32)
    attached = toughen.asa(visible=0.6).attach(model, seed=3)
    adversary, kept = attached.adversary["0"], []
    from toughen.search.mask_function import StraightThroughMask

    query, key = adversary(torch.randn(2, 50, 32))
    rule = attached.states[0].method.search._mask_config(32, _view())
    draw = attached.noise.key(torch.device("cpu"))
    with torch.autograd.graph.saved_tensors_hooks(lambda t: kept.append(t.shape) or t, lambda t: t):
        StraightThroughMask.apply(query, key, draw, None, None, rule, torch.float32)
    assert {query.shape, key.shape} < set(kept)
    assert max(shape.numel() for shape in kept) < 50 * 50 * 2


def _view():
    from toughen.sites.base import AttentionActivation

    return AttentionActivation(torch.zeros(1))


def test_gradient_accumulation():
    """Two halves accumulated are the whole, for the deterministic variant (the other draws by row)."""
    whole, halves = bert(), bert()
    four = text_batch(rows=4)
    step(whole, four, preset="original", visible=0.5)
    attached = toughen.asa("original").attach(halves, seed=3)
    for part in (slice(0, 2), slice(2, 4)):
        attached.backward(halves, {k: v[part] for k, v in four.items()}, accumulate=2, last=part.stop == 4)
    assert_same_gradients(gradients(halves), gradients(whole), 1e-9)
    assert attached.updates == 1


def test_lora(tmp_path):
    peft = pytest.importorskip("peft")
    model = bert(dtype=torch.float32)
    model = peft.get_peft_model(model, peft.LoraConfig(task_type="SEQ_CLS", target_modules=["query", "value"]))
    attached, _ = step(model)
    trained = {name for name, p in model.named_parameters() if p.grad is not None}
    assert any("lora_" in name for name in trained)
    assert sum("toughen_adversary" in name for name in trained) == 8
    assert not any("lora" in name for name, _ in attached.adversary.named_parameters())
    model.save_pretrained(tmp_path)
    from safetensors.torch import load_file

    assert not any("toughen" in key for key in load_file(tmp_path / "adapter_model.safetensors"))
    attached.detach()
    assert not any("toughen" in name for name, _ in model.named_parameters())


@pytest.mark.parametrize("family", ["bert", "llama", "deberta-v2"])
def test_what_is_saved_is_the_model_alone(family, tmp_path):
    model, inputs = build(family), family_batch(family)
    attached = toughen.asa().attach(model)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    attached.backward(model, inputs)
    optimizer.step()
    model.eval()
    with torch.no_grad():
        before = model(**inputs).logits
    assert not any("toughen" in key for key in model.state_dict())
    model.save_pretrained(tmp_path)
    assert "toughen" not in (tmp_path / "config.json").read_text()
    loaded, about = AutoModelForSequenceClassification.from_pretrained(tmp_path, output_loading_info=True)
    assert not about["missing_keys"]
    assert not about["unexpected_keys"]
    with torch.no_grad():
        assert torch.equal(loaded.eval()(**inputs).logits, before)
    twin = copy.deepcopy(loaded.state_dict())
    model.load_state_dict(twin)  # strict, and does not ask for the adversary


def test_the_optimizer_must_know_the_adversary():
    model = bert(dtype=torch.float32)
    early = torch.optim.AdamW(model.parameters(), lr=1e-3)
    attached = toughen.asa().attach(model)
    with pytest.warns(RobustnessWarning, match="optimizer"):
        updates(attached, model, early)
    attached.detach()
    attached = toughen.asa().attach(model)
    late = torch.optim.AdamW(model.parameters(), lr=1e-3)
    with warnings.catch_warnings():
        warnings.simplefilter("error", RobustnessWarning)
        updates(attached, model, late)


def updates(attached, model, optimizer, count=22):
    for _ in range(count):
        attached.backward(model, BATCH)
        optimizer.step()
        optimizer.zero_grad()


class Texts(torch.utils.data.Dataset):
    def __init__(self, rows=16):
        self.batch = text_batch(rows=rows)

    def __len__(self):
        return len(self.batch["labels"])

    def __getitem__(self, i):
        return {key: value[i] for key, value in self.batch.items()}


def trainer(folder, **settings):
    arguments = TrainingArguments(
        str(folder), per_device_train_batch_size=4, max_steps=6, save_steps=3, learning_rate=1e-3, logging_steps=1,
        use_cpu=True, disable_tqdm=True, seed=7, report_to="none", gradient_accumulation_steps=2,
    )  # fmt: skip
    method = toughen.asa(visible=0.6, temperature=(2.0, 0.5), **settings)
    model = bert(dtype=torch.float32, hidden_dropout_prob=0.1)
    return toughen.robust(Trainer)(model, arguments, train_dataset=Texts(), method=method)


def test_trainer_trains_saves_and_resumes(tmp_path):
    whole = trainer(tmp_path / "a")
    start = copy.deepcopy(whole.attached.adversary.state_dict())
    whole.train()
    end = whole.attached.adversary.state_dict()
    assert all(not torch.equal(start[name], end[name]) for name in start)
    assert {"robust/divergence", "robust/budget", "robust/visible_0"} <= set(whole.state.log_history[-2])

    half = trainer(tmp_path / "b")
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        half.train(resume_from_checkpoint=str(tmp_path / "a" / "checkpoint-3"))
    assert not [w for w in caught if "missing" in str(w.message).lower()]
    resumed = half.attached.adversary.state_dict()
    assert all(torch.allclose(end[name], resumed[name], atol=1e-7) for name in end)
    for (name, one), (_, two) in zip(whole.model.state_dict().items(), half.model.state_dict().items(), strict=True):
        assert torch.allclose(one, two, atol=1e-7), name

    from safetensors.torch import load_file

    saved = load_file(tmp_path / "a" / "checkpoint-6" / "model.safetensors")
    assert not any("toughen" in key for key in saved)


def test_another_adversary_is_not_taken_for_this_one():
    one, other = toughen.asa().attach(bert()), toughen.asa(layers=[0]).attach(bert())
    with pytest.raises(MethodError, match="settings"):
        other.load_state_dict(one.state_dict())


@pytest.mark.parametrize("rank", [1, 4])  # weights of rank 1 would go into any other without a word
def test_an_adversary_of_another_rank_is_not_taken_for_this_one(rank):
    one, other = toughen.asa(rank=rank).attach(bert()), toughen.asa(rank=8).attach(bert())
    before = {name: value.clone() for name, value in other.state_dict().items() if isinstance(value, torch.Tensor)}
    with pytest.raises(MethodError, match="rank"):
        other.load_state_dict(one.state_dict())
    after = other.state_dict()
    assert all(torch.equal(after[name], value) for name, value in before.items())


def test_attach_comes_before_wrapping():
    torch.distributed.init_process_group("gloo", rank=0, world_size=1, store=torch.distributed.HashStore())
    try:
        wrapped = nn.parallel.DistributedDataParallel(bert())
        with pytest.raises(MethodError, match="then wrap"):
            toughen.asa().attach(wrapped)
        assert not hasattr(wrapped.module, "toughen_adversary")
    finally:
        torch.distributed.destroy_process_group()


def test_attached_again_with_the_same_weights():
    model = bert()
    attached, _ = step(model)
    with torch.no_grad():
        attached.adversary["0"].query.bias.fill_(3.0)
    attached.detach()
    assert not hasattr(model, "toughen_adversary")
    attached.attach()
    assert float(model.toughen_adversary["0"].query.bias.mean()) == 3.0
    attached.backward(model, BATCH)


@pytest.mark.parametrize("knows", [True, False], ids=["optimizer has it", "optimizer lacks it"])
def test_an_adversary_that_no_optimizer_moves_is_told_of_once(knows):
    model = bert(dtype=torch.float32)
    weights = list(model.parameters())
    attached = toughen.asa(visible=0.6).attach(model, seed=3)
    optimizer = torch.optim.SGD(model.parameters() if knows else weights, lr=0.1)
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        for _ in range(23):
            attached.backward(model, BATCH)
            optimizer.step()
            optimizer.zero_grad()
    assert sum("The adversary has not moved" in str(each.message) for each in told) == (0 if knows else 1)
