"""What a run is made of: typed, nested, plain values; written to and read from config.yaml."""

import inspect
import types
from dataclasses import dataclass, field
from typing import Any, Literal, Union, get_args, get_origin

from ..options import attribute_docs

Precision = Literal["auto", "fp32", "bf16", "fp16"]
Split = Literal["train", "validation", "test"]


@dataclass(frozen=True)
class DataConfig:
    """Where the data comes from, and which of it is used."""

    dir: str | None = None
    """Folder of sets on disk (for a named task); without it the task comes from the Hugging Face Hub."""
    train_file: str | None = None
    """Own data: CSV, TSV, Excel (.xlsx), JSON, JSONL, Parquet or CoNLL; .gz too."""
    validation_file: str | None = None
    """Own development set; without one a share of the training rows is held out."""
    test_file: str | None = None
    """Own test set; its predictions are written, its labels (if any) scored."""
    text_column: str | None = None
    """Column of the text, or two with a comma between them; inferred if there is no doubt."""
    label_column: str | None = None
    """Column of the label."""
    labels: list[str] | None = None
    """Label names in the order of the class numbers."""
    head: Literal["classes", "regression", "multilabel", "tokens", "choices"] | None = None
    """Label type of the data files; inferred if omitted."""
    delimiter: str | None = None
    """Delimiter of a table; inferred if omitted."""
    encoding: str | None = None
    """Encoding of a file that is not UTF-8, such as cp1252."""
    quoting: bool | None = None
    """Whether quotes enclose a cell; by default not in tables split at tabs."""
    max_line: int = 1_000_000
    """Bytes of a line; a longer one is taken for a broken file."""
    label_separator: str | None = None
    """Between several labels of one row."""
    on_bad: Literal["error", "skip"] = "error"
    """Rows that cannot be used: stop, or leave them out and count them."""
    validation_share: float = 0.1
    """Share of the training rows held out when there is no development set."""
    select_on_train: bool = False
    """Hold it out in any case, and read no split but the training rows; `toughen tune` selects so."""
    eval_split: Split = "validation"
    """The split that is scored each epoch and selects the best one."""
    max_length: int = 128
    """Tokens a text is cut at."""
    pad_to_max_length: bool = False
    """Pad every text to max_length, as older scripts do; by default to the longest of its batch."""
    lower_case: bool = False
    """Lower-case all texts, for a cased model whose tokenizer can do so, as BERT's."""
    limit: int | None = None
    """At most so many rows of every split, for a quick look."""
    few_shot: int | None = None
    """So many training rows a class."""
    label_noise: float = 0.0
    """Share of training labels changed at random."""
    imbalance: float | None = None
    """Smallest to largest class of the training rows."""
    seed: int = 0
    """Of the held-out share and of everything above that draws rows."""
    cache_dir: str | None = None
    """Where prepared data is kept; by default the cache of `datasets`."""


@dataclass(frozen=True)
class TrainConfig:
    """How long, how fast, and what is kept."""

    learning_rate: float = 2e-5
    """Peak learning rate."""
    epochs: float = 3.0
    """Passes over the training rows."""
    max_steps: int | None = None
    """Updates; goes before epochs, unless epochs are given over it."""
    batch_size: int = 32
    """Rows of one update, over all processes: the same on one GPU and on eight."""
    micro_batch: int | None = None
    """Rows of one pass on one device; the rest is accumulated. By default the whole share of the device."""
    shard: bool = False
    """Share weights, gradients and optimizer among the processes (FSDP2): for models that do not fit on one device."""
    eval_batch_size: int = 64
    """Rows of one evaluation pass."""
    warmup: float = 0.06
    """Updates of warm-up; below 1 a share of them all."""
    weight_decay: float = 0.01
    """Of AdamW."""
    max_grad_norm: float = 1.0
    """Gradients are cut at this norm; 0 does not cut."""
    precision: Precision = "auto"
    """auto is bf16 on GPUs and processors that have it (not for models narrower than 128), else fp32."""
    patience: int | None = None
    """Stop early after so many epochs without a better score."""
    log_steps: int = 10
    """Updates between two rows of metrics.jsonl."""
    save_steps: int | None = None
    """Updates between two checkpoints; by default one an epoch."""
    keep_checkpoints: bool = False
    """Keep the checkpoint of every epoch; else they go once the seed is done."""


