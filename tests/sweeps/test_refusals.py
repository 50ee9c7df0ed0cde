"""Bad sweeps are refused before any trial starts, naming the key; machines that are too small likewise."""

import socket
from pathlib import Path

import pytest
import yaml

import toughen
from toughen.cli.main import main
from toughen.sweeps import api
from toughen.sweeps.cluster import allocate, connect_ray
from toughen.sweeps.definition import Resources
from toughen.sweeps.errors import SweepError
from toughen.sweeps.folder import open_folder
from toughen.sweeps.loading import load_definition
from toughen.sweeps.trials import outcome

from ..tiny import rows, write_csv

BAD = {
    r"there is no option train.learning_rat. Did you mean 'learning_rate'": {"train.learning_rat": {"values": [1]}},
    r"method r3f has no option 'wight'. Did you mean 'weight'": {"method.wight": {"values": [1]}},
    r"train.epochs=many: expected .* \(settings: train.epochs=many\)": {"train.epochs": {"values": ["many"]}},
    r"train.batch_size=0: it must be above 0": {"train.batch_size": {"values": [8, 0]}},
    r"train.micro_batch=3 does not divide the 8 rows": {"train.micro_batch": {"values": [8, 3]}},
    r"method.noise='loud': expected normal, uniform or null": {"method.noise": {"values": ["loud"]}},
    r"train=1: expected options by name": {"train": {"values": [1]}},
    r"TrainingArguments has no 'adam_beta3'": {"trainer.adam_beta3": {"values": [0.9]}},
    r"train.max_steps=5, train.epochs=1 is the same run twice": {"train.max_steps": 5, "train.epochs": [1, 2]},
    r"method=fgm, method.name=r3f is the same run twice": {"method": ["fgm", "rdrop"], "method.name": "r3f"},
    r"There is no method 'smrt'|no method 'smrt'": {"method.name": {"values": ["smrt"]}},
}


def test_data_errors_name_the_options_of_the_command(values, tmp_path, capsys):
    write_csv(tmp_path / "train.csv", [*rows(6), {"text": "a film", "label": ""}])
    values["base"]["data"] = {"train_file": str(tmp_path / "train.csv"), "cache_dir": str(tmp_path / "cache")}
    (tmp_path / "sweep.yaml").write_text(yaml.safe_dump(values))
    assert main(["sweep", str(tmp_path / "sweep.yaml"), "--output_dir", str(tmp_path / "out")]) == 2
    assert "fill it in or give --data.on_bad skip" in capsys.readouterr().err


@pytest.fixture
def no_trial(monkeypatch):
    def refuse(*_):
        raise AssertionError("a trial was started")

    monkeypatch.setattr(api, "run_trials", refuse)
    monkeypatch.setattr(api, "connect_ray", refuse)


@pytest.mark.parametrize("said", BAD)
def test_bad_parameters(said, values, tmp_path, no_trial):
    with pytest.raises(SweepError, match=said):
        toughen.sweep({**values, "parameters": BAD[said]}, output_dir=tmp_path / "sweep")
    assert not (tmp_path / "sweep").exists()


def test_texts_longer_than_the_model_reads(values, tmp_path, no_trial):
    with pytest.raises(ValueError, match=r"data.max_length=300: .* reads at most 32 tokens"):
        toughen.sweep(
            {**values, "parameters": {"data.max_length": {"values": [16, 300]}}}, output_dir=tmp_path / "sweep"
        )
    assert not (tmp_path / "sweep").exists()


KEYS = {
    r"model_config.hidden_dropuot: BertConfig has no such key. Did you mean": {"hidden_dropuot": [0.1]},
    r"model_config.hidden_dropout_prob=high: expected a number": {"hidden_dropout_prob": [0.1, "high"]},
    r"model_config.num_labels cannot be changed": {"num_labels": [2]},
}


@pytest.mark.parametrize("said", KEYS)
def test_keys_of_the_models_config(said, values, tmp_path, no_trial):
    parameters = {f"model_config.{key}": {"values": given} for key, given in KEYS[said].items()}
    with pytest.raises(ValueError, match=said):
        toughen.sweep({**values, "parameters": parameters}, output_dir=tmp_path / "sweep")
    base = {**values["base"], "model_config": {key: given[-1] for key, given in KEYS[said].items()}}
    with pytest.raises(ValueError, match=said):
        toughen.sweep({**values, "base": base}, output_dir=tmp_path / "sweep")
    assert not list(tmp_path.iterdir())


