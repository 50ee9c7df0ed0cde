"""Laws of whole steps: broken gradients are skipped and reported, and scales do not matter."""

from typing import Any

import pytest
import torch
from torch import Tensor, nn

import toughen
from toughen.errors import MethodError
from toughen.internal.architectures import IGNORED

EMBEDDED = ["smart", "vat", "creat", "pgd", "freelb", "fgm", "freeat"]  # they climb at the word embedding


class Backbone(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.norm = nn.LayerNorm(16, eps=0.0)
        self.body = nn.Sequential(nn.Linear(16, 16), nn.Tanh())

    def forward(self, embedded: Tensor) -> tuple[Tensor]:
        return (self.body(self.norm(embedded)),)


class Toy(nn.Module):
    """An embedding, its norm, two layers: the prediction does not depend on the embedding's scale.

    `broken` names an example whose gradient overflows on its way back to the embedding.
    """

    def __init__(self, classes: int = 3) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.table = nn.Embedding(30, 16)
        self.base_model = Backbone()
        self.head = nn.Linear(16, classes)
        self.loss_scale, self.broken = 1.0, None
        self.double()

    def get_input_embeddings(self) -> nn.Module:
        return self.table

    def forward(self, input_ids: Tensor, labels: Tensor | None = None, attention_mask: Any = None) -> dict[str, Tensor]:
        embedded = self.table(input_ids)
        if self.broken is not None and embedded.requires_grad:
            embedded.register_hook(self._overflow)
        (hidden,) = self.base_model(embedded)
        logits = self.head(hidden.mean(1))
        loss = nn.functional.cross_entropy(logits, labels) if labels is not None else logits.sum() * 0
        return {"loss": self.loss_scale * loss, "logits": logits}

    def _overflow(self, grad: Tensor) -> Tensor:
        grad = grad.clone()
        grad[self.broken, 0, 0] = float("inf")
        return grad


BATCH = {"input_ids": torch.arange(1, 21).view(4, 5), "labels": torch.tensor([0, 1, 2, 0])}


def perturbation(method: Any, model: Toy) -> tuple[Tensor, dict[str, Tensor], Tensor]:
    with method.attach(model, seed=1) as attached:
        attached.backward(model, BATCH, step=lambda: None)
        one = attached.last_batches[0].perturbation
        return one.at[0].detach(), attached.report(), one.starts[0]


@pytest.mark.parametrize("name", EMBEDDED)
def test_a_broken_gradient_skips_the_climb_of_its_example_alone(name: str) -> None:
    model, broken = Toy(), Toy()
    broken.broken = 2
    whole, report, _ = perturbation(toughen.create_method(name), model)
    climbs = 2 if name == "freelb" else 3 if name == "pgd" else 1
    assert report["skipped"] == 0
    delta, report, start = perturbation(toughen.create_method(name), broken)
    assert report["skipped"] == climbs  # example 2, every time
    torch.testing.assert_close(delta[[0, 1, 3]], whole[[0, 1, 3]])
    kept = delta[2] / delta[2].norm().clamp(min=1e-30)  # VAT's last pass has another length than its probe
    torch.testing.assert_close(kept, start[2] / start[2].norm().clamp(min=1e-30))
    assert not torch.equal(delta[0], start[0])


@pytest.mark.parametrize("name", EMBEDDED)
def test_the_scale_of_the_loss_does_not_matter(name: str) -> None:
    model, louder = Toy(), Toy()
    louder.loss_scale = 1e4
    method = (
        toughen.creat(temperature=0.0) if name == "creat" else toughen.create_method(name)
    )  # else two terms are weighed
    torch.testing.assert_close(perturbation(method, louder)[0], perturbation(method, model)[0], rtol=1e-9, atol=0)


@pytest.mark.parametrize("name", [*EMBEDDED, "r3f"])
def test_the_scale_of_the_embedding_does_not_matter(name: str) -> None:
    model, larger = Toy(), Toy()
    with torch.no_grad():
        larger.table.weight.mul_(10)
    (small, before, _), (large, after, _) = (perturbation(toughen.create_method(name), m) for m in (model, larger))
    # VAT's probe is a thousandth of the embedding, and its divergence a millionth: eight digits are left of sixteen.
    torch.testing.assert_close(large, 10 * small, rtol=1e-7, atol=1e-12)
    torch.testing.assert_close(after["delta_relative"], before["delta_relative"])
    torch.testing.assert_close(after["loss_perturbed"], before["loss_perturbed"])


SIZES = [("smart", "recommended", 0.01), ("vat", "recommended", 0.01), ("creat", "recommended", 0.003)]
SIZES += [("fgm", "recommended", 0.003), ("smart", "robust", 0.03), ("vat", "robust", 0.03), ("fgm", "robust", 0.03)]
SIZES += [("pgd", "robust", 0.03)]


@pytest.mark.parametrize(("name", "preset", "size"), SIZES)
def test_a_step_has_the_share_of_the_embedding_it_says(name: str, preset: str, size: float) -> None:
    delta, report, _ = perturbation(toughen.create_method(name, preset=preset), Toy())
    embedded = Toy().table(BATCH["input_ids"])
    shares = delta.flatten(1).norm(dim=1) / embedded.flatten(1).norm(dim=1)
    torch.testing.assert_close(shares.detach(), torch.full_like(shares, size), rtol=1e-6, atol=0)
    torch.testing.assert_close(report["delta_relative"].double(), torch.tensor(size).double(), rtol=1e-6, atol=0)


def test_regression_sees_a_shift_of_all_predictions() -> None:
    """A softmax over one column, or over the batch, would be blind to it: the term must not be."""
    model = Toy(classes=1)

    class Regressor(nn.Module):
        """Predicts the mean of the embedding's first column, times ten."""

        def __init__(self) -> None:
            super().__init__()
            self.table = model.table
            self.config = None

        def get_input_embeddings(self) -> nn.Module:
            return self.table

        def forward(self, input_ids: Tensor, labels: Tensor) -> dict[str, Tensor]:
            logits = 10 * self.table(input_ids).mean(1)[:, :1]
            return {"loss": (logits.squeeze(-1) - labels).square().mean(), "logits": logits}

    batch = {"input_ids": BATCH["input_ids"], "labels": torch.zeros(4, dtype=torch.float64)}
    method = toughen.r3f(init=lambda view: torch.ones_like(view.value))  # every prediction moves by exactly 10
    regressor = Regressor()
    with method.attach(regressor) as attached:
        attached.backward(regressor, batch)
        torch.testing.assert_close(attached.report()["term"], torch.tensor(100.0).double())


def test_only_labelled_tokens_enter_the_term() -> None:
    """Positions without a label may do what they like under the perturbation."""

    class Tagger(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.table = nn.Embedding(30, 4).double()

        def get_input_embeddings(self) -> nn.Module:
            return self.table

        def forward(self, input_ids: Tensor, labels: Tensor) -> dict[str, Tensor]:
            logits = self.table(input_ids)
            return {"loss": nn.functional.cross_entropy(logits.flatten(0, 1), labels.flatten()), "logits": logits}

    torch.manual_seed(0)
    tagger = Tagger()
    labels = torch.full((4, 5), IGNORED)
    labels[0, 1], labels[2, 3] = 1, 2
    seen = []
    for scale in (0.0, 5.0):
        noise = scale * torch.randn(4, 5, 4, dtype=torch.float64)
        noise[0, 1], noise[2, 3] = torch.tensor([1.0, 0, 0, 0]), torch.tensor([0.0, 1, 0, 0])
        with toughen.r3f(init=lambda view, noise=noise: noise).attach(tagger, task="tokens") as attached:
            attached.backward(tagger, {"input_ids": BATCH["input_ids"], "labels": labels})
            seen.append(attached.report()["term"])
    torch.testing.assert_close(seen[0], seen[1])
    assert seen[0] > 0


def test_a_text_without_words_is_left_alone() -> None:
    """Nothing of it may be perturbed, so its relative radius is zero; nothing divides by that."""
    model = Toy()
    batch = BATCH | {"attention_mask": torch.ones(4, 5, dtype=torch.long)}
    batch["attention_mask"][3] = 0
    for name in [*EMBEDDED, "r3f", "neftune"]:
        with toughen.create_method(name).attach(model, seed=1) as attached:
            loss = attached.backward(model, batch, step=lambda: None)
            assert torch.isfinite(loss)
            assert all(torch.isfinite(value).all() for value in attached.report().values()), name
            assert (attached.last_batches[0].perturbation.at[0][3] == 0).all()
            assert all(torch.isfinite(p.grad).all() for p in model.parameters())
        model.zero_grad()


@pytest.mark.parametrize("rows", [1, 2, 4])
def test_half_precision_searches_climb_however_few_the_examples(rows: int) -> None:
    """The loss of one wrong example has a gradient of 1 at its logits, 65536 times which is no float16."""
    model = Toy().float()
    with torch.no_grad():
        model.head.bias.copy_(torch.tensor([20.0, 0.0, -20.0]))
    batch = {"input_ids": BATCH["input_ids"][:rows], "labels": torch.full((rows,), 2)}
    with toughen.pgd().attach(model, seed=1) as attached, torch.autocast("cpu", torch.float16):
        attached.backward(model, batch)
        report = attached.report()
    assert report["skipped"] == 0
    assert report["delta_relative"] == pytest.approx(0.001, rel=1e-3)


BALLS = {"pgd": 0.001, "freelb": 0.001, "freeat": 0.001, "creat": 0.003}


@pytest.mark.parametrize("device", [False, True], ids=["number", "value_tensor"])
@pytest.mark.parametrize("name", [*EMBEDDED, "alum"])
def test_lengths_grow_with_the_training(name: str, device: bool) -> None:
    """Of methods that end on the rim of their ball the perturbation itself, of others the ball it stays in."""
    layer = {"layer": "table"} if name == "alum" else {}
    whole = perturbation(toughen.create_method(name, **layer), Toy())[0].flatten(1).norm(dim=1)
    embedded = Toy().table(BATCH["input_ids"]).detach().flatten(1).norm(dim=1)
    model = Toy()
    with toughen.create_method(name, radius_schedule=(0.1, 1, 0.5), **layer).attach(
        model, seed=1, total_steps=20
    ) as attached:
        if device:
            attached.keep_schedules_on_device()
        for update in range(13):
            attached.backward(model, BATCH, step=lambda: None)
            length = attached.last_batches[0].perturbation.at[0].detach().flatten(1).norm(dim=1)
            factor = min(0.1 + 0.09 * update, 1.0)
            if name in BALLS:
                assert (length <= factor * BALLS[name] * embedded * (1 + 1e-6)).all()
                assert (length >= 0.3 * factor * BALLS[name] * embedded).all()
            else:
                torch.testing.assert_close(length, factor * whole, rtol=1e-6, atol=0)


def test_a_radius_schedule_of_one_is_none() -> None:
    for name in [*EMBEDDED, "alum", "sift"]:
        assert toughen.create_method(name, radius_schedule=1.0) == toughen.create_method(name)
    with pytest.raises(MethodError, match="radius_schedule=0"):
        toughen.smart(radius_schedule=(0, 1))
    with pytest.raises(MethodError, match="has no radius_schedule"):
        toughen.fgm("matrix", radius_schedule=0.5)
    with (
        toughen.smart(radius_schedule=(0.1, 1)).attach(Toy()) as attached,
        pytest.raises(MethodError, match="total_steps"),
    ):
        attached.backward(attached.model, BATCH)
