"""What hardening changes: how far vectors move, and whether an index of the old vectors still finds the same texts."""

import math
import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import cast

import torch
from torch import Tensor

from ..attacks.builtin.noise import NOISE_TRANSFORMS, Transform, misspell
from ..text.synonyms import load_misspellings

NEIGHBOURS = 10
CONDITIONS = (
    *(("typos", 0.1), ("typos", 0.3), ("typos", 0.6)),
    *(("misspellings", 0.5), ("casing", 0.3), ("obfuscation", 0.3)),
)
STAYS = 0.9  # of the neighbours of clean texts must be the same if an index is to stay
SHOWN = 8  # queries on the page
QUERIES = 1024  # that are compared with the index at once


@dataclass(frozen=True)
class Mean:
    """A mean over texts; its 95 % interval is as wide to both sides."""

    value: float
    half: float

    @staticmethod
    def of(values: Tensor) -> "Mean":
        spread = float(values.std()) if len(values) > 1 else math.nan
        return Mean(float(values.mean()), 1.96 * spread / math.sqrt(len(values)))

    @property
    def interval(self) -> tuple[float, float, float]:
        return self.value, self.value - self.half, self.value + self.half


@dataclass(frozen=True)
class Measurement:
    """The encoder before and after, on texts under one kind of noise, against its old vectors of the clean texts."""

    noise: str
    strength: float
    cosine_before: Mean
    cosine_after: Mean
    overlap_before: Mean
    """Share of the ten nearest texts in an index of old vectors that a clean query would find as well."""
    overlap_after: Mean

    @property
    def name(self) -> str:
        return f"{self.noise} in {self.strength:.0%} of the words" if self.strength else "clean"


@dataclass(frozen=True)
class Query:
    """A noisy query and the text that is nearest to it in the index of old vectors: clean, before and after."""

    noise: str
    text: str
    noisy: str
    wanted: str
    before: str
    after: str


def noisy_texts(
    texts: Sequence[str], seed: int, lexicon: "str | os.PathLike[str] | None" = None
) -> Iterator[tuple[str, float, list[str]]]:
    """Yield the texts clean, and under each kind of noise at its strength; misspellings take a lexicon."""
    transforms: dict[str, Transform] = dict(NOISE_TRANSFORMS)
    if lexicon is not None:
        transforms["misspellings"] = misspell(load_misspellings(lexicon)[0])
    yield "clean", 0.0, list(texts)
    for noise, strength in CONDITIONS:
        if noise in transforms:
            change = transforms[noise]
            yield noise, strength, [change(text, strength, f"{noise}/{seed}/{i}") for i, text in enumerate(texts)]


def compare(noise: str, strength: float, before: Tensor, after: Tensor, index: Tensor) -> Measurement:
    """Compare the vectors of texts under a noise with the old vectors of the clean texts, the index."""
    wanted = nearest(index, index)
    cosines = (Mean.of((each * index).sum(-1)) for each in (before, after))
    overlaps = (Mean.of(_overlap(nearest(each, index), wanted)) for each in (before, after))
    return Measurement(noise, strength, *cosines, *overlaps)


def _overlap(found: Tensor, wanted: Tensor) -> Tensor:
    """Return for each query which share of the wanted neighbours it finds."""
    return (wanted.unsqueeze(2) == found.unsqueeze(1)).any(2).float().mean(1)


def nearest(queries: Tensor, index: Tensor) -> Tensor:
    """Return the ten nearest texts of each query in the index, the query's own text left out."""
    count, found = min(NEIGHBOURS, len(index) - 1), list[Tensor]()
    for start in range(0, len(queries), QUERIES):
        part = queries[start : start + QUERIES] @ index.T
        own = torch.arange(start, start + len(part))
        part[own - start, own] = -2.0
        found.append(part.topk(count).indices)
    return torch.cat(found)


def examples(
    noise: str, texts: Sequence[str], noisy: Sequence[str], before: Tensor, after: Tensor, index: Tensor
) -> list[Query]:
    """Return the first queries whose nearest text noise or hardening changed."""
    wanted, first, second = (cast("list[int]", nearest(each, index)[:, 0].tolist()) for each in (index, before, after))
    rows = [
        Query(noise, texts[i], noisy[i], texts[clean], texts[old], texts[new])
        for i, (clean, old, new) in enumerate(zip(wanted, first, second, strict=True))
        if not clean == old == new
    ]
    return rows[:SHOWN]


def sentence(rows: Sequence[Measurement]) -> str:
    """Say whether an index of old vectors can stay, and what was gained."""
    clean, *noisy = rows
    stays = clean.overlap_after.value >= STAYS
    verdict = "an index of the old vectors can stay" if stays else "index the texts again"
    gains = [f"{each.name} {each.overlap_before.value:.2f} -> {each.overlap_after.value:.2f}" for each in noisy]
    return (
        f"{verdict}: of the ten nearest texts of a clean query {clean.overlap_after.value:.0%} are the same as before. "
        f"Neighbours kept under {'; '.join(gains)}."
    )
