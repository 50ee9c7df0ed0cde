"""Reference numbers made with the original authors' code. Each case: a JSON with settings, a safetensors file."""

import json
from pathlib import Path
from typing import Any

import torch
import transformers
from safetensors.torch import load_file
from torch import Tensor, nn

HERE = Path(__file__).parent


def names(method: str) -> list[str]:
    return sorted(path.stem for path in (HERE / method).glob("*.json"))


def load(method: str, case: str) -> tuple[dict[str, Any], dict[str, Tensor]]:
    folder = HERE / method
    return json.loads((folder / f"{case}.json").read_text()), load_file(folder / f"{case}.safetensors")


def model_of(facts: dict[str, Any], tensors: dict[str, Tensor]) -> nn.Module:
    """The tiny model of a case, in float64, train mode, without dropout."""
    spec = facts["model"]
    config = transformers.AutoConfig.for_model(**json.loads((HERE / spec["config_file"]).read_text()))
    for key, value in spec["config_overrides"].items():
        setattr(config, key, value)
    config._attn_implementation = "eager"
    model = getattr(transformers, spec["class"])(config).double().train()
    weights = load_file(HERE / spec["weights_file"])
    weights.update(under(tensors, "param/"))
    model.load_state_dict({key: weights[key] for key in model.state_dict()})
    return model


def under(tensors: dict[str, Tensor], prefix: str) -> dict[str, Tensor]:
    return {key.removeprefix(prefix): value for key, value in tensors.items() if key.startswith(prefix)}


def error(ours: Tensor | float, theirs: Tensor | float) -> float:
    """The tolerance's measure: max|a - b| / max(1, max|b|)."""
    a, b = (torch.as_tensor(x, dtype=torch.float64) for x in (ours, theirs))
    if a.numel() == 0:
        return 0.0
    return float((a - b).abs().max() / b.abs().max().clamp(min=1))


def gradient_errors(model: nn.Module, tensors: dict[str, Tensor], prefix: str = "grad/") -> dict[str, float]:
    expected = under(tensors, prefix)
    found = dict(model.named_parameters())
    return {name: error(found[name].grad, value) for name, value in expected.items()}
