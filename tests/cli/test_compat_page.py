"""Every line of the middle columns of docs/compat.md runs, with small stand-ins for models and data."""

import json
import re
import shlex
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
import torch
import yaml
from transformers import AutoConfig, AutoModel, BertTokenizerFast

import toughen
from toughen import recipes
from toughen.cli.main import main
from toughen.cli.parser import parse_train
from toughen.runs.config_io import to_yaml
from toughen.sweeps.loading import load_definition

from ..tiny import bert

PAGE = (Path(__file__).resolve().parents[2] / "docs" / "compat.md").read_text(encoding="utf-8")
HEAD = "| the document shows | here | equal, or what differs |"
NETWORK = ("tasks fetch",)  # downloads; tests/tasks/test_task_fetch.py runs them
WORDS = ["a", "b", "c", "d", "e", "f", "g", "h", "i", "j", "k", "l", "m", "n", "o", "p"]
MODELS = {
    "bert-base-uncased": "bert",
    "bert-base-cased": "bert",
    "roberta-base": "roberta",
    "microsoft/deberta-base": "deberta",
    "microsoft/deberta-v2-xxlarge": "deberta-v2",
}
TEXTS = [f"{one} {two} {one}" for one, two in zip(WORDS, reversed(WORDS), strict=True)]
# Four rows an update are all rows: an epoch is one update.
SMALL = ["--data.limit=4", "--train.batch_size=4", "--train.warmup=0", "--data.cache_dir=cache"]


def sections() -> dict[str, list[tuple[str, str, str]]]:
    """Heading -> rows of its table."""
    found = {}
    for part in PAGE.split("\n## ")[1:]:
        if HEAD in part:
            table = part.split(HEAD)[1].split("\n\n")[0].strip().splitlines()[1:]
            cells = [row.strip("| ").replace("| |", "| - |").split(" | ") for row in table]
            found[part.partition("\n")[0]] = [tuple([*row, ""][:3]) for row in cells]
    return found


TABLES = sections()


