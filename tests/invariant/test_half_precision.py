"""Half precision finds the perturbation that float32 finds, up to rounding."""

import warnings
from dataclasses import replace

import pytest
import torch
import torch.nn.functional as F
from transformers import AutoConfig, AutoModelForSequenceClassification, TrainingArguments

import toughen
from tests.tiny import NO_DROPOUT, SMALL, TOKENIZER, bert, text_batch
from toughen.cuda_graphs.compile import compile_layers

HALF = [torch.bfloat16, torch.float16]


def with_radius(name: str, radius: float):
    """A method at a radius, without dropout: its masks depend on the dtype."""
    ball = {"max_norm": radius, "probe": radius / 10}
    step = {"max_norm": radius, "init_scale": radius / 10, "step_size": radius}
    return replace(toughen.create_method(name, **(ball if name == "vat" else step)), dropout="off")


MODELS = {"encoder of 2 classes": ("bert", 2), "encoder of 3": ("bert", 3), "decoder of 2": ("llama", 2)}


@pytest.fixture(scope="module", params=MODELS, ids=lambda name: name.replace(" ", "-"))
def model(request):
    """A small model, trained until it tells its classes apart."""
    return trained(*MODELS[request.param])


def trained(family: str, classes: int):
    torch.manual_seed(0)
    sizes = {"hidden_size": 128, "intermediate_size": 256, "num_hidden_layers": 2, "initializer_range": 0.05}
    config = AutoConfig.for_model(family, **{**SMALL, **NO_DROPOUT, **sizes, "num_labels": classes, "pad_token_id": 0})
    model = AutoModelForSequenceClassification.from_config(config).train()
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    for number in range(15):
        model(**batch(number % 4, classes)).loss.backward()
        optimizer.step()
        optimizer.zero_grad()
    return model


def batch(seed: int = 0, classes: int = 2):
    inputs = text_batch(16, 24, seed)
    return {**inputs, "labels": inputs["labels"] % classes}


def perturbed(model, method, half: torch.dtype | None, batches: int = 2):
    """What one step makes of each batch: perturbations, their starts, reports."""
    deltas, starts, reports = [], [], []
    with method.attach(model, TOKENIZER, seed=3) as attached:
        for seed in range(batches):
            with torch.autocast("cpu", half or torch.bfloat16, enabled=half is not None):
                attached.backward(model, batch(seed, model.num_labels))
            model.zero_grad()
            perturbation = attached.last_batches[-1].perturbation
            deltas.append(perturbation.at[0].flatten(1))
            starts.append(perturbation.starts[0].flatten(1))
            reports.append({name.split("/")[-1]: float(value) for name, value in attached.report().items()})
    return torch.cat(deltas), torch.cat(starts), reports


def assert_found(deltas, starts, reports, radius: float):
    assert 1 - F.cosine_similarity(deltas, starts).mean() >= 0.8
    for report in reports:
        assert report["delta_relative"] == pytest.approx(radius, rel=0.02)
        assert report["zero_gradient"] == report["skipped"] == 0


@pytest.mark.parametrize(
    ("half", "radius"),
    [(torch.bfloat16, 0.003), (torch.bfloat16, 0.01), (torch.bfloat16, 0.03), (torch.float16, 0.01)],
    ids=["bf16-0.003", "bf16-0.01", "bf16-0.03", "fp16-0.01"],
)
@pytest.mark.parametrize("name", ["smart", "sift", "vat"])
def test_the_perturbation_is_that_of_float32(model, name, half, radius):
    if name == "sift" and model.config.model_type == "llama":
        pytest.skip("a decoder has no norm inside its embedding block")
    method = with_radius(name, radius)
    wanted, _, _ = perturbed(model, method, None)
    found, starts, reports = perturbed(model, method, half)
    assert_found(found, starts, reports, radius)
    # Two classes have one direction, and float32's sign. Of three, rounding turns it within the plane they span.
    likeness = F.cosine_similarity(found, wanted)
    median, most_reversed = (0.98, 0.1) if model.num_labels == 2 else (0.8, 0.15)
    assert likeness.median() > median
    assert (likeness < 0).float().mean() <= most_reversed


@pytest.mark.parametrize("half", HALF, ids=str)
@pytest.mark.parametrize(
    "make",
    [
        lambda: toughen.alum(0, dropout="off"),
        lambda: toughen.smart("robust", dropout="off"),
        lambda: replace(toughen.creat(), dropout="off"),
        lambda: toughen.freelb(dropout="off") + toughen.vat(dropout="off"),
        lambda: replace(toughen.spectral(), dropout="off") + toughen.smart(dropout="off"),
    ],
    ids=["alum", "smart-robust", "creat", "freelb+vat", "spectral+smart"],
)
def test_every_search_finds_a_gradient(make, half):
    deltas, starts, reports = perturbed(trained("bert", 2), make(), half, batches=1)
    method = make()
    search = getattr(method, "methods", [method])[-1].search
    assert_found(deltas, starts, reports, getattr(search, "radius", None) or search.project.radius)


def test_confident_predictions_have_a_gradient_in_float16():
    """Their divergence's gradient is far below what float16 knows, at one scale for the whole batch."""
    model = trained("bert", 2)
    with torch.no_grad():
        model.classifier.weight *= 8
        model.classifier.bias.zero_()
    found, starts, reports = perturbed(model, with_radius("smart", 0.01), torch.float16)
    assert_found(found, starts, reports, 0.01)
    wanted, _, _ = perturbed(model, with_radius("smart", 0.01), None)
    assert F.cosine_similarity(found, wanted).median() > 0.98


