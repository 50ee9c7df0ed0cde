"""Captured steps against the same steps run eagerly."""

import copy
import warnings

import pytest
import torch

import toughen
from tests.tiny import LETTERS, LIKE_TYPOS, bert, gradients, make, text_batch
from toughen.cuda_graphs import step as steps
from toughen.cuda_graphs.half_weights import half_weights_of
from toughen.engine import side_stream
from toughen.errors import RobustnessWarning

pytestmark = [
    pytest.mark.gpu,
    pytest.mark.skipif(not torch.cuda.is_available(), reason="no CUDA device here"),
]
METHODS = [name for name in toughen.available() if name not in {"freeat", *LIKE_TYPOS}]
DROPOUT = {"hidden_dropout_prob": 0.1, "attention_probs_dropout_prob": 0.1}


def made(name: str):
    settings = {"switch_at": 3} if name == "bregman" else {}
    return make(name, **settings)


def batches(count: int = 8):
    """Two shapes in turn, so that each is run, captured and replayed."""
    for i in range(count):
        yield {k: v.cuda() for k, v in text_batch(4, 10 if i % 2 else 16, seed=i).items()}


def trained(method, captured: bool, precision=None, accumulate: int = 1, to_none: bool = True, **config):
    """The model after a few updates, its last gradients and its losses."""
    model = bert(torch.float32, **config).cuda()
    attached = method.attach(model, LETTERS, seed=3, total_steps=20)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
    step = attached.capture(model) if captured else None
    torch.manual_seed(7)
    losses = []
    for number, batch in enumerate(batches(8 * accumulate)):
        last = number % accumulate == accumulate - 1
        with torch.autocast("cuda", precision, enabled=precision is not None):
            if step is not None:
                loss = step(batch, accumulate=accumulate, last=last)
            else:
                loss = attached.backward(model, batch, accumulate=accumulate, last=last)
        losses.append(float(loss))
        if last:
            grads = gradients(model)
            torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            optimizer.param_groups[0]["lr"] = 0.1 / (1 + number)
            optimizer.step()
            optimizer.zero_grad(set_to_none=to_none)
    report = {name: float(value) for name, value in attached.report().items()}
    if step is not None:
        assert step.obstacle is None
        assert step.steps["captured"] >= len(losses) / 2 - 2
    state = attached.state_dict()
    attached.detach()
    return losses, grads, copy.deepcopy(model.state_dict()), report, state, torch.cuda.get_rng_state()


@pytest.mark.parametrize("name", ["plain", "smart", "freelb", "sam", "asa", "freeat"])
@pytest.mark.parametrize("accumulate", [1, 2])
def test_whole_updates_are_the_eager_ones(name, accumulate):
    """Clipping and AdamW captured too: changing rates, groups with settings of their own, a state loaded half-way."""
    if name in ("sam", "freeat") and accumulate > 1:
        pytest.skip("runs eagerly, or not at all")
    found = []
    for captured in (True, False):
        model = bert(torch.float32, **DROPOUT).cuda()
        attached = made(name).attach(model, LETTERS, seed=3, total_steps=20)
        weights = list(model.parameters())
        groups = [{"params": weights[::2], "weight_decay": 0.1}, {"params": weights[1::2], "lr": 3e-3}]
        optimizer = torch.optim.AdamW(groups, lr=1e-3, fused=True, weight_decay=0.0, eps=1e-4)  # above rounding
        step = attached.capture(model, optimizer=optimizer, max_norm=0.5)
        rates = [group["lr"] for group in optimizer.param_groups]
        torch.manual_seed(7)
        for number, batch in enumerate(batches(16 * accumulate)):
            last = number % accumulate == accumulate - 1
            for group, rate in zip(optimizer.param_groups, rates, strict=True):
                group["lr"] = rate / (1 + number)
            if number == 9:
                optimizer.load_state_dict(copy.deepcopy(optimizer.state_dict()))
            if captured:
                step(batch, accumulate=accumulate, last=last)
                continue

            def move(weights=weights, optimizer=optimizer):
                torch.nn.utils.clip_grad_norm_(weights, 0.5)
                optimizer.step()
                optimizer.zero_grad()

            attached.backward(model, batch, accumulate=accumulate, last=last, step=move)
            if last:
                move()
        if captured:
            assert step.obstacle is None
            assert step.steps["captured"] >= 8
            assert step.update._steps.captured
            assert bool(step.update._steps._graphs) == bool(step.update._clips._graphs) == (accumulate > 1)
            assert all(isinstance(group["lr"], float) for group in optimizer.param_groups)
        attached.detach()
        found.append(torch.cat([weight.detach().flatten() for weight in weights]))
    assert (found[0] - found[1]).norm() <= 1e-4 * found[1].norm()


