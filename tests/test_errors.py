"""Bad input gets a clear error: what, why, and what to do. Nothing is lost by it."""

import gc
import re
import warnings
from copy import deepcopy
from dataclasses import replace
from typing import Any

import pytest
import torch
from torch import Tensor, nn

import toughen
from toughen import Method, Sum
from toughen.combine.accumulate import Accumulate
from toughen.combine.free_replay import FreeReplay
from toughen.combine.sharpness import SharpnessAware
from toughen.combine.single_pass import Add, Average, PerturbedOnly
from toughen.compare import Divergence, TaskLoss
from toughen.compare.ema_teacher import EmaTeacher
from toughen.errors import MethodError, RobustnessWarning, SiteError, StepError, nearest, require
from toughen.search import Ascent, Ball, Noise, Normal, PowerIteration, SharpnessAscent, Uniform, Zeros, no_perturbation
from toughen.sites import Hidden, NormalizedEmbedding, NoSite, SecondDropoutMask, Weights, WordEmbedding

from .families.test_families import METHODS, attached_to, step, traces
from .families.test_heads import HEADS, model_of
from .families.zoo import FAMILIES, batch_for, classifier, text
from .tiny import LETTERS, make

BATCH = batch_for(FAMILIES["bert"])
UNLABELLED = {key: value for key, value in BATCH.items() if key != "labels"}


def bert(**settings: Any) -> nn.Module:
    return FAMILIES["bert"].build(**settings)


class Bare(nn.Module):
    """A model with nothing a site could look for."""

    def __init__(self) -> None:
        super().__init__()
        self.words = nn.Embedding(64, 8)
        self.head = nn.Linear(8, 3)

    def forward(self, input_ids: Tensor, labels: Tensor, **_: Any) -> tuple[Tensor, Tensor]:
        logits = self.head(self.words(input_ids).mean(1))
        return nn.functional.cross_entropy(logits, labels), logits


# Settings ---------------------------------------------------------------------------------------------------------

BAD_SETTINGS = [
    ("smart", {"step_size": 0.0}, "step_size=0.0: it must be above 0"),
    ("smart", {"step_size": -1e-3}, "step_size=-0.001: it must be above 0"),
    ("smart", {"step_size": float("nan")}, "step_size=nan: it must be above 0"),
    ("smart", {"max_norm": -1.0}, "max_norm=-1.0: it cannot be negative"),
    ("smart", {"weight": -1.0}, "weight=-1.0: it cannot be negative"),
    ("smart", {"steps": 0}, "steps=0: at least one is needed"),
    ("smart", {"init_scale": -1.0}, "init_scale=-1.0: it cannot be negative"),
    ("smart", {"init_scale": 0.0}, "starts from zero never moves. Start from noise: init_scale above 0"),
    ("alum", {"init_scale": 0.0}, "Start from noise"),
    ("sift", {"init_scale": 0.0}, "Start from noise"),
    ("alum", {"steps": 0}, "steps=0"),
    ("sift", {"max_norm": -0.1}, "max_norm=-0.1"),
    ("freelb", {"steps": 0}, "steps=0: at least one is needed"),
    ("freelb", {"norm": "l3"}, "norm='l3' is not known. Choose 'l2' or 'linf'"),
    ("freelb", {"steps": 1.5}, "steps=1.5: it must be a whole number"),
    ("smart", {"weight": "big"}, "weight='big': it must be a number"),
    ("freeat", {"steps": 0}, "steps=0"),
    ("pgd", {"max_norm": -1.0}, "max_norm=-1.0"),
    ("fgm", {"step_size": 0.0}, "step_size=0.0"),
    ("creat", {"temperature": -1.0}, "temperature=-1.0"),
    ("vat", {"probe": 0.0}, "probe=0.0: it must be above 0"),
    ("vat", {"max_norm": 0.0}, "radius and probe must be above 0"),
    ("r3f", {"init_scale": -1.0}, "init_scale=-1.0"),
    ("rdrop", {"weight": -1.0}, "weight=-1.0: it cannot be negative"),
    ("bregman", {"weight": -1.0}, "weight=-1.0.*cannot be negative"),
    ("bregman", {"decay": 1.5}, "decays lie between 0 and 1"),
    ("sam", {"rho": 0.0}, "rho=0.0: it must be above 0"),
    ("sam", {"rho": float("nan")}, "rho=nan: it must be above 0"),
    ("asam", {"rho": -1.0}, "rho=-1.0: it must be above 0"),
    ("awp", {"max_norm": 0.0}, "both must be above 0"),
    ("neftune", {"alpha": -1.0}, "cannot be negative"),
    ("smart", {"dropout": "none"}, "dropout='none' is not known. Choose 'shared', 'fresh' or 'off'"),
]


