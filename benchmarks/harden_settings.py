"""Train one encoder with several settings of hardening side by side, and choose one without labels.

    python -m benchmarks.harden_settings pack FOLDER --model MODEL --data DATA
    tar xf FOLDER/code.tar.xz -C CODE
    PYTHONPATH=CODE/src:CODE python -m benchmarks.harden_settings run FOLDER --out OUT --seconds 240
    python -m benchmarks.harden_settings table OUT/settings.jsonl

`pack` writes what `run` reads: the weights in half precision and compressed, the texts, the sets that are measured
on, and the code. `run` edits all texts first, then trains every setting on the same batches in turn; on a GPU each
update is a captured graph. OUT/settings.jsonl gets each result as soon as it is there, OUT the weights that are chosen.
"""

import argparse
import copy
import gzip
import json
import lzma
import math
import multiprocessing
import os
import shutil
import tarfile
import time
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from typing import Any, ClassVar

import numpy
import torch
from torch import Tensor, nn
from torch.nn.functional import normalize

from benchmarks.harden import LENGTH, LEXICON, Sizes, gates, measure, rows, unlabelled
from toughen.cuda_graphs.attention_masks import explicit_attention_masks
from toughen.cuda_graphs.capture import recording
from toughen.hardening.encoder import Encoder, Weights, loss_parts, pool, run
from toughen.hardening.measure import NEIGHBOURS, noisy_texts
from toughen.hardening.student import BANK
from toughen.hardening.texts import padded
from toughen.text.token_words import TokenWords
from toughen.text.views import TextEditor

STREAMS = ("typos", "obfuscation")
BUCKETS = (16, 32, LENGTH)  # tokens that a batch is padded to
MIXES = (1.0, 0.8, 0.6, 0.4)  # of student and teacher
STAYS = 0.92  # held-out clean neighbours that a setting must keep; the gate asks for 0.9 of other texts
INDEX = 10_000  # held-out texts are searched in so many others
PACKED = {  # fields and rows of the sets that are measured on
    "stsb/validation": (("sentence1", "sentence2", "label"), None),
    "qqp/validation": (("question1", "question2", "label"), None),
    "ag_news/train_subset": (("text", "label"), None),
    "ag_news/test": (("text", "label"), 2_000),
}


@dataclass(frozen=True)
class Setting:
    """One way to harden."""

    name: str
    learning_rate: float = 5e-4
    weight_decay: float = 0.0
    clean_share: float = 0.25
    """Share of unedited texts."""
    obfuscation: float = 0.25
    """Share of the edited texts that are obfuscated; typing errors in the others."""
    weights: Weights = Weights()
    layers: int | None = None
    """Train the embeddings and so many layers; all if None."""


SETTINGS = (
    Setting("now", 2e-4, weight_decay=0.01, obfuscation=0.5, weights=Weights(hidden=1.0, neighbours=0.0, clean=1.0)),
    Setting("near"),
    Setting("near_strong", weights=Weights(clean=30.0)),
    Setting("near_pooled", weights=Weights(hidden=0.0)),
    Setting("near_typos", obfuscation=0.0),
    Setting("lower_2", layers=2),
    Setting("lower_4", layers=4),
)


