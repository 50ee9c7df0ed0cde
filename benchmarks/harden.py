"""Measure an encoder before and after `toughen harden`: similarity, duplicate search, nearest neighbours, under noise.

    python -m benchmarks.harden --model FOLDER --data DATA --out results/harden.json
    python -m benchmarks.harden --model FOLDER --data DATA --out results/harden_pilot.json --pilot "what is smaller" \
        --steps 300 --batch_size 32 --measured 200 --pairs 300 --questions 1000 --queries 300 --news 150

DATA holds folders of JSON lines as .gz (sst2, stsb, qqp, ag_news) and lexicons/en.natural.misspellings.txt.gz. The
encoder is hardened on unlabelled training sentences and measured on others. Typos, casing and obfuscation are drawn at
random; the misspellings are a list that training never sees. Queries alone have noise in searches; both sentences do in
STS-B. "kept index" asks an index of the encoder's old vectors with new ones.
"""

import argparse
import gzip
import json
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import cache
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

import toughen
from toughen.hardening.api import HardenSpec
from toughen.hardening.encoder import Encoder, vectors
from toughen.hardening.measure import noisy_texts

LEXICON = "lexicons/en.natural.misspellings.txt.gz"
LENGTH = 64
MEASURED = {
    "stsb/validation": ("sentence1", "sentence2"),
    "qqp/validation": ("question1", "question2"),
    "ag_news/test": ("text",),
}
UNLABELLED = {
    "sst2/train": ("sentence",),
    "qqp/train_subset": ("question1", "question2"),
    "ag_news/train_subset": ("text",),
    "stsb/train": ("sentence1", "sentence2"),
    "snli/validation": ("premise", "hypothesis"),
    "snli/test": ("premise", "hypothesis"),
    "mnli/train_subset": ("premise", "hypothesis"),
    "mrpc/train": ("sentence1", "sentence2"),
    "qnli/validation": ("question", "sentence"),
}

# Written before the first run; a run that misses one is reported like one that does not.
GATES = {
    "STS-B under typos in 30 % of the words: at least +6 points of Spearman": 6.0,
    "STS-B clean: at most 0.5 points lost": -0.5,
    "duplicate search, 10 % typos: at least half of the recall at 10 that typos cost comes back": 0.5,
    "duplicate search, clean queries: at least 0.9 of the ten nearest in the old index are the same": 0.9,
}

Vectors = Callable[[Sequence[str]], Tensor]


@dataclass(frozen=True)
class Sizes:
    """How many rows are measured."""

    pairs: int
    questions: int
    queries: int
    news: int


@dataclass(frozen=True)
class Reader:
    """An encoder: texts to vectors of length one."""

    model: Any
    tokenizer: Any
    pooling: Any

    def __call__(self, texts: Sequence[str]) -> Tensor:
        return vectors(self.model, self.tokenizer, list(texts), self.pooling, LENGTH)

    @staticmethod
    def load(folder: Path | str, device: str) -> "Reader":
        encoder = Encoder.find(str(folder), None)
        return Reader(encoder.load().to(device).eval(), encoder.load_tokenizer(), encoder.pooling)


def rows(data: Path, name: str) -> list[dict[str, Any]]:
    with gzip.open(data / f"{name}.jsonl.gz", "rt", encoding="utf-8") as file:
        return [json.loads(line) for line in file]


def unlabelled(data: Path) -> Iterator[str]:
    """Yield the sentences that the encoder is hardened on; none of them is measured on."""

    def read(names: Mapping[str, Sequence[str]]) -> Iterator[str]:
        yield from (row[field] for name, fields in names.items() for row in rows(data, name) for field in fields)

    measured = {plain(text) for text in read(MEASURED)}
    yield from (text for text in read(UNLABELLED) if plain(text) not in measured)


def plain(text: str) -> str:
    """Return the letters and digits of a text, small."""
    return "".join(filter(str.isalnum, text.lower()))


def spearman(found: Tensor, wanted: Tensor) -> float:
    """Return the correlation of ranks; equal values share their mean rank."""

    def ranks(values: Tensor) -> Tensor:
        _, place, counts = values.unique(return_inverse=True, return_counts=True)
        return (counts.cumsum(0).double() - counts / 2)[place]

    return float(torch.corrcoef(torch.stack([ranks(found), ranks(wanted)]))[0, 1])