@pytest.mark.parametrize(("name", "settings", "message"), BAD_SETTINGS)
def test_sizes_that_cannot_be_are_refused(name: str, settings: dict[str, Any], message: str) -> None:
    with pytest.raises(MethodError, match=message):
        toughen.create_method(name, **settings)


BAD_PARTS = [
    (lambda: Ball(0.0), "Ball.*above 0. Use NoProjection"),
    (lambda: Ball(-1.0), "Ball.*above 0"),
    (lambda: Ascent(0.0), "a step must be above 0; for noise alone use Noise"),
    (lambda: Ascent(0.1, steps=-1), "steps cannot be negative"),
    (lambda: Normal(-1.0), "cannot be negative; 0 starts from zero"),
    (lambda: Uniform(float("nan")), "cannot be negative"),
    (lambda: PowerIteration(1.0, 0.1, steps=0), "at least one step is needed"),
    (lambda: Add(-1.0), "weight cannot be negative"),
    (lambda: Average(1.5), "between 0 and 1"),
    (lambda: Accumulate(0), "at least one pass"),
    (lambda: FreeReplay(0), "at least one pass"),
    (lambda: EmaTeacher(decay=-0.1), "between 0 and 1"),
    (lambda: Divergence("symetric_kl"), "'symetric_kl' is not known. Did you mean 'symmetric_kl'"),
    (lambda: Divergence(detach="target"), "Did you mean 'targets'"),
    (lambda: Divergence(reduction="none"), "'none' is not known. Known: mean, sum"),
    (lambda: WordEmbedding(skip=("pading",)), "'pading' is not known. Choose 'padding', 'special' or a token's id"),
    (lambda: Hidden(0, skip="padding"), r"must be a tuple, e.g. skip=\('padding',\)"),
    (lambda: NormalizedEmbedding(skip=("cls",)), "'cls' is not known"),
]


@pytest.mark.parametrize(("make", "message"), BAD_PARTS)
def test_parts_refuse_what_cannot_be(make: Any, message: str) -> None:
    with pytest.raises(MethodError, match=message):
        make()


# Compositions -----------------------------------------------------------------------------------------------------