def draws(*_):
    torch.rand(())


def reads(_module, _args, output):
    float(output.logits.sum())


def assert_same(ours, theirs, tolerance):
    for mine, reference in zip(ours[0], theirs[0], strict=True):
        assert mine == pytest.approx(reference, rel=10 * tolerance, abs=10 * tolerance)
    for part in (1, 2):
        assert ours[part].keys() == theirs[part].keys()
        scale = max(value.abs().max() for value in theirs[part].values() if value.is_floating_point())
        for name, value in theirs[part].items():
            assert (ours[part][name] - value).abs().max() <= tolerance * scale, name
    assert ours[3].keys() == theirs[3].keys()
    for name, value in theirs[3].items():
        assert ours[3][name] == pytest.approx(value, rel=1e-2, abs=1e-4), name
    for name, value in theirs[4].items():
        torch.testing.assert_close(ours[4][name], value, rtol=1e-3, atol=1e-4)
    assert torch.equal(ours[5], theirs[5])  # dropout's stream goes on where the eager step would have left it


@pytest.mark.parametrize("name", METHODS)
@pytest.mark.parametrize("dropout", [False, True])
def test_captured_steps_train_as_eager_ones(name, dropout):
    config = DROPOUT if dropout else {}
    assert_same(trained(made(name), True, **config), trained(made(name), False, **config), 1e-4)


@pytest.mark.parametrize("name", METHODS)
@pytest.mark.parametrize(("precision", "tolerance"), [(None, 1e-6), (torch.bfloat16, 1e-5)])
def test_captured_gradients_are_the_eager_ones(name, precision, tolerance):
    """The issue of rounding aside, one step: no update lies between to make differences grow."""
    grads = []
    for captured in (True, False):
        model = bert(torch.float32).cuda()
        with made(name).attach(model, LETTERS, seed=3, total_steps=20) as attached:
            step = attached.capture(model)
            for _ in range(3):
                for generator in attached.noise.generators.values():
                    generator.manual_seed(3)  # the same noise in every step
                attached.updates = 0
                model.zero_grad()
                batch = {k: v.cuda() for k, v in text_batch(4, 16, seed=1).items()}
                # Its cache would add the gradients of several passes in half precision, and a captured step does not.
                with torch.autocast("cuda", precision, enabled=precision is not None, cache_enabled=False):
                    step(batch) if captured else attached.backward(model, batch)
            assert step.steps["captured"] == 2 * captured
        grads.append(gradients(model))
    scale = max(value.abs().max() for value in grads[1].values())
    for key, value in grads[1].items():
        assert (grads[0][key] - value).abs().max() <= tolerance * scale, key


@pytest.mark.parametrize("name", ["smart", "alum", "sift", "creat", "asa", "rdrop", "smart + rdrop"])
@pytest.mark.parametrize("compiled", [False, True])
def test_branches_and_casts_change_nothing(name, compiled, monkeypatch):
    """Twenty replays each: a branch that nobody waits for would be read too early in some of them."""
    if compiled and name not in ("smart", "asa"):
        pytest.skip("compiling takes long, and the others are alike")
    norms = []
    sizes = {"hidden_size": 256, "num_hidden_layers": 4, "intermediate_size": 1024, **DROPOUT}
    for branches, casts in ((True, True), (False, True), (True, False), (False, False)):
        monkeypatch.setattr(side_stream, "MOST_TOKENS", 8192 if branches else 0)
        monkeypatch.setattr(steps, "half_weights_of", half_weights_of if casts else lambda *_: None)
        model, method = bert(torch.float32, **sizes).cuda(), None
        for part in name.split(" + "):
            method = made(part) if method is None else method + made(part)
        if compiled:
            toughen.cuda_graphs.compile_layers(model)
        torch.manual_seed(7)
        with method.attach(model, LETTERS, seed=3, total_steps=30) as attached:
            step, found = attached.capture(model), []
            for number in range(22 + compiled):
                model.zero_grad()
                with torch.autocast("cuda", torch.bfloat16, cache_enabled=False):
                    step(text_batch(16, 64, seed=number % 3))
                found += [torch.cat([grad.flatten() for grad in gradients(model).values()])] * (number > 1)
            assert step.obstacle is None
            assert step.steps["captured"] == 21
            assert (step.half_weights is not None) is casts
        norms.append(found)
        toughen.cuda_graphs.uncompile_layers(model)
    for others in norms[1:]:
        for ours, theirs in zip(norms[0], others, strict=True):
            assert (ours - theirs).norm() <= 2e-2 * theirs.norm()  # bfloat16, and kernels that add in any order
    for ours, theirs in zip(norms[0], norms[1], strict=True):  # the same kernels
        assert (ours - theirs).norm() <= 2e-3 * theirs.norm()


