"""Every head, adapters, the second-order head and a method from a file run through the same folder."""

import json
import re

import numpy as np
import pytest
import torch

from toughen.runs import RunError, load, train
from toughen.runs.config_io import build
from toughen.runs.modeling import load_model, load_tokenizer, merge_adapters
from toughen.runs.predictor import Predictor
from toughen.tasks import Task

from ..families.zoo import END, FAMILIES
from ..tasks.task_samples import rows_of
from ..tiny import write_jsonl

pytestmark = pytest.mark.usefixtures("no_page")

INPUTS = {
    "pair": ("the film is good", "a dull story"),
    "regression": "the film is good",
    "multilabel": "good and bad",
    "tokens": "the film is good",
    "choices": {"context": "the film", "question": "it is", "choices": ["good", "bad", "dull"]},
}


@pytest.mark.parametrize("head", INPUTS)
def test_heads(head, little, tmp_path):
    file = write_jsonl(tmp_path / "rows.jsonl", rows_of(head))
    data = {"train_file": file, "validation_file": file, "test_file": file, "cache_dir": tmp_path / "cache"}
    run = train(
        "r3f", model=little.model, data=data, train={**little.train, "max_steps": 2}, output_dir=tmp_path / "run"
    )
    said = load(run.path)(INPUTS[head])
    lines = (run.path / "seeds/1/predictions/test.tsv").read_text().splitlines()
    assert len(lines) == len(rows_of(head)) + 1
    first = lines[1].split("\t")[1]
    if head == "regression":
        assert isinstance(said.label, float)
        float(first)
    elif head == "multilabel":
        assert set(said.label) <= set(said.probabilities) == {"good", "bad", "dull"}
        assert set(json.loads(first)) <= {"good", "bad", "dull"}
    elif head == "tokens":
        assert len(said.label) == 4
        assert len(json.loads(first)) == len(rows_of(head)[0]["tokens"])
    else:
        assert said.probabilities[said.label] == max(said.probabilities.values())


def test_choices_of_different_numbers_are_not_mixed_up(little, tmp_path):
    from transformers import BertForMultipleChoice

    model = BertForMultipleChoice.from_pretrained(little.model, ignore_mismatched_sizes=True)
    model.save_pretrained(tmp_path)
    predict = load(little.model)
    predict.tokenizer.save_pretrained(tmp_path)
    predict = load(tmp_path)
    row = {"context": "the film", "question": "it is", "choices": ["good", "bad", "dull", "cold"]}
    rows = [row, {**row, "choices": ["bad", "good"]}, {**row, "choices": ["a", "plot", "so"]}, row]
    for alone, together in zip(map(predict, rows), predict(rows), strict=True):
        assert together.probabilities == pytest.approx(alone.probabilities)
    with pytest.raises(RunError, match="input 1: choices is 'good'; give a list of texts"):
        predict({**row, "choices": "good"})


def test_words_are_cut_for_a_prediction_as_for_the_training(little, monkeypatch):
    """RoBERTa's pieces hold the space before a word, which words given one by one do not have."""
    from tokenizers import Tokenizer, models, pre_tokenizers
    from transformers import PreTrainedTokenizerFast

    pieces = ["<pad>", *pre_tokenizers.ByteLevel.alphabet(), "go", "Ġgo"]
    core = Tokenizer(models.BPE({piece: i for i, piece in enumerate(pieces)}, [("g", "o"), ("Ġ", "go")]))
    core.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer = PreTrainedTokenizerFast(tokenizer_object=core, pad_token="<pad>", model_max_length=32)
    seen = []

    def logits(self, encoded, count):
        seen.append(encoded["input_ids"])
        return np.zeros((count, len(encoded["input_ids"][0]), 2))

    monkeypatch.setattr(Predictor, "logits", logits)
    task = Task("own", "own", "tokens", "tokens", ("tokens",), ("O", "B"))
    assert Predictor(None, tokenizer, task, 32)("go go").label == ["O", "O"]
    assert seen == [[tokenizer("go go")["input_ids"]]]