def test_float16_is_seen_where_autocast_is_inside_the_model():
    """Accelerate enables it in the model's forward alone, not round the step."""
    model = trained("bert", 2)
    outside, _, _ = perturbed(model, with_radius("smart", 0.01), torch.float16, batches=1)
    forward = model.forward
    model.forward = lambda **inputs: torch.autocast("cpu", torch.float16)(forward)(**inputs)
    inside, _, reports = perturbed(model, with_radius("smart", 0.01), None, batches=1)
    assert reports[0]["zero_gradient"] == 0
    torch.testing.assert_close(inside, outside)


def test_logits_are_in_float32_while_a_method_compares_them():
    model, inputs = trained("bert", 2), batch()
    logits = {}
    for name in ("smart", "freelb"):
        with getattr(toughen, name)().attach(model, TOKENIZER), torch.autocast("cpu", torch.bfloat16):
            logits[name] = model(**inputs).logits.dtype
    with torch.autocast("cpu", torch.bfloat16):
        assert logits == {"smart": torch.float32, "freelb": torch.bfloat16}
        assert model(**inputs).logits.dtype == torch.bfloat16  # detached


class Flat(torch.nn.Module):
    """A classifier that gives every text the same logits."""

    def __init__(self):
        super().__init__()
        self.model = bert(torch.float32)
        self.config = self.model.config

    def get_input_embeddings(self):
        return self.model.get_input_embeddings()

    def forward(self, **inputs):
        output = self.model(**inputs)
        return {"loss": output.loss, "logits": output.logits * 0}


def test_texts_without_a_gradient_are_counted_and_warned_about_once():
    model, inputs = Flat(), text_batch(4, 10)
    with toughen.smart().attach(model, TOKENIZER) as attached, warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        for _ in range(160):
            attached.backward(model, inputs)
        assert attached.report()["zero_gradient"] == 4
    about = [str(one.message) for one in caught if "had no gradient" in str(one.message)]
    assert len(about) == 1
    assert "100% of the texts in 50 updates" in about[0]


def test_texts_with_nothing_to_perturb_are_not_counted():
    model, inputs = bert(torch.float32), text_batch(4, 10)
    inputs["input_ids"][0], inputs["attention_mask"][0] = 0, 0
    inputs["input_ids"][0, :2], inputs["attention_mask"][0, :2] = torch.tensor([1, 2]), 1
    with toughen.smart().attach(model, TOKENIZER) as attached:
        attached.backward(model, inputs)
        assert attached.report()["zero_gradient"] == 0


@pytest.mark.parametrize(("preset", "warned"), [("paper", True), ("recommended", False)])
def test_a_radius_that_autocast_rounds_away_is_told(preset, warned):
    model, inputs = bert(torch.float32), text_batch(4, 10)
    with toughen.smart(preset).attach(model, TOKENIZER) as attached, warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        for _ in range(2):
            with torch.autocast("cpu", torch.bfloat16):
                attached.backward(model, inputs)
    assert any("of the embedding's elements in bfloat16" in str(one.message) for one in caught) == warned


def test_the_trainer_logs_texts_without_a_gradient(tmp_path):
    inputs = text_batch(8, 10)
    rows = [{name: value[row] for name, value in inputs.items()} for row in range(8)]
    arguments = TrainingArguments(
        output_dir=str(tmp_path), max_steps=2, logging_steps=1, report_to="none", disable_tqdm=True, use_cpu=True
    )
    trainer = toughen.robust()(
        bert(torch.float32), arguments, train_dataset=rows, method=toughen.smart(), processing_class=TOKENIZER
    )
    trainer.train()
    assert trainer.state.log_history[0]["robust/zero_gradient"] == 0


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="no CUDA device here")
@pytest.mark.parametrize("half", HALF, ids=str)
@pytest.mark.parametrize("way", ["eager", "captured", "compiled"])
@pytest.mark.parametrize("name", ["smart", "sift", "vat"])
def test_on_a_gpu(name, way, half):
    model, method = trained("bert", 2).cuda(), with_radius(name, 0.01)
    inputs = {key: value.cuda() for key, value in batch().items()}
    found = []
    for dtype in (None, half):
        if dtype is not None and way == "compiled":
            compile_layers(model)
        attached = method.attach(model, TOKENIZER, seed=3)
        step = attached.capture(model, pack=False) if dtype is not None and way == "captured" else None
        for _ in range(3):  # eager, captured, replayed
            for generator in attached.noise.generators.values():
                generator.manual_seed(attached.noise.seed)
            with torch.autocast("cuda", dtype or torch.bfloat16, enabled=dtype is not None):
                attached.backward(model, inputs) if step is None else step(inputs)
            model.zero_grad(set_to_none=True)
        perturbation, report = attached.last_batches[0].perturbation, attached.report()
        found.append(perturbation.at[0].flatten(1).clone())
        assert_found(found[-1], perturbation.starts[0].flatten(1), [{k: float(v) for k, v in report.items()}], 0.01)
        assert step is None or step.steps["captured"] == 2
        attached.detach()
    assert F.cosine_similarity(*found).median() > 0.98
