"""What hardening changes: how far vectors move, and whether an index of the old vectors still finds the same texts."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from torch import Tensor

from ..attacks.builtin.noise import NOISE_TRANSFORMS

NEIGHBOURS = 10
CONDITIONS = (("typos", 0.1), ("typos", 0.3), ("typos", 0.6), ("casing", 0.3), ("obfuscation", 0.3))
STAYS = 0.9  # of the neighbours of clean texts must be the same if an index is to stay


@dataclass(frozen=True)
class Measurement:
    """The encoder before and after, on texts under one kind of noise, against its old vectors of the clean texts."""

    noise: str
    strength: float
    cosine_before: float
    cosine_after: float
    overlap_before: float
    """Mean share of the ten nearest texts in an index of old vectors that a clean query would find as well."""
    overlap_after: float

    @property
    def name(self) -> str:
        return f"{self.noise} in {self.strength:.0%} of the words" if self.strength else "clean"


def noisy_texts(texts: Sequence[str], seed: int = 0) -> Iterator[tuple[str, float, list[str]]]:
    """Yield the texts clean, and under each kind of noise at its strength."""
    yield "clean", 0.0, list(texts)
    for noise, strength in CONDITIONS:
        if noise in NOISE_TRANSFORMS:
            change = NOISE_TRANSFORMS[noise]
            yield noise, strength, [change(text, strength, f"{noise}/{seed}/{i}") for i, text in enumerate(texts)]


def compare(noise: str, strength: float, before: Tensor, after: Tensor, index: Tensor) -> Measurement:
    """Compare the vectors of texts under a noise with the old vectors of the clean texts, the index."""
    cosine_before, cosine_after = (float((each * index).sum(-1).mean()) for each in (before, after))
    return Measurement(noise, strength, cosine_before, cosine_after, _overlap(before, index), _overlap(after, index))


def _overlap(queries: Tensor, index: Tensor) -> float:
    """Return how many of the neighbours of clean queries these queries find, each text itself left out."""
    count = min(NEIGHBOURS, len(index) - 1)
    wanted, found = (_nearest(each, index, count) for each in (index, queries))
    return float((wanted.unsqueeze(2) == found.unsqueeze(1)).any(2).float().mean())


def _nearest(queries: Tensor, index: Tensor, count: int) -> Tensor:
    return (queries @ index.T).fill_diagonal_(-2.0).topk(count).indices


def sentence(rows: Sequence[Measurement]) -> str:
    """Say whether an index of old vectors can stay, and what was gained."""
    clean, *noisy = rows
    stays = clean.overlap_after >= STAYS
    verdict = "an index of the old vectors can stay" if stays else "index the texts again"
    shown: Mapping[str, Measurement] = {each.name: each for each in noisy}
    gains = [f"{name} {each.overlap_before:.2f} -> {each.overlap_after:.2f}" for name, each in shown.items()]
    return (
        f"{verdict}: of the ten nearest texts of a clean query {clean.overlap_after:.0%} are the same as before. "
        f"Neighbours kept under {'; '.join(gains)}."
    )
