"""Make the Auto classes of transformers know the second-order models, without importing them beforehand.

Importing `AutoConfig` takes 0.4 s and the model classes two seconds. So the config is registered the moment
transformers itself loads its Auto classes, and the models the moment the first `SecondOrderConfig` is made, which
every way to load or build a model goes through.
"""

from __future__ import annotations

import importlib
import sys
from collections.abc import Sequence
from importlib.machinery import ModuleSpec, PathFinder
from types import ModuleType
from typing import TYPE_CHECKING, cast

if TYPE_CHECKING:
    from importlib.abc import Loader

AUTO = "transformers.models.auto.configuration_auto"
_models_done = False


def register() -> None:
    """Register the config with `AutoConfig`: now if transformers has loaded it, else as soon as it does."""
    if AUTO in sys.modules:
        _register_config(sys.modules[AUTO])
    elif not any(isinstance(finder, _Watch) for finder in sys.meta_path):
        sys.meta_path.insert(0, _Watch())


def register_models() -> None:
    """Register the model classes with their Auto classes (once)."""
    global _models_done
    if _models_done:
        return
    _models_done = True
    register()
    from transformers import (
        AutoModelForImageClassification,
        AutoModelForMultipleChoice,
        AutoModelForSequenceClassification,
    )

    from . import modeling
    from .configuration import SecondOrderConfig

    AutoModelForSequenceClassification.register(SecondOrderConfig, modeling.SecondOrderForSequenceClassification)
    AutoModelForMultipleChoice.register(SecondOrderConfig, modeling.SecondOrderForMultipleChoice)
    AutoModelForImageClassification.register(SecondOrderConfig, modeling.SecondOrderForImageClassification)


def _register_config(auto: ModuleType) -> None:
    if not hasattr(auto, "AutoConfig"):
        return  # still being imported; the watch registers when it is done
    config = importlib.import_module(".configuration", __package__).SecondOrderConfig
    auto.AutoConfig.register(config.model_type, config, exist_ok=True)


class _Watch:  # not of importlib.abc, which imports half the standard library
    """Find one module the ordinary way and register the config after it has run."""

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        if fullname != AUTO:
            return None
        spec = PathFinder.find_spec(fullname, path, target)
        if spec is not None and spec.loader is not None:
            spec.loader = cast("Loader", _ThenRegister(spec.loader))
        return spec


class _ThenRegister:
    def __init__(self, inner: Loader) -> None:
        self.inner = inner

    def create_module(self, spec: ModuleSpec) -> ModuleType | None:
        return self.inner.create_module(spec)

    def exec_module(self, module: ModuleType) -> None:
        self.inner.exec_module(module)
        sys.meta_path[:] = [finder for finder in sys.meta_path if not isinstance(finder, _Watch)]
        _register_config(module)

    def __getattr__(self, name: str) -> object:
        return getattr(self.inner, name)  # get_source and the like, for tools that ask the loader
