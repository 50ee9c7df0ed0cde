"""Sweep files: their forms, their synonyms, and what is refused, by its key."""

import json

import pytest
import yaml

from toughen import recipes
from toughen.runs.config_io import load_yaml
from toughen.sweeps.definition import Choice, Range, parameter, parse
from toughen.sweeps.errors import SweepError
from toughen.sweeps.loading import load_definition
from toughen.sweeps.trials import trial_config
from toughen.sweeps.validation import grid

BASE = {"model": "x", "task": "rte"}
STEPS = {"method.step_size": {"values": [0.05, 0.1]}}


def parsed(changes=None, **more):
    return parse({"base": BASE, "parameters": STEPS, **(changes or {}), **more})


def test_the_file_of_the_docs(tmp_path):
    file = tmp_path / "sweep.yaml"
    file.write_text(
        """
        base: freelb/rte-roberta-base
        search: grid
        metric: {name: eval/accuracy, goal: maximize}
        parameters:
          method.step_size: {values: [0.05, 0.1]}
          train.learning_rate: {values: [1e-5, 2e-5]}
        tied:
          - {method.init_scale: 0.1, method.max_norm: 0.1}
          - {method.init_scale: 0.2, method.max_norm: 0.2}
        seeds: [1, 2, 3, 4, 5]
        early_terminate: {type: asha, min_iter: 1}
        resources: {gpu: 0.5, cpu: 4, minutes: 1e3}
        """
    )
    made, name = load_definition(file)
    assert name == "sweep"
    assert made.metric == "accuracy"
    assert made.base["model"] == "roberta-base"
    assert made.parameters["train.learning_rate"] == Choice((1e-5, 2e-5))  # numbers, though YAML says text
    assert made.seeds == (1, 2, 3, 4, 5)
    assert made.early is not None
    assert (made.resources.gpu, made.resources.cpu, made.resources.minutes) == (0.5, 4, 1000)
    assert len(grid(made)) == 8
    assert grid(made)[1] == {
        "method.step_size": 0.05,
        "train.learning_rate": 1e-5,
        "method.init_scale": 0.2,
        "method.max_norm": 0.2,
    }
    # What is stored is the same sweep again.
    again = parse(yaml.safe_load(yaml.safe_dump(json.loads(json.dumps(made.values)))))
    assert (again.parameters, again.tied, again.seeds) == (made.parameters, made.tied, made.seeds)


def test_published_grid_has_eight_rows():
    made, name = load_definition("freelb/rte-roberta-base")
    assert name == "freelb-rte-roberta-base"
    rows = grid(made)
    assert len(rows) == 8
    assert all(row["method.init_scale"] == row["method.max_norm"] for row in rows)
    loose = {key: {"values": [0.1, 0.2]} for key in ("method.init_scale", "method.max_norm")}
    values = {**recipes.sweep("freelb/rte-roberta-base"), "tied": None}
    untied, _ = load_definition({**values, "parameters": {**values["parameters"], **loose}})
    assert len(grid(untied)) == 16
    about = yaml.safe_load(recipes._files("sweeps")["freelb/rte-roberta-base"].read_text())["about"]
    assert len(about["published"]["rows"]) * 2 == len(rows)  # a column for each batch size


PARAGEN = """{
  "executor": "paragen-run",
  "cuda": [0, 1, 2, 3, 4, 5, 6, 7],
  "concurrency": 8,
  "configs": {
    "==base==": ["--config", "glue/configs/RTE.yaml", "--task.model.adv_lr", [0.05, 0.1]],
    "==more==": [
      ["--task.model.init_mag", "0.01", "--task.model.max_norm", "0.01"],
      ["--task.model.init_mag", "0.02", "--task.model.max_norm", "0.02"],
      ["--task.model.init_mag", "0.03", "--task.model.max_norm", "0.03"],
      ["--task.model.init_mag", "0.06", "--task.model.max_norm", "0.06"]
    ]
  }
}"""


