"""The embedding attack against a plain loop with inputs_embeds, and its laws, on every head."""

import math
from itertools import pairwise

import numpy as np
import pytest
import torch
from transformers import AutoConfig, AutoModelForMultipleChoice, AutoModelForTokenClassification

from toughen.attacks.builtin.embedding import EmbeddingAttack
from toughen.attacks.perturbed_model import AttackObjective, EmbeddingPGD, PerturbedModel, attach_perturbation
from toughen.attacks.target import as_answers, predict
from toughen.evaluation import AttackSettings, Target, Victim, make_attacks, run_attack
from toughen.search import Noise
from toughen.tasks import answers_of, metrics
from toughen.tasks.spec import DataError, Task

from ..tiny import NO_DROPOUT, SMALL, TOKENIZER, bert
from .little_target import TASK, sentences, target

RADII = (0.02, 0.05, 0.1, 0.3)


def curve(victims, radii=RADII, **changes):
    return run_attack(EmbeddingAttack(radii, **changes), victims)


def test_radius_nothing_is_the_clean_score_and_more_radius_is_never_better():
    victims = target(30)
    found = curve(victims, radii=(*reversed(RADII), 0.0))
    points = found.summary.curve.points
    assert [point.x for point in points] == [0.0, *RADII]
    assert points[0].score.value == metrics(victims.task)(victims.logits, victims.labels)["accuracy"]
    assert {points[0].noise.value, points[0].fgsm.value} == {points[0].score.value}
    for one, two in pairwise(points):
        assert one.score.value >= two.score.value
        assert one.fgsm.value >= two.fgsm.value
        assert two.score.value <= two.fgsm.value
    assert any(point.score.value < point.fgsm.value for point in points)
    assert points[-1].score.value < points[0].score.value - 0.3
    assert points[-1].noise.value > points[-1].score.value + 0.2  # adversarial, and not merely noisy
    assert found.score == points[-1].score.value < points[0].score.value
    rows = [found.outcomes[f"radius {x:g}"].rows for x in (0.0, *RADII)]
    for one, two in pairwise(rows):
        assert all(was or not now for was, now in zip(one, two, strict=True))


def naive(net, text, label, radius, steps):
    """By how much a wrong answer leads at most on the way of projected ascent. One text, no engine."""
    ids = TOKENIZER(text, return_tensors="pt")["input_ids"]
    embedded = net.get_input_embeddings()(ids).detach()
    real = torch.ones(ids.shape[1], 1)
    real[0], real[-1] = 0, 0
    limit = radius * (embedded * real).norm()
    delta = torch.zeros_like(embedded)
    leads = []
    for _ in range(steps + 1):
        delta.requires_grad_()
        logits = net(inputs_embeds=embedded + delta).logits[0]
        others = torch.cat([logits[:label], logits[label + 1 :]])
        leads.append(float((others.max() - logits[label]).detach()))
        (slope,) = torch.autograd.grad(others.logsumexp(0) - logits[label], delta)
        slope = slope * real
        delta = (delta + 2.5 * limit / steps * slope / slope.norm()).detach()
        delta = delta * min(1.0, float(limit / delta.norm()))
    return max(leads)


def test_it_breaks_what_a_plain_loop_breaks():
    victims = target(20)
    found = curve(victims, radii=(0.05,), steps=4)
    broken = [not right for right in found.outcomes["radius 0.05"].rows]
    net = victims.victim.model
    once, theirs = (  # a step of 2.5 radii, cut: FGSM
        [naive(net, row["text"], row["label"], 0.05, steps) > 0 for row in victims.rows] for steps in (1, 4)
    )
    assert broken == [one or two for one, two in zip(theirs, once, strict=True)]
    assert 4 < sum(theirs) < 20


@pytest.fixture
def climbers():
    """Six texts on their way up, all right so far, and what they are."""
    victims = target(6)
    rows = [{**row, "label": int(one.argmax())} for row, one in zip(victims.rows, victims.logits, strict=True)]
    ((places, batch),) = victims.victim.batches(rows)
    rows = [rows[place] for place in places]
    with attach_perturbation(victims.victim) as model:
        labels = torch.tensor([row["label"] for row in rows])
        pgd = EmbeddingPGD(model, AttackObjective(TASK), batch, labels)
        pgd.reset(torch.from_numpy(victims.logits[places]))
        yield pgd, rows, victims.victim.model


def test_it_climbs_as_high_as_a_plain_loop(climbers):
    pgd, rows, net = climbers
    pgd.pgd(0.01, 4)
    heights = [naive(net, row["text"], row["label"], 0.01, 4) for row in rows]
    assert pgd.worst_value.tolist() == pytest.approx(heights, abs=1e-4)
    assert pgd.worst_value.tolist() == pytest.approx(
        AttackObjective(TASK).margin(pgd.worst_logits, pgd.labels).tolist()
    )