def pack(folder: Path, model: str, data: Path) -> None:
    """Write what a run needs."""
    encoder = Encoder.find(model, None)
    encoder.save(encoder.load().half(), encoder.load_tokenizer(), folder / "model")
    weights = folder / "model" / "model.safetensors"
    halves = numpy.frombuffer(weights.read_bytes(), numpy.uint16).view(numpy.uint8).reshape(-1, 2)
    (folder / "weights.xz").write_bytes(
        lzma.compress(halves.T.tobytes(), preset=1)
    )  # exponents pack well by themselves
    weights.unlink()
    (folder / "data" / LEXICON).parent.mkdir(parents=True)
    shutil.copy(data / LEXICON, folder / "data" / LEXICON)
    for name, (fields, most) in PACKED.items():
        file = folder / "data" / f"{name}.jsonl.gz"
        file.parent.mkdir(exist_ok=True)
        kept = ({field: row[field] for field in fields} for row in rows(data, name)[:most])
        file.write_bytes(gzip.compress("\n".join(map(json.dumps, kept)).encode()))
    texts = dict.fromkeys(" ".join(text.split()) for text in unlabelled(data))
    (folder / "texts.txt.xz").write_bytes(lzma.compress("\n".join(texts).encode()))
    home = Path(__file__).parent.parent
    with tarfile.open(folder / "code.tar.xz", "w:xz") as code:
        for file in [*(home / "src").rglob("*"), *(home / "benchmarks").glob("harden*.py")]:
            if file.is_file() and "__pycache__" not in file.parts:
                code.add(file, file.relative_to(home))
    files = [file for file in folder.rglob("*") if file.is_file()]
    print(f"{len(texts)} texts, {sum(file.stat().st_size for file in files) / 2**20:.1f} MiB in {len(files)} files")


def unpack(folder: Path) -> str:
    """Return the folder of the encoder, with its weights."""
    if not (weights := folder / "model" / "model.safetensors").is_file():
        halves = numpy.frombuffer(lzma.decompress((folder / "weights.xz").read_bytes()), numpy.uint8)
        weights.write_bytes(halves.reshape(2, -1).T.tobytes())
    return str(folder / "model")


def matrix(lists: Sequence[Sequence[int]], value: int = 0) -> numpy.ndarray:
    """Return rows of LENGTH numbers."""
    found = numpy.full((len(lists), LENGTH), value, dtype=numpy.int32)
    for row, each in zip(found, lists, strict=True):
        row[: len(each)] = each
    return found


def edit(texts: Sequence[str], epochs: Sequence[int], model: str, seed: int) -> list[numpy.ndarray]:
    """Return the ids and lengths of texts; then ids, sources and lengths of their views, for each stream and epoch."""
    tokenizer = Encoder.find(model, None).load_tokenizer()
    words, pad = TokenWords(tokenizer), tokenizer.pad_token_id or 0
    ids: list[list[int]] = tokenizer(list(texts), truncation=True, max_length=LENGTH)["input_ids"]
    found = [matrix(ids, pad), numpy.array([len(each) for each in ids])]
    for stream in STREAMS:
        editor = TextEditor(words, (stream,), 0.6)
        views = [editor.view(each, f"{seed}/{epoch}", LENGTH) for epoch in epochs for each in ids]
        found += [
            matrix([view.ids for view in views], pad),
            matrix([view.source for view in views]).astype(numpy.uint8),
        ]
        found.append(numpy.array([len(view.ids) for view in views]))
    return found


