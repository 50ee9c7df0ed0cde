"""The second-order model as a citizen of transformers: tasks, saving, pipelines, Trainer, adapters, compilation."""

import json
import subprocess
import sys
from pathlib import Path

import pytest
import torch
import transformers
from transformers import AutoModel, AutoModelForMultipleChoice, AutoModelForSequenceClassification

from toughen.heads import (
    SecondOrderConfig,
    SecondOrderForSequenceClassification,
    head_settings,
    model_card,
    second_order,
)

from .conftest import batch_for, tiny

SMALL = {"q": 6, "k": 4, "dropout": 0.0}
SOURCE = str(Path(__file__).parents[2] / "src")


@pytest.fixture
def batch():
    return batch_for("bert")


def tiny_tokenizer():
    words = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "good", "bad", "film", "a", "very"]
    return transformers.BertTokenizerFast(vocab={word: index for index, word in enumerate(words)})


@pytest.mark.parametrize(
    ("problem", "labels", "expected"),
    [
        (None, torch.tensor([0, 1, 2, 0]), lambda y, t: torch.nn.functional.cross_entropy(y, t)),
        (None, torch.rand(4), lambda y, t: torch.nn.functional.mse_loss(y.squeeze(1), t)),
        ("regression", torch.rand(4, 3), torch.nn.functional.mse_loss),
        ("multi_label_classification", torch.ones(4, 3), torch.nn.functional.binary_cross_entropy_with_logits),
    ],
)
def test_losses_by_problem_type(bert, batch, problem, labels, expected):
    one = problem is None and labels.is_floating_point()
    model = second_order(bert, num_labels=1 if one else 3, problem_type=problem, **SMALL)
    out = model(**batch, labels=labels)
    torch.testing.assert_close(out.loss, expected(out.logits, labels))


def test_two_losses_of_sum_loss(bert, batch):
    model = second_order(bert, 3, fusion="sum_loss", **SMALL)
    labels = torch.tensor([0, 1, 2, 0])
    out = model(**batch, labels=labels)
    hidden = model.backbone(**batch).last_hidden_state
    pair = model.classifier(hidden, batch["attention_mask"])
    torch.testing.assert_close(out.loss, sum(torch.nn.functional.cross_entropy(one, labels) for one in pair))
    torch.testing.assert_close(out.logits, sum(pair) / 2)


def test_multiple_choice(bert, batch, tmp_path):
    model = second_order(bert, task="multiple-choice", **SMALL)
    choices = {name: value.view(2, 2, -1) for name, value in batch.items()}
    out = model(**choices, labels=torch.tensor([1, 0]))
    assert out.logits.shape == (2, 2)
    torch.testing.assert_close(out.loss, torch.nn.functional.cross_entropy(out.logits, torch.tensor([1, 0])))
    model.save_pretrained(tmp_path)
    assert torch.equal(AutoModelForMultipleChoice.from_pretrained(tmp_path)(**choices).logits, out.logits)
    with pytest.raises(ValueError, match="choices"):
        model(**batch)


def test_tuples_hidden_states_and_attentions(bert, batch):
    model = second_order(bert, 2, **SMALL)
    loss, logits = model(**batch, labels=torch.zeros(4, dtype=torch.long), return_dict=False)[:2]
    assert loss.dim() == 0
    assert logits.shape == (4, 2)
    assert len(model(**batch, output_hidden_states=True).hidden_states) == 3
    model.set_attn_implementation("eager")
    assert model.backbone.config._attn_implementation == "eager"
    assert len(model(**batch, output_attentions=True).attentions) == 2


def test_special_tokens_stay_out_by_choice(bert, batch):
    ids = batch["input_ids"].clone()
    special = torch.zeros_like(ids)
    special[:, 0] = 1
    special[0, 8] = special[1, 4] = special[2, 1] = 1
    ids[special == 1] = 3
    batch = {**batch, "input_ids": ids}
    plain = second_order(bert, 2, **SMALL).eval()
    skipping = second_order(bert, 2, skip_special=True, special_token_ids=[3], **SMALL).eval()
    skipping.classifier.load_state_dict(plain.classifier.state_dict())
    hidden = plain.backbone(**batch).last_hidden_state
    expected = plain.classifier(hidden, batch["attention_mask"] * (1 - special))
    torch.testing.assert_close(skipping(**batch).logits, expected)
    assert not torch.allclose(plain(**batch).logits, expected)
    skipping.config.special_token_ids = None
    torch.testing.assert_close(skipping(**batch, special_tokens_mask=special).logits, expected)
    with pytest.raises(ValueError, match="special_token_ids=tokenizer"):
        skipping(**batch)


