"""A broken loss is named, memory that runs out is worked around, bad settings are told before training."""

import csv
import json
import math
import shutil
import weakref
from types import SimpleNamespace

import pytest
import torch
from safetensors.torch import load_file, save_file
from transformers import BertConfig, BertForSequenceClassification, GPT2Config, GPT2LMHeadModel

from toughen import second_order, tasks
from toughen.runs import Diverged, RunError, resume
from toughen.runs import train_seed as single
from toughen.runs.config_io import build
from toughen.runs.folder import RunFolder
from toughen.runs.launch import GracefulStop
from toughen.runs.progress import ProgressLogger
from toughen.runs.trainer import NanMonitor, RunCallback, RunTrainer

pytestmark = pytest.mark.usefixtures("no_page")


def test_nan_in_the_perturbed_term_names_the_methods_option(start):
    with pytest.raises(Diverged, match=r"seed 1, step 1: the perturbed term .* method\.step_size=1e\+38"):
        start("smart", step_size=1e38, max_norm=1e38)


def test_nan_in_the_clean_loss_names_the_learning_rate(start, little):
    train = {**little.train, "learning_rate": 1e30, "max_grad_norm": 0.0}
    with pytest.raises(Diverged, match=r"step \d: the clean loss .* train\.learning_rate=1e\+30"):
        start("plain", train=train)


def test_health_finds_the_first_step_of_the_first_part():
    nan_monitor = NanMonitor({"step_size": 0.1}, 1e-3, "bf16")
    for step, value in enumerate([1.0, 2.0, float("nan"), float("nan")], start=1):
        nan_monitor.update(
            step, {"loss": torch.tensor(value), "0/term": torch.tensor(value), "0/loss_clean": torch.tensor(1.0)}
        )
    with pytest.raises(Diverged, match=r"step 3: the perturbed term .*0\.1.*precision=fp32 \(it is bf16\)"):
        nan_monitor.check(seed=1)
    NanMonitor({}, 1.0, "fp32").check(seed=1)


def test_the_log_is_json_for_every_reader(tmp_path):
    """NaN and Infinity are no JSON: jq and browsers refuse the line."""
    job = SimpleNamespace(seed=1, variant="method", run=RunFolder(tmp_path))
    watch = RunCallback(
        SimpleNamespace(**vars(job), config=build({"model": "m", "task": "sst2"})),
        ProgressLogger(speak=False),
        GracefulStop(RunFolder(tmp_path)),
        None,
    )
    watch.trainer = SimpleNamespace(terms={})
    state = SimpleNamespace(global_step=1, epoch=1.0, is_world_process_zero=True)
    watch.on_log(None, state, None, {"eval_loss": float("nan"), "eval_pearson": 0.5, "eval_mse": float("inf")})
    row = json.loads((tmp_path / "metrics.jsonl").read_text(), parse_constant=pytest.fail)
    assert (row["eval_loss"], row["eval_mse"], row["eval_pearson"]) == (None, None, 0.5)


@pytest.mark.parametrize(
    ("method", "said"),
    {
        "smart": "method.step_size or ",
        "rdrop": "method.weight or ",
        "rdrop+smart": "method.smart.step_size or ",
        "sam": "",
    }.items(),
)
def test_health_names_an_option_that_the_method_has(method, said):
    nan_monitor = NanMonitor({"name": method}, 1e-3, "fp32")
    nan_monitor.update(1, {"0/term": torch.tensor(float("nan"))})
    with pytest.raises(Diverged, match=rf"not finite\. Lower {said}train.learning_rate=0.001"):
        nan_monitor.check(seed=1)


def test_out_of_memory_takes_smaller_micro_batches_and_the_same_update(start, little, monkeypatch):
    step = RunTrainer.training_step

    def small_memory(self, model, inputs, *args, **kwargs):
        if len(inputs["input_ids"]) > 2:
            raise torch.OutOfMemoryError("CUDA out of memory.")
        return step(self, model, inputs, *args, **kwargs)

    expected = start("smart", "expected", train={**little.train, "micro_batch": 2})
    monkeypatch.setattr(RunTrainer, "training_step", small_memory)
    found = start("smart", "found")
    weights, same = (load_file(run.path / "model" / "model.safetensors") for run in (found, expected))
    assert all(torch.equal(weights[name], same[name]) for name in same)
    scores = found.results.seeds[0].metrics
    assert scores == pytest.approx(expected.results.seeds[0].metrics, rel=1e-6)  # tested in smaller batches, too
    assert "out of memory with 8 rows a pass: 4 a pass, the update as before" in found.results.notes
    assert "out of memory with 4 rows a pass: 2 a pass, the update as before" in found.results.notes


