"""Options of Hugging Face: `trainer.*`, fields of TrainingArguments; `model_config.*`, keys of the model's config.

Importing TrainingArguments takes seconds, and a typo should be reported at once: its fields are read from its source.
"""

import ast
import importlib.util
import inspect
import re
import sys
from collections.abc import Mapping
from functools import cache, reduce
from operator import or_
from pathlib import Path
from typing import Any, Literal

from ..errors import nearest
from .errors import RunError
from .kinds import fits, worded

# Fields a run decides itself, and what to use instead.
TRAINER_RESERVED: Mapping[str, str] = {
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
        if key in TRAINER_RESERVED:
            raise RunError(f"trainer.{key} is the run's own; use {TRAINER_RESERVED[key]}.")
        if key not in trainer_options():
            raise RunError(f"transformers.TrainingArguments has no {key!r}. {nearest(key, trainer_options())}")


# Keys a run decides itself, and what to use instead.
MODEL_RESERVED: Mapping[str, str] = {
    **dict.fromkeys(("num_labels", "id2label", "label2id", "problem_type"), "the task's labels say it"),
    **dict.fromkeys(("dtype", "torch_dtype"), "use train.precision"),
    **dict.fromkeys(("architectures", "model_type", "auto_map", "return_dict"), "the model's class says it"),
}


def check_model_keys(given: Mapping[str, Any]) -> None:
    """Refuse keys that a run decides itself, before anything is loaded."""
    for key in given:
        if key in MODEL_RESERVED:
            raise RunError(f"model_config.{key} cannot be changed: {MODEL_RESERVED[key]}.")


def check_keys(given: Mapping[str, Any], config: Any, kind: type | None) -> None:
    """Refuse keys that neither the model's config has nor its code reads, and values of another type."""
    for key, value in given.items():
        if not hasattr(config, key) and not _reads(kind, key):
            known = [name for name in config.to_dict() if not name.startswith("_") and name not in MODEL_RESERVED]
            hint = f"{nearest(key, known)} To leave out what a recipe or file says, give null."
            raise RunError(f"model_config.{key}: {type(config).__name__} has no such key. {hint}")
        now = getattr(config, key, None)
        # None says nothing of the type, and a whole number may stand for a dropout of 0.
        kinds = float if isinstance(now, float) else type(now)
        if now is not None and isinstance(now, (bool, int, float, str)) and not fits(value, kinds):
            raise RunError(f"model_config.{key}={value}: expected {worded(kinds)}.")


def model_class(config: Any, auto: Any) -> type | None:
    """The class that an Auto class would make."""
    try:
        return auto._model_mapping[type(config)]
    except (AttributeError, KeyError):
        return None


def _reads(kind: type | None, key: str) -> bool:
    """Whether the model's code asks its config for a key that need not be there, as DeBERTa's heads for cls_dropout."""
    module = sys.modules.get(kind.__module__) if kind is not None else None
    asked = re.compile(rf"getattr\((?:self\.)?config, ['\"]{re.escape(key)}['\"]")
    return module is not None and asked.search(inspect.getsource(module)) is not None