def test_paragens_search_json(tmp_path):
    file = tmp_path / "search.json"
    file.write_text(PARAGEN)
    made, _ = load_definition(file, "freelb/rte-roberta-base")
    rows = grid(made)
    assert len(rows) == 8
    assert rows[0] == {"method.step_size": 0.05, "method.init_scale": 0.01, "method.max_norm": 0.01}
    assert (made.resources.gpu, made.resources.concurrent) == (1, 8)
    with pytest.raises(SweepError, match=r"RTE.yaml'; ParaGen's settings are --base freelb/rte-roberta-base"):
        load_definition(file)
    (tmp_path / "glue" / "configs").mkdir(parents=True)
    (tmp_path / "glue" / "configs" / "SST-2.yaml").write_text("task: {class: SequenceClassificationTask}")
    file.write_text(PARAGEN.replace("RTE.yaml", "SST-2.yaml"))
    with pytest.raises(SweepError, match=r"is a ParaGen config; name a .* --base, such as freelb/sst2-bert-base"):
        load_definition(file)


def test_a_search_goes_by_its_name_without_the_suffix(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "search.json").write_text(PARAGEN)
    made, name = load_definition("search", "freelb/rte-roberta-base")
    assert (len(grid(made)), name) == (8, "search")
    (tmp_path / "freelb").mkdir()
    (tmp_path / "freelb" / "rte-roberta-base.yaml").write_text("a recipe of this name is meant")
    assert load_definition("freelb/rte-roberta-base")[0].keys[0] == "method.step_size"


def test_other_forms_of_manytasks(tmp_path):
    def read(base, more=(), **top):
        file = tmp_path / "search.json"
        file.write_text(json.dumps({"configs": {"==base==": list(base), "==more==": list(more)}, **top}))
        return load_definition(file, BASE)[0]

    made = read(["--seed", [1, 2], "--train.epochs", 3], [["--lr", [1e-5, "2e-5"], "--method.weight", -1]], cuda=-1)
    assert made.seeds == (1, 2)
    assert made.tied == (
        {"train.learning_rate": 1e-5, "method.weight": -1},
        {"train.learning_rate": 2e-5, "method.weight": -1},
    )
    assert made.resources.gpu == 0
    for text in ("{range(10)}", "<a_[--a]>", "$<1:5>"):
        with pytest.raises(SweepError, match="expressions are not run"):
            read(["--train.epochs", text])
    with pytest.raises(SweepError, match="'arg0' follows no flag"):
        read(["arg0"])
    with pytest.raises(SweepError, match="--lr is given twice"):
        read(["--lr", 1e-5, "--lr", 2e-5])
    with pytest.raises(SweepError, match="--config: a sweep has one base"):
        read(["--config", ["a.yaml", "b.yaml"], "--lr", 1e-5])


def test_a_search_json_of_another_shape(tmp_path):
    file = tmp_path / "search.json"
    for configs in ({"==base==": None}, {"==base==": "--lr 1"}, {"==base==": ["--lr", 1], "==more==": ["--a", 1]}):
        file.write_text(json.dumps({"configs": configs}))
        with pytest.raises(SweepError, match=r'search.json: expected "==base=="'):
            load_definition(file, BASE)
    file.write_text('{"configs": [1]}')
    with pytest.raises(SweepError, match="a sweep file has no 'configs'"):
        load_definition(file, BASE)


def test_json_may_be_indented_by_tabs(tmp_path):
    file = tmp_path / "search.json"
    file.write_text(json.dumps(json.loads(PARAGEN), indent="\t"))
    assert len(grid(load_definition(file, "freelb/rte-roberta-base")[0])) == 8


def test_a_key_over_a_merged_one_is_there_once():
    text = "outer: {inner: {one: &one {<<: &two {a: 1}, a: 2}}}\nlast: {<<: *one}\n"
    assert load_yaml(text) == {"outer": {"inner": {"one": {"a": 2}}}, "last": {"a": 2}}