@dataclass(frozen=True)
class Texts:
    """All texts and their views on the device: a view of text i in epoch e is row e * count + i."""

    ids: Tensor
    lengths: Tensor
    views: Sequence[tuple[Tensor, Tensor, Tensor]]
    draws: Tensor
    """Of each view: whether the text is edited at all, and which stream it takes."""
    epochs: int
    seed: int

    @staticmethod
    def make(texts: Sequence[str], epochs: int, model: str, device: str, processes: int, seed: int) -> "Texts":
        size = math.ceil(len(texts) / (8 * processes))
        chunks = [texts[start : start + size] for start in range(0, len(texts), size)]
        work = partial(edit, epochs=range(epochs), model=model, seed=seed)
        if processes > 1:
            with multiprocessing.get_context("fork").Pool(processes) as workers:
                parts = workers.map(work, chunks, chunksize=1)
        else:
            parts = list(map(work, chunks))
        ids, lengths = (torch.from_numpy(numpy.concatenate([part[i] for part in parts])).to(device) for i in (0, 1))

        def gathered(place: int) -> Tensor:
            shaped = [part[place].reshape(epochs, len(part[1]), *part[place].shape[1:]) for part in parts]
            return torch.from_numpy(numpy.concatenate(shaped, axis=1)).flatten(0, 1).to(device)

        views = [(gathered(2 + 3 * i), gathered(3 + 3 * i), gathered(4 + 3 * i)) for i in range(len(STREAMS))]
        draws = torch.rand(epochs * len(texts), 2, generator=torch.Generator().manual_seed(10 * seed)).to(device)
        return Texts(ids, lengths, views, draws, epochs, seed)

    def batches(self, size: int) -> Iterator[tuple[int, Tensor]]:
        """Yield the tokens that a batch is padded to and its views' rows, for ever; batches have like lengths."""
        random, count = torch.Generator().manual_seed(10 * self.seed + 1), len(self.ids)
        while True:
            for epoch in range(self.epochs):
                part = slice(epoch * count, (epoch + 1) * count)
                longest = torch.stack([self.lengths, *(lengths[part] for _, _, lengths in self.views)]).amax(0).cpu()
                found: list[tuple[int, Tensor]] = []
                for low, bucket in zip((0, *BUCKETS), BUCKETS, strict=False):
                    members = ((longest > low) & (longest <= bucket)).nonzero().flatten()
                    members = members[torch.randperm(len(members), generator=random)] + epoch * count
                    found += [(bucket, each) for each in members.split(size) if len(each) == size]
                for i in torch.randperm(len(found), generator=random).tolist():
                    bucket, members = found[i]
                    yield bucket, members.to(self.ids.device)

    def batch(self, members: Tensor, bucket: int, setting: Setting) -> dict[str, Tensor]:
        """Return the batch as the setting draws it."""
        own, draws = members % len(self.ids), self.draws[members]
        place = torch.arange(bucket, device=members.device)
        ids, lengths = self.ids[own, :bucket], self.lengths[own]
        typos, obfuscated = ((i[members, :bucket], s[members, :bucket], n[members]) for i, s, n in self.views)
        other, edited = draws[:, 1] < setting.obfuscation, draws[:, 0] >= setting.clean_share
        view, source, view_lengths = (
            torch.where(other.view(-1, *[1] * (one.ndim - 1)), two, one)
            for one, two in zip(typos, obfuscated, strict=True)
        )
        view = torch.where(edited.unsqueeze(1), view, ids)
        source = torch.where(edited.unsqueeze(1), source, place.int()).clamp(max=bucket - 1)
        view_lengths = torch.where(edited, view_lengths, lengths)
        return {
            "ids": ids.long(),
            "mask": (place < lengths.unsqueeze(1)).long(),
            "view": view.long(),
            "view_mask": (place < view_lengths.unsqueeze(1)).long(),
            "source": source.long(),
            "edited": edited,
        }