def test_nothing_of_a_failed_attempt_or_the_last_seed_stays_in_memory(start, little, monkeypatch):
    """A Trainer is in a ring of references: what it holds goes with a collection, not with its last name."""
    models, alive, load, step = [], [], single.load_model, RunTrainer.training_step

    def watched(*args):
        alive.append(sum(each() is not None for each in models))
        model = load(*args)
        models.append(weakref.ref(model))
        return model

    def small_memory(self, model, inputs, *args, **kwargs):
        if len(inputs["input_ids"]) > 4:
            raise torch.OutOfMemoryError("CUDA out of memory.")
        return step(self, model, inputs, *args, **kwargs)

    monkeypatch.setattr(single, "load_model", watched)
    monkeypatch.setattr(RunTrainer, "training_step", small_memory)
    start("fgm", seeds=[1, 2], train={**little.train, "max_steps": 1})
    assert alive == [0, 0, 0]


def test_out_of_memory_with_one_row_gives_up_and_says_what_to_do(start, monkeypatch):
    def never(*_, **__):
        raise torch.OutOfMemoryError("CUDA out of memory.")

    monkeypatch.setattr(RunTrainer, "training_step", never)
    with pytest.raises(RunError, match=r"one row .* data\.max_length"):
        start("plain")


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"train": {"batch_size": 8, "micro_batch": 3}}, "does not divide"),
        ({"train": {"epochs": 0}}, "train.epochs=0"),
        ({"train": {"epoch": 1}}, "there is no option train.epoch. Did you mean 'epochs'"),
        ({"trainer": {"seed": 3}}, "trainer.seed is the run's own; use seed"),
        ({"trainer": {"auto_find_batch_size": True}}, "is the run's own; use nothing: passes shrink by themselves"),
        ({"trainer": {"bf16_full_eval": True}}, "use train.precision: it would halve the saved weights"),
        ({"trainer": {"prediction_loss_only": True}}, "scores and predictions are of all rows"),
        ({"trainer": {"optm": "x"}}, "Did you mean 'optim'"),
        ({"trainer": {"optim": "nonsense"}}, "trainer options: .*nonsense"),
        ({"seeds": [1, 1]}, "different numbers"),
        ({"seeds": [1.5]}, "give a whole number"),
        ({"seeds": True}, "give a whole number"),
        ({"model": "nobody/nothing-here"}, "neither a folder nor available on the Hub"),
        ({"weight": -1.0}, "weight=-1.0: it cannot be negative"),
        ({"wieght": 1.0}, "has no option 'wieght'. Did you mean 'weight'"),
        ({"epochs": 3}, r"smart has no option 'epochs'; the training has: train=\{'epochs': \.\.\.\}"),
        ({"max_length": 3}, r"smart has no option 'max_length'; the data has: data=\{'max_length': \.\.\.\}"),
        ({"seed": 3}, r"smart has no option 'seed'; give seeds=1, or several: seeds=\[1, 2, 3\]"),
        ({"preset": "papr"}, "no preset 'papr'. Did you mean 'paper'"),
        ({"train": {"precision": "fp16"}}, "fp16 needs a GPU"),
        ({"nproc": 3}, "does not divide evenly by 3 processes"),
        ({"data": {"train_file": "x.csv", "labels": 3}}, "data.labels=3: expected a list of text such as"),
        ({"data": {"train_file": "x.csv", "limit": "ten"}}, "data.limit=ten: expected a whole number or null"),
        ({"data": {"train_file": "x.csv", "head": "tags"}}, "data.head=tags: expected classes, regression"),
        ({"data": {"train_file": 3}}, "data.train_file=3: expected text or null"),
        ({"train": {"learning_rate": "fast"}}, "train.learning_rate=fast: expected a number"),
        ({"train": {"keep_checkpoints": 1}}, "train.keep_checkpoints=1: expected true or false"),
        ({"train": {"warmup": -1.0}}, "train.warmup=-1.0: it cannot be negative"),
        ({"baseline": "maybe"}, "baseline=maybe: expected true or false"),
        ({"train": {"shard": True}}, "give --nproc 2 or more"),
        ({"train": {"shard": True}, "peft": True}, "train.shard with --peft"),
    ],
)
def test_bad_settings(start, changes, message):
    if torch.cuda.is_available() and changes.get("train", {}).get("precision"):
        pytest.skip("this machine has a GPU")
    with pytest.raises(ValueError, match=message):
        start("smart", **changes)