@pytest.mark.parametrize("name", ["smart", "freelb", "asa", "plain"])
@pytest.mark.parametrize("to_none", [True, False])
def test_accumulation(name, to_none):
    ours = trained(made(name), True, accumulate=2, to_none=to_none, **DROPOUT)
    assert_same(ours, trained(made(name), False, accumulate=2, to_none=to_none, **DROPOUT), 1e-4)


def test_sums_and_schedules():
    method = toughen.smart(weight=2.0) + toughen.rdrop()
    assert_same(trained(method, True, **DROPOUT), trained(method, False, **DROPOUT), 1e-4)
    asa = toughen.asa(adversary_weight=(0.1, 1.0, 6), temperature=(2.0, 1.0, 6), weight=(0.5, 1.0, 6))
    assert_same(trained(asa, True, **DROPOUT), trained(asa, False, **DROPOUT), 1e-4)
    growing = toughen.freelb(radius_schedule=(0.1, 1.0, 6))
    assert_same(trained(growing, True, **DROPOUT), trained(growing, False, **DROPOUT), 1e-4)


def test_grad_scaler():
    results = []
    for captured in (True, False):
        model = bert(torch.float32, **DROPOUT).cuda()
        scaler = torch.amp.GradScaler("cuda", init_scale=2.0**10)
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        with toughen.smart().attach(model, LETTERS, seed=3) as attached:

            def backward(loss, scaler=scaler):
                scaler.scale(loss).backward()

            step = attached.capture(model, backward=backward)
            torch.manual_seed(7)
            for batch in batches(6):
                with torch.autocast("cuda", torch.float16):
                    step(batch) if captured else attached.backward(model, batch, backward=backward)
                scaler.step(optimizer)
                scaler.update()
                optimizer.zero_grad()
        results.append(copy.deepcopy(model.state_dict()))
    for key, value in results[1].items():
        torch.testing.assert_close(results[0][key], value, rtol=1e-3, atol=1e-3)


def test_evaluation_between_steps_is_unaffected():
    model = bert(torch.float32, **DROPOUT).cuda()
    batch = {k: v.cuda() for k, v in text_batch(4, 16).items()}
    with toughen.smart().attach(model, LETTERS) as attached:
        step = attached.capture(model)
        for _ in range(3):
            step(batch)
        model.zero_grad()
        model.eval()
        one = model(**batch).logits
        model.train()
        step(batch)
        model.eval()
    assert torch.equal(one, model(**batch).logits)


@pytest.mark.parametrize(
    ("prepare", "reason"),
    [
        (lambda model: model.gradient_checkpointing_enable(), "checkpointing"),
        (lambda model: model.register_forward_hook(draws), "random numbers on the CPU"),
        (lambda model: model.register_forward_hook(reads), "Error"),
    ],
)
def test_what_cannot_be_captured_runs_eagerly_and_says_why(prepare, reason):
    results = []
    for captured in (True, False):
        model = bert(torch.float32).cuda()
        prepare(model)
        with toughen.smart().attach(model, LETTERS, seed=3) as attached, warnings.catch_warnings():
            warnings.simplefilter("ignore")
            step = attached.capture(model)
            for batch in [next(batches())] * 4:
                model.zero_grad()
                step(batch) if captured else attached.backward(model, batch)
            if captured:
                assert reason in (step.obstacle or "")
                assert step.steps == {"eager": 4, "captured": 0}
            assert attached.updates == 4
        results.append(gradients(model))
    for key, value in results[1].items():
        torch.testing.assert_close(results[0][key], value)


def test_unfrozen_weights_are_seen():
    model = bert(torch.float32).cuda()
    model.bert.embeddings.requires_grad_(False)
    batch = next(batches())
    with toughen.plain().attach(model, LETTERS) as attached:
        step = attached.capture(model)
        for _ in range(3):
            step(batch)
        model.bert.embeddings.requires_grad_(True)
        for _ in range(3):
            model.zero_grad()
            step(batch)
    assert model.bert.embeddings.word_embeddings.weight.grad is not None