def test_words_of_wandb():
    made = parsed(search=None, method="bayes", run_cap=7, parameters={"train.epochs": {"value": 3}, **STEPS})
    assert (made.search, made.trials) == ("tpe", 7)
    assert parameter("a", {"min": 1, "max": 8}) == Range(1, 8, is_integer=True)
    assert parameter("a", {"min": 1, "max": 8, "distribution": "uniform"}) == Range(1, 8)
    assert parameter("a", {"min": 1, "max": 8, "step": 2}) == Range(1, 8, step=2, is_integer=True)
    assert parameter("a", {"min": 0, "max": 1, "step": 0.25}) == Range(0, 1, step=0.25)  # not 0 and 1 alone
    assert parameter("a", {"min": 1e-5, "max": "1e-3", "distribution": "log_uniform_values"}) == Range(
        1e-5, 1e-3, log=True
    )
    assert parsed(metric={"name": "eval_loss"}).goal == "minimize"
    assert [parsed(metric=name).goal for name in ("mse", "test_mse", "pearson")] == ["minimize", "minimize", "maximize"]
    assert parsed(metric="loss_mm").goal == "minimize"


BAD = {
    "parameters.method.step_size.values is empty": {"parameters": {"method.step_size": {"values": []}}},
    r"parameters.a: there is no 'value_s'. Did you mean 'values'": {"parameters": {"a": {"value_s": [1]}}},
    "parameters.a.values='1,2': expected a list": {"parameters": {"a": {"values": "1,2"}}},
    "parameters.a: give values: .* or min: and max:": {"parameters": {"a": {"min": 1}}},
    "parameters.a: min 2 is not below max 1": {"search": "random", "parameters": {"a": {"min": 2, "max": 1}}},
    "parameters.a: int_uniform needs whole numbers, not 0 and 1 and 0.5": {
        "parameters": {"a": {"min": 0, "max": 1, "step": 0.5, "distribution": "int_uniform"}}
    },
    "parameters.a: a log scale starts above 0": {"parameters": {"a": {"min": 0, "max": 1, "log": True}}},
    "parameters.a: a grid needs values": {"parameters": {"a": {"min": 0.0, "max": 1.0}}},
    "parameters.a.distribution: there is no 'normal'": {"parameters": {"a": {"distribution": "normal"}}},
    "parameters: nothing is searched": {"parameters": {}},
    "parameters.seed: a sweep decides this itself": {"parameters": {"seed": {"values": [1, 2]}}},
    r"tied: row 2 and row 1 do not have the same keys \(b, c\)": {"tied": [{"a": 1, "b": 1}, {"a": 2, "c": 2}]},
    "tied: method.step_size is under parameters: as well": {"tied": [{"method.step_size": 1}]},
    "tied: give a list of rows": {"tied": []},
    "a sweep file has no 'parameter'. Did you mean 'parameters'": {"parameter": STEPS},
    "search: there is no 'gird'": {"search": "gird"},
    "trials: how many settings may random try": {"search": "random"},
    "trials: a grid runs all": {"trials": 3},
    "metric.goal: there is no 'maximise'": {"metric": {"name": "accuracy", "goal": "maximise"}},
    "seed='one': give a whole number": {"seeds": "one"},
    "early_terminate.type: there is no 'hyperband'": {"early_terminate": {"type": "hyperband"}},
    "early_terminate.eta=1": {"early_terminate": {"type": "asha", "eta": 1}},
    "resources: there is no 'gpus'": {"resources": {"gpus": 1}},
    "resources.gpu=1.5": {"resources": {"gpu": 1.5}},
    "resources.minutes=0": {"resources": {"minutes": 0}},
    "retries=-1": {"retries": -1},
    "resources.cpu=nan": {"resources": {"cpu": float("nan")}},
    "resources.memory_gb=inf": {"resources": {"memory_gb": float("inf")}},
    "parameters.train: write options of a group with a dot: train.epochs": {
        "parameters": {"train": {"epochs": {"values": [1, 2]}}}
    },
    "parameters.a.log='no': expected true or false": {
        "search": "random",
        "trials": 2,
        "parameters": {"a": {"min": 1, "max": 2, "log": "no"}},
    },
    "method: it means the same as search:": {"search": "grid", "method": "random"},
    "a sweep file has no 1": {1: 2},
    "base: give a config": {"base": None},
    "parameters.a: value and min exclude each other": {"parameters": {"a": {"min": 1, "max": 2, "value": 3}}},
    "parameters.a: max has no effect with values": {"parameters": {"a": {"values": [1], "max": 2}}},
    "parameters.a: step and log have no effect with value;": {
        "parameters": {"a": {"value": 1, "log": True, "step": 1}}
    },
    "parameters.a: distribution uniform has no effect with values": {
        "parameters": {"a": {"values": [1], "distribution": "uniform"}}
    },
    "parameters.a: a constant distribution needs value:": {
        "parameters": {"a": {"min": 1, "max": 2, "distribution": "constant"}}
    },
    "parameters.baseline: a trial trains no baseline": {"parameters": {"baseline": [True, False]}},
    "base.baseline": {"base": {**BASE, "baseline": True}},
}


