"""Tokenised sets and a model's weights in one file that travels: no tokenizer and no `datasets` where it is read."""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import torch
from torch import Tensor

IGNORED = -100


@dataclass(frozen=True)
class Rows:
    """One tokenised set, texts laid end to end. `ends` begins with 0; a row has `choices` texts."""

    ids: Tensor
    ends: Tensor
    labels: Tensor
    types: Tensor | None = None
    choices: int = 1
    tagged: bool = False
    """A label for every token."""

    def tensors(self, name: str) -> dict[str, Tensor]:
        found = {"ids": self.ids.to(torch.int32), "ends": self.ends.to(torch.int32), "labels": self.labels}
        if int(self.ids.max()) < 2**16:  # two bytes a token, kept as int16, which every reader knows
            found["ids"] = torch.where(found["ids"] >= 2**15, found["ids"] - 2**16, found["ids"]).to(torch.int16)
        if self.types is not None:
            found["types"] = self.types.to(torch.int8)
        return {f"sets/{name}/{kind}": value.contiguous() for kind, value in found.items()}


@dataclass(frozen=True)
class Table:
    """A set on the device, padded to its longest text: (rows, length), for choices (rows, choices, length)."""

    inputs: Mapping[str, Tensor]
    lengths: Any
    """Of each row, as numpy: the longest of its choices."""

    def __len__(self) -> int:
        return len(self.lengths)

    def take(self, rows: Tensor, length: int) -> dict[str, Tensor]:
        """Rows by number, cut to a padded length no shorter than they are."""
        cut = {name: value if value.dim() == 1 else value[..., :length] for name, value in self.inputs.items()}
        return {name: value[rows] for name, value in cut.items()}

    def part(self, start: int, stop: int) -> "Table":
        return Table({name: value[start:stop] for name, value in self.inputs.items()}, self.lengths[start:stop])


@dataclass(frozen=True)
class Material:
    """What a file holds."""

    facts: Mapping[str, Any]
    """The model's name and config, special tokens, sets by task, where the rows came from."""
    weights: Mapping[str, Tensor]
    sets: Mapping[str, Mapping[str, Table]]
    device: torch.device

    @property
    def tokenizer(self) -> Any:
        """As much of a tokenizer as methods ask for."""
        return SimpleNamespace(all_special_ids=self.facts["special_ids"])


def write(path: Path, facts: Mapping[str, Any], weights: Mapping[str, Tensor], sets: Mapping[str, Rows]) -> None:
    """One safetensors file: weights in half precision, sets under `task/set`."""
    from safetensors.torch import save_file

    tensors = {f"weights/{name}": value.to(torch.float16).contiguous() for name, value in weights.items()}
    for name, rows in sets.items():
        tensors |= rows.tensors(name)
    forms = {name: {"choices": rows.choices, "tagged": rows.tagged} for name, rows in sets.items()}
    path.parent.mkdir(parents=True, exist_ok=True)
    save_file(tensors, path, metadata={"facts": json.dumps({**facts, "forms": forms})})


def facts_of(path: Path) -> dict[str, Any]:
    from safetensors import safe_open

    with safe_open(path, framework="pt") as file:
        return json.loads(file.metadata()["facts"])


def load(path: Path, device: str | torch.device) -> Material:
    """Weights in float32 and padded sets, on the device."""
    from safetensors import safe_open

    device = torch.device(device)
    weights: dict[str, Tensor] = {}
    flat: dict[str, dict[str, Tensor]] = {}
    with safe_open(path, framework="pt") as file:
        facts: dict[str, Any] = json.loads(file.metadata()["facts"])
        for key in file.keys():  # noqa: SIM118  # an opened file is no mapping
            kind, _, name = key.partition("/")
            if kind == "weights":
                weights[name] = file.get_tensor(key).float()
            else:
                place, _, field = name.rpartition("/")
                flat.setdefault(place, {})[field] = file.get_tensor(key)
    sets: dict[str, dict[str, Table]] = {}
    for place, tensors in flat.items():
        task, _, name = place.partition("/")
        sets.setdefault(task, {})[name] = _table(tensors, **facts["forms"][place], pad=facts["pad_id"], device=device)
    return Material(facts, weights, sets, device)


def _table(flat: Mapping[str, Tensor], *, choices: int, tagged: bool, pad: int, device: torch.device) -> Table:
    ends = flat["ends"].long()
    lengths = ends.diff()
    mask = torch.arange(int(lengths.max()))[None] < lengths[:, None]

    def padded(values: Tensor, filler: int) -> Tensor:
        whole = torch.full(mask.shape, filler, dtype=torch.int64)
        whole[mask] = values.long()
        return whole.view(-1, choices, whole.shape[1]) if choices > 1 else whole

    inputs = {"input_ids": padded(flat["ids"].long() & (0xFFFF if flat["ids"].dtype == torch.int16 else -1), pad)}
    inputs["attention_mask"] = padded(torch.ones(int(ends[-1])), 0)
    if "types" in flat:
        inputs["token_type_ids"] = padded(flat["types"], 0)
    labels = flat["labels"]
    whole = labels if labels.is_floating_point() else labels.long()
    inputs["labels"] = padded(labels, IGNORED) if tagged else whole
    longest = lengths.view(-1, choices).amax(1).numpy()
    return Table({name: value.to(device) for name, value in inputs.items()}, longest)
