"""Prepare what all seeds of a run share: data, tokenizer, method and number format; log it in a few lines."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from .._version import __version__
from ..errors import count_of
from ..tasks import Data, DataError, Task, prepare
from ..tasks import load as load_task
from ..tasks.tokenising import is_labelled
from .config import Config, Precision
from .errors import RunError
from .folder import RunFolder
from .method_config import make_method, methods_of, parts_of, settings_of
from .modeling import hidden_width, load_tokenizer, max_input_length
from .progress import ProgressLogger
from .results import RunManifest


@dataclass(frozen=True)
class PreparedRun:
    """What all seeds of a run share."""

    data: Data
    extra_eval_sets: Mapping[str, Data]
    """Sets to score besides, by the ending of their metrics."""
    tokenizer: Any
    method: Any
    precision: str
    max_length: int
    """Tokens a text is cut at: those asked for, or those that the model reads."""
    notes: tuple[str, ...] = ()


@dataclass(frozen=True)
class SeedJob:
    """One seed of one variant, and what it needs."""

    config: Config
    run: RunFolder
    folder: Path
    variant: str
    seed: int
    world_size: int
    prepared: PreparedRun

    @property
    def data(self) -> Data:
        return self.prepared.data

    @property
    def title(self) -> str:
        return f"seed {self.seed}" if self.variant == "method" else f"seed {self.seed} plain"

    @property
    def method(self) -> Any:
        """The method itself, or the plain one of the baseline."""
        if self.variant == "method":
            return self.prepared.method
        from ..registry import create_method

        return create_method("plain")

    @property
    def settings(self) -> Mapping[str, Any]:
        """The `method:` group of this variant."""
        return self.config.method if self.variant == "method" else {"name": "plain"}

    @property
    def names(self) -> list[str]:
        """The method's name, or those of a sum, one for each of its parts."""
        parts = methods_of(self.method)
        names = [key for _, key in parts_of(str(self.settings["name"]))] if "repr" not in self.settings else []
        return names if len(names) == len(parts) else ["term"] * len(parts)


# Task -> what its models are scored on as well, by the ending of its metrics: accuracy_mm, as run_glue.py writes it.
EXTRA_EVAL_SETS: Mapping[str, Mapping[str, str]] = {"mnli": {"mm": "mnli-mm"}}
SHARED_BY_SETS = ("dir", "on_bad", "limit", "seed", "cache_dir")  # the options of `data` that hold for them, too


# The other options of `data` are those of `toughen.tasks.load`.
NOT_OF_LOADING = ("max_length", "pad_to_max_length", "lower_case", "eval_split")


def load_data(config: Config) -> Data:
    """Load the data of a config, and check that it has what training needs."""
    given = config.data
    options: dict[str, Any] = {key: value for key, value in vars(given).items() if key not in NOT_OF_LOADING}
    if given.text_column:
        options["text_column"] = [part.strip() for part in given.text_column.split(",")]
    data = load_task(config.task, **options)
    if data.train is None:
        tested = f"; it tests models of {data.task.tests}: use toughen evaluate" if data.task.tests else ""
        raise RunError(f"{data.task.title} has no training rows{tested}.")
    if getattr(data, given.eval_split) is None:
        raise RunError(f"data.eval_split={given.eval_split}: there is none; there are {', '.join(data.splits)}.")
    _check_rows(data, given.eval_split)
    if data.task.primary_metric == "mse":  # less is better: the worst epoch would be kept
        raise RunError(
            f"{data.task.title}: its first metric selects the epoch where it is highest, and mse is better when lower; "
            "put another first, such as pearson."
        )
    return data


def _check_rows(data: Data, split: str) -> None:
    """Refuse a split that would be scored each epoch and has nothing to score: no rows, or no labels."""
    rows = getattr(data, split)
    if not len(rows):
        raise RunError(
            f"{data.task.title} has {len(data.train)} training rows of {len(data.task.labels)} classes, too few to "
            "hold some out: give --data.validation_file, or --data.head regression if the labels are numbers."
        )
    if not is_labelled(rows, data.task):
        raise RunError(f"data.eval_split={split}: it has no labels to score; choose another, or give it labels.")


def load_extra_eval_sets(config: Config, task: Task) -> tuple[dict[str, Data], list[str]]:
    """Load MNLI's mismatched half, by the ending of its metrics; with a note if it cannot be loaded."""
    sets: dict[str, Data] = {}
    notes: list[str] = []
    given = config.data
    for ending, name in EXTRA_EVAL_SETS.get(task.name, {}).items():
        if given.train_file is not None:
            continue  # own files replace the set's
        try:
            options: dict[str, Any] = {key: getattr(given, key) for key in SHARED_BY_SETS}
            sets[ending] = load_task(name, **options)
        except DataError as error:
            notes.append(f"{name} is not scored: {error}")
    return sets, notes


NARROW = 128  # below this width of the model, a processor takes longer to convert numbers than it saves