BAD_METHODS = [
    (
        lambda: Method(WordEmbedding(), Ascent(0.1, 2), Divergence(), Accumulate(3)),
        r"Accumulate makes no clean pass, but Divergence.*Use compare=TaskLoss\(\) \(FreeLB\), or combine=Add",
    ),
    (lambda: Method(WordEmbedding(), Ascent(0.1, 2), Divergence(), FreeReplay(3)), "Replay makes no clean pass"),
    (
        lambda: Method(WordEmbedding(), Ascent(0.1, 3), TaskLoss(), Accumulate(3)),
        "steps between its passes: the search must have steps=2, not 3",
    ),
    (
        lambda: Method(NoSite(), Ascent(0.1), TaskLoss(), PerturbedOnly()),
        r"no perturbation to search for.*Noise\(Zeros\(\)\)",
    ),
    (
        lambda: Method(SecondDropoutMask(), Ascent(0.1), TaskLoss(), Add(), dropout="fresh"),
        "no perturbation to search for",
    ),
    (lambda: Method(SecondDropoutMask(), no_perturbation(), Divergence(), Add()), "compares two masks.*Use 'fresh'"),
    (
        lambda: Method(WordEmbedding(), Noise(Normal(0.1)), Divergence(), Add(), search_objective=TaskLoss()),
        "this search makes no step. Leave it out, or use Ascent",
    ),
    (
        lambda: Method(WordEmbedding(), SharpnessAscent(0.1), TaskLoss(), SharpnessAware()),
        r"site=Weights\(\) and combine=SharpnessAware\(\) go together; here are site=WordEmbedding and "
        "combine=SharpnessAware",
    ),
    (
        lambda: Method(Weights(), SharpnessAscent(0.1), TaskLoss(), Add()),
        "go together; here are site=Weights and combine=Add",
    ),
    (
        lambda: Method(WordEmbedding(), Ascent(0.1, init=Zeros()), Divergence(), Add()),
        "flat where there is no perturbation.*Start from noise",
    ),
    (
        lambda: toughen.pgd() + toughen.smart() + toughen.freelb(),
        r"one method with backward passes of its own, and PerturbedOnly and Accumulate have them: leave one out\. The "
        r"others must add a term to the clean loss \(combine=Add\), as smart",
    ),
    (lambda: toughen.sam() + toughen.smart(), "SharpnessAware goes over a whole update.*: use it alone"),
    (lambda: toughen.freeat() + toughen.smart(), "Replay goes over a whole update"),
    (lambda: toughen.create_method("smart+pgd+freelb"), "of its own, and pgd and freelb have them: leave one out"),
    (lambda: toughen.create_method("smart+sam"), "^sam goes over a whole update again.*: use it alone"),
    (lambda: toughen.smart(dropout="off") + toughen.bregman(), "dropout is off for all methods or for none"),
]


@pytest.mark.parametrize(("make", "message"), BAD_METHODS)
def test_parts_that_do_not_fit_are_refused_at_construction(make: Any, message: str) -> None:
    with pytest.raises(MethodError, match=message):
        make()


def test_another_dropout_mask_is_a_start_of_its_own() -> None:
    """Under fresh dropout the divergence is not flat at the clean point, so a search may start there."""
    model = bert(dropout=0.1)
    with attached_to(model, toughen.smart(init_scale=0.0, dropout="fresh")) as attached:
        step(attached, model, BATCH)
        assert attached.report()["delta_norm"] > 0


# Names ------------------------------------------------------------------------------------------------------------


def test_an_unknown_method_is_answered_with_the_nearest_names() -> None:
    with pytest.raises(MethodError, match=r"no method 'smrt'. Did you mean 'smart'"):
        toughen.create_method("smrt")
    with pytest.raises(MethodError, match=r"no method 'xyzzy'. Known: alum, .*vat"):
        toughen.create_method("xyzzy")
    with pytest.raises(AttributeError, match=r"no attribute 'smrt'"):
        toughen.smrt


@pytest.mark.parametrize("name", ["smart", "sift", "freelb", "fgm", "pgd", "vat", "r3f", "r4f", "creat"])
def test_an_unknown_preset_is_answered_with_the_nearest_names(name: str) -> None:
    with pytest.raises(MethodError, match=r"no preset 'recomended'. Did you mean 'recommended'"):
        toughen.create_method(name, preset="recomended")
    with pytest.raises(MethodError, match=r"no preset 'zzz'. Known: .*recommended"):
        toughen.create_method(name, preset="zzz")


def test_settings_of_a_sum_are_refused() -> None:
    assert isinstance(toughen.create_method("smart + bregman"), Sum)
    with pytest.raises(MethodError, match=r"create_method\('smart\+bregman', smart="):
        toughen.create_method("smart+bregman", weight=2.0)


def test_a_missing_package_is_named_with_its_extra() -> None:
    with pytest.raises(ImportError, match=re.escape('pip install "toughen[plot]"')):
        require("no_such_package_anywhere", "plot")


