"""Time training steps of every method, eager and fast, beside a plain step (`toughen bench`)."""

import gc
import itertools
import os
import statistics
import timeit
import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import cache
from string import ascii_lowercase
from typing import Any

import torch
from torch import Tensor, nn

from ..cuda_graphs.compile import compile_layers, uncompile_layers
from ..engine.attached import Attached
from ..internal.markdown import line
from ..registry import create_method, get_factory, list_methods

MODES = ("eager", "fast")
# Layers, width, heads, inner width. The time of a step does not depend on the weights.
SIZES = {
    "tiny": (2, 32, 4, 64),
    "minilm": (6, 384, 12, 1536),
    "bert-base": (12, 768, 12, 3072),
    "bert-large": (24, 1024, 16, 4096),
}
SPECIAL = ("[PAD]", "[CLS]", "[SEP]", "[UNK]")
SAME_STEP = ("casing", "obfuscation", "synonyms", "views")  # as `typos`, with other edits: timed on request alone


def _other_tokens(_tokenizer: object, model: Any) -> Tensor:
    """Give every token eight others: the time of a step does not depend on what they mean."""
    size = model.get_input_embeddings().num_embeddings
    return (torch.arange(size).unsqueeze(1) + torch.arange(1, 9)) % size


OPTIONS: Mapping[str, Mapping[str, Any]] = {
    "bregman": {"switch_at": 1000},
    "words": {"candidates": _other_tokens},  # a random model has no words
}
WARM_UP = 5  # two eager steps if compiled, the capture, that of the update, and one to settle


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


@dataclass(frozen=True)
class Row:
    """Hold one method's result in one mode at one shape. A step is forward, search, backward, clipping and AdamW."""

    model: str
    method: str
    batch: int
    length: int
    dtype: str
    mode: str
    ms: float
    memory_gib: float | None
    device: str
    shortest: float = 1.0
    compiled: bool = False
    memory_budget: float | None = None
    note: str = ""

    def to_dict(self) -> dict[str, Any]:
        return asdict(self)


def bench(
    model: "str | os.PathLike[str]" = "minilm",
    methods: Sequence[str] | None = None,
    shapes: Sequence[str] = ("16x64",),
    *,
    modes: Sequence[str] = MODES,
    dtype: str | None = None,
    device: str | None = None,
    repeats: int = 20,
    compile: bool = False,
    memory_budget: float | None = None,
    on_row: Callable[[Row], None] | None = None,
) -> list[Row]:
    """Time training steps; rows are ordered by shape, method and mode; `on_row` gets each one when it is ready.

    Medians of `repeats` steps made one after the other, with no waiting between them. `compile` compiles the layers of
    the fast mode before they are captured, `memory_budget` is the share of activations it keeps (`compile_layers`). On
    a CPU there is no fast mode. Views of texts are made before the clock starts, as a loader's workers make them.
    """
    device = device or ("cuda" if torch.cuda.is_available() else "cpu")
    wanted = [mode for mode in modes if mode == "eager" or device == "cuda"]
    unknown = [mode for mode in modes if mode not in MODES]
    if unknown:
        raise ValueError(f"{unknown[0]!r} is no mode: give eager, fast or both.")
    if not wanted:
        raise ValueError(f"the fast mode needs a CUDA device, and this is the {device}: time eager steps there.")
    if repeats < 1:
        raise ValueError(f"repeats={repeats}: a median needs at least one step.")
    names = ["plain", *[name for name in methods or sorted(set(list_methods()) - set(SAME_STEP)) if name != "plain"]]
    for name in names:
        get_factory(name)  # refuse an unknown one before anything is timed
    settings = _Settings(
        device, dtype or ("bfloat16" if device == "cuda" else "float32"), repeats, compile, memory_budget
    )
    rows: list[Row] = []
    for shape in [Shape.parse(shape) for shape in shapes]:
        torch.manual_seed(0)
        subject = load_model(model).to(device)
        for name, mode in itertools.product(names, wanted):
            rows.append(_measure(subject, str(model), name, shape, mode, settings))
            if on_row is not None:
                on_row(rows[-1])
    return rows


@dataclass(frozen=True)
class _Settings:
    """Hold what is the same for all rows."""

    device: str
    dtype: str
    repeats: int
    compile: bool
    memory_budget: float | None


def _measure(subject: nn.Module, model: str, name: str, shape: Shape, mode: str, settings: _Settings) -> Row:
    cuda, fast = settings.device == "cuda", mode == "fast"
    compiled = settings.compile and fast
    gc.collect()
    if cuda:
        torch.cuda.empty_cache()
        torch.cuda.reset_peak_memory_stats()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # such as that a model of this size has no dropout
        options = OPTIONS.get(name, {})
        attached = create_method(name, **options).attach(subject, word_tokenizer(subject), total_steps=10_000)
        if compiled:
            compile_layers(subject, memory_budget=settings.memory_budget)
        try:
            step = _TrainingStep(attached, subject, shape, settings, fast)
            ms = _median_ms(step, settings.repeats, cuda, settled=2 if compiled else 1)
        finally:
            uncompile_layers(subject)
            attached.detach()
            subject.zero_grad()
    return Row(
        model=model,
        method=name,
        batch=shape.batch,
        length=shape.length,
        dtype=settings.dtype,
        mode=mode,
        ms=round(ms, 3),
        memory_gib=round(torch.cuda.max_memory_allocated() / 2**30, 3) if cuda else None,
        device=torch.cuda.get_device_name() if cuda else "cpu",
        shortest=round(shape.shortest, 3),
        compiled=compiled,
        memory_budget=settings.memory_budget if compiled else None,
        note=step.note(),
    )