def test_the_backbone_keeps_its_weights(bert):
    before = {name: value.clone() for name, value in bert.state_dict().items()}
    model = second_order(bert, 2, **SMALL)
    after = model.backbone.state_dict()
    assert all(torch.equal(after[name], value) for name, value in before.items() if not name.startswith("pooler"))
    assert not any("pooler" in name for name in after)


def test_loads_a_backbone_by_name_with_its_dtype(bert, batch, tmp_path):
    bert.bfloat16().save_pretrained(tmp_path / "bert")
    model = second_order(tmp_path / "bert", 2, preset="rte", from_pretrained={"dtype": torch.bfloat16}).eval()
    assert {parameter.dtype for parameter in model.parameters()} == {torch.bfloat16}
    assert (model.config.head["q"], model.config.head["k"], model.config.head["dropout"]) == (56, 32, 0.8)
    assert model(**batch).logits.dtype == torch.bfloat16


def test_resized_embeddings_are_saved(bert, batch, tmp_path):
    model = second_order(bert, 2, **SMALL).eval()
    model.resize_token_embeddings(70)
    model.save_pretrained(tmp_path)
    loaded = AutoModelForSequenceClassification.from_pretrained(tmp_path)
    assert loaded.get_input_embeddings().num_embeddings == 70
    assert torch.equal(loaded(**batch).logits, model(**batch).logits)


def test_a_fresh_process_reloads_bit_identically(bert, batch, tmp_path):
    model = second_order(bert, id2label={0: "no", 1: "yes"}, singular_values=2, iterations=3, **SMALL).eval()
    for shards in ("50GB", "20KB"):
        model.save_pretrained(tmp_path / shards, max_shard_size=shards)
    assert len(list((tmp_path / "20KB").glob("*.safetensors"))) > 1
    torch.save({**batch, "logits": model(**batch).logits}, tmp_path / "batch.pt")
    script = f"""
import toughen.heads
import torch
from transformers import AutoConfig, AutoModelForSequenceClassification
folder = {str(tmp_path)!r}
batch = torch.load(folder + "/batch.pt")
expected = batch.pop("logits")
for shards in ("50GB", "20KB"):
    model = AutoModelForSequenceClassification.from_pretrained(folder + "/" + shards)
    assert type(model).__name__ == "SecondOrderForSequenceClassification", shards
    assert torch.equal(model(**batch).logits, expected), shards
    assert AutoConfig.from_pretrained(folder + "/" + shards).id2label == {{0: "no", 1: "yes"}}, shards
"""
    environment = {"PYTHONPATH": SOURCE, "OMP_NUM_THREADS": "1", "HF_HUB_OFFLINE": "1", "PATH": "/usr/bin:/bin"}
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, env=environment)
    assert done.returncode == 0, done.stderr


def test_importing_costs_nothing_and_registers_later():
    script = """
import sys
import torch, transformers, time
start = time.process_time()  # not the clock's: the machine may be busy
import toughen.heads
assert time.process_time() - start < 0.2
assert "transformers.models.auto.configuration_auto" not in sys.modules
assert "toughen.heads.modeling" not in sys.modules
from transformers import AutoConfig
config = AutoConfig.for_model("second_order", backbone_config={"model_type": "bert", "hidden_size": 32})
assert type(config).__name__ == "SecondOrderConfig" and config.hidden_size == 32
"""
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, env={"PYTHONPATH": SOURCE})
    assert done.returncode == 0, done.stderr


def test_saved_config_and_card(bert, tmp_path):
    model = second_order(bert, 2, preset=("original-text", "cola"))
    model.save_pretrained(tmp_path)
    saved = json.loads((tmp_path / "config.json").read_text())
    assert saved["model_type"] == "second_order"
    assert saved["backbone_config"]["model_type"] == "bert"
    assert saved["head"]["norm"] == "batch"
    card = (tmp_path / "README.md").read_text()
    assert card == model_card(model)
    assert "pipeline_tag: text-classification" in card
    assert str(tmp_path) not in card
    (tmp_path / "README.md").write_text("mine")
    model.save_pretrained(tmp_path)
    assert (tmp_path / "README.md").read_text() == "mine"