class Training:
    """The training of one setting."""

    def __init__(
        self, setting: Setting, teacher: nn.Module, step: Callable[..., dict[str, Tensor]], device: str
    ) -> None:
        self.setting, self.step = setting, step
        self.student = copy.deepcopy(teacher).requires_grad_(True)
        for name, value in self.student.named_parameters():
            layer = name.partition("layer.")[2].partition(".")[0]
            trained = setting.layers is None or "embeddings" in name or (layer and int(layer) < setting.layers)
            value.requires_grad_(bool(trained) and "pooler" not in name)
        self.weights = [value for value in self.student.parameters() if value.requires_grad]
        self.first = [value.detach().clone() for value in self.weights]
        for value in self.weights:
            value.grad = torch.zeros_like(value)
        cuda = device == "cuda"
        self.rate = torch.zeros((), device=device)
        rate = self.rate if cuda else 0.0
        decay = setting.weight_decay
        self.optimizer = torch.optim.AdamW(self.weights, rate, weight_decay=decay, fused=cuda, capturable=cuda)
        self.parts: dict[str, Tensor] = defaultdict(lambda: torch.zeros((), device=device))
        self.graphs: dict[int, torch.cuda.CUDAGraph] = {}

    def update(self, bucket: int) -> None:
        """Make one update; under capture, note it."""
        self.optimizer.zero_grad(set_to_none=False)
        parts = self.step(self.student, bucket, self.setting)
        torch.stack(list(parts.values())).sum().backward()
        nn.utils.clip_grad_norm_(self.weights, 1.0, foreach=True)
        self.optimizer.step()
        for name, part in parts.items():
            self.parts[name].mul_(0.99).add_(part.detach(), alpha=0.01)

    def capture(self, warm_up: int = 2) -> None:
        """Capture an update of each length, and undo what the first updates did."""
        self.stream = torch.cuda.Stream()  # its graphs share work space, so they run on it alone, one after the other
        self.stream.wait_stream(torch.cuda.current_stream())
        for bucket in BUCKETS:
            with torch.cuda.stream(self.stream):
                for _ in range(warm_up):
                    self.update(bucket)
            self.graphs[bucket] = torch.cuda.CUDAGraph()
            with recording(self.graphs[bucket], stream=self.stream):
                self.update(bucket)
        self.restart()

    def restart(self) -> None:
        """Undo all updates."""
        torch.cuda.synchronize()
        with torch.no_grad():
            for value, first in zip(self.weights, self.first, strict=True):
                value.copy_(first)
            for state in self.optimizer.state.values():
                for value in state.values():
                    value.zero_()
            for part in self.parts.values():
                part.zero_()
        torch.cuda.synchronize()

    def advance(self, bucket: int, progress: float) -> None:
        """Make an update at the rate of this share of the training: it rises, then falls to 0."""
        rate = self.setting.learning_rate * min(progress / 0.06, max(0.0, (1 - progress) / 0.94))
        if self.graphs:
            self.stream.wait_stream(torch.cuda.current_stream())
            with torch.cuda.stream(self.stream):
                self.rate.fill_(rate)
                self.graphs[bucket].replay()
            return
        for group in self.optimizer.param_groups:
            group["lr"] = self.rate.fill_(rate) if isinstance(group["lr"], Tensor) else rate
        self.update(bucket)

    def wait(self) -> None:
        """Let the device's main stream wait for the update."""
        if self.graphs:
            torch.cuda.current_stream().wait_stream(self.stream)

    def mixed(self, share: float) -> nn.Module:
        """Return the encoder between the teacher (0) and the student (1)."""
        found = copy.deepcopy(self.student)
        trained = [value for value in found.parameters() if value.requires_grad]
        with torch.no_grad():
            for value, first in zip(trained, self.first, strict=True):
                value.lerp_(first, 1 - share)
        return found.requires_grad_(False)


class Reader:
    """An encoder: texts to vectors of length one, on the CPU; texts are tokenized once for all encoders."""

    ids: ClassVar[dict[tuple[str, ...], list[list[int]]]] = {}

    def __init__(self, model: nn.Module, tokenizer: Any, encoder: Encoder) -> None:
        self.model, self.tokenizer, self.encoder = model, tokenizer, encoder
        self.known: dict[tuple[str, ...], Tensor] | None = None

    @torch.no_grad()
    def __call__(self, texts: Sequence[str]) -> Tensor:
        key = tuple(texts)
        if self.known is not None and key in self.known:
            return self.known[key]
        if key not in Reader.ids:
            Reader.ids[key] = self.tokenizer(list(texts), truncation=True, max_length=LENGTH)["input_ids"]
        lists, device = Reader.ids[key], next(self.model.parameters()).device
        order = sorted(range(len(lists)), key=lambda index: len(lists[index]))
        found: list[Tensor] = []
        size = 1024 if device.type == "cuda" else 64
        for start in range(0, len(order), size):
            part = [lists[index] for index in order[start : start + size]]
            mask = padded([[1] * len(each) for each in part], 0).to(device)
            hidden, _ = run(self.model, padded(part, self.tokenizer.pad_token_id or 0).to(device), mask)
            found.append(normalize(pool(hidden, mask, self.encoder.pooling), dim=-1).cpu())
        result = torch.cat(found)[torch.tensor(order).argsort()]
        if self.known is not None:
            self.known[key] = result
        return result


