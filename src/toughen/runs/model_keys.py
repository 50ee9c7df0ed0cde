"""Keys of the model's own Hugging Face config, changed for a run: `--model_config.classifier_dropout 0.15`."""

import inspect
import re
import sys
from collections.abc import Mapping
from typing import Any

from ..errors import nearest
from .errors import RunError
from .kinds import fits, worded

# Keys a run decides itself, and what to use instead.
OURS: Mapping[str, str] = {
    **dict.fromkeys(("num_labels", "id2label", "label2id", "problem_type"), "the task's labels say it"),
    **dict.fromkeys(("dtype", "torch_dtype"), "use train.precision"),
    **dict.fromkeys(("architectures", "model_type", "auto_map", "return_dict"), "the model's class says it"),
}


def check_model_keys(given: Mapping[str, Any]) -> None:
    """Refuse keys that a run decides itself, before anything is loaded."""
    for key in given:
        if key in OURS:
            raise RunError(f"model_config.{key} cannot be changed: {OURS[key]}.")


def check_keys(given: Mapping[str, Any], config: Any, kind: type | None) -> None:
    """Refuse keys that neither the model's config has nor its code reads, and values of another type."""
    for key, value in given.items():
        if not hasattr(config, key) and not _reads(kind, key):
            known = [name for name in config.to_dict() if not name.startswith("_") and name not in OURS]
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