def test_no_folder_of_this_machine_is_in_the_saved_config(bert, tmp_path):
    bert.save_pretrained(tmp_path / "backbone")
    backbone = AutoModel.from_pretrained(tmp_path / "backbone")
    second_order(backbone, 2).save_pretrained(tmp_path / "model")
    assert str(tmp_path) not in (tmp_path / "model" / "config.json").read_text()
    backbone.config._name_or_path = "somebody/encoder"
    second_order(backbone, 2).save_pretrained(tmp_path / "named")
    assert "somebody/encoder" in (tmp_path / "named" / "config.json").read_text()


def test_label_names_leave_the_cards_table_whole(bert):
    card = model_card(second_order(bert, id2label={0: "yes|no", 1: "on two\nlines"}))
    assert "| labels | yes\\|no, on two lines |" in card.splitlines()


def test_a_class_made_from_ours_is_saved_with_a_card(bert, tmp_path):
    """FSDP makes one for every model it shards, a user may write one."""

    class FSDPSecondOrderForSequenceClassification(SecondOrderForSequenceClassification):
        pass

    model = FSDPSecondOrderForSequenceClassification(second_order(bert, 2, q=6, k=4).config)
    model.save_pretrained(tmp_path)
    card = (tmp_path / "README.md").read_text()
    assert "# SecondOrderForSequenceClassification" in card
    assert "pipeline_tag: text-classification" in card


def test_pipeline(tmp_path):
    tokenizer = tiny_tokenizer()
    model = second_order(tiny("bert"), id2label={0: "bad", 1: "good"}, **SMALL)
    model.save_pretrained(tmp_path / "model")
    tokenizer.save_pretrained(tmp_path / "model")
    pipe = transformers.pipeline("text-classification", model=str(tmp_path / "model"))
    one, two = pipe(["a very good film", "bad"], padding=True, batch_size=2)
    assert {one["label"], two["label"]} <= {"good", "bad"}
    assert abs(pipe("bad")[0]["score"] - two["score"]) < 1e-6


def test_trainer_learns_and_resumes(tmp_path):
    generator = torch.Generator().manual_seed(0)
    rows = [{"input_ids": torch.randint(5, 60, (8,), generator=generator)} for _ in range(32)]
    rows = [
        {**row, "attention_mask": torch.ones(8, dtype=torch.long), "labels": int(row["input_ids"][3] > 30)}
        for row in rows
    ]
    torch.manual_seed(0)
    model = second_order(tiny("bert"), 2, **SMALL)
    arguments = transformers.TrainingArguments(
        str(tmp_path), per_device_train_batch_size=16, max_steps=30, learning_rate=5e-3, save_steps=15,
        logging_steps=10, report_to=[], use_cpu=True, disable_tqdm=True, gradient_checkpointing=True,
    )  # fmt: skip
    trainer = transformers.Trainer(model, arguments, train_dataset=rows, eval_dataset=rows)
    assert not trainer.model_accepts_loss_kwargs
    before = trainer.evaluate()["eval_loss"]
    trainer.train()
    assert trainer.evaluate()["eval_loss"] < before / 2
    loaded = AutoModelForSequenceClassification.from_pretrained(tmp_path / "checkpoint-30").eval()
    again = {"input_ids": torch.stack([row["input_ids"] for row in rows])}
    torch.testing.assert_close(loaded(**again).logits, trainer.model.eval()(**again).logits)


@pytest.mark.parametrize("family", ["bert", "llama", "vit"])
def test_gradient_checkpointing_gives_the_same_gradients(family):
    model, batch = second_order(tiny(family), 2, **SMALL).train(), batch_for(family)
    labels = torch.zeros(len(next(iter(batch.values()))), dtype=torch.long)
    gradients = []
    for switch in (lambda: None, model.gradient_checkpointing_enable):
        switch()
        model.zero_grad()
        model(**batch, labels=labels).loss.backward()
        gradients.append([parameter.grad.clone() for parameter in model.parameters()])
    assert model.is_gradient_checkpointing
    for one, two in zip(*gradients, strict=True):
        torch.testing.assert_close(one, two)


