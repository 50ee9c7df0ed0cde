"""A tiny model with a tokenizer, and tiny data, as files: what a run needs, offline and in a second."""

import csv
import json
import random
from pathlib import Path

import torch
from tokenizers import Tokenizer
from tokenizers.models import WordLevel
from tokenizers.pre_tokenizers import Whitespace
from tokenizers.processors import TemplateProcessing
from transformers import BertConfig, BertForSequenceClassification, PreTrainedTokenizerFast

GOOD = ["good", "fine", "bright", "warm", "clever"]
BAD = ["bad", "dull", "grey", "cold", "silly"]
OTHER = ["the", "film", "is", "a", "story", "and", "plot", "very", "quite", "so"]


def save_model(folder: Path) -> Path:
    """A random two-layer BERT and a tokenizer of whole words."""
    special = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
    words = {word: i for i, word in enumerate([*special, *GOOD, *BAD, *OTHER])}
    core = Tokenizer(WordLevel(words, unk_token="[UNK]"))
    core.pre_tokenizer = Whitespace()
    core.post_processor = TemplateProcessing(
        single="[CLS] $A [SEP]", pair="[CLS] $A [SEP] $B:1 [SEP]:1", special_tokens=[("[CLS]", 2), ("[SEP]", 3)]
    )
    names = ("pad_token", "unk_token", "cls_token", "sep_token", "mask_token")
    tokenizer = PreTrainedTokenizerFast(
        tokenizer_object=core, model_max_length=32, **dict(zip(names, special, strict=True))
    )
    torch.manual_seed(0)
    config = BertConfig(
        vocab_size=len(words),
        hidden_size=32,
        num_hidden_layers=2,
        num_attention_heads=2,
        intermediate_size=64,
        max_position_embeddings=40,
        initializer_range=0.2,
    )
    BertForSequenceClassification(config).save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    return folder


def rows(count: int, seed: int = 0) -> list[dict[str, str]]:
    """Sentences with one good or bad word among others."""
    dice = random.Random(seed)
    found = []
    for number in range(count):
        label = number % 2
        words = dice.choices(OTHER, k=dice.randint(3, 8))
        words.insert(dice.randrange(len(words)), dice.choice(GOOD if label else BAD))
        found.append({"text": " ".join(words), "label": "pos" if label else "neg"})
    return found


def write_csv(path: Path, table: list[dict[str, str]]) -> Path:
    with path.open("w", newline="") as file:
        writer = csv.DictWriter(file, list(table[0]))
        writer.writeheader()
        writer.writerows(table)
    return path


def write_jsonl(path: Path, table: list[dict]) -> Path:
    path.write_text("".join(json.dumps(row) + "\n" for row in table))
    return path