@pytest.mark.parametrize("said", BAD)
def test_a_bad_file_is_told_by_its_key(said):
    with pytest.raises(ValueError, match=said):
        parsed(BAD[said])


def test_a_number_written_in_two_ways_is_one_row():
    assert grid(parsed(parameters={"method.weight": [1, 1.0, 2]})) == [{"method.weight": 1}, {"method.weight": 2}]
    assert len(grid(parsed(parameters={"a": [1, True, "1", [1.0], [1]]}))) == 4


def test_numbers_in_lists_are_numbers():
    """YAML 1.1 takes 1e-1 for text, in a list as elsewhere."""
    base = {**BASE, "method": {"name": "freelb", "growth": ["1e-1", 1]}, "data": {"labels": ["1e5", "x"]}}
    made, _ = load_definition({"base": base, "parameters": {"method.growth": {"values": [["1e-2", 1]]}}})
    assert made.base["method"]["growth"] == [0.1, 1]
    assert made.base["data"]["labels"] == ["1e5", "x"]  # names
    assert trial_config(made.base, grid(made)[0], (1,)).method["growth"] == [0.01, 1]


def test_a_recipe_within_a_base_is_below_it(tmp_path):
    file = tmp_path / "base.yaml"
    file.write_text("recipe: freelb/rte-roberta-base\nmodel: mine\ntrain: {epochs: 1}\n")
    made, _ = load_definition({"base": str(file), "parameters": STEPS})
    published = recipes.config("freelb/rte-roberta-base")
    assert made.base["method"] == published["method"]
    own = {key: value for key, value in published["train"].items() if key != "max_steps"}
    assert made.base["train"] == {**own, "epochs": 1}  # epochs that are given go before the recipe's updates
    sweep = {"base": "freelb/rte-roberta-base", "parameters": {"train.epochs": {"values": [2]}}}
    assert load_definition(sweep, over={"train.epochs": 1})[0].base["train"] == {**own, "epochs": 1}
    train = trial_config(load_definition(sweep)[0].base, {"train.epochs": 2}, (1,)).train
    assert (train.epochs, train.max_steps) == (2, None)
    assert (made.base["model"], made.base["task"], made.base["recipe"]) == ("mine", "rte", "freelb/rte-roberta-base")
    with pytest.raises(SweepError, match="recipe=sift/rte: a recipe is below all settings; give it as --base"):
        load_definition({"base": str(file), "parameters": STEPS}, over={"recipe": "sift/rte"})


def test_a_base_brings_no_output_dir_and_seeds_can_be_replaced():
    made = parsed(base={**BASE, "output_dir": "runs/x"})
    assert "output_dir" not in made.base
    values = {"base": BASE, "parameters": STEPS, "seeds": [1, 2], "name": "../a/b"}
    made, name = load_definition(values, over={"seed": "5,6"})
    assert (made.seeds, name) == ((5, 6), "..-a-b")
    assert load_definition(values, over={"seed": 5}, seeds="7")[0].seeds == (7,)


def test_sources_that_are_not_there(tmp_path):
    with pytest.raises(SweepError, match=r"no such file, folder or recipe of a sweep. Recipes: freelb/rte"):
        load_definition(tmp_path / "none.yaml")
    file = tmp_path / "bad.yaml"
    file.write_text("a: [")
    with pytest.raises(SweepError, match=r"bad.yaml is not YAML"):
        load_definition(file)
    file.write_text("- 1")
    with pytest.raises(SweepError, match="holds no sweep"):
        load_definition(file)