# Models -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("site", "family", "message"),
    [
        (NormalizedEmbedding(), "gpt2", r"has 0\. Use toughen.smart\(\).*NormalizedEmbedding\(path='...'\)"),
        (NormalizedEmbedding(path="bert.nope"), "bert", "has no module 'bert.nope'. Did you mean"),
        (
            Hidden("bert.encoder.layers.0"),
            "bert",
            "no module 'bert.encoder.layers.0'. Did you mean 'bert.encoder.layer.0'",
        ),
        (Hidden("dense"), "bert", "has several modules 'dense': .*Give a full path"),
        (Hidden(2), "bert", "has layers 0 to 1, and no layer 2"),
        (Hidden(-3), "bert", "has layers 0 to 1, and no layer -3"),
    ],
)
def test_a_model_without_the_place_is_refused_and_left_alone(site: Any, family: str, message: str) -> None:
    model = classifier(family)
    found = traces(model)
    with pytest.raises(SiteError, match=message), attached_to(model, replace(toughen.smart(), site=site)):
        pass
    assert traces(model) == found


def test_a_bare_model_is_told_what_it_lacks() -> None:
    model = Bare()
    with pytest.raises(SiteError, match=r"no get_input_embeddings\(\).*smart\(site='path.to.the.embedding'\)"):
        toughen.smart().attach(model)
    with pytest.raises(SiteError, match=r"no list of layers. Name one: site="):
        toughen.alum().attach(model)
    for method in (toughen.smart(site="words"), toughen.alum(site="words")):  # the way out
        with method.attach(model) as attached:
            attached.backward(model, BATCH)
            assert attached.report()["delta_norm"] > 0


@pytest.mark.parametrize("thing", ["bert-base-uncased", object()])
@pytest.mark.parametrize("method", [toughen.smart(), toughen.smart() + toughen.rdrop()])
def test_what_is_no_model_is_refused(thing: Any, method: Any) -> None:
    with pytest.raises(MethodError, match=f"nn.Module, got {type(thing).__name__}"):
        method.attach(thing)


def test_an_update_of_no_micro_batches() -> None:
    model = bert()
    with attached_to(model, toughen.smart()) as attached, pytest.raises(MethodError, match="accumulate=0"):
        attached.backward(model, BATCH, accumulate=0)


def test_what_is_no_method_is_not_added() -> None:
    with pytest.raises(TypeError, match="unsupported operand"):
        toughen.smart() + 1  # pyright: ignore[reportOperatorIssue]


@pytest.mark.parametrize("training", [True, False])
def test_two_masks_need_a_model_in_training(training: bool) -> None:
    model = bert().train(training)
    with toughen.rdrop().attach(model) as attached, warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        attached.backward(model, BATCH)
    assert any("eval mode" in str(each.message) for each in told) is not training