def test_one_step_counts_for_many_and_for_every_larger_ball(climbers):
    pgd, *_ = climbers
    before = pgd.worst_value.clone()
    pgd.fgsm(0.02)
    assert (pgd.worst_value > before).all()
    assert torch.equal(pgd.worst_value, pgd.fgsm_value)
    assert torch.equal(pgd.worst_logits, pgd.fgsm_logits)
    kept = pgd.fgsm_logits.clone()
    pgd.fgsm(1e-6)  # nothing against the step before
    assert torch.equal(pgd.fgsm_logits, kept)


def test_choices_of_an_example_have_noise_of_their_own(climbers):
    pgd, *_ = climbers
    pgd.sample_direction(["one", "two"])  # three texts each
    for one, two in pairwise(pgd.direction[:3].flatten(1)):
        assert abs(float(torch.cosine_similarity(one, two, dim=0))) < 0.5


def test_an_example_that_goes_on_alone_keeps_its_own_choices(climbers):
    pgd, *_ = climbers
    pgd.worst_value = pgd.worst_value[:3]  # as of three examples with two texts each
    some = pgd.select(torch.tensor([0, 2]))
    assert torch.equal(some.gradient, pgd.gradient[[0, 1, 4, 5]])
    assert torch.equal(some.view.value, pgd.view.value[[0, 1, 4, 5]])


def test_what_was_wrong_before_stays_wrong():
    """Rounding in another batch must not mend an answer: the clean one counts as it was told."""
    own = target(4)
    logits = own.logits.copy()
    logits[1, own.labels[1]] = -99
    found = curve(Target(own.victim, own.rows, logits, own.labels, samples=20), radii=(1e-6,), steps=1)
    assert found.outcomes["radius 1e-06"].rows == [True, False, True, True]


def test_noise_has_exactly_the_length_and_leaves_padding_and_special_tokens_alone(monkeypatch):
    victims = target(8)
    seen = []
    logits = PerturbedModel.logits

    def watching(self, batch, perturbation, search):
        told = logits(self, batch, perturbation, search)
        seen.append((batch, perturbation, search))
        return told

    monkeypatch.setattr(PerturbedModel, "logits", watching)
    curve(victims, radii=(0.1, 0.2), steps=2)
    for batch, perturbation, search in seen:
        (delta,) = perturbation.deltas
        free = (batch["input_ids"] > 4).unsqueeze(-1)  # the five special tokens come first, padding among them
        assert (~free).any()
        assert (delta * ~free).abs().max() == 0
        length = delta.flatten(1).norm(dim=1) / (perturbation.views[0].value * free).flatten(1).norm(dim=1)
        assert length.max() <= 0.2 + 1e-6
        if isinstance(search, Noise):
            assert length.min() == pytest.approx(length.max().item(), rel=1e-4)
    (small,), (large,) = (p.deltas for _, p, search in seen if isinstance(search, Noise))
    torch.testing.assert_close(2 * small, large)  # one direction at every radius
    assert (batch["attention_mask"] == 0).any()


def test_noise_depends_on_seed_and_example_alone():
    one, two = (
        curve(target(20, batch_size=size), radii=(0.5,), steps=1).outcomes["noise of radius 0.5"] for size in (3, 20)
    )
    assert one == two
    other = curve(target(20), radii=(0.5,), steps=1, seed=1).outcomes["noise of radius 0.5"]
    assert one != other


def test_the_model_is_as_it_was():
    victims = target(6)
    net = victims.victim.model
    before = {name: value.clone() for name, value in net.state_dict().items()}
    curve(victims, radii=(0.1,), steps=2)
    assert all(torch.equal(before[name], value) for name, value in net.state_dict().items())
    assert all(parameter.grad is None for parameter in net.parameters())
    assert not net.get_input_embeddings()._forward_hooks
    np.testing.assert_array_equal(victims.victim.exact(victims.rows), victims.logits)


def test_between_two_passes_there_is_no_perturbation(climbers):
    pgd, *_ = climbers
    pgd.fgsm(0.5)
    with torch.no_grad():
        plain = pgd.model.victim.logits({k: v for k, v in pgd.batch.items() if k != "labels"})
    assert (plain.argmax(-1) == pgd.labels).all()
    assert (pgd.fgsm_logits.argmax(-1) != pgd.labels).any()


def test_it_goes_on_after_a_kill(tmp_path, monkeypatch):
    whole = run_attack(EmbeddingAttack(RADII, 3), target(30, batch_size=8))
    work = EmbeddingAttack.run_items

    def killing(self, victims, numbers):
        for place, part in enumerate(work(self, victims, numbers)):
            if place == 2:
                raise KeyboardInterrupt
            yield part

    monkeypatch.setattr(EmbeddingAttack, "run_items", killing)
    with pytest.raises(KeyboardInterrupt):
        run_attack(EmbeddingAttack(RADII, 3), target(30, batch_size=8), home=tmp_path)
    monkeypatch.setattr(EmbeddingAttack, "run_items", work)
    again = run_attack(EmbeddingAttack(RADII, 3), target(30, batch_size=8), home=tmp_path)
    assert whole.summary.curve == again.summary.curve
    assert sorted(path.name for path in (tmp_path / "attacks").iterdir()) == ["embedding.json", "embedding.rows.jsonl"]


def words(count, seed=0):
    return [text.split() for text in sentences(count, seed)]