def test_a_length_the_model_cannot_read(start, little):
    """32 by its tokenizer. The default is lowered with a notice; who asks for more is told."""
    with pytest.raises(RunError, match=r"data\.max_length=64: .* reads at most 32 tokens; lower it"):
        start("plain", data={**little.data, "max_length": 64})
    run = start("plain", data={**little.data, "limit": 8})
    assert "data.max_length is 32 and not 128: the model reads no more" in run.results.notes
    assert run.load().max_length == 32


def test_the_longest_input_of_models():
    from types import SimpleNamespace

    from transformers import BertConfig, DebertaV2Config, RobertaConfig

    from toughen.tasks import longest_input

    free, states = SimpleNamespace(model_max_length=int(1e30)), SimpleNamespace(model_max_length=100)
    assert longest_input(free, BertConfig(max_position_embeddings=40)) == 40
    assert longest_input(states, BertConfig(max_position_embeddings=512)) == 100
    assert longest_input(free, RobertaConfig(max_position_embeddings=514, pad_token_id=1)) == 512
    assert longest_input(free, DebertaV2Config(position_biased_input=False)) is None


def test_a_run_that_could_not_begin_leaves_nothing(start, little, tmp_path, monkeypatch):
    def none(*_):
        raise error

    with pytest.raises(ValueError, match="there is no column"):
        start("plain", data={**little.data, "label_column": "verdict"})
    assert not (tmp_path / "run").exists()
    monkeypatch.setattr(single, "load_model", none)
    for raised in (TypeError, torch.OutOfMemoryError):
        error = raised("not to be made")
        with pytest.raises((TypeError, RunError)):
            start("plain")
        assert not (tmp_path / "run").exists()
    monkeypatch.undo()
    start("plain", data={**little.data, "limit": 8})  # so the same name can be used


@pytest.mark.parametrize("room", [60_000, 100_000])  # too little for the weights, and for the optimizer's moments
def test_a_full_disk_is_told_in_one_line_and_the_run_goes_on_later(start, tmp_path, room):
    resource = pytest.importorskip("resource")
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (room, before[1]))
    try:
        with pytest.raises(RunError, match=r"run: the disk is full .* then: toughen train --resume .*run$"):
            start("plain")
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
    assert len(resume(tmp_path / "run").results.seeds) == 1


def test_a_metric_of_which_less_is_better_selects_no_epoch(start, little, tmp_path, monkeypatch):
    file = tmp_path / "rates.csv"
    file.write_text("text,label\n" + "".join(f"good film {number},{number / 4}\n" for number in range(24)))
    own = tasks.Task("rates", "Rates", "sentence", "regression", ("text",), metrics=("mse", "pearson"))
    monkeypatch.setattr(tasks.loader, "task_named", lambda _: own)
    data = {"train_file": str(file), "cache_dir": little.data["cache_dir"]}
    with pytest.raises(RunError, match="mse is better when lower; put another first, such as pearson"):
        start("plain", task="rates", data=data)


def test_no_rows_can_be_held_out(start, tmp_path):
    (tmp_path / "x.csv").write_text("text,label\n" + "".join(f"film {n},{n}\n" for n in range(20)))
    with pytest.raises(RunError, match=r"20 training rows of 20 classes, too few to hold some out: .*regression"):
        start("plain", data={"train_file": str(tmp_path / "x.csv"), "cache_dir": str(tmp_path)})
    assert not (tmp_path / "run").exists()


@pytest.fixture
def spoilt(little, tmp_path):
    """A copy of the model with something done to it."""

    def make(harm):
        folder = tmp_path / "spoilt"
        shutil.copytree(little.model, folder)
        harm(folder)
        return str(folder)

    return make


def without_tokenizer(folder):
    for file in folder.glob("tokenizer*"):
        file.unlink()


def weights_of_another(folder):
    GPT2LMHeadModel(GPT2Config(vocab_size=25, n_embd=32, n_layer=2, n_head=2)).save_pretrained(folder / "other")
    (folder / "other" / "model.safetensors").replace(folder / "model.safetensors")


def half_a_file(folder):
    weights = folder / "model.safetensors"
    weights.write_bytes(weights.read_bytes()[:20_000])


def not_a_number(folder):
    weights = load_file(folder / "model.safetensors")
    weights["bert.encoder.layer.0.attention.self.query.weight"][0, 0] = math.nan
    save_file(weights, folder / "model.safetensors", {"format": "pt"})


def another_size(folder):
    config = json.loads((folder / "config.json").read_text())
    (folder / "config.json").write_text(json.dumps({**config, "hidden_size": 2 * config["hidden_size"]}))