def resolve_precision(wanted: Precision, model: str) -> tuple[str, str | None]:
    """Return fp32, bf16 or fp16 for this machine and model, and a note when `auto` chose."""
    import torch

    cuda = torch.cuda.is_available()
    if wanted == "auto":
        if cuda and torch.cuda.is_bf16_supported(including_emulation=False):
            return "bf16", None
        if _device() == "cpu" and _processor_has_bfloat16() and hidden_width(model) >= NARROW:
            return "bf16", "precision bf16: this processor computes in it"
        return "fp32", "precision fp32: this GPU has no bfloat16" if cuda else None
    if wanted == "fp16" and not cuda:
        raise RunError("train.precision=fp16 needs a GPU; use fp32, or bf16 where the processor has it.")
    if wanted == "bf16" and cuda and not torch.cuda.is_bf16_supported(including_emulation=False):
        raise RunError("train.precision=bf16: this GPU has no bfloat16; use fp16 or fp32.")
    return wanted, None


def _processor_has_bfloat16() -> bool:
    """Tell whether the processor multiplies bfloat16 numbers; others convert them, which is slower than float32."""
    import torch

    tells = ("_is_amx_tile_supported", "_is_avx512_bf16_supported")
    return any(getattr(torch.cpu, name, lambda: False)() for name in tells)


def summary_lines(
    config: Config,
    data: Data,
    tokenizer: object,
    lengths: tuple[int, int | None],
    precision: str,
    world_size: int,
    notes: Sequence[str],
) -> Iterator[str]:
    """Yield `toughen 0.1 · smart (weight 5) · RTE 2490/277/3000 · roberta-base · cuda bf16 · 3 seeds`, then the data.

    `lengths` are the tokens that texts are cut at, and those the model reads at most.
    """
    length, longest = lengths
    rows = "/".join(f"{len(split)}" for split in data.splits.values())
    seeds = count_of(len(config.seed), "seed") + (" + plain" if config.baseline else "")
    where = f"{_device()} {precision}" + (f" x {world_size}{' sharded' * config.train.shard}" if world_size > 1 else "")
    model = Path(config.model).name if Path(config.model).is_dir() else config.model
    model += f" + {config.head.name} head" if config.head.name else ""
    facts = [f"toughen {__version__}", _method(config), f"{data.task.title} {rows}", model, where, seeds]
    yield " · ".join(facts)
    report = data.report(tokenizer, length, longest)
    cut = report.truncated.get("train", 0.0)
    facts = [f"{cut:.1%} of the texts cut at {length} tokens" if cut else f"no text is cut at {length} tokens"]
    balance = report.balance.get("train", {})
    if data.task.head == "classes" and len(balance) <= 5:
        total = sum(balance.values())
        facts.append(" / ".join(f"{label} {count / total:.1%}" for label, count in balance.items()))
    else:
        facts.append(f"{len(data.task.labels)} classes" if data.task.head == "classes" else data.task.head)
    if config.data.train_file and not config.data.text_column:  # a guess
        facts.append(f"text: {' and '.join(map(repr, data.task.columns))}")
    yield " · ".join(facts)
    yield from (f"! {line}" for line in (*data.doubts, *report.warnings, *notes))


def _method(config: Config) -> str:
    if "repr" in config.method:
        return config.method_name
    parts: list[str] = []
    for part, given in settings_of(config.method).items():
        changed = [f"{key} {value:g}" if isinstance(value, float) else f"{key} {value}" for key, value in given.items()]
        kept = [each for each in changed if each != "preset recommended"]
        parts.append(f"{part} ({', '.join(kept)})" if kept else part)
    return " + ".join(parts)


def _device() -> str:
    import torch

    return torch.accelerator.current_accelerator().type if torch.accelerator.is_available() else "cpu"  # pyright: ignore[reportOptionalMemberAccess]


# A run cannot go on with other values of these.
TRAIN_KEYS = ("learning_rate", "epochs", "max_steps", "batch_size", "warmup", "weight_decay", "max_grad_norm")


def prepare_run(
    folder: RunFolder, config: Config, method: object, world_size: int, reporter: ProgressLogger
) -> PreparedRun:
    """Load data, tokenizer and method, and note what is unusual about them."""
    precision, note = resolve_precision(config.train.precision, config.model)
    method = make_method(config.method) if method is None else method
    data = load_data(config)
    task = data.task
    folder.check_manifest(
        RunManifest(
            task=task.name,
            labels=list(task.labels),
            head=task.head,
            kind=task.kind,
            columns=list(task.columns),
            metrics=list(task.metrics),
            rows={name: len(split) for name, split in data.splits.items()},
            processes=world_size,
            method=config.method,
            train={key: getattr(config.train, key) for key in TRAIN_KEYS},
        )
    )
    tokenizer = load_tokenizer(config.model, lower_case=config.data.lower_case)
    length, longest, shorter = max_input_length(config, tokenizer)
    others, missing = load_extra_eval_sets(config, task)
    notes = [*filter(None, (note, shorter)), *missing]
    if reporter.speak:
        for line in summary_lines(config, data, tokenizer, (length, longest), precision, world_size, notes):
            reporter.log(line)
    ready = prepare(data, tokenizer, length, cache_dir=config.data.cache_dir)
    extra = {key: prepare(each, tokenizer, length, cache_dir=config.data.cache_dir) for key, each in others.items()}
    return PreparedRun(ready, extra, tokenizer, method, precision, length, tuple(notes))