def test_adapters_on_the_backbone(bert, batch, tmp_path):
    peft = pytest.importorskip("peft", reason="needs the peft extra")
    model = second_order(bert, 2, **SMALL)
    adapted = peft.get_peft_model(model, peft.LoraConfig(task_type="SEQ_CLS", r=2, target_modules=["query", "value"]))
    learning = {name for name, parameter in adapted.named_parameters() if parameter.requires_grad}
    assert all("lora" in name or "classifier" in name for name in learning)
    assert sum("classifier" in name for name in learning) == len(
        list(second_order(tiny("bert"), 2).classifier.parameters())
    )
    optimizer = torch.optim.SGD(adapted.parameters(), 0.5)
    adapted.train()(**batch, labels=torch.tensor([0, 1, 0, 1])).loss.backward()
    optimizer.step()
    logits = adapted.eval()(**batch).logits
    adapted.save_pretrained(tmp_path)
    fresh = peft.PeftModel.from_pretrained(second_order(tiny("bert"), 2, **SMALL), tmp_path).eval()
    torch.testing.assert_close(fresh(**batch).logits, logits)
    with pytest.raises(ValueError, match="head on first"):
        second_order(adapted, 2)


def test_compiles_into_one_graph(bert, batch):
    model = second_order(bert, 2, **SMALL).eval()
    expected = model(**batch).logits
    torch._dynamo.reset()
    compiled = torch.compile(model, backend="aot_eager", fullgraph=True)
    out = compiled(**batch)
    torch.testing.assert_close(out.logits, expected)
    out.logits.sum().backward()


def test_an_attached_hook_on_the_embedding_is_reached(bert, batch):
    model, seen = second_order(bert, 2, **SMALL), []
    handle = model.get_input_embeddings().register_forward_hook(lambda module, args, out: seen.append(out) or out + 1)
    moved = model(**batch).logits
    handle.remove()
    assert len(seen) == 1
    assert not torch.allclose(moved, model(**batch).logits)


@pytest.mark.parametrize(
    ("arguments", "error", "word"),
    [
        ({"task": "tagging"}, ValueError, "multiple-choice"),
        ({"task": "image-classification"}, ValueError, "does not fit a bert"),
        ({"num_labels": 3, "id2label": {0: "a"}}, ValueError, "id2label names 1"),
        ({"settings": head_settings("rte"), "q": 3}, ValueError, "drop preset"),
        ({"from_pretrained": {"dtype": "auto"}}, ValueError, "by name"),
        ({"num_labels": 0}, ValueError, "at least 1"),
        ({"depth": 3}, TypeError, "unknown head setting depth"),
    ],
)
def test_wrong_arguments_are_refused(bert, arguments, error, word):
    with pytest.raises(error, match=word):
        second_order(bert, **arguments)


def test_wrong_inputs_are_refused(bert, batch):
    with pytest.raises(TypeError, match="give a model"):
        second_order(torch.nn.Linear(2, 2), 2)
    with pytest.raises(ValueError, match="padding mask"):
        second_order(bert, 2, **SMALL)(batch["input_ids"], torch.ones(4, 1, 9, 9))
    with pytest.raises(ValueError, match="class_token"):
        SecondOrderConfig(class_token="middle")
    with pytest.raises(TypeError, match="unknown head setting depth"):
        SecondOrderConfig(head={"depth": 3})


def test_a_folder_with_a_head_of_its_own_is_refused_with_the_way_out(bert, batch, tmp_path):
    second_order(bert, 2, **SMALL).save_pretrained(tmp_path)
    with pytest.raises(ValueError, match="AutoModelForSequenceClassification") as told:
        second_order(tmp_path, 3, **SMALL)
    assert len(str(told.value)) < 400
    again = second_order(AutoModelForSequenceClassification.from_pretrained(tmp_path), 3, **SMALL)
    assert again(**batch).logits.shape == (4, 3)


def test_label_names_from_a_file_keep_their_numbers(bert):
    """JSON has no whole numbers for keys."""
    config = second_order(bert, id2label={"0": "no", "1": "yes"}, **SMALL).config
    assert config.id2label == {0: "no", 1: "yes"}
    assert config.label2id == {"no": 0, "yes": 1}