def spans(cell: str) -> list[str]:
    return re.findall(r"`([^`]+)`", cell)


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    """A folder with the models by their names, and the sets in their authors' layout."""
    folder = tmp_path_factory.mktemp("compat")
    words = folder / "vocab.txt"
    words.write_text("\n".join(["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *WORDS, "no", "yes"]))
    for name, kind in MODELS.items():
        sizes = {"hidden_size": 16, "num_hidden_layers": 1, "num_attention_heads": 2, "intermediate_size": 16}
        config = AutoConfig.for_model(kind, vocab_size=30, max_position_embeddings=520, pad_token_id=0, **sizes)
        torch.manual_seed(0)
        AutoModel.from_config(config).save_pretrained(folder / name)
        BertTokenizerFast(str(words), do_lower_case=False).save_pretrained(folder / name)
    glue = folder / "glue_data"
    for task, columns in {"SST-2": 1, "RTE": 2, "MNLI": 2}.items():
        write_set(glue / task, columns)
    write_dream(glue / "dream")
    (folder / "search.json").write_text(
        '{"executor": "paragen-run", "cuda": [0], "concurrency": 1, "configs": {"==base==": '
        '["--config", "glue/configs/RTE.yaml", "--task.model.adv_lr", [0.05, 0.1]]}}'
    )
    return folder


def write_set(folder: Path, columns: int) -> None:
    folder.mkdir(parents=True)
    names = ["sentence"] if columns == 1 else ["sentence1", "sentence2"]
    labels = ["0", "1"] if columns == 1 else ["entailment", "not_entailment"]
    labels = ["entailment", "contradiction"] if folder.name == "MNLI" else labels
    matched = "_matched" if folder.name == "MNLI" else ""
    for split in ("train", f"dev{matched}", f"test{matched}"):
        test = split.startswith("test")
        rows = [["index", *names] if test else [*names, "gold_label" if matched else "label"]]
        for number, text in enumerate(TEXTS[:8]):
            texts = [text, *[TEXTS[-number]] * (columns - 1)]
            rows.append([str(number), *texts] if test else [*texts, labels[number % 2]])
        (folder / f"{split}.tsv").write_text("".join("\t".join(row) + "\n" for row in rows))


def write_dream(folder: Path) -> None:
    folder.mkdir(parents=True)
    question = {"question": "a ?", "choice": ["b", "c", "d"], "answer": "c"}
    rows = [[[f"m: {text}", "w: e"], [question], str(number)] for number, text in enumerate(TEXTS[:8])]
    for split in ("train", "dev", "test"):
        (folder / f"{split}.json").write_text(json.dumps(rows))


def run(command: str, folder: str) -> None:
    name, *words = shlex.split(command.replace(" --fp16", ""))  # which needs a GPU
    if command.startswith(NETWORK):
        return
    if name == "sweep":  # trials are runs, and these run above; the definition is what the line is about
        base = words[words.index("--base") + 1] if "--base" in words else None
        definition, _ = load_definition(words[0], base)
        assert definition.base["train"]["batch_size"] == 16
        return
    if name == "train" and "--do_test" not in words:
        words += [*SMALL, *([] if "--data_dir" in words else ["--data.dir=glue_data"])]
        words += [] if "--output_dir" in words else [f"--output_dir={folder}"]
        words += ["--train.epochs=1"] if "--train.keep_checkpoints" not in words else []
    elif name == "train":
        words += ["--data_dir", "glue_data"]
    assert main([name, *words]) == 0, command


@pytest.mark.parametrize("title", TABLES)
def test_every_line_runs(title, place, monkeypatch, capsys):
    monkeypatch.chdir(place)
    monkeypatch.setattr("toughen.runs.launch.write_page", lambda *_: None)
    model = bert(torch.float32)
    for number, (_, here, _) in enumerate(TABLES[title]):
        for code in spans(here):
            if code.startswith("toughen "):
                run(code.removeprefix("toughen "), f"{title[:4].strip()}-{number}")
            elif code.startswith("toughen."):
                eval(code, {"toughen": toughen, "torch": torch, "model": model})
    if title.startswith("Adversarial"):
        lines = (place / "sst_bert" / "SST-2.tsv").read_text().splitlines()
        assert (lines[0], len(lines)) == ("index\tprediction", 5)  # of four rows
        assert {line.split("\t")[1] for line in lines[1:]} <= {"0", "1"}
        log = (place / "sst_bert" / "train.log").read_text()
        assert re.search(r"epoch 3 \(step 3\): train loss \d+\.\d+ · eval loss", log)
        config = (place / "dream_roberta" / "config.yaml").read_text()
        assert "attention_probs_dropout_prob: 0.0" in config
        assert "pad_to_max_length: true" in config
    if title.startswith("SoT"):
        assert "lower_case: true" in (place / "OUTPUT" / "config.yaml").read_text()
        tokenizer = BertTokenizerFast.from_pretrained(place / "OUTPUT" / "model")
        assert tokenizer.tokenize("A B") == ["a", "b"]


HOW = {  # options of a command that say how to run; the others are settings
    *("task", "output_dir", "data.dir", "data.eval_split"),
    *("train.precision", "train.keep_checkpoints", "train.save_steps", "train.eval_batch_size"),
}
TYPED = {  # and what a command says beside its recipe, without changing what is trained
    "sift/mnli-deberta-base": {"model_config.cls_dropout": 0.1},  # the model's own
    "asa/sst2-bert-base": {"data.lower_case": True},  # bert-base-uncased does
    "mgcrp/rte-bert-base": {"train.batch_size": 32},  # the recipe has 16 on each of four GPUs
}


def settings_of(words: list[str]) -> dict[str, Any]:
    def flat(values: Mapping[str, Any], above: str = "") -> dict[str, Any]:
        found: dict[str, Any] = {}
        for name, value in values.items():
            found |= flat(value, f"{above}{name}.") if isinstance(value, dict) else {f"{above}{name}": value}
        return found

    made = flat(yaml.safe_load(to_yaml(parse_train(words)[0])))
    return {name: value for name, value in made.items() if name not in HOW and value is not None}


def test_commands_said_to_be_equal_have_their_recipes_settings():
    held = []
    for _, here, said in (row for rows in TABLES.values() for row in rows):
        for command in spans(here) if said.startswith("settings equal") else ():
            _, _, flag, recipe, *flags = shlex.split(command)
            assert flag == "--recipe"
            typed = TYPED.get(recipe, {}) if flags else {}
            assert settings_of([flag, recipe, *flags]) == {**settings_of([flag, recipe]), **typed}
            held += [recipe] if flags else []
    assert set(held) == {*TYPED, "asa/dream-roberta-base"}


def test_there_is_a_table_for_each_seed():
    assert len(TABLES) == 5
    assert all(len(rows) >= 7 for rows in TABLES.values())
    shown = [cells[1] for rows in TABLES.values() for cells in rows]
    assert [cell for cell in shown if not (spans(cell) or "block below" in cell)] == []


def test_every_recipe_and_sweep_of_the_page_is_there():
    named = set(re.findall(r"\b(?:sift|freelb|asa|mgcrp|smart)/[a-z0-9-]+-[a-z0-9-]+", PAGE))
    assert named <= {*recipes.available(), *recipes.sweeps()}