def test_the_ends_of_a_range_are_tried_too(values, tmp_path, no_trial):
    changed = {"search": "random", "trials": 3, "parameters": {"train.learning_rate": {"min": -1.0, "max": 1.0}}}
    with pytest.raises(SweepError, match=r"train.learning_rate=-1.0: it must be above 0"):
        toughen.sweep({**values, **changed}, output_dir=tmp_path / "sweep")


def test_a_metric_that_no_run_logs(values, tmp_path, no_trial):
    for name, said in {
        "acuracy": "no run logs 'acuracy'. Did you mean 'accuracy'",
        "bleu": "Known: accuracy, ",
    }.items():
        with pytest.raises(SweepError, match=rf"metric.name: .*{said}"):
            toughen.sweep({**values, "metric": name}, output_dir=tmp_path / "sweep")
    assert not (tmp_path / "sweep").exists()


def test_a_metric_of_a_test_set_without_labels(values, little, tmp_path, no_trial):
    file = write_csv(tmp_path / "test.csv", [{**row, "label": ""} for row in rows(4)])
    base = {**values["base"], "data": {**little.data, "test_file": str(file)}}
    with pytest.raises(SweepError, match=r"metric.name: no run logs 'test_accuracy'"):
        toughen.sweep({**values, "base": base, "metric": "test_accuracy"}, output_dir=tmp_path / "sweep")


def test_a_metric_of_the_end_alone_cannot_stop_early(values, little, tmp_path, no_trial):
    base = {**values["base"], "data": {**little.data, "test_file": little.test_file}}
    changed = {"base": base, "metric": "test_accuracy", "early_terminate": "asha"}
    with pytest.raises(SweepError, match=r"metric.name: test_accuracy is known only at the end"):
        toughen.sweep({**values, **changed}, output_dir=tmp_path / "sweep")


def test_on_the_command_line(values, tmp_path, capsys, no_trial):
    file = tmp_path / "bad.yaml"
    file.write_text(yaml.safe_dump({**values, "parameters": {"method.weight": {"values": []}}}))
    assert main(["sweep", str(file)]) == 2
    said = capsys.readouterr().err
    assert said == "toughen: parameters.method.weight.values is empty: give one or more, such as [0.05, 0.1].\n"
    assert main(["sweep", str(tmp_path / "none.yaml")]) == 2
    file.write_text(yaml.safe_dump(values))
    assert main(["sweep", str(file), "--train.epochs", "--resume"]) == 2
    assert main(["sweep", str(file), "--train.epoch", "3"]) == 2
    assert "unrecognized arguments: --train.epoch 3. Did you mean --train.epochs" in capsys.readouterr().err
    assert main(["sweep", str(file), "--method.init_scale", "[1"]) == 2
    assert "init_scale='[1': it must be a number" in capsys.readouterr().err
    assert main(["sweep", str(file), "--config", str(file)]) == 2
    assert "give --base" in capsys.readouterr().err
    assert (
        main(["sweep", str(file), "--engine", "serial", "--address", "auto", "--output_dir", str(tmp_path / "s")]) == 2
    )
    assert "--address is for Ray" in capsys.readouterr().err
    assert not (tmp_path / "s").exists()


@pytest.mark.parametrize("address", ["localhost:{}", "ray://127.0.0.1:{}"])
def test_a_cluster_that_does_not_answer(address):
    pytest.importorskip("ray")
    with socket.socket() as held:  # bound, and nobody listens there
        held.bind(("127.0.0.1", 0))
        nowhere = address.format(held.getsockname()[1])
        with pytest.raises(SweepError, match=f"--address {nowhere}: no cluster answers there"), connect_ray(nowhere):
            pass


def test_options_of_train_are_taken_as_in_train(values, tmp_path, capsys, monkeypatch):
    seen = {}
    monkeypatch.setattr("toughen.sweeps.sweep", lambda source, **options: seen.update(options) or 1 / 0)
    words = ["--fast", "--peft", "--data.labels", "neg,pos", "--data.delimiter", ",", "--data.train_file=a #1: b.csv"]
    with pytest.raises(ZeroDivisionError):
        main(["sweep", "x.yaml", *words, "--train.epochs", "3", "--method", "smart", "--task", "null"])
    assert seen["config"] == {
        **{"fast": True, "peft": {"name": "lora"}, "train": {"epochs": 3}, "method": {"name": "smart"}},
        "data": {"labels": ["neg", "pos"], "delimiter": ",", "train_file": "a #1: b.csv"},
    }