def test_adapters_are_merged_into_a_plain_model(start):
    pytest.importorskip("peft")
    from transformers import AutoModelForSequenceClassification

    run = start("smart", peft={"name": "lora", "r": 2})
    model = AutoModelForSequenceClassification.from_pretrained(run.path / "model")
    assert not any("lora" in name for name, _ in model.named_parameters())
    assert (run.path / "seeds/1/adapter/adapter_model.safetensors").is_file()
    lines = (run.path / "seeds/1/predictions/validation.tsv").read_text().splitlines()
    said = run.load()("the film is good")
    assert said.label in ("neg", "pos")
    assert len(lines) == 21


@pytest.mark.parametrize(
    ("family", "head", "more"),
    [
        ("bert", "tokens", {}),
        ("bert", "classes", {"peft": {"targets": ["query", "dense"]}}),  # a name that the pooler has too
        ("bert", "classes", {"head": {"name": "second-order", "q": 8, "k": 4}}),
        ("distilbert", "classes", {}),
        ("distilbert", "choices", {}),
        ("deberta-v2", "classes", {}),
        ("bart", "classes", {}),
        ("modernbert", "tokens", {}),
        ("gpt2", "classes", {}),
        ("xlnet", "choices", {}),
    ],
)
def test_what_is_made_anew_is_trained_whole_and_kept_with_the_adapters(family, head, more, little, tmp_path):
    peft = pytest.importorskip("peft")
    from transformers import AutoModel

    without = {"add_pooling_layer": False} if family == "bert" else {}
    body = AutoModel.from_config(FAMILIES[family].build(AutoModel).config, **without)
    body.save_pretrained(tmp_path / "body")
    tokenizer, task = load_tokenizer(little.model), Task("own", "own", "single", head, ("text",), ("a", "b", "c"))
    options = {"model": str(tmp_path / "body"), "data": little.data, **more}

    lora = {"name": "lora", "r": 2, **more.get("peft", {})}
    model = load_model(build({**options, "peft": lora}), task, tokenizer).eval()
    for name, weight in model.named_parameters():
        first, _, rest = name.removeprefix("base_model.model.").replace("base_layer.", "").partition(".")
        if weight.requires_grad:
            torch.nn.init.normal_(weight, std=0.2)
            assert "lora_" not in name or first == model.get_base_model().base_model_prefix
        else:
            assert rest in body.state_dict() or "original_module" in name
    model.save_pretrained(tmp_path / "adapter")

    torch.manual_seed(5)  # another random head
    base = load_model(build({**options, "peft": None}), task, tokenizer)
    again = peft.PeftModel.from_pretrained(base, tmp_path / "adapter").eval()
    words = torch.randint(5, 20, (2, 3, 7) if head == "choices" else (2, 7))
    words[..., -1] = END
    batch = {"input_ids": words, "attention_mask": torch.ones_like(words)}
    with torch.no_grad():
        kept, whole = again(**batch).logits, merge_adapters(model)(**batch).logits
    torch.testing.assert_close(kept, whole, rtol=1e-4, atol=1e-4)


def test_second_order_head(start):
    run = start("freelb", head={"name": "second-order", "q": 8, "k": 4})
    assert run.results.head == "second-order"
    told = (run.path / "train.log").read_text()
    assert " + second-order head · " in told
    assert re.search(r"epoch \d \(step \d+\): train loss \d\.\d+ · eval loss \d\.\d+ · accuracy", told)
    assert type(run.load().model).__name__ == "SecondOrderForSequenceClassification"
    assert "import toughen" in (run.path / "README.md").read_text()


def test_a_method_from_a_file(start, tmp_path, capsys):
    from toughen.cli.main import main

    file = tmp_path / "mine.py"
    assert main(["new", str(file)]) == 0
    run = start(f"{file}:mine", weight=2.0)
    assert "Add(weight=2.0" in run.results.method.repr
    assert run.config.method["weight"] == 2.0


def test_a_sum_with_settings_of_its_parts(start):
    run = start("smart+rdrop", smart={"weight": 3.0}, seeds=[5])
    assert "Add(weight=3.0" in run.results.method.repr
    assert run.results.seeds[0].seed == 5


