"""Every recipe can be read, names what it must, and takes a step on a tiny model of its family."""

from argparse import ArgumentParser
from pathlib import Path

import pytest
import torch
import yaml

import toughen
from toughen import recipes, tasks
from toughen.cli.commands import recipes as command
from toughen.errors import MethodError
from toughen.runs.modeling import check_keys

from ..families.zoo import FAMILIES
from ..tiny import make

NAMES = recipes.available()
FAMILY = {"bert": "bert", "roberta": "roberta", "albert": "albert", "deberta-base": "deberta"}
LENGTH = 12
TRAIN = {
    *("learning_rate", "epochs", "max_steps", "batch_size", "warmup"),
    *("weight_decay", "max_grad_norm", "precision"),
}


def made(settings: dict):
    settings = dict(settings)
    return make(settings.pop("name"), **settings)


def family(model: str) -> str:
    short = model.split("/")[-1]
    known = [name for start, name in FAMILY.items() if short.startswith(start)]
    return known[0] if known else "deberta-v2"


def tiny(config: dict):
    task = tasks.task(config["task"])
    found = FAMILIES[family(config["model"])]
    model = found.build(tasks.auto_class(task), **tasks.model_kwargs(task), **config.get("model_config", {}))
    if "head" in config:
        head = dict(config["head"])
        assert head.pop("name") == "second-order"
        model = toughen.second_order(model, **head)
    return model, task


def batch(task: tasks.Task, rows: int = 4) -> dict:
    generator = torch.Generator().manual_seed(0)
    shape = (rows, len(task.labels), LENGTH) if task.head == "choices" else (rows, LENGTH)
    ids = torch.randint(5, 60, shape, generator=generator)
    mask = torch.ones_like(ids)
    mask[0, ..., 8:], ids[0, ..., 8:] = 0, 0
    ids[..., 0] = 1
    labels = {
        "regression": torch.rand(rows, generator=generator) * 5,
        "tokens": torch.randint(0, max(2, len(task.labels)), (rows, LENGTH), generator=generator),
    }.get(task.head, torch.arange(rows) % max(2, len(task.labels)))
    return {"input_ids": ids, "attention_mask": mask, "labels": labels}


@pytest.mark.parametrize("name", NAMES)
def test_a_recipe_says_what_it_must(name):
    recipe = recipes.read(name)
    about = recipe["about"]
    assert about["source"]
    assert about["title"]
    assert about["differences"]
    assert all(isinstance(line, str) for line in about["differences"])
    said = about["published"]
    assert said["score"] is None or (0 < said["score"] < 100 and said["metric"] in tasks.task(recipe["task"]).metrics)
    assert said["score"] is not None or said["note"]
    groups = {"about", "task", "model", "model_config", "method", "head", "data", "train", "seed", "trainer"}
    assert set(recipe) <= groups
    assert set(said) <= {"task", "metric", "score", "plain", "also", "note"}  # what `toughen recipes NAME` shows
    second = said.get("also", {}).get("metric", "none")
    assert second in {"none", "mismatched", *tasks.task(recipe["task"]).metrics} - {said.get("metric")}
    assert set(recipe["train"]) <= TRAIN
    assert ("epochs" in recipe["train"]) != ("max_steps" in recipe["train"])
    # 2e-5 without a point is a word in YAML.
    numbers = [*recipe["train"].items(), *recipe["data"].items(), *recipe.get("trainer", {}).items()]
    assert all(isinstance(value, (int, float)) for key, value in numbers if key != "precision")
    assert recipe["task"] in tasks.available()


@pytest.mark.parametrize("name", NAMES)
def test_a_recipe_takes_a_step(name):
    config = recipes.config(name)
    if config["method"]["name"] == "asa" and "asa" not in toughen.list_methods():
        pytest.skip("the method asa is not in this version")
    method = made(config["method"])
    model, task = tiny(config)
    attached = method.attach(model, total_steps=10)
    loss = attached.backward(model, batch(task))
    attached.detach()
    assert torch.isfinite(loss)
    assert any(p.grad is not None and p.grad.abs().max() > 0 for p in model.parameters())


@pytest.mark.parametrize("name", [name for name in NAMES if "model_config" in recipes.config(name)])
def test_keys_of_the_models_config_are_known_to_it(name):
    config = recipes.config(name)
    found = FAMILIES[family(config["model"])].build(tasks.auto_class(tasks.task(config["task"])))
    check_keys(config["model_config"], found.config, type(found))
    changed, _ = tiny(config)
    rates = {module.p for module in changed.modules() if isinstance(module, torch.nn.Dropout)}
    assert config["model_config"].get("cls_dropout", config["model_config"].get("classifier_dropout", 0.1)) in rates


def test_settings_reach_the_method():
    assert made(recipes.config("sift/mnli-deberta-v3-xsmall")["method"]) == toughen.sift(preset="deberta", weight=3.0)
    assert made(recipes.config("smart/rte-bert-base")["method"]) == toughen.smart("paper") + toughen.bregman(1.0)
    # Three passes after the first one there are four here.
    assert made(recipes.config("freelb/cola-roberta-large")["method"]).combine.passes == 4


def test_trainer_options_are_known_to_transformers():
    from dataclasses import fields

    from transformers import TrainingArguments

    known = {field.name for field in fields(TrainingArguments)}
    assert {key for name in NAMES for key in recipes.config(name).get("trainer", {})} <= known