def test_a_sweep_yaml_written_by_hand(values, tmp_path, monkeypatch, no_trial):
    file = tmp_path / "sweep.yaml"
    file.write_text(f"# mine\n{yaml.safe_dump(values)}")
    before = file.read_text()
    with pytest.raises(SweepError, match="no such file, folder or recipe"):
        toughen.sweep(tmp_path, resume=True)
    with pytest.raises(SweepError, match="holds no sweep"):
        toughen.sweep(file, output_dir=tmp_path, resume=True)
    assert [each.name for each in tmp_path.iterdir()] == ["sweep.yaml"]
    assert file.read_text() == before


def test_there_must_be_a_sweep_to_go_on_with(values, tmp_path, monkeypatch, capsys, no_trial):
    monkeypatch.chdir(tmp_path)
    Path("grid.yaml").write_text(yaml.safe_dump(values))
    assert main(["sweep", "grid.yaml", "--resume"]) == 2
    said = capsys.readouterr().err
    hint = "leave out --resume to start it, or name its folder with --output_dir"
    assert said == f"toughen: sweeps/grid holds no sweep to resume; {hint}.\n"
    Path("made").mkdir()  # an empty folder is none either
    with pytest.raises(SweepError, match="made holds no sweep to resume"):
        toughen.sweep("grid.yaml", output_dir="made", resume=True)
    assert sorted(each.name for each in Path().rglob("*")) == ["grid.yaml", "made"]


def test_a_broken_sweep_yaml_is_told_in_one_line(values, tmp_path):
    definition, _ = load_definition(values)
    open_folder(tmp_path / "sweep", definition, resume=False).close()
    (tmp_path / "sweep" / "sweep.yaml").write_text("base: [")
    with pytest.raises(SweepError, match=r"sweep.yaml is not YAML"):
        toughen.sweep(tmp_path / "sweep", resume=True)


@pytest.mark.parametrize("text", ["", "[]", '{"seeds": []}', '{"seeds": [], "mean": {"f1": 1}}'])
def test_a_broken_result_is_told_in_one_line(text, tmp_path):
    (tmp_path / "results.json").write_text(text)
    with pytest.raises(SweepError, match=r"results.json is broken or has no accuracy"):
        outcome(tmp_path, "accuracy")


def test_a_row_that_was_lost_is_told_in_one_line(values, tmp_path):
    definition, _ = load_definition(values)
    open_folder(tmp_path / "sweep", definition, resume=False).close()
    (tmp_path / "sweep" / "rows.jsonl").write_text('{"row": 2, "settings": {}}\n')
    for _ in range(2):  # and the folder is not held
        with pytest.raises(SweepError, match=r"rows.jsonl has no row 1"):
            open_folder(tmp_path / "sweep", definition, resume=True)


def test_a_sweep_that_runs_is_left_alone(values, tmp_path):
    definition, _ = load_definition(values)
    held = open_folder(tmp_path / "sweep", definition, resume=False)
    with pytest.raises(SweepError, match=r"is being run already, by process \d+ on "):
        open_folder(tmp_path / "sweep", definition, resume=True)
    held.close()
    open_folder(tmp_path / "sweep", definition, resume=True).close()
    (tmp_path / "other").mkdir()
    (tmp_path / "other" / "notes.txt").write_text("mine")
    with pytest.raises(SweepError, match="holds no sweep"):
        open_folder(tmp_path / "other", definition, resume=False)


LAPTOP = {"CPU": 8.0}
SERVER = {"CPU": 32.0, "GPU": 4.0}


@pytest.mark.parametrize(
    ("wanted", "machines", "each", "slots"),
    [
        (Resources(), [LAPTOP], (1, 0), 8),
        (Resources(cpu=3), [LAPTOP], (3, 0), 2),
        (Resources(gpu=1), [LAPTOP], (1, 0), 8),  # no GPU: trials on CPUs
        (Resources(), [SERVER], (1, 1), 4),
        (Resources(gpu=0.25), [SERVER], (1, 0.25), 16),
        (Resources(gpu=0.25, cpu=4), [SERVER], (4, 0.25), 8),
        (Resources(gpu=0), [SERVER], (1, 0), 32),
        (Resources(gpu=2), [SERVER, SERVER], (1, 2), 4),
        (Resources(concurrent=3), [SERVER, LAPTOP], (1, 1), 3),
    ],
)
def test_what_a_trial_gets_of_the_machines(wanted, machines, each, slots):
    allocation = allocate(wanted, machines)
    assert (allocation.cpu, allocation.gpu, allocation.slots) == (*each, slots)
    assert ("no GPU was found" in str(allocation)) == (wanted.gpu == 1)


def test_a_trial_that_fits_nowhere():
    with pytest.raises(SweepError, match=r"resources: a trial with cpu 16 and gpu 0 fits on no machine; .* 8 CPUs"):
        allocate(Resources(cpu=16), [LAPTOP, LAPTOP])