def test_a_head_that_is_not_there() -> None:
    class Headless(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.words = nn.Embedding(64, 8)

    method = replace(toughen.r4f(), site=Hidden("words"))
    model = Headless()
    with method.attach(model) as attached:
        for _ in range(2):
            with pytest.raises(SiteError, match=r"no linear head outside its backbone"):
                attached.backward(model, BATCH)


def test_a_second_method_on_a_model_is_refused_and_the_first_stays() -> None:
    model = bert(dropout=0.0)
    with attached_to(model, toughen.smart()) as attached:
        with pytest.raises(MethodError, match=r"already has a method attached. Detach it first.*\(a \+ b\).attach"):
            toughen.r3f().attach(model)
        assert torch.isfinite(step(attached, model, BATCH))
    with attached_to(model, toughen.r3f()):
        pass


def test_a_method_that_nobody_holds_gives_way() -> None:
    model = bert(dropout=0.0)
    found = traces(model)
    lost = toughen.smart().attach(model)
    copied = deepcopy(model)
    del lost
    gc.collect()
    with attached_to(model, toughen.r3f()) as attached:
        assert torch.isfinite(step(attached, model, BATCH))
    assert traces(model) == found
    with pytest.raises(MethodError, match="Copy a model after its detach"):
        toughen.r3f().attach(copied)


def test_a_second_detach_takes_nothing_from_the_method_that_came_after() -> None:
    model = bert(dropout=0.0)
    first = toughen.smart().attach(model)
    first.detach()
    with attached_to(model, toughen.r3f()):
        first.detach()
        with pytest.raises(MethodError, match=r"already has a method attached"):
            toughen.smart().attach(model)


def test_a_failed_attach_of_a_sum_takes_back_its_first_half() -> None:
    model = classifier("bert")
    found = traces(model)
    with pytest.raises(SiteError), attached_to(model, toughen.smart() + replace(toughen.smart(), site=Hidden("nope"))):
        pass
    assert traces(model) == found


# Steps ------------------------------------------------------------------------------------------------------------

HOOKED = ["smart", "freelb", "fgm", "pgd", "vat", "r3f", "creat", "neftune", "freeat"]


@pytest.mark.parametrize("name", HOOKED)
def test_a_site_the_forward_never_reaches(name: str) -> None:
    model = bert(dropout=0.0)
    embedded = model.bert.embeddings.word_embeddings(BATCH["input_ids"]).detach()
    batch = {"inputs_embeds": embedded, "attention_mask": BATCH["attention_mask"], "labels": BATCH["labels"]}
    with attached_to(model, make(name)) as attached:
        with pytest.raises(
            SiteError, match=r"WordEmbedding.*never reached it. Did you pass inputs_embeds, or run another"
        ):
            step(attached, model, batch)
        assert torch.isfinite(step(attached, model, BATCH))


def test_another_model_than_the_attached_one() -> None:
    model, other = bert(), bert()
    with attached_to(model, toughen.smart()) as attached, pytest.raises(SiteError, match=r"another model"):
        step(attached, other, BATCH)


@pytest.mark.parametrize("name", ["smart", "rdrop", "sam", "asa"])
def test_a_method_that_was_detached_says_so(name: str) -> None:
    """Those without a hook would go on, and the others blame the batch."""
    model = bert()
    attached = make(name).attach(model)
    attached.detach()
    with pytest.raises(MethodError, match=r"was detached.*attached\.attach\(\)"):
        attached.backward(model, BATCH)
    attached.attach()
    assert torch.isfinite(attached.backward(model, BATCH))
    attached.detach()


@pytest.mark.parametrize("name", METHODS)
def test_a_batch_without_labels_is_refused_and_the_next_one_is_not(name: str) -> None:
    model = bert(dropout=0.0)
    with attached_to(model, make(name)) as attached:
        if name == "vat":  # needs none
            assert torch.isfinite(step(attached, model, UNLABELLED))
            return
        with pytest.raises(StepError, match=r"has no labels.*Add 'labels' to the batch, or use toughen.vat\(\)"):
            step(attached, model, UNLABELLED)
        model.zero_grad(set_to_none=True)
        first = step(attached, model, BATCH)
    fresh = bert(dropout=0.0)
    if name in ("plain", "fgm", "sam", "asam", "awp", "rdrop"):  # without noise the failed step leaves no mark at all
        with attached_to(fresh, make(name)) as attached:
            assert torch.equal(first, step(attached, fresh, BATCH))


def test_a_loss_that_was_not_back_propagated() -> None:
    model = bert()
    with attached_to(model, toughen.freelb()) as attached:
        losses = attached.losses(lambda _: model(**BATCH), BATCH)
        next(losses)
        with pytest.raises(StepError, match=r"not back-propagated before the next one was asked for"):
            next(losses)
    with attached_to(model, toughen.sam()) as attached:
        losses = attached.losses(lambda _: model(**BATCH), BATCH)
        next(losses)
        with pytest.raises(StepError, match=r"matches no weight.*not back-propagated"):
            next(losses)


def test_weights_by_a_name_that_no_weight_has() -> None:
    model = classifier("vit")
    with attached_to(model, toughen.fgm("matrix")) as attached, pytest.raises(StepError, match=r"no name contains"):
        step(attached, model, batch_for(FAMILIES["vit"]))


def test_freeat_without_an_optimizer_step() -> None:
    model = bert()
    with (
        attached_to(model, toughen.freeat()) as attached,
        pytest.raises(MethodError, match=r"Give it the update as step="),
    ):
        attached.backward(model, BATCH)


def test_a_teacher_without_the_number_of_updates() -> None:
    model = bert()
    with toughen.bregman().attach(model) as attached:
        attached.backward(model, BATCH)
        for _ in range(2):  # and not only once
            with pytest.raises(MethodError, match=r"Give it: .*total_steps=...\), or set switch_at"):
                attached.backward(model, BATCH)
    with toughen.bregman(switch_at=2).attach(model) as attached:
        for _ in range(3):
            attached.backward(model, BATCH)


@pytest.mark.parametrize("name", ["sam", "asam", "awp", "freelb", "smart"])
def test_an_error_in_backward_gives_the_weights_back(name: str) -> None:
    model = bert()
    before = {key: value.clone() for key, value in model.state_dict().items()}
    calls: list[int] = []

    def failing(loss: Tensor) -> None:
        calls.append(1)
        if len(calls) == toughen_passes:
            raise MemoryError("no memory left")
        loss.backward()

    method = make(name, dropout="off")
    with attached_to(model, method) as attached:
        toughen_passes = len(attached.backward_passes())
        with pytest.raises(MemoryError) as caught:
            attached.backward(model, BATCH, backward=failing)
        assert caught.traceback  # its frames still hold the step; the weights are back all the same
        assert all(torch.equal(value, before[key]) for key, value in model.state_dict().items())
        assert all(module.training for module in model.modules())
        model.zero_grad(set_to_none=True)
        left = attached.losses(lambda _: model(**BATCH), BATCH)
        next(left)  # a loop that ends here
        attached.detach()
        assert all(module.training for module in model.modules())
        left.close()
        attached.attach()
        assert torch.isfinite(attached.backward(model, BATCH))


def test_a_failed_micro_batch_is_not_gone_over_again() -> None:
    """SAM's second round is over the micro-batches that were whole."""
    model, reference = bert(), bert()
    broken = {**BATCH, "labels": torch.full_like(BATCH["labels"], 99)}  # outside the classes
    for target, batches in ((model, [broken, BATCH, BATCH]), (reference, [BATCH, BATCH])):
        with attached_to(target, toughen.sam()) as attached:
            for number, batch in enumerate(batches):
                try:
                    attached.backward(target, batch, accumulate=2, last=number == len(batches) - 1)
                except (IndexError, RuntimeError):
                    assert batch is broken
    for ours, theirs in zip(model.parameters(), reference.parameters(), strict=True):
        assert (ours.grad is None) == (theirs.grad is None)
        if ours.grad is not None and theirs.grad is not None:
            torch.testing.assert_close(ours.grad, theirs.grad)


class Pair(nn.Module):
    """A model that reads two inputs by one encoder in a call of its own."""

    def __init__(self) -> None:
        super().__init__()
        self.inner = bert()
        self.config = self.inner.config

    def get_input_embeddings(self) -> Any:
        return self.inner.get_input_embeddings()

    def forward(self, second: Tensor, **batch: Tensor) -> Any:
        mask = torch.ones_like(second)
        self.inner(input_ids=second, attention_mask=mask)
        return self.inner(**batch)


def test_inputs_of_two_shapes_in_one_call() -> None:
    model = Pair()
    with (
        attached_to(model, toughen.smart()) as attached,
        pytest.raises(SiteError, match=r"inputs of two shapes in one call.*Pad both to one length"),
    ):
        attached.backward(model, {**BATCH, "second": BATCH["input_ids"][:, :5]})


@pytest.mark.parametrize("name", ["smart", "freelb"])
def test_inputs_of_one_shape_in_one_call(name: str) -> None:
    """They would share a perturbation; the same input once more has a right to it."""
    model = Pair()
    with attached_to(model, make(name)) as attached, warnings.catch_warnings():
        warnings.simplefilter("error", RobustnessWarning)
        attached.backward(model, {**BATCH, "second": BATCH["input_ids"]})
        with pytest.raises(RobustnessWarning, match=r"several inputs in one call.* Run them as one batch"):
            attached.backward(model, {**BATCH, "second": BATCH["input_ids"].flip(0)})


def test_layers_that_are_checkpointed_without_gradients() -> None:
    model = bert()
    model.gradient_checkpointing_enable({"use_reentrant": True})  # type: ignore[operator]
    with (
        attached_to(model, toughen.alum()) as attached,
        pytest.raises(StepError, match=r"No gradient came back.*'use_reentrant': False"),
    ):
        attached.backward(model, BATCH)


def test_an_output_that_is_none() -> None:
    model = bert()
    with attached_to(model, toughen.smart()) as attached:
        losses = attached.losses(lambda _: torch.zeros(3), BATCH)
        with pytest.raises(TypeError, match=r"Cannot read a Tensor as a model output: return a ModelOutput, a mapping"):
            next(losses)


def test_an_output_without_predictions() -> None:
    model = bert()
    with attached_to(model, toughen.smart()) as attached:
        losses = attached.losses(lambda _: {"loss": torch.zeros(()), "prediction_logits": torch.zeros(3, 2)}, BATCH)
        with pytest.raises(StepError, match=r"no 'logits', only loss, prediction_logits\. .* one head"):
            next(losses)


def test_hidden_states_that_are_not_there() -> None:
    model = Bare()
    method = replace(toughen.creat(), site=Hidden("words"))
    model.base_model = nn.Identity()  # type: ignore[assignment]
    model.forward = lambda **batch: model.base_model({"logits": torch.zeros(1)})  # type: ignore[method-assign]
    with (
        method.attach(model) as attached,
        pytest.raises(SiteError, match=r"gives a dict without any.*last_hidden_state"),
    ):
        attached.backward(model, BATCH)


# Warnings ---------------------------------------------------------------------------------------------------------


def warned(method: Any, model: nn.Module, *args: Any) -> list[str]:
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        method.attach(model, *args).detach()
    return [str(w.message) for w in caught if issubclass(w.category, RobustnessWarning)]


def test_rdrop_without_dropout() -> None:
    (message,) = warned(toughen.rdrop(), bert(dropout=0.0))
    assert "has no dropout" in message
    assert "Set a dropout rate in the config, or use toughen.r3f()" in message
    assert warned(toughen.rdrop(), bert(dropout=0.1)) == []
    assert warned(toughen.rdrop(), FAMILIES["llama"].build(dropout=0.1)) == []  # a functional dropout
    assert len(warned(toughen.rdrop(), FAMILIES["llama"].build(dropout=0.0))) == 1


@pytest.mark.parametrize("method", [toughen.smart("paper"), toughen.smart("smart-pytorch"), toughen.r3f("paper")])
def test_noise_below_what_half_precision_can_hold(method: Any) -> None:
    (message,) = warned(method, bert().bfloat16())
    assert "1e-05 is lost in a bfloat16 embedding" in message
    assert "dtype=torch.float32" in message
    assert warned(method, bert()) == []


@pytest.mark.parametrize("name", METHODS)
def test_recommended_settings_hold_in_half_precision(name: str) -> None:
    assert warned(make(name), bert().bfloat16(), LETTERS) == []


def test_batch_norm_in_several_passes() -> None:
    model = bert()
    model.classifier = nn.Sequential(nn.BatchNorm1d(32), nn.Linear(32, 3))
    (message,) = warned(toughen.smart(), model)
    assert "BatchNorm" in message
    assert "eval mode, or replace it by LayerNorm" in message
    assert warned(toughen.plain(), model) == []


def test_special_tokens_that_nobody_names() -> None:
    class Tokenizer:
        all_special_ids = (0, 1, 2)

    model = bert()
    assert warned(toughen.smart(), model) == []
    model.config.bos_token_id = model.config.eos_token_id = None
    (message,) = warned(toughen.smart(), model)
    assert "method.attach(model, tokenizer), or a 'special_tokens_mask' in the batch" in message
    assert warned(toughen.smart(), model, Tokenizer()) == []
    assert warned(toughen.smart(preset="paper"), model) == []  # it perturbs every position anyway


def test_a_special_tokens_mask_in_the_batch_is_heeded() -> None:
    model = bert(dropout=0.0)
    flags = torch.zeros_like(BATCH["input_ids"])
    flags[:, 2] = 1
    with attached_to(model, toughen.smart()) as attached:
        losses = attached.losses(lambda _: model(**BATCH), BATCH | {"special_tokens_mask": flags})
        next(losses)
        (delta,) = attached.last_batches[0].perturbation.deltas
    moved = delta.abs().amax(-1) > 0
    assert torch.equal(moved, (BATCH["attention_mask"] == 1) & (flags == 0))


def test_heads_without_labels_are_refused_too() -> None:
    for head in ("span", "tokens", "choices", "causal-lm"):
        model, batch = model_of(head), HEADS[head].batch()
        batch = {key: value for key, value in batch.items() if key in text()}
        with attached_to(model, toughen.freelb()) as attached, pytest.raises(StepError, match=r"has no labels"):
            step(attached, model, batch)


@pytest.mark.parametrize("trainable", [False, True])
def test_a_model_that_cannot_learn_is_told_of_once(trainable: bool) -> None:
    """FreeLB's losses have the perturbation's gradient, so that nothing else would fail."""
    model = bert().requires_grad_(False)
    model.classifier.requires_grad_(trainable)
    attached = toughen.freelb().attach(model)
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        for _ in range(2):
            attached.backward(model, BATCH)
    assert [str(each.message).startswith("BertForSeq") for each in told] == ([] if trainable else [True])
    assert trainable or "no trainable weight" in str(told[0].message)


@pytest.mark.parametrize(
    ("dtype", "trainable", "told_of"),
    [
        (torch.float32, True, ""),
        (torch.float16, True, "are in float16"),
        (torch.bfloat16, True, "are in bfloat16"),
        (torch.bfloat16, False, ""),  # adapters on a body in half precision have weights of their own
    ],
)
def test_weights_in_half_precision_are_told_of_once(dtype: torch.dtype, trainable: bool, told_of: str) -> None:
    """`from_pretrained` takes the file's dtype: in float16 most of VAT's perturbations were nothing, unnoticed."""
    model = bert().to(dtype).requires_grad_(trainable)
    model.classifier.float().requires_grad_()
    model.classifier.register_forward_pre_hook(lambda _, inputs: (inputs[0].float(),))
    attached = toughen.vat().attach(model)
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        for _ in range(2):
            attached.backward(model, BATCH)
    assert len(told) == bool(told_of)
    assert not told_of or (told_of in str(told[0].message) and "dtype=torch.float32" in str(told[0].message))


@pytest.mark.parametrize(
    ("training", "rate", "dropout", "told_of"),
    [
        (False, 0.1, "shared", True),
        (True, 0.1, "shared", False),
        (False, 0.0, "shared", False),
        (False, 0.1, "off", False),  # asked for
    ],
)
def test_a_model_in_eval_mode_is_told_of_once(training: bool, rate: float, dropout: Any, told_of: bool) -> None:
    """As `from_pretrained` gives it."""
    model = bert(dropout=rate).train(training)
    attached = toughen.smart(dropout=dropout).attach(model)
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        for _ in range(2):
            attached.backward(model, BATCH)
    said = [str(each.message) for each in told]
    assert ["eval mode, so its dropout is off: call model.train() first" in each for each in said] == [True] * told_of


def test_special_tokens_of_a_processor_are_its_tokenizers() -> None:
    from types import SimpleNamespace

    from toughen.engine.validation import special_ids

    from .tiny import TOKENIZER

    told = special_ids(bert(), SimpleNamespace(tokenizer=TOKENIZER))
    assert told is not None
    assert told.tolist() == sorted(set(TOKENIZER.all_special_ids))


def test_what_is_no_tokenizer_does_not_say_which_tokens_are_special() -> None:
    model = bert()
    model.config.bos_token_id = model.config.eos_token_id = None  # as BERT's own config has it
    with pytest.warns(RobustnessWarning, match=r"Special tokens.*method\.attach\(model, tokenizer\)"):
        toughen.smart().attach(model, "bert-base-uncased").detach()


def test_of_many_names_the_nearest_are_said():
    names = [f"{group}/{number}" for group in ("freelb", "sift") for number in range(40)]
    assert len(nearest("foo", names)) < 60
    assert "sift/" in nearest("sift", names)
    assert nearest("x", ["a", "b"]) == "Known: a, b."
