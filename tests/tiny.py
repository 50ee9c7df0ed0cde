"""Tiny random models, batches, and data as files: what tests need, offline and in a second."""

import csv
import json
import random
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch
from tokenizers import Tokenizer
from tokenizers.decoders import WordPiece as WordPieceDecoder
from tokenizers.models import WordLevel, WordPiece
from tokenizers.pre_tokenizers import BertPreTokenizer, Whitespace
from tokenizers.processors import TemplateProcessing
from torch import Tensor, nn
from transformers import (
    AutoConfig,
    AutoModelForSequenceClassification,
    BertForTokenClassification,
    GPT2Config,
    GPT2LMHeadModel,
    LlamaConfig,
    LlamaForCausalLM,
    PreTrainedTokenizerFast,
    T5Config,
    T5ForConditionalGeneration,
)

import toughen

SMALL_VOCABULARY = 48
SMALL: dict[str, Any] = {
    "hidden_size": 32,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "intermediate_size": 64,
    "vocab_size": 100,
    "num_labels": 3,
    "initializer_range": 0.2,  # predictions that move: at 0.02 every divergence is rounding
}
NO_DROPOUT = {"hidden_dropout_prob": 0.0, "attention_probs_dropout_prob": 0.0}


def tokenizer(special: Sequence[str], words: Sequence[str], **settings: Any) -> PreTrainedTokenizerFast:
    """A tokenizer of whole words, numbered from the special tokens on."""
    ids = {word: number for number, word in enumerate([*special, *words])}
    inner = Tokenizer(WordLevel(ids, unk_token="[UNK]"))
    inner.pre_tokenizer = Whitespace()
    ends = [(token, ids[token]) for token in ("[CLS]", "[SEP]")]
    inner.post_processor = TemplateProcessing("[CLS] $A [SEP]", "[CLS] $A [SEP] $B:1 [SEP]:1", special_tokens=ends)
    names = {f"{token.strip('[]').lower()}_token": token for token in special}
    return PreTrainedTokenizerFast(tokenizer_object=inner, **names, **settings)


SPECIAL = ["[PAD]", "[CLS]", "[SEP]", "[UNK]", "[MASK]"]
TOKENIZER = tokenizer(SPECIAL, [f"w{i}" for i in range(5, 100)])


def letters() -> PreTrainedTokenizerFast:
    """WordPiece of few letters: random ids below 48 are words of some letters, which can be edited."""
    alphabet = "abcdefghij"
    pairs = [a + b for a in alphabet for b in alphabet if a < b][:23]
    pieces = [*SPECIAL, *(f"##{letter}" for letter in alphabet), *alphabet, *pairs]
    inner = Tokenizer(WordPiece({piece: number for number, piece in enumerate(pieces)}, unk_token="[UNK]"))
    inner.pre_tokenizer, inner.decoder = BertPreTokenizer(), WordPieceDecoder()
    ends = [(token, pieces.index(token)) for token in ("[CLS]", "[SEP]")]
    inner.post_processor = TemplateProcessing("[CLS] $A [SEP]", "[CLS] $A [SEP] $B:1 [SEP]:1", special_tokens=ends)
    return PreTrainedTokenizerFast(tokenizer_object=inner, **{f"{t.strip('[]').lower()}_token": t for t in SPECIAL})


LETTERS = letters()
LIKE_TYPOS = {"casing", "obfuscation", "synonyms", "views"}  # in tests of all methods one edit of texts stands for all


def bert(dtype: torch.dtype = torch.float64, **changes: Any) -> nn.Module:
    torch.manual_seed(0)
    config = AutoConfig.for_model("bert", **{**SMALL, **NO_DROPOUT, **changes})
    return AutoModelForSequenceClassification.from_config(config).to(dtype).train()


def small_bert(dropout: float = 0.1, dtype: torch.dtype = torch.float32, vocab_size: int = SMALL_VOCABULARY) -> Any:
    """With dropout, and with the usual scale of random weights."""
    sizes = {"vocab_size": vocab_size, "intermediate_size": 37, "max_position_embeddings": 32}
    rates = {"hidden_dropout_prob": dropout, "attention_probs_dropout_prob": dropout}
    return bert(dtype, initializer_range=0.02, **sizes, **rates)