def noises(texts: Sequence[str], data: Path, seed: int) -> dict[str, list[str]]:
    """Return the texts clean and under each noise, by the name of the noise."""
    return _noises(tuple(texts), data, seed)


@cache
def _noises(texts: tuple[str, ...], data: Path, seed: int) -> dict[str, list[str]]:
    return {
        f"{noise} {strength:g}" if strength else noise: changed
        for noise, strength, changed in noisy_texts(texts, seed, data / LEXICON)
    }


def similarity(reader: Vectors, data: Path, sizes: Sizes) -> dict[str, float]:
    """Return Spearman's correlation, in points, on the dev set of STS-B."""
    pairs = rows(data, "stsb/validation")[: sizes.pairs]
    first, second = ([row[name] for row in pairs] for name in ("sentence1", "sentence2"))
    labels = torch.tensor([row["label"] for row in pairs])
    both = zip(noises(first, data, 101).items(), noises(second, data, 202).values(), strict=True)
    return {name: 100 * spearman((reader(one) * reader(two)).sum(-1), labels) for (name, one), two in both}


def duplicates(data: Path, sizes: Sizes) -> tuple[list[str], list[str], Tensor]:
    """Return questions to search in, questions to search with, and which one is the duplicate of each."""
    pairs = rows(data, "qqp/validation")
    same = [row for row in pairs if row["label"] == 1]
    index = dict.fromkeys(row["question2"] for row in same[: sizes.queries])
    for row in pairs:
        if len(index) >= sizes.questions:
            break
        if row["label"] == 0:
            index.setdefault(row["question2"])
    for row in same[sizes.queries :]:
        if len(index) >= sizes.questions:
            break
        index.setdefault(row["question2"])
    number = {text: place for place, text in enumerate(index)}
    queries = [row["question1"] for row in same[: sizes.queries]]
    return list(index), queries, torch.tensor([number[row["question2"]] for row in same[: sizes.queries]])


def search(index: Tensor, queries: Tensor, wanted: Tensor) -> dict[str, float]:
    """Return recall and mean reciprocal rank among the first ten."""
    places = (queries @ index.T).topk(10).indices == wanted.unsqueeze(1)
    ranks = places.float() / torch.arange(1, 11)
    return {"recall@10": float(places.any(1).float().mean()), "mrr@10": float(ranks.sum(1).mean())}


def neighbours(index: Tensor, labels: Tensor, queries: Tensor, wanted: Tensor) -> float:
    """Return the accuracy of the most frequent label of the ten nearest texts."""
    found = labels[(queries @ index.T).topk(10).indices].mode(1).values
    return float((found == wanted).float().mean())


def kept(old: Tensor, new: Tensor, index: Tensor) -> float:
    """Return which share of the ten nearest texts in an index is the same for old and new vectors of queries."""
    before, after = ((each @ index.T).topk(10).indices for each in (old, new))
    return float((before.unsqueeze(2) == after.unsqueeze(1)).any(2).float().mean())


def measure(old: Vectors, new: Vectors, data: Path, sizes: Sizes) -> dict[str, Any]:
    """Measure both encoders on everything."""
    found: dict[str, Any] = {"stsb": {"before": similarity(old, data, sizes), "after": similarity(new, data, sizes)}}
    corpus, questions, wanted = duplicates(data, sizes)
    indexes = {"before": old(corpus), "after": new(corpus)}
    table: dict[str, Any] = {}
    for name, texts in noises(questions, data, 303).items():
        before, after = old(texts), new(texts)
        table[name] = {
            "before": search(indexes["before"], before, wanted),
            "after": search(indexes["after"], after, wanted),
            "after, kept index": search(indexes["before"], after, wanted),
        }
        if name == "clean":
            found["neighbours_kept"] = kept(before, after, indexes["before"])
            found["cosine_of_clean_vectors"] = float((before * after).sum(-1).mean())
    found["duplicates"] = table
    train, test = rows(data, "ag_news/train_subset")[: 5 * sizes.news], rows(data, "ag_news/test")[: sizes.news]
    labels, wanted = (torch.tensor([row["label"] for row in part]) for part in (train, test))
    indexes = {name: reader([row["text"] for row in train]) for name, reader in (("before", old), ("after", new))}
    found["ag_news"] = {}
    for name, texts in noises([row["text"] for row in test], data, 404).items():
        before, after = old(texts), new(texts)
        found["ag_news"][name] = {
            "before": neighbours(indexes["before"], labels, before, wanted),
            "after": neighbours(indexes["after"], labels, after, wanted),
            "after, kept index": neighbours(indexes["before"], labels, after, wanted),
        }
    return found


