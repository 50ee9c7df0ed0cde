"""An encoder on disk with its pooling, and the loss that holds a student's view of a text to the teacher's text."""

import json
import shutil
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from types import SimpleNamespace
from typing import Any, Literal, get_args

import torch
from torch import Tensor, nn
from torch.nn.functional import kl_div, log_softmax, normalize

from ..errors import UsageError
from ..internal.architectures import is_causal_decoder, longest_input
from .texts import padded

PoolingName = Literal["mean", "cls", "last"]
TEMPERATURE = 0.05  # of the similarities to the bank
WEIGHTS = ("*.safetensors", "*.bin", "*.h5", "*.msgpack", "*.onnx", "*.ot", "onnx", "openvino", "checkpoint-*")


@dataclass(frozen=True)
class Encoder:
    """A model folder: that of a transformer, or of sentence-transformers with a transformer in it."""

    home: Path
    transformer: Path
    pooling: PoolingName
    predicts_words: bool
    """Whether it is a masked language model with its head."""

    @staticmethod
    def find(model: str, pooling: PoolingName | None) -> "Encoder":
        """Find an encoder in a folder, or on the Hub; its pooling is what its files say, else the mean."""
        home = Path(model)
        if not home.is_dir():
            from huggingface_hub import snapshot_download

            home = Path(snapshot_download(model, ignore_patterns=[*WEIGHTS[1:]]))
        transformer, found = _modules(home)
        if not (transformer / "config.json").is_file():
            raise UsageError(f"model={model}: it has no config.json; give the folder of a saved model.", ("model",))
        config = json.loads((transformer / "config.json").read_text(encoding="utf-8"))
        names = [str(name) for name in config.get("architectures") or ()]
        if config.get("is_encoder_decoder"):
            raise UsageError(f"model={model}: it is an encoder-decoder; give an encoder, or its encoder's own folder.")
        how = pooling or found
        if how is None:
            if is_causal_decoder(SimpleNamespace(**config)):
                raise UsageError(
                    f"model={model}: a decoder has no pooling of its own; give pooling='last' (--pooling last).",
                    ("pooling",),
                )
            how = "mean"
        if how not in get_args(PoolingName):
            raise UsageError(
                f"pooling={how!r} is not known; there are {', '.join(get_args(PoolingName))}.", ("pooling",)
            )
        return Encoder(home, transformer, how, any(name.endswith("ForMaskedLM") for name in names))

    def load(self) -> nn.Module:
        """Load the model in float32."""
        from transformers import AutoModel, AutoModelForMaskedLM

        kind = AutoModelForMaskedLM if self.predicts_words else AutoModel
        return kind.from_pretrained(self.transformer, dtype=torch.float32)

    def load_tokenizer(self) -> Any:
        from transformers import AutoTokenizer

        return AutoTokenizer.from_pretrained(self.transformer)

    def longest(self, tokenizer: Any) -> int | None:
        """Return how many tokens of a text the model reads; None if nothing bounds it."""
        from transformers import AutoConfig

        return longest_input(tokenizer, AutoConfig.from_pretrained(self.transformer))

    def save(self, model: nn.Module, tokenizer: Any, folder: Path) -> None:
        """Write a folder of the same form with other weights."""
        # Nor what an earlier hardening said of itself; the folder may lie inside that of the encoder.
        patterns = shutil.ignore_patterns(*WEIGHTS, "README.md", "harden.*", ".*")

        def skipped(path: str, names: list[str]) -> set[str]:
            inside = {name for name in names if (Path(path) / name).resolve() == folder.resolve()}
            return {*patterns(path, names), *inside}

        shutil.copytree(self.home, folder, ignore=skipped, dirs_exist_ok=True)
        inside = folder / self.transformer.relative_to(self.home)
        model.save_pretrained(inside)  # pyright: ignore[reportCallIssue]
        tokenizer.save_pretrained(inside)


def _modules(home: Path) -> tuple[Path, PoolingName | None]:
    """Return where the transformer of a sentence-transformers folder is, and how it pools."""
    file = home / "modules.json"
    if not file.is_file():
        return home, None
    modules: list[dict[str, str]] = json.loads(file.read_text(encoding="utf-8"))
    transformer, pooling = home, None
    for module in modules:
        path = home / module["path"]
        if module["type"].endswith("Transformer"):
            transformer = path
        elif module["type"].endswith("Pooling"):
            pooling = _pooling(path / "config.json")
        elif not module["type"].endswith("Normalize"):
            raise UsageError(
                f"{file}: {module['type'].rpartition('.')[2]} is none of Transformer, Pooling and Normalize."
            )
    return transformer, pooling