def tagger() -> BertForTokenClassification:
    torch.manual_seed(0)
    config = small_bert().config
    config.num_labels = SMALL_VOCABULARY
    return BertForTokenClassification(config)


def gpt2() -> GPT2LMHeadModel:
    torch.manual_seed(0)
    config = GPT2Config(vocab_size=SMALL_VOCABULARY, n_embd=32, n_layer=2, n_head=4, n_positions=32)
    config.bos_token_id = config.eos_token_id = 0
    return GPT2LMHeadModel(config)


def llama() -> LlamaForCausalLM:
    torch.manual_seed(0)
    return LlamaForCausalLM(
        LlamaConfig(
            vocab_size=SMALL_VOCABULARY,
            hidden_size=32,
            intermediate_size=37,
            num_hidden_layers=2,
            num_attention_heads=4,
            max_position_embeddings=64,
        )
    )


def t5() -> T5ForConditionalGeneration:
    torch.manual_seed(0)
    return T5ForConditionalGeneration(
        T5Config(
            vocab_size=SMALL_VOCABULARY,
            d_model=32,
            d_kv=8,
            d_ff=37,
            num_layers=2,
            num_heads=4,
            decoder_start_token_id=0,
        )
    )


def text_batch(rows: int = 3, length: int = 10, seed: int = 1) -> dict[str, Tensor]:
    """Texts of different lengths with class and separator tokens, right-padded, and three classes."""
    generator = torch.Generator().manual_seed(seed)
    ids = torch.randint(5, 99, (rows, length), generator=generator)
    lengths = [length - (2 * i) % (length - 4) for i in range(rows)]
    mask = torch.zeros_like(ids)
    for row, real in enumerate(lengths):
        mask[row, :real] = 1
        ids[row, 0], ids[row, real - 1], ids[row, real:] = 1, 2, 0
    return {"input_ids": ids, "attention_mask": mask, "labels": torch.arange(rows) % 3}


def other_tokens(_tokenizer: Any, model: nn.Module) -> Tensor:
    """Three others for each token of a vocabulary, in place of synonyms."""
    size = model.get_input_embeddings().num_embeddings
    return (torch.arange(size).unsqueeze(1) + torch.tensor([3, 7, 11])) % size


def make(name: str, **settings: Any) -> Any:
    """A method by its name, also where no tokenizer gives `words` its candidates."""
    given = {"candidates": other_tokens} if name == "words" else {}
    return toughen.create_method(name, **given, **settings)


def gradients(model: nn.Module) -> dict[str, Tensor]:
    return {name: p.grad.clone() for name, p in model.named_parameters() if p.grad is not None}


def assert_same_gradients(ours: dict[str, Tensor], theirs: dict[str, Tensor], tolerance: float = 1e-6) -> None:
    assert ours.keys() == theirs.keys()
    for name, value in theirs.items():
        difference = (ours[name] - value).abs().max() / value.abs().max().clamp(min=1)
        assert difference <= tolerance, f"{name}: {difference:.2e}"


GOOD = ["good", "fine", "bright", "warm", "clever"]
BAD = ["bad", "dull", "grey", "cold", "silly"]
OTHER = ["the", "film", "is", "a", "story", "and", "plot", "very", "quite", "so"]


def save_model(folder: Path) -> Path:
    """A random two-layer BERT and a tokenizer of whole words."""
    special, words = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"], [*GOOD, *BAD, *OTHER]
    sizes = {"vocab_size": len(special + words), "num_attention_heads": 2, "max_position_embeddings": 40}
    dropout = {"hidden_dropout_prob": 0.1, "attention_probs_dropout_prob": 0.1}
    bert(torch.float32, num_labels=2, **sizes, **dropout).save_pretrained(folder)
    tokenizer(special, words, model_max_length=32).save_pretrained(folder)
    return folder


def rows(count: int, seed: int = 0) -> list[dict[str, str]]:
    """Sentences with one good or bad word among others."""
    rng = random.Random(seed)
    found = []
    for number in range(count):
        label = number % 2
        words = rng.choices(OTHER, k=rng.randint(3, 8))
        words.insert(rng.randrange(len(words)), rng.choice(GOOD if label else BAD))
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