def gates(found: dict[str, Any]) -> dict[str, dict[str, Any]]:
    """Return what each gate asks for, what was measured, and whether it is passed."""
    before, after = found["stsb"]["before"], found["stsb"]["after"]
    recall = {
        (noise, when): found["duplicates"][noise][when]["recall@10"]
        for noise in ("clean", "typos 0.1")
        for when in ("before", "after, kept index")
    }
    lost = recall["clean", "before"] - recall["typos 0.1", "before"]
    regained = recall["typos 0.1", "after, kept index"] - recall["typos 0.1", "before"]
    measured = (
        after["typos 0.3"] - before["typos 0.3"],
        after["clean"] - before["clean"],
        regained / lost if lost > 0 else float("nan"),
        found["neighbours_kept"],
    )
    return {
        gate: {"least": least, "measured": round(value, 4), "passed": value >= least}
        for (gate, least), value in zip(GATES.items(), measured, strict=True)
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--model", required=True)
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--out", type=Path)
    parser.add_argument("--hardened", type=Path, help="measure this folder; by default one is made")
    parser.add_argument("--steps", type=int, default=11_000)
    parser.add_argument("--batch_size", type=int, default=256)
    parser.add_argument("--learning_rate", type=float, default=HardenSpec.learning_rate)
    parser.add_argument("--clean_share", type=float, default=HardenSpec.clean_share)
    parser.add_argument("--workers", type=int, default=0)
    parser.add_argument("--fast", action="store_true")
    parser.add_argument("--measured", type=int, default=1_000)
    parser.add_argument("--pairs", type=int, default=1_500)
    parser.add_argument("--questions", type=int, default=10_000)
    parser.add_argument("--queries", type=int, default=2_000)
    parser.add_argument("--news", type=int, default=2_000)
    parser.add_argument("--pilot", default="", help="what is smaller than in the full run, if this is a pilot")
    given = parser.parse_args()
    device, began = "cuda" if torch.cuda.is_available() else "cpu", time.perf_counter()
    with tempfile.TemporaryDirectory() as scratch:
        folder = given.hardened or Path(scratch) / "hardened"
        options = {
            name: getattr(given, name) for name in ("steps", "batch_size", "learning_rate", "clean_share", "measured")
        }
        if given.hardened is None:
            texts = Path(scratch) / "texts.txt"
            texts.write_text("\n".join(" ".join(text.split()) for text in unlabelled(given.data)), encoding="utf-8")
            toughen.harden(
                given.model,
                texts,
                output_dir=folder,
                max_length=LENGTH,
                lexicon=given.data / LEXICON,
                workers=given.workers,
                fast=given.fast,
                **options,
            )
        hardened = time.perf_counter() - began
        own = json.loads((folder / "harden.json").read_text(encoding="utf-8"))
        sizes = Sizes(given.pairs, given.questions, given.queries, given.news)
        found = measure(Reader.load(given.model, device), Reader.load(folder, device), given.data, sizes)
    result = {
        "pilot": given.pilot or None,
        "model": Path(given.model).name,
        "device": torch.cuda.get_device_name() if device == "cuda" else "cpu, one thread",
        "settings": options | asdict(sizes),
        "seconds_of_hardening": round(hardened, 1),
        "gates": gates(found),
        **found,
        "held_out_texts": own["rows"],
    }
    rounded = json.loads(json.dumps(result), parse_float=lambda number: round(float(number), 4))
    text = json.dumps(rounded, indent=1)
    print(text)
    if given.out:
        given.out.write_text(text + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
