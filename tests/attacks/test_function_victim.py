"""A function is attacked as the model is that it calls; attacks on weights refuse it."""

import json

import numpy as np
import pytest

from toughen.attacks.base import attack_classes
from toughen.evaluation import AttackSettings, FunctionVictim, Target, make_attacks, run_attack
from toughen.tasks.spec import DataError, Task

from .little_target import TASK, target

NAMES = [name for name in attack_classes() if name != "bert_attack"]  # which asks for a model of its own


@pytest.fixture(scope="module")
def pair(tmp_path_factory):
    """The same model as a model and as a function, and files of words."""
    model, folder = target(8), tmp_path_factory.mktemp("words")

    def answer(texts):
        logits = model.victim.exact([{"text": text} for text in texts])
        chances = np.exp(logits - logits.max(-1, keepdims=True))
        return chances / chances.sum(-1, keepdims=True)

    victim = FunctionVictim(answer, TASK)
    near = {f"w{number}": [f"w{number + 1}", f"w{number + 9}"] for number in range(5, 90)}
    (folder / "near.json").write_text(json.dumps(near))
    (folder / "wrong.txt").write_text("\n".join(" ".join([word, *others]) for word, others in near.items()))
    settings = AttackSettings(queries=20, keep=(), synonyms=folder / "near.json", lexicon=folder / "wrong.txt")
    return model, Target(victim, model.rows, victim.exact(model.rows), model.labels, samples=50), settings


@pytest.mark.parametrize("name", NAMES)
def test_a_function_is_attacked_as_its_model(name, pair):
    model, function, settings = pair
    (attack,) = make_attacks(name, settings)
    if attack.white_box:
        with pytest.raises(DataError, match=f"'{name}' needs the weights of a model"):
            run_attack(attack, function)
        return
    assert run_attack(attack, function).outcomes == run_attack(attack, model).outcomes


def test_results_of_other_answers_are_not_taken(pair, tmp_path):
    """A model without a folder is known by its answers."""
    model, function, settings = pair
    (attack,) = make_attacks("characters", settings)
    first = run_attack(attack, function, home=tmp_path)
    assert run_attack(attack, function, home=tmp_path).summary.key == first.summary.key
    turned = Target(function.victim, model.rows, function.logits[:, ::-1], model.labels, samples=50)
    assert run_attack(attack, turned, home=tmp_path).summary.key != first.summary.key


def test_functions_of_tags_are_refused():
    with pytest.raises(DataError, match="give the folder of a model"):
        FunctionVictim(len, Task("own", "own", "tokens", "tokens", ("tokens",), ("O", "B-X")))