def fewer_words(folder):
    config = BertConfig.from_pretrained(folder, vocab_size=10)
    BertForSequenceClassification(config).save_pretrained(folder)


@pytest.mark.parametrize(
    ("harm", "message"),
    [
        (without_tokenizer, "has no tokenizer with a vocabulary"),
        (weights_of_another, "lacks most weights of a BertModel"),
        (half_a_file, "weights cannot be read"),
        (fewer_words, "the tokenizer has 25 words and the model 10"),
        (not_a_number, "query.weight holds NaN"),
        (another_size, "copy both from one model"),
        (lambda folder: (folder / "config.json").unlink(), "has no config.json"),
        (lambda folder: (folder / "tokenizer.json").unlink(), "has no tokenizer.json"),
        (lambda folder: (folder / "tokenizer.json").write_text("{}"), "a file of it is broken"),
    ],
)
def test_a_model_that_would_learn_from_nothing(start, spoilt, tmp_path, harm, message):
    with pytest.raises(RunError, match=message):
        start("plain", model=spoilt(harm))
    assert not (tmp_path / "run").exists()


def test_a_run_is_no_model_and_a_model_with_a_head_takes_no_second(start, spoilt, tmp_path):
    def as_a_run(folder):
        second_order(folder, num_labels=2, q=4, k=4).save_pretrained(folder / "model")
        (folder / "config.json").unlink()
        for file in folder.glob("tokenizer*"):
            file.rename(folder / "model" / file.name)

    run = spoilt(as_a_run)
    with pytest.raises(RunError, match=r"is a run; give its model: '.*spoilt/model'"):
        start("plain", model=run)
    with pytest.raises(RunError, match="has a second-order head already; leave head out to train it on"):
        start("plain", model=f"{run}/model", head={"name": "second-order"})
    assert not (tmp_path / "run").exists()


def test_a_model_without_a_table_of_words(start, little, monkeypatch):
    """CANINE and Perceiver read characters, and transformers raises when it is asked for their table."""

    def none(_model):
        raise NotImplementedError

    monkeypatch.setattr(BertForSequenceClassification, "get_input_embeddings", none)
    start("plain", data={**little.data, "limit": 8})


def test_a_body_of_another_size_is_not_made_anew(start):
    with pytest.raises(RunError, match=r"is \[32\] in the file and \[64\] in the config"):
        start("plain", model_config={"hidden_size": 64})


def test_a_method_that_does_nothing_says_so_on_the_screen(start, little, capsys):
    off = {"hidden_dropout_prob": 0.0, "attention_probs_dropout_prob": 0.0}
    start("rdrop", model_config=off, data={**little.data, "limit": 8})
    assert "! R-Drop compares two dropout masks" in capsys.readouterr().out


def test_a_warm_up_longer_than_the_training(start, little, capsys):
    start("plain", train={**little.train, "max_steps": 2, "warmup": 100})
    assert "! train.warmup=100, but there are 2 updates" in capsys.readouterr().out


def test_rows_that_are_left_out_and_odd_classes_are_told(start, little, tmp_path, capsys):
    rows = [("text", "label"), *((f"film {i}", ("NA", "good")[i % 2]) for i in range(16)), ("film", "")]
    with (tmp_path / "own.csv").open("w", newline="") as file:
        csv.writer(file).writerows(rows)
    own = {"train_file": str(tmp_path / "own.csv"), "on_bad": "skip", "cache_dir": little.data["cache_dir"]}
    start("plain", data=own, train={**little.train, "max_steps": 1})
    told = capsys.readouterr().out
    assert "! 'NA' is a class; if it means that there is no label, give labels=[...] (--data.labels)" in told
    assert "! train: 1 row left out (no label)" in told
    assert "text: 'text'" in told


def test_the_columns_that_were_guessed_are_told(start, little, tmp_path, capsys):
    """A date with its time looks like a text, so that the two would be read as a pair."""
    rows = [("sent", "mail", "label"), *(("May 12:30", f"film {i}", "ab"[i % 2]) for i in range(16))]
    with (tmp_path / "own.csv").open("w", newline="") as file:
        csv.writer(file).writerows(rows)
    own = {"train_file": str(tmp_path / "own.csv"), "cache_dir": little.data["cache_dir"]}
    start("plain", data=own, train={**little.train, "max_steps": 1})
    assert "text: 'sent' and 'mail'" in capsys.readouterr().out
    start("plain", "asked", data={**own, "text_column": "mail"}, train={**little.train, "max_steps": 1})
    assert "text: " not in capsys.readouterr().out
