"""Options of the Hugging Face Trainer under `trainer.*`: any field of its TrainingArguments, read from its source.

Importing TrainingArguments takes seconds, and a typo should be told at once.
"""

import ast
import importlib.util
from collections.abc import Mapping
from functools import cache, reduce
from operator import or_
from pathlib import Path
from typing import Any, Literal

from ..errors import nearest
from .errors import RunError

# Fields a run decides itself, and what to use instead.
OURS: Mapping[str, str] = {
    "output_dir": "output_dir",
    "seed": "seed",
    **{key: f"train.{key}" for key in ("max_steps", "learning_rate", "weight_decay", "max_grad_norm", "save_steps")},
    "warmup_steps": "train.warmup",
    "warmup_ratio": "train.warmup",
    "logging_steps": "train.log_steps",
    "per_device_eval_batch_size": "train.eval_batch_size",
    "save_total_limit": "train.keep_checkpoints",
    "num_train_epochs": "train.epochs",
    "per_device_train_batch_size": "train.micro_batch",
    "gradient_accumulation_steps": "train.batch_size and train.micro_batch",
    "resume_from_checkpoint": "--resume",
    "load_best_model_at_end": "train.patience, or nothing: the best epoch is always taken",
    "metric_for_best_model": "the task's first metric",
    "greater_is_better": "the task's first metric",
    "eval_strategy": "nothing: each epoch is scored",
    "save_strategy": "train.save_steps",
    "save_only_model": "nothing: a run that can be resumed needs the optimizer too",
    "bf16": "train.precision",
    "fp16": "train.precision",
    **dict.fromkeys(("bf16_full_eval", "fp16_full_eval"), "train.precision: it would halve the saved weights too"),
    "auto_find_batch_size": "nothing: passes shrink by themselves where memory runs out, and updates keep their rows",
    **dict.fromkeys(
        ("prediction_loss_only", "batch_eval_metrics", "eval_do_concat_batches"),
        "nothing: scores and predictions are of all rows together",
    ),
    "do_train": "toughen train",
    "do_eval": "toughen evaluate",
    "do_predict": "toughen predict",
}


# What a command line can write, of the types that TrainingArguments names.
PLAIN: Mapping[str, Any] = {
    **{kind.__name__: kind for kind in (bool, int, float, str, dict)},
    "None": type(None),
    "list[str]": list[str],
    "dict[str, Any]": dict[str, Any],
    "dict[str, bool]": dict[str, bool],
    "Literal[False]": Literal[False],
}


@cache
def trainer_options() -> dict[str, Any]:
    """Field -> type; a type that a command line cannot write is Any."""
    found = importlib.util.find_spec("transformers")
    if found is None or found.origin is None:
        return {}
    tree = ast.parse((Path(found.origin).parent / "training_args.py").read_text(encoding="utf-8"))
    record = next(n for n in tree.body if isinstance(n, ast.ClassDef) and n.name == "TrainingArguments")
    return {
        line.target.id: _type_of(ast.unparse(line.annotation))
        for line in record.body
        if isinstance(line, ast.AnnAssign) and isinstance(line.target, ast.Name) and not line.target.id.startswith("_")
    }


def _type_of(annotation: str) -> Any:
    kinds = [PLAIN[part] for part in annotation.split(" | ") if part in PLAIN]
    return reduce(or_, kinds) if {*kinds} - {type(None)} else Any


def check_trainer(given: Mapping[str, Any]) -> None:
    """Refuse unknown fields and those that a run decides itself."""
    for key in given:
        if key in OURS:
            raise RunError(f"trainer.{key} is the run's own; use {OURS[key]}.")
        if key not in trainer_options():
            raise RunError(f"transformers.TrainingArguments has no {key!r}. {nearest(key, trainer_options())}")