def test_regression():
    task = Task("score", "score", "sentence", "regression", ("text",), metrics=("mse",))
    net = bert(torch.float32, num_labels=1, problem_type="regression").eval()
    victim = Victim(net, TOKENIZER, task, max_length=32)
    rows = [{"text": text, "label": 0.0} for text in sentences(12)]
    logits = victim.exact(rows)
    victims = Target(victim, rows, logits, logits.reshape(-1) + 0.1, samples=20)
    points = curve(victims).summary.curve.points
    errors = [point.score.value for point in points]
    assert errors[0] == pytest.approx(0.01, rel=1e-4)
    assert errors == sorted(errors)
    assert errors[-1] > 2 * errors[0]


def test_tokens():
    task = Task("tags", "tags", "tokens", "tokens", ("tokens",), ("O", "B-x", "I-x"), ("token_accuracy",))
    config = AutoConfig.for_model("bert", **SMALL, **NO_DROPOUT)
    torch.manual_seed(0)
    victim = Victim(AutoModelForTokenClassification.from_config(config).eval(), TOKENIZER, task, max_length=32)
    rows = [{"tokens": each, "label": [0] * len(each)} for each in words(12)]
    said = predict(victim, rows)
    victims = Target(victim, rows, said, [np.asarray(each) for each in said], samples=20)
    points = curve(victims).summary.curve.points
    values = [point.score.value for point in points]
    assert values[0] == 1.0
    assert values[-1] < points[-1].noise.value - 0.3


def test_several_labels():
    task = Task("many", "many", "sentence", "multilabel", ("text",), ("a", "b", "c"), ("f1_micro",))
    net = bert(torch.float32, problem_type="multi_label_classification").eval()
    victim = Victim(net, TOKENIZER, task, max_length=32)
    rows = [{"text": text} for text in sentences(12)]
    logits = victim.exact(rows)
    points = curve(Target(victim, rows, logits, (logits > 0).astype(int), samples=20)).summary.curve.points
    assert points[0].score.value == 1.0
    assert points[-1].score.value < points[-1].noise.value - 0.3


@pytest.mark.parametrize(
    ("head", "logits"),
    [
        ("classes", [[0.1, 0.3, 0.2], [2.0, 1.0, 0.0]]),
        ("multilabel", [[0.1, -0.3, 0.7], [0.4, 0.0, -2.0]]),
        ("regression", [[0.5], [-2.0]]),
    ],
)
def test_answers_are_those_that_the_metrics_take_logits_for(head, logits):
    metric = {"classes": "accuracy", "multilabel": "exact", "regression": "mse"}[head]
    task = Task("x", "x", "sentence", head, ("text",), () if head == "regression" else ("a", "b", "c"), (metric,))
    assert as_answers(task, np.array(logits)) == answers_of(task, np.array(logits)).tolist()


def test_choices():
    task = Task("which", "which", "choices", "choices", ("context", "question", "choices"), ("0", "1"))
    config = AutoConfig.for_model("bert", **{**SMALL, "num_labels": 1, "initializer_range": 0.3}, **NO_DROPOUT)
    torch.manual_seed(0)
    victim = Victim(AutoModelForMultipleChoice.from_config(config).eval(), TOKENIZER, task, max_length=64)
    texts = sentences(36)
    rows = [{"context": a, "question": "", "choices": [b, c]} for a, b, c in zip(*[iter(texts)] * 3, strict=True)]
    logits = victim.exact(rows)
    victims = Target(victim, rows, logits, logits.argmax(-1), samples=20)
    points = curve(victims).summary.curve.points
    assert points[0].score.value == 1.0
    assert points[-1].score.value < 0.6
    (attack,) = make_attacks("characters", AttackSettings(keep=()))
    assert run_attack(attack, victims).score < 0.8


def test_bad_settings():
    with pytest.raises(DataError, match="at least one step"):
        EmbeddingAttack(steps=0)
    with pytest.raises(DataError, match="numbers of 0 or more"):
        EmbeddingAttack((-0.1,))
    with pytest.raises(DataError, match="numbers of 0 or more"):
        EmbeddingAttack((0.1, math.inf))  # no answer would be a number, and none would count as broken


def test_answers_that_are_no_numbers_are_refused():
    with pytest.raises(DataError, match=r"radius 1e\+30: the model returns NaN; give smaller radii"):
        curve(target(6), radii=(0.1, 1e30))


def test_folded_classes_count_as_one():
    """HANS: neutral and contradiction are both right where the label is non-entailment."""
    task = Task("two", "two", "sentence", "classes", ("text",), ("yes", "no"), class_map=(0, 1, 1))
    own = target(24)
    logits, answers = own.logits, np.minimum(own.logits.argmax(-1), 1)
    victim = own.victim
    victim.task = task
    victims = Target(victim, own.rows, logits, answers, samples=20)
    points = curve(victims, radii=(1e-6, *RADII)).summary.curve.points
    assert points[0].score.value == points[1].score.value == 1.0
    assert 2 in logits.argmax(-1)
    values = [point.score.value for point in points]
    assert values == sorted(values, reverse=True)
    assert values[-1] < 0.9