def test_freeat_without_its_optimizer_is_refused():
    model = bert(torch.float32).cuda()
    with toughen.freeat().attach(model, LETTERS) as attached:
        step = attached.capture(model)
        with pytest.warns(RobustnessWarning, match="FreeAT"), pytest.raises(toughen.errors.MethodError):
            step(next(batches()))


def ragged(rows: int = 64, length: int = 128):
    """A batch large and uneven enough to be packed, on the CPU as a loader gives it."""
    batch = text_batch(rows, length, seed=2)
    for row in range(rows):
        real = length // 3 + row
        batch["attention_mask"][row] = torch.arange(length) < real
        batch["input_ids"][row, real:] = 0
    return batch


@pytest.mark.parametrize("name", ["smart", "freelb", "sift", "creat", "plain"])
@pytest.mark.parametrize("compiled", [False, True])
def test_packed_and_captured_against_padded_and_eager(name, compiled):
    batch, grads = ragged(), []
    for fast in (True, False):
        model = bert(torch.float32, max_position_embeddings=128).cuda()
        if fast and compiled:
            toughen.cuda_graphs.compile_layers(model)
        with made(name).attach(model, LETTERS, seed=3) as attached, torch.autocast("cuda", torch.bfloat16):
            step = attached.capture(model)
            for _ in range(4):
                for generator in attached.noise.generators.values():
                    generator.manual_seed(3)
                model.zero_grad()
                if fast:
                    step(batch)
                else:
                    attached.backward(model, {k: v.cuda() for k, v in batch.items()})
            if fast:
                assert step.packing is not None
                assert step.steps == {"eager": 1 + compiled, "captured": 3 - compiled}
            step.close()
        grads.append(gradients(model))
    ours, theirs = (torch.cat([g.flatten().double() for g in one.values()]) for one in grads)
    assert (ours - theirs).norm() / theirs.norm() < 0.03  # other kernels, in bfloat16


@pytest.mark.parametrize("name", ["smart", "freelb", "asa", "sam", "bregman"])
@pytest.mark.parametrize(("accumulate", "optim"), [(1, "sgd"), (2, "sgd"), (1, "adamw_torch_fused")])
def test_trainer(name, accumulate, optim, tmp_path):
    pytest.importorskip("accelerate")
    if name == "sam" and accumulate > 1:
        pytest.skip("runs eagerly")
    from transformers import DataCollatorWithPadding, Trainer, TrainingArguments

    # With padding: a fast step has a mask for whole batches, too, and a kernel that draws other numbers for dropout.
    rows = [{k: v[1] for k, v in text_batch(2, 16 if i % 3 else 8, seed=i).items()} for i in range(32)]
    weights = []
    for fast in ("auto", False):
        model = bert(torch.float32, **DROPOUT)
        args = TrainingArguments(
            tmp_path / str(fast),
            per_device_train_batch_size=1,
            gradient_accumulation_steps=accumulate,
            num_train_epochs=2,
            eval_strategy="steps",  # between captured steps
            eval_steps=7,
            learning_rate=1e-2 if optim == "sgd" else 1e-3,
            optim=optim,
            report_to=[],
            save_strategy="no",
            logging_steps=4,
            disable_tqdm=True,
            seed=5,
        )
        trainer = toughen.robust(Trainer)(
            model,
            args,
            train_dataset=rows,
            eval_dataset=rows[:4],
            method=made(name),
            processing_class=LETTERS,
            data_collator=DataCollatorWithPadding(LETTERS, pad_to_multiple_of=8),  # in both, or dropout differs
            fast=fast,
            probe=False,
        )
        with warnings.catch_warnings():
            warnings.simplefilter("error", RobustnessWarning)
            trainer.train()
        if fast:
            assert int(trainer.fast_steps.partition(" ")[0]) >= 30, trainer.fast_steps
        weights.append(torch.cat([p.detach().flatten() for p in model.parameters()]))
        logs = [entry for entry in trainer.state.log_history if "robust/forwards" in entry]
        assert logs
    assert (weights[0] - weights[1]).norm() <= 1e-4 * weights[1].norm()


def test_two_processes_exchange_after_the_graph(tmp_path):
    """Two processes on one GPU, over gloo: NCCL wants one each."""
    from ..trainers import processes

    processes.check_loop(processes.run_all(tmp_path, "cuda"))