@dataclass(frozen=True)
class HeadConfig:
    """The classification head: the model's own, or a second-order one (MGCrP)."""

    name: Literal["second-order"] | None = None
    """second-order replaces the model's own head."""
    preset: str | None = None
    """Published settings: mnli, qnli, rte, cola, original-text, isqrt, average."""
    q: int | None = None
    """Rows of the cross-covariance."""
    k: int | None = None
    """Columns of the cross-covariance."""
    dropout: float | None = None
    """On the pooled vector."""


@dataclass(frozen=True)
class PeftConfig:
    """Low-rank adapters in place of full fine-tuning; needs the extra `peft`."""

    name: Literal["lora"] | None = None
    """lora trains adapters and the head only."""
    r: int = 8
    """Rank."""
    alpha: int = 16
    """Scale."""
    dropout: float = 0.0
    """On the adapters' input."""
    targets: list[str] | None = None
    """Names of the layers that get adapters; by default all linear ones but the head."""


@dataclass(frozen=True)
class Config:
    """One run.

    Args:
        model: A name on the Hugging Face Hub, or a folder.
        task: The name of a task.
        method: The method and its options.
        data: Where rows come from and how they are read.
        train: Epochs, batch size, learning rate and the like.
        seed: The seeds to train with.
        baseline: Train plainly as well, with the same seeds.
        fast: Capture steps as CUDA graphs, without padding; "auto" does so on CUDA where it saves time.
        head: A second-order head.
        peft: Adapters.
        model_config: Changes of the model's config.json.
        output_dir: The run folder.
        nproc: Processes on this machine.
        trainer: Further arguments of transformers' Trainer.
        recipe: The recipe it began with.

    Examples:
        >>> toughen.runs.RunFolder(run.path).config().method["name"]
        'freelb'
    """

    model: str
    task: str | None = None
    method: dict[str, Any] = field(default_factory=lambda: {"name": "smart"})
    data: DataConfig = DataConfig()
    train: TrainConfig = TrainConfig()
    seed: tuple[int, ...] = (1,)
    baseline: bool = False
    fast: bool | Literal["auto"] = "auto"
    head: HeadConfig = HeadConfig()
    peft: PeftConfig = PeftConfig()
    model_config: dict[str, Any] = field(default_factory=dict[str, Any])
    output_dir: str | None = None
    nproc: int = 1
    trainer: dict[str, Any] = field(default_factory=dict[str, Any])
    recipe: str | None = None

    @property
    def method_name(self) -> str:
        return str(self.method["name"])


# Groups whose bare value is their name: `--method freelb`, `method: freelb`.
NAMED_GROUPS = ("method", "head", "peft")
GROUPS: dict[str, Any] = {"data": DataConfig, "train": TrainConfig, "head": HeadConfig, "peft": PeftConfig}


def docs_of(group: type) -> dict[str, str]:
    """Return what each field of a group means, by name, and under "" the group itself."""
    return {"": inspect.getdoc(group) or "", **attribute_docs(group)}


WORDS = {
    float: "a number",
    int: "a whole number",
    str: "text",
    bool: "true or false",
    type(None): "null",
    dict: "options by name",
}


def matches_type(value: Any, kind: Any) -> bool:
    """Return whether a plain value can stand for an option of this type; whole numbers do for numbers."""
    origin = get_origin(kind)
    if origin in (Union, types.UnionType):
        return any(matches_type(value, each) for each in get_args(kind))
    if origin is Literal:
        return value in get_args(kind)
    if origin in (list, tuple):
        return isinstance(value, (list, tuple)) and all(matches_type(each, get_args(kind)[0]) for each in value)
    if kind is float:
        return isinstance(value, (int, float)) and not isinstance(value, bool)
    if kind is int:
        return isinstance(value, int) and not isinstance(value, bool)
    return kind is Any or isinstance(value, origin or kind)


def describe_type(kind: Any) -> str:
    """Return the type in words: `a whole number or null`."""
    origin = get_origin(kind)
    if origin in (Union, types.UnionType):
        return " or ".join(describe_type(each) for each in get_args(kind))
    if origin is Literal:
        return ", ".join(map(str, get_args(kind)))
    if origin in (list, tuple):
        inner = describe_type(get_args(kind)[0]).removeprefix("a ").replace("number", "numbers")
        return f"a list of {inner} such as [a, b]"
    return WORDS.get(origin or kind, getattr(kind, "__name__", str(kind)))
