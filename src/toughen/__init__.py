"""Robust fine-tuning of pretrained transformers, as compositions of four small parts.

>>> import toughen
>>> attached = toughen.smart().attach(model, tokenizer)      # doctest: +SKIP
>>> loss = attached.backward(model, batch)                   # doctest: +SKIP
>>> attached.detach()                                        # doctest: +SKIP
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from . import heads as heads  # makes saved second-order models known to the Auto classes
from ._version import __version__ as __version__

if TYPE_CHECKING:
    from . import compat as compat
    from . import cuda_graphs as cuda_graphs
    from . import evaluation as evaluation
    from . import kernels as kernels
    from . import recipes as recipes
    from . import reports as reports
    from . import sweeps as sweeps
    from . import tasks as tasks
    from . import timing as timing
    from .engine.attached import Attached as Attached
    from .evaluation.evaluate_model import evaluate as evaluate
    from .heads.build import second_order as second_order
    from .method import Method as Method
    from .method import MethodSum as MethodSum
    from .methods.asa import asa as asa
    from .methods.bregman import bregman as bregman
    from .methods.creat import creat as creat
    from .methods.fgm import fgm as fgm
    from .methods.freeat import freeat as freeat
    from .methods.freelb import freelb as freelb
    from .methods.neftune import neftune as neftune
    from .methods.pgd import pgd as pgd
    from .methods.plain import plain as plain
    from .methods.r3f import r3f as r3f
    from .methods.r4f import r4f as r4f
    from .methods.rdrop import rdrop as rdrop
    from .methods.sam import asam as asam
    from .methods.sam import awp as awp
    from .methods.sam import sam as sam
    from .methods.sift import sift as sift
    from .methods.smart import alum as alum
    from .methods.smart import smart as smart
    from .methods.spectral import spectral as spectral
    from .methods.vat import vat as vat
    from .registry import create_method as create_method
    from .registry import list_methods as list_methods
    from .registry import register_method as register_method
    from .reports.attention import draw_attention as draw_attention
    from .reports.page import report as report
    from .runs.api import Run as Run
    from .runs.api import resume as resume
    from .runs.api import train as train
    from .runs.predictor import load as load
    from .schedules import LinearSchedule as LinearSchedule
    from .sweeps.api import Sweep as Sweep
    from .sweeps.api import sweep as sweep
    from .trainers.accelerate import accelerate_backward as accelerate_backward
    from .trainers.hf import robust as robust

    # Short or former names of the same things.
    available = list_methods
    make = create_method
    named = register_method
    Sum = MethodSum
    Ramp = LinearSchedule
    accelerated_backward = accelerate_backward

# Where each public name lives. Nothing is imported before it is asked for, so `import toughen` costs nothing.
_HOMES = {
    "Attached": "engine.attached",
    "Method": "method",
    "LinearSchedule": "schedules",
    "draw_attention": "reports.attention",
    "MethodSum": "method",
    "list_methods": "registry",
    "create_method": "registry",
    "register_method": "registry",
    "accelerate_backward": "trainers.accelerate",
    "robust": "trainers.hf",
    "second_order": "heads.build",
    "Run": "runs.api",
    "resume": "runs.api",
    "train": "runs.api",
    "load": "runs.predictor",
    "evaluate": "evaluation.evaluate_model",
    "report": "reports.page",
    "Sweep": "sweeps.api",
    "sweep": "sweeps.api",
}

_ALIASES = {
    "available": "list_methods",
    "make": "create_method",
    "named": "register_method",
    "Sum": "MethodSum",
    "Ramp": "LinearSchedule",
    "accelerated_backward": "accelerate_backward",
}

_PACKAGES = ("compat", "cuda_graphs", "evaluation", "kernels", "recipes", "reports", "sweeps", "tasks", "timing")


def __getattr__(name: str) -> Any:
    name = _ALIASES.get(name, name)
    if name in _PACKAGES:
        return import_module(f".{name}", __name__)
    if name in _HOMES:
        return getattr(import_module(f".{_HOMES[name]}", __name__), name)
    if not name.startswith("_"):
        registry = import_module(".registry", __name__)
        if name in registry.list_methods():
            return registry.get_factory(name)
    raise AttributeError(f"module 'toughen' has no attribute {name!r}")


def __dir__() -> list[str]:
    registry = import_module(".registry", __name__)
    return sorted({*globals(), *_HOMES, *_ALIASES, *_PACKAGES, *registry.list_methods()})