@dataclass(frozen=True)
class HeldOut:
    """Unlabelled texts that no setting was trained on, and an index of old vectors of others."""

    noises: dict[str, list[str]]
    index: Tensor
    clean: Tensor

    @staticmethod
    def make(texts: Sequence[str], others: Sequence[str], teacher: Reader) -> "HeldOut":
        wanted = ("clean", "typos 0.1", "typos 0.3", "obfuscation 0.3")
        noises = {
            f"{noise} {strength:g}" if strength else noise: some for noise, strength, some in noisy_texts(texts, 7)
        }
        return HeldOut({name: noises[name] for name in wanted}, teacher(others), teacher(texts))

    def __call__(self, reader: Reader) -> dict[str, dict[str, float]]:
        """Return the cosine to the old clean vectors, and which share of their neighbours in the index is found."""
        found = {}
        wanted = (self.clean @ self.index.T).topk(NEIGHBOURS).indices
        for name, texts in self.noises.items():
            new = reader(texts)
            same = (new @ self.index.T).topk(NEIGHBOURS).indices.unsqueeze(2) == wanted.unsqueeze(1)
            cosine = float((new * self.clean).sum(-1).mean())
            found[name] = {"cosine": cosine, "neighbours": float(same.any(2).float().mean())}
        return found


def merit(found: dict[str, dict[str, float]]) -> tuple[bool, float]:
    """Return what settings are ordered by: old index kept, then neighbours under typing errors."""
    kept = found["clean"]["neighbours"]
    typos = found["typos 0.1"]["neighbours"] + found["typos 0.3"]["neighbours"]
    return (True, typos) if kept >= STAYS else (False, kept)


class Log:
    """JSON lines, flushed at once."""

    def __init__(self, folder: Path) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self.file = (folder / "settings.jsonl").open("a", encoding="utf-8")
        self.began = time.perf_counter()

    def __call__(self, kind: str, **values: Any) -> None:
        line = {"kind": kind, "second": round(time.perf_counter() - self.began, 1), **values}
        text = json.dumps(json.loads(json.dumps(line), parse_float=lambda number: round(float(number), 5)))
        self.file.write(text + "\n")
        self.file.flush()
        print(text, flush=True)


def settings(names: str | None) -> list[Setting]:
    known = {each.name: each for each in SETTINGS}
    return [known[name] for name in names.split(",")] if names else list(SETTINGS)


