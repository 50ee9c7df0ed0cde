"""Make what is measured: a model of a known size or of a folder, and batches of random tokens."""

import os
from collections.abc import Mapping
from dataclasses import dataclass
from types import SimpleNamespace

import torch
from torch import Tensor, nn

# Layers, width, heads, inner width. The time of a step does not depend on the weights.
SIZES = {
    "tiny": (2, 32, 4, 64),
    "minilm": (6, 384, 12, 1536),
    "bert-base": (12, 768, 12, 3072),
    "bert-large": (24, 1024, 16, 4096),
}
SPECIAL = SimpleNamespace(all_special_ids=[0, 1, 2])


@dataclass(frozen=True)
class Shape:
    """Hold the texts in a batch, the tokens in a text, and the shortest text as a share of the longest."""

    batch: int
    length: int
    shortest: float = 1.0

    @classmethod
    def parse(cls, text: str) -> "Shape":
        """Parse 16x64, or 64x512/3: lengths spread evenly from a third to the whole."""
        size, _, part = text.partition("/")
        batch, _, length = size.lower().partition("x")
        try:
            shape = cls(int(batch), int(length), 1 / float(part) if part else 1.0)
        except (ValueError, ZeroDivisionError):
            shape = cls(0, 0)
        if shape.batch < 1 or shape.length < 3 or not 0 < shape.shortest <= 1:
            raise ValueError(f"{text!r} is no shape: give texts x tokens, as 16x64, or 64x512/3 for uneven lengths.")
        return shape

    def __str__(self) -> str:
        part = "" if self.shortest == 1 else f"/{1 / self.shortest:g}"
        return f"{self.batch}x{self.length}{part}"


def load_model(name: "str | os.PathLike[str]") -> nn.Module:
    """Make a BERT of a known size with random weights, or load the model of a folder."""
    from transformers import AutoModelForSequenceClassification, BertConfig, BertForSequenceClassification

    if os.path.isdir(name):
        return AutoModelForSequenceClassification.from_pretrained(name, dtype=torch.float32).train()
    if str(name) not in SIZES:
        raise ValueError(f"{name!r} is neither a model folder nor one of the sizes {', '.join(SIZES)}.")
    layers, width, heads, inner = SIZES[str(name)]
    config = BertConfig(hidden_size=width, num_hidden_layers=layers, num_attention_heads=heads, intermediate_size=inner)
    return BertForSequenceClassification(config).train()


def make_batch(shape: Shape, vocabulary: int, labels: int, seed: int = 0) -> Mapping[str, Tensor]:
    """Draw random tokens between a class and a separator token, padded on the right."""
    rng = torch.Generator().manual_seed(seed)
    ids = torch.randint(3, vocabulary, (shape.batch, shape.length), generator=rng)
    lengths = torch.linspace(shape.shortest * shape.length, shape.length, shape.batch).round().long()
    positions = torch.arange(shape.length)[None]
    mask = (positions < lengths[:, None]).long()
    ids[:, 0] = 1
    ids[positions == lengths[:, None] - 1] = 2
    return {
        "input_ids": ids * mask,
        "attention_mask": mask,
        "labels": torch.randint(0, labels, (shape.batch,), generator=rng),
    }