def test_the_published_experiments_are_there():
    assert len(NAMES) == len(set(NAMES)) >= 60
    for name in ("sift/mnli-deberta-base", "sift/mnli-deberta-v2-xxlarge", "freelb/rte-roberta-base"):
        assert name in NAMES
    assert {n for n in NAMES if n.startswith("mgcrp/")} == {
        f"mgcrp/{task}-bert-{size}" for task in ("mnli", "qnli", "rte", "cola") for size in ("base", "large")
    }
    # The columns of the SiFT README's table that have a score with SiFT.
    scores = {"mnli": 92.0, "sst2": 97.5, "qnli": 96.5, "cola": 73.5, "rte": 96.5, "qqp": 93.0}
    assert {name: recipes.about(f"sift/{name}-deberta-v2-xxlarge")["published"]["score"] for name in scores} == scores
    assert {"asa/sst2-bert-base", "asa/dream-roberta-base", "asa/conll2003-bert-base"} <= set(NAMES)


def test_paragens_files_and_its_table_of_plain_training():
    def settings(name):
        made = recipes.config(f"freelb/{name}")
        lengths = {key: made["method"].get(key) for key in ("step_size", "init_scale", "max_norm")}
        return made["model"], made["train"]["batch_size"], made["train"]["max_steps"], *lengths.values()

    assert settings("rte-roberta-base") == ("roberta-base", 16, 2036, 0.01, 0.05, 0.01)
    assert settings("rte-roberta-base-best")[1:] == (32, 2036, 0.1, 0.2, 0.2)
    assert settings("sst2-bert-base") == ("bert-base-uncased", 32, 20935, 0.1, 0.05, 0.06)
    table = {"cola": 62.82, "stsb": 91.01, "mrpc": 89.22, "qqp": 91.76, "mnli": 87.72, "qnli": 92.75}
    plain = {task: f"freelb/{task}-roberta-base" for task in table}
    assert {task: recipes.about(name)["published"]["score"] for task, name in plain.items()} == table
    assert {recipes.config(name)["method"]["name"] for name in plain.values()} == {"plain"}


def test_published_in_a_few_words():
    assert recipes.published("freelb/rte-roberta-base-best") == "81.58 (accuracy, plain 80.14)"
    assert recipes.published("sift/qqp-deberta-v2-xxlarge") == "93 (accuracy, plain 92.7), 90.7 (f1, plain 90.3)"
    assert recipes.published("sift/mnli-deberta-base") == "-"


def test_an_unknown_name_gets_the_nearest():
    with pytest.raises(recipes.RecipeError, match=r"no recipe 'sift/mnli-deberta-bse'.*'sift/mnli-deberta-base'"):
        recipes.read("sift/mnli-deberta-bse")
    assert recipes.read("sift/mnli-deberta-base.yaml") == recipes.read("sift/mnli-deberta-base")


def test_recipes_are_plain_data(tmp_path, monkeypatch):
    (tmp_path / "bad.yaml").write_text("about: !!python/object/apply:os.getcwd []\n")
    monkeypatch.setattr(recipes, "_FOLDER", tmp_path)
    recipes._files.cache_clear()
    try:
        with pytest.raises(yaml.YAMLError):
            recipes.read("bad")
    finally:
        recipes._files.cache_clear()


def test_the_wheel_takes_the_files_along():
    files = list(Path(recipes.__file__).parent.rglob("*.yaml"))
    assert len(files) == len(NAMES) + len(recipes.sweeps())


def test_a_sum_takes_settings_by_part():
    method = toughen.create_method("smart+bregman", smart={"preset": "paper", "weight": 3.0})
    assert method == toughen.smart("paper", weight=3.0) + toughen.bregman()
    with pytest.raises(MethodError, match=r"smart={'weight'"):
        toughen.create_method("smart+bregman", weight=3.0)


def printed(capsys, *words) -> str:
    parser = ArgumentParser()
    command.add(parser)
    assert command.run(parser.parse_args(list(words))) == 0
    return capsys.readouterr().out


@pytest.mark.parametrize("columns", ["80", None])
def test_names_are_whole_on_a_narrow_terminal_and_rows_in_a_pipe(capsys, monkeypatch, columns):
    monkeypatch.delenv("COLUMNS", raising=False)
    if columns:
        monkeypatch.setenv("COLUMNS", columns)
    everything = printed(capsys)
    assert [name for name in NAMES if name not in everything] == []
    row = next(line for line in everything.splitlines() if "sift/mnli-deberta-v2-xxlarge" in line)
    assert columns or "92 (accuracy, plain 91.7)" in row


def test_the_command(capsys, monkeypatch):
    monkeypatch.setenv("COLUMNS", "160")
    everything = printed(capsys)
    assert all(name in everything for name in NAMES)
    some = printed(capsys, "mgcrp")
    assert "mgcrp/rte-bert-base" in some
    assert "sift/" not in some
    one = printed(capsys, "freelb/rte-roberta-base-best")
    assert "81.58 (accuracy, plain 80.14)" in one
    assert "published grid" in one
    assert yaml.safe_load(printed(capsys, "smart/rte-bert-base", "--yaml")) == recipes.config("smart/rte-bert-base")
    with pytest.raises(recipes.RecipeError, match="Did you mean 'smart/rte-bert-base'"):
        printed(capsys, "smart/rte-bert-bse")