def train(folder: Path, out: Path, given: argparse.Namespace) -> None:
    """Train all settings, choose one, measure all."""
    log, device = Log(out), "cuda" if torch.cuda.is_available() else "cpu"
    cuda = device == "cuda"
    log("options", **vars(given) | {"folder": folder.name, "out": out.name})
    encoder = Encoder.find(model := unpack(folder), given.pooling)
    tokenizer = encoder.load_tokenizer()
    texts = lzma.decompress((folder / "texts.txt.xz").read_bytes()).decode().split("\n")
    order = torch.randperm(len(texts), generator=torch.Generator().manual_seed(10 * given.seed + 2)).tolist()
    texts = [texts[i] for i in order][: given.texts]
    held = min(given.held_out, len(texts) // 4)
    held_out, texts = texts[:held], texts[held:]
    table = Texts.make(texts, given.epochs, model, device, given.processes, given.seed)
    log("edited", texts=len(texts), views=len(table.draws) * len(STREAMS), processes=given.processes)

    teacher = encoder.load().to(device).eval().requires_grad_(False)
    old = Reader(teacher, tokenizer, encoder)
    old.known = {}
    sizes = Sizes(given.pairs, given.questions, given.queries, given.news)
    check = HeldOut.make(held_out, texts[:INDEX], old)
    log("teacher", held_out=check(old))
    before = measure(old, old, folder / "data", sizes)  # draws all noise, and tokenizes it, once
    log("measured", setting="teacher", mix=0.0, **before)
    bank = check.index[: given.bank].to(device)
    members = torch.zeros(given.batch_size, dtype=torch.long, device=device)

    def step(student: nn.Module, bucket: int, setting: Setting) -> dict[str, Tensor]:
        batch = table.batch(members, bucket, setting)
        with torch.autocast(device, torch.bfloat16, enabled=cuda, cache_enabled=False):
            kept = bank if setting.weights.neighbours else None
            return loss_parts(student, teacher, batch, encoder.pooling, setting.weights, kept)

    trainings = [Training(setting, teacher, step, device) for setting in settings(given.settings)]
    with explicit_attention_masks():
        fit(trainings, table, members, given, log, cuda)
    found: dict[tuple[str, float], dict[str, dict[str, float]]] = {}
    for training in trainings:
        for mix in given.mixes:
            found[training.setting.name, mix] = own = check(Reader(training.mixed(mix), tokenizer, encoder))
            log("held_out", setting=training.setting.name, mix=mix, held_out=own)
    best = max(found, key=lambda each: merit(found[each]))
    log("chosen", setting=best[0], mix=best[1], merit=merit(found[best]))
    by_name = {training.setting.name: training for training in trainings}
    chosen = by_name[best[0]].mixed(best[1])
    if given.weights:
        save(chosen, out)
    of_each = {name: max((m for n, m in found if n == name), key=lambda m: merit(found[name, m])) for name in by_name}
    everything = [best, *of_each.items(), *((name, 1.0) for name in by_name)]
    for name, mix in dict.fromkeys(everything):
        new = Reader(by_name[name].mixed(mix), tokenizer, encoder)
        result = measure(old, new, folder / "data", sizes)
        log("measured", setting=name, mix=mix, chosen=(name, mix) == best, gates=gates(result), **result)


def fit(
    trainings: Sequence[Training], table: Texts, members: Tensor, given: argparse.Namespace, log: Log, cuda: bool
) -> None:
    """Make the updates, until they are as many as wanted or the time is over."""
    torch.set_float32_matmul_precision("high")
    batches = table.batches(given.batch_size)
    members.copy_(next(batches)[1])
    if cuda and not given.eager:
        try:
            for training in trainings:
                training.capture()
        except RuntimeError as error:
            log("no graphs", error=str(error)[:500])
            for training in trainings:
                training.restart()
                training.graphs.clear()
    log("begin", settings=[asdict(training.setting) for training in trainings])
    began, done, progress = time.perf_counter(), 0, 0.0
    for bucket, rows_of_batch in batches:
        members.copy_(rows_of_batch)
        for training in trainings:
            training.advance(bucket, progress)
        for training in trainings:
            training.wait()
        done += 1
        if done % given.log_every == 0 or done == given.updates:
            parts = {  # waits for the device
                each.setting.name: {name: float(part) for name, part in each.parts.items()} for each in trainings
            }
            log("training", updates=done, progress=progress, parts=parts)
        elif cuda and done % 20 == 0:
            torch.cuda.synchronize()
        progress = max(done / given.updates, (time.perf_counter() - began) / given.seconds)
        if progress >= 1:
            break
    torch.set_float32_matmul_precision("highest")
    log("trained", updates=done, seconds=time.perf_counter() - began)


def save(model: nn.Module, out: Path, most: int = 14 * 2**20) -> None:
    """Save weights in half precision, in files that are small enough to be brought back."""
    from safetensors.torch import save_file

    parts: list[dict[str, Tensor]] = [{}]
    size = 0
    for name, value in model.state_dict().items():
        for number, piece in enumerate(value.half().cpu().split(math.ceil(most / 4 / max(1, value[0].numel())))):
            if size + 2 * piece.numel() > most:
                parts.append({})
                size = 0
            parts[-1][f"{name}|{number:03}"] = piece.contiguous()
            size += 2 * piece.numel()
    for number, part in enumerate(parts):
        save_file(part, out / f"chosen-{number}.safetensors")


def join(out: Path, folder: Path, model: str) -> None:
    """Make an encoder of the weights that came back."""
    from safetensors.torch import load_file

    pieces: dict[str, Tensor] = {}
    for file in sorted(out.glob("chosen-*.safetensors")):
        pieces |= load_file(file)
    state = {
        name: [pieces[each] for each in sorted(pieces) if each.rpartition("|")[0] == name]
        for name in dict.fromkeys(each.rpartition("|")[0] for each in pieces)
    }
    encoder = Encoder.find(model, None)
    weights = encoder.load()
    weights.load_state_dict({name: torch.cat(parts).float() for name, parts in state.items()})
    encoder.save(weights, encoder.load_tokenizer(), folder)


def table(file: Path) -> None:
    """Print what was measured: differences from the encoder before, and shares."""
    lines = [json.loads(line) for line in file.read_text(encoding="utf-8").splitlines()]
    print("| setting | share of new weights | STS-B typos 30 % | STS-B clean | regained | kept |")
    print("|---|---:|---:|---:|---:|---:|")
    for line in lines:
        if "gates" in line:
            typos, clean, regained, same = (gate["measured"] for gate in line["gates"].values())
            print(
                f"| `{line['setting']}` | {line['mix']:g} | {typos:+.1f} | {clean:+.1f} | {regained:.0%} | {same:.3f} |"
            )


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    commands = parser.add_subparsers(dest="command", required=True)
    packing = commands.add_parser("pack")
    packing.add_argument("folder", type=Path)
    packing.add_argument("--model", required=True)
    packing.add_argument("--data", type=Path, required=True)
    joining = commands.add_parser("join", help="make an encoder of the weights that came back")
    joining.add_argument("out", type=Path)
    joining.add_argument("folder", type=Path)
    joining.add_argument("--model", required=True)
    printing = commands.add_parser("table", help="print what was measured as Markdown")
    printing.add_argument("file", type=Path)
    running = commands.add_parser("run")
    running.add_argument("folder", type=Path)
    running.add_argument("--out", type=Path, default=Path(os.environ.get("OUT", "out")))
    running.add_argument("--settings", help="names, with commas; by default all")
    running.add_argument("--pooling", help="by default what the folder says, else mean")
    running.add_argument("--seed", type=int, default=0)
    running.add_argument(
        "--mixes", type=float, nargs="+", default=MIXES, help="shares of the new weights to choose from"
    )
    running.add_argument("--seconds", type=float, default=240.0, help="of training, of all settings together")
    running.add_argument("--updates", type=int, default=20_000, help="at most, of each setting")
    running.add_argument("--batch_size", type=int, default=256)
    running.add_argument("--epochs", type=int, default=5, help="different views of each text")
    running.add_argument("--texts", type=int, default=10**9)
    running.add_argument("--processes", type=int, default=len(os.sched_getaffinity(0)))
    running.add_argument("--held_out", type=int, default=2_000)
    running.add_argument("--bank", type=int, default=BANK)
    running.add_argument("--log_every", type=int, default=500)
    running.add_argument("--pairs", type=int, default=1_500)
    running.add_argument("--questions", type=int, default=10_000)
    running.add_argument("--queries", type=int, default=2_000)
    running.add_argument("--news", type=int, default=2_000)
    running.add_argument("--eager", action="store_true", help="capture no graphs")
    running.add_argument("--weights", action="store_true", help="save the chosen weights")
    given = parser.parse_args()
    if given.command == "pack":
        pack(given.folder, given.model, given.data)
    elif given.command == "join":
        join(given.out, given.folder, given.model)
    elif given.command == "table":
        table(given.file)
    else:
        train(given.folder, given.out, given)


if __name__ == "__main__":
    main()