class _TrainingStep:
    """Make one update on the same batch, as a training loop does."""

    def __init__(self, attached: Attached, model: nn.Module, shape: Shape, settings: _Settings, fast: bool) -> None:
        self.attached, self.model, self.device = attached, model, settings.device
        self.half = None if settings.dtype == "float32" else getattr(torch, settings.dtype)
        self.optimizer = torch.optim.AdamW(model.parameters(), lr=1e-6, fused=self.device == "cuda")
        self.captured = attached.capture(model, optimizer=self.optimizer, max_norm=1.0) if fast else None
        config: Any = model.config
        batch = make_batch(shape, int(config.get_text_config().vocab_size), int(config.num_labels))
        batch = attached.add_views(batch)
        if self.device == "cuda":  # the fast step copies it from pinned memory
            batch = {name: value.pin_memory() if fast else value.cuda() for name, value in batch.items()}
        self.batch = batch

    def __call__(self) -> None:
        with torch.autocast(self.device, self.half, enabled=self.half is not None):
            if self.captured is not None:
                self.captured(dict(self.batch))
                return
            self.attached.backward(self.model, dict(self.batch), step=self._update)
        self._update()

    def _update(self) -> None:
        nn.utils.clip_grad_norm_(self.model.parameters(), 1.0)
        self.optimizer.step()
        self.optimizer.zero_grad()

    def note(self) -> str:
        if self.captured is None:
            return ""
        self.captured.close()
        return "" if self.captured.obstacle is None else f"not captured: {self.captured.obstacle}"


def _median_ms(step: Callable[[], None], repeats: int, cuda: bool, settled: int) -> float:
    """Return the median time of a step; the peak of memory is measured after `settled` steps."""
    for number in range(WARM_UP):
        if cuda and number == settled:
            torch.cuda.reset_peak_memory_stats()  # the compiler tries kernels; the capture shows what a replay needs
        step()
    if not cuda:
        return 1000 * statistics.median(timeit.repeat(step, "gc.enable()", number=1, repeat=repeats))
    torch.cuda.synchronize()
    events = [torch.cuda.Event(enable_timing=True) for _ in range(repeats + 1)]
    events[0].record()
    for event in events[1:]:
        step()
        event.record()
    torch.cuda.synchronize()
    return statistics.median(before.elapsed_time(after) for before, after in itertools.pairwise(events))


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


@cache
def _tokenizer(vocabulary: int) -> Any:
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers
    from transformers import PreTrainedTokenizerFast

    words = ("".join(each) for each in itertools.product(ascii_lowercase, repeat=4))
    letters = [*ascii_lowercase, *(f"##{letter}" for letter in ascii_lowercase)]
    pieces = list(itertools.islice(itertools.chain(SPECIAL, letters, words), vocabulary))
    inner = Tokenizer(models.WordPiece({piece: number for number, piece in enumerate(pieces)}, unk_token="[UNK]"))
    inner.pre_tokenizer, inner.decoder = pre_tokenizers.BertPreTokenizer(), decoders.WordPiece()
    names = {f"{token.strip('[]').lower()}_token": token for token in SPECIAL}
    return PreTrainedTokenizerFast(tokenizer_object=inner, **names)


def word_tokenizer(model: nn.Module) -> Any:
    """Return a tokenizer for which most random tokens are words of four letters, so that texts can be edited."""
    config: Any = model.config
    return _tokenizer(int(config.get_text_config().vocab_size))


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


def markdown(rows: Sequence[Row]) -> str:
    """Write a table for each shape: milliseconds, times the plain step of the same mode, peak memory."""
    parts: list[str] = []
    for shape in dict.fromkeys((row.batch, row.length, row.shortest) for row in rows):
        own = [row for row in rows if (row.batch, row.length, row.shortest) == shape]
        modes = list(dict.fromkeys(row.mode for row in own))
        plain = {row.mode: row for row in own if row.method == "plain"}
        head = [f"{own[0].model}, {Shape(*shape)}, {own[0].dtype}"]
        for mode in modes:
            head += [f"{mode} ms", "of plain", "GiB"]
        lines = [line(head), "|---|" + "---:|" * (len(head) - 1)]
        for method in dict.fromkeys(row.method for row in own):
            cells = [method]
            for mode in modes:
                row = next(row for row in own if (row.method, row.mode) == (method, mode))
                memory = "-" if row.memory_gib is None else f"{row.memory_gib:.2f}"
                cells += [f"{row.ms:.2f}" + ("*" if row.note else ""), f"{row.ms / plain[mode].ms:.2f}", memory]
            lines.append(line(cells))
        notes = dict.fromkeys(row.note for row in own if row.note)
        parts.append("\n".join([*lines, *[f"\n\\* {note}" for note in notes]]))
    return "\n\n".join(parts) + "\n"