def _pooling(file: Path) -> PoolingName:
    given: Mapping[str, Any] = json.loads(file.read_text(encoding="utf-8"))
    names: dict[str, PoolingName] = {
        **{"pooling_mode_mean_tokens": "mean", "pooling_mode_cls_token": "cls", "pooling_mode_lasttoken": "last"},
        **{"mean": "mean", "cls": "cls", "lasttoken": "last"},  # as sentence-transformers 6 writes it
    }
    chosen = [name for name, value in given.items() if name.startswith("pooling_mode_") and value is True]
    chosen = chosen or [str(given.get("pooling_mode", "no pooling"))]
    if len(chosen) != 1 or chosen[0] not in names:
        raise UsageError(f"{file}: {', '.join(chosen)} is not supported; use mean, cls or last.")
    return names[chosen[0]]


def pool(hidden: Tensor, mask: Tensor, how: PoolingName) -> Tensor:
    """Return one vector a text."""
    if how == "cls":
        return hidden[:, 0]
    if how == "last":
        last = mask.sum(1) - 1
        return hidden[torch.arange(len(hidden), device=hidden.device), last]
    weight = mask.unsqueeze(-1).to(hidden.dtype)
    return (hidden * weight).sum(1) / weight.sum(1).clamp(min=1e-9)


def run(model: nn.Module, ids: Tensor, mask: Tensor) -> tuple[Tensor, Tensor | None]:
    """Return the last hidden states, and the word predictions of a masked language model."""
    outputs = model(input_ids=ids, attention_mask=mask, output_hidden_states=True)
    return outputs.hidden_states[-1].float(), getattr(outputs, "logits", None)


@dataclass(frozen=True)
class Weights:
    """The weights of the parts of the loss."""

    pooled: float = 8.0
    """1 - cosine of the pooled vectors."""
    hidden: float = 0.25
    """Squared distance of word-aligned hidden states, over the teacher's mean square."""
    words: float = 1.0
    """KL of the predicted words to the teacher's, of masked language models."""
    neighbours: float = 1.0
    """KL of the similarities to a bank of old vectors, where one is given."""
    clean: float = 8.0
    """Of an unedited text, in each part; an edited one has 1."""


def loss_parts(
    student: nn.Module,
    teacher: nn.Module,
    batch: Mapping[str, Tensor],
    pooling: PoolingName,
    weights: Weights,
    bank: Tensor | None = None,
) -> dict[str, Tensor]:
    """Return the weighted parts of the loss: the student sees the views, the teacher the texts."""
    with torch.no_grad():
        hidden, words = run(teacher, batch["ids"], batch["mask"])
    seen, predicted = run(student, batch["view"], batch["view_mask"])
    new = normalize(pool(seen, batch["view_mask"], pooling), dim=-1)
    old = normalize(pool(hidden, batch["mask"], pooling), dim=-1)
    weight = 1.0 + (weights.clean - 1.0) * (~batch["edited"]).float()
    # The state of each token of the view is held to that of the token, or word, that it comes from.
    source, kept = batch["source"].unsqueeze(-1), batch["view_mask"].float()
    aligned, weighted = hidden.gather(1, source.expand(-1, -1, hidden.shape[-1])), weight.unsqueeze(1) * kept
    distance = (seen - aligned).square().mean(-1)
    parts = {
        "pooled": weights.pooled * (weight * (1 - (new * old).sum(-1))).mean(),
        "hidden": weights.hidden * (distance * weighted).sum() / (aligned.square().mean(-1) * kept).sum(),
    }
    if words is not None and predicted is not None:
        target = words.gather(1, source.expand(-1, -1, words.shape[-1])).float()
        parts["words"] = weights.words * (_divergence(target, predicted.float()) * weighted).sum() / kept.sum()
    if bank is not None:
        with torch.autocast(old.device.type, enabled=False):
            before, after = old @ bank.T, new @ bank.T
        own = before > 0.999  # the text itself says nothing about its neighbours
        similar = ((each / TEMPERATURE).masked_fill(own, -1e4) for each in (before, after))
        parts["neighbours"] = weights.neighbours * (weight * _divergence(*similar)).mean()
    return parts


def _divergence(target: Tensor, found: Tensor) -> Tensor:
    """Return KL of softmax(found) from softmax(target), over the last dimension."""
    return kl_div(log_softmax(found, -1), log_softmax(target, -1), log_target=True, reduction="none").sum(-1)


@torch.no_grad()
def vectors(model: nn.Module, tokenizer: Any, texts: list[str], pooling: PoolingName, max_length: int) -> Tensor:
    """Return the vectors of texts, of length one, on the CPU."""
    device = next(model.parameters()).device
    rows: list[list[int]] = tokenizer(texts, truncation=True, max_length=max_length)["input_ids"]
    order = sorted(range(len(rows)), key=lambda index: len(rows[index]))
    found: list[Tensor] = []
    for start in range(0, len(order), 64):
        part = [rows[index] for index in order[start : start + 64]]
        mask = padded([[1] * len(each) for each in part], 0).to(device)
        hidden, _ = run(model, padded(part, tokenizer.pad_token_id or 0).to(device), mask)
        found.append(normalize(pool(hidden, mask, pooling), dim=-1).cpu())
    return torch.cat(found)[torch.tensor(order).argsort()]
