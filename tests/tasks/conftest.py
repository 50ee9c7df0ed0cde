"""Tiny tokenizers, data and models for every head, made here and offline."""

import os
from pathlib import Path

import pytest

from toughen import tasks

from .task_samples import TEXTS, rows_of, write_jsonl


@pytest.fixture(scope="session")
def tokenizer():
    """A WordPiece tokenizer with BERT's special tokens, trained on the tiny texts."""
    from tokenizers import Tokenizer, models, normalizers, pre_tokenizers, processors, trainers
    from transformers import PreTrainedTokenizerFast

    core = Tokenizer(models.WordPiece(unk_token="[UNK]"))
    core.normalizer = normalizers.Lowercase()
    core.pre_tokenizer = pre_tokenizers.Whitespace()
    special = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
    core.train_from_iterator(TEXTS, trainers.WordPieceTrainer(vocab_size=90, special_tokens=special))
    core.post_processor = processors.TemplateProcessing(
        single="[CLS] $A [SEP]", pair="[CLS] $A [SEP] $B:1 [SEP]:1", special_tokens=[("[CLS]", 2), ("[SEP]", 3)]
    )
    return PreTrainedTokenizerFast(
        tokenizer_object=core,
        pad_token="[PAD]",
        unk_token="[UNK]",
        cls_token="[CLS]",
        sep_token="[SEP]",
        mask_token="[MASK]",
        model_max_length=64,
        model_input_names=["input_ids", "token_type_ids", "attention_mask"],
    )


@pytest.fixture
def tiny_data(tmp_path):
    """`tiny_data("tokens")`: raw own data for a head, its development rows equal to its training rows."""

    def make(head: str) -> tasks.Data:
        file = write_jsonl(tmp_path / f"{head}.jsonl", rows_of(head))
        return tasks.load(train_file=file, validation_file=file, cache_dir=tmp_path / "cache")

    return make


@pytest.fixture
def tiny_model():
    """`tiny_model(task, tokenizer)`: a random two-layer BERT with the head of the task."""

    def make(task: tasks.Task, tokenizer):
        import torch
        from transformers import BertConfig

        torch.manual_seed(0)
        config = BertConfig(
            vocab_size=len(tokenizer),
            hidden_size=32,
            num_hidden_layers=2,
            num_attention_heads=2,
            intermediate_size=64,
            **tasks.model_kwargs(task),
        )
        return tasks.auto_class(task).from_config(config).eval()

    return make


@pytest.fixture(scope="session")
def real_data() -> Path:
    """The optional folder of real sets: TOUGHEN_DATA, or shared/data beside the checkout."""
    folder = Path(os.environ.get("TOUGHEN_DATA") or Path(__file__).resolve().parents[2].parent / "shared" / "data")
    if not folder.is_dir():
        pytest.skip("no real data here: set TOUGHEN_DATA to its folder")
    return folder
