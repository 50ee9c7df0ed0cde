"""Make the Auto classes of transformers know the second-order models, without importing them beforehand.

Importing `AutoConfig` takes 0.4 s and the model classes two seconds. So the config is registered the moment
transformers itself loads its Auto classes, and the models the moment the first `SecondOrderConfig` is made, which
every way to load or build a model goes through.
"""

import importlib
import sys
from collections.abc import Sequence
from importlib.machinery import ModuleSpec, PathFinder
from types import ModuleType

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
        spec = PathFinder.find_spec(fullname, path, target) if fullname == AUTO else None
        if spec is not None and spec.loader is not None:
            run = spec.loader.exec_module

            def exec_module(module: ModuleType) -> None:
                run(module)
                sys.meta_path[:] = [finder for finder in sys.meta_path if not isinstance(finder, _Watch)]
                _register_config(module)

            setattr(spec.loader, "exec_module", exec_module)
        return spec