def test_the_best_epoch_is_taken_and_patience_ends_early(start, little):
    run = start("plain", train={**little.train, "epochs": 12, "patience": 1})
    rows = [json.loads(line) for line in (run.path / "metrics.jsonl").read_text().splitlines()]
    scored = [(row["eval_accuracy"], row["epoch"]) for row in rows if row["kind"] == "eval"]
    best = max(scored, key=lambda each: (each[0], -each[1]))
    assert run.results.seeds[0].best_epoch == best[1]
    assert run.results.seeds[0].metrics["accuracy"] == best[0]
    assert scored[-1][1] == best[1] + 1 < 12


def test_keys_of_the_models_config(start):
    run = start("plain", model_config={"classifier_dropout": 0.25})
    assert run.load().model.dropout.p == 0.25
    assert run.config.model_config == {"classifier_dropout": 0.25}


@pytest.mark.parametrize(
    ("keys", "message"),
    [
        ({"classifier_droput": 0.1}, "BertConfig has no such key. Did you mean 'classifier_dropout'.* give null"),
        ({"hidden_dropout_prob": "much"}, "model_config.hidden_dropout_prob=much: expected a number"),
        ({"num_labels": 3}, "model_config.num_labels cannot be changed"),
    ],
)
def test_keys_the_model_does_not_know_are_refused(start, tmp_path, keys, message):
    with pytest.raises(RunError, match=message):
        start("plain", model_config=keys)
    assert not (tmp_path / "run").exists()  # what could not begin leaves nothing behind


def test_a_key_that_only_the_code_reads(little, tmp_path):
    """DeBERTa's heads ask for cls_dropout, which its config does not have by itself."""
    from transformers import AutoTokenizer, DebertaV2Config, DebertaV2ForSequenceClassification

    size = {"hidden_size": 16, "num_hidden_layers": 1, "num_attention_heads": 2, "intermediate_size": 16}
    DebertaV2ForSequenceClassification(DebertaV2Config(vocab_size=40, **size)).save_pretrained(tmp_path / "deberta")
    AutoTokenizer.from_pretrained(little.model).save_pretrained(tmp_path / "deberta")
    train_options = {**little.train, "max_steps": 1}
    run = train(
        "plain",
        model=tmp_path / "deberta",
        data=little.data,
        train=train_options,
        output_dir=tmp_path / "run",
        model_config={"cls_dropout": 0.3},
    )
    assert run.load().model.dropout.p == 0.3


def test_methods_as_objects(start, no_page, tmp_path):
    import toughen
    from toughen import Method, compare, search, sites
    from toughen.combine.single_pass import Add

    no_page.undo()
    run = start(toughen.smart(weight=5.0) + toughen.rdrop(), seeds=[1])
    assert run.config.method == {"name": "smart+rdrop", "smart": {"weight": 5.0}}  # told, so it can be run again
    by_name = start("smart+rdrop", "by_name", smart={"weight": 5.0}, seeds=[1])
    assert run.results.mean == by_name.results.mean
    assert (run.path / "report.html").is_file()

    mine = Method(sites.WordEmbedding(), search.Noise(search.Normal(0.123)), compare.Divergence("js"), Add(0.7))
    run = start(mine, "mine")
    assert vars(run.results.method) == {"name": "own", "settings": {}, "repr": repr(mine)}
    assert "Normal(scale=0.123" in (run.path / "config.yaml").read_text()
    assert any("cannot run it again" in note for note in run.results.notes)
    (run.path / "seeds/1/result.json").unlink()
    with pytest.raises(ValueError, match="without a registered name; pass it again"):
        toughen.resume(run.path)
    with pytest.raises(RunError, match="began with another method"):
        toughen.resume(run.path, toughen.smart())
    assert toughen.resume(run.path, mine).results.seeds[0].metrics == run.results.seeds[0].metrics
    with pytest.raises(RunError, match="weight: settings need the name of a method"):
        start(mine, "again", weight=2.0)
    with pytest.raises(RunError, match="give a name such as 'smart'"):
        start(toughen.smart, "again")
