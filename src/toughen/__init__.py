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
    from .evaluation.scan import scan as scan
    from .hardening.api import Hardened as Hardened
    from .hardening.api import harden as harden
    from .heads.build import second_order as second_order
    from .method import Method as Method
    from .method import MethodSum as MethodSum
    from .methods.asa import ASA
    from .methods.bregman import Bregman
    from .methods.creat import CreAT
    from .methods.fgm import FGM
    from .methods.freeat import FreeAT
    from .methods.freelb import FreeLB
    from .methods.neftune import NEFTune
    from .methods.pgd import PGD
    from .methods.plain import Plain
    from .methods.r3f import R3F
    from .methods.r4f import R4F
    from .methods.rdrop import RDrop
    from .methods.sam import ASAM, AWP, SAM
    from .methods.sift import Sift
    from .methods.smart import Alum, Smart
    from .methods.spectral import Spectral
    from .methods.temperature import Temperature
    from .methods.vat import VAT
    from .methods.views import Casing, Obfuscation, Synonyms, Typos, Views
    from .methods.words import Words
    from .options import MethodOptions as MethodOptions
    from .registry import create_method as create_method
    from .registry import factory
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
    from .tuning.api import Tuned as Tuned
    from .tuning.api import tune as tune

    alum = factory(Alum)
    asa = factory(ASA)
    asam = factory(ASAM)
    awp = factory(AWP)
    bregman = factory(Bregman)
    casing = factory(Casing)
    creat = factory(CreAT)
    fgm = factory(FGM)
    freeat = factory(FreeAT)
    freelb = factory(FreeLB)
    neftune = factory(NEFTune)
    obfuscation = factory(Obfuscation)
    pgd = factory(PGD)
    plain = factory(Plain)
    r3f = factory(R3F)
    r4f = factory(R4F)
    rdrop = factory(RDrop)
    sam = factory(SAM)
    sift = factory(Sift)
    smart = factory(Smart)
    spectral = factory(Spectral)
    synonyms = factory(Synonyms)
    temperature = factory(Temperature)
    typos = factory(Typos)
    vat = factory(VAT)
    views = factory(Views)
    words = factory(Words)

    # Short or former names of the same things.
    available = list_methods
    make = create_method
    named = register_method
    Sum = MethodSum
    Ramp = LinearSchedule
    accelerated_backward = accelerate_backward

__all__ = [
    "Attached",
    "Hardened",
    "LinearSchedule",
    "Method",
    "MethodOptions",
    "MethodSum",
    "Run",
    "Sweep",
    "Tuned",
    "accelerate_backward",
    "alum",
    "asa",
    "asam",
    "awp",
    "bregman",
    "casing",
    "creat",
    "create_method",
    "draw_attention",
    "evaluate",
    "fgm",
    "freeat",
    "freelb",
    "harden",
    "list_methods",
    "load",
    "neftune",
    "obfuscation",
    "pgd",
    "plain",
    "r3f",
    "r4f",
    "rdrop",
    "register_method",
    "report",
    "resume",
    "robust",
    "sam",
    "scan",
    "second_order",
    "sift",
    "smart",
    "spectral",
    "sweep",
    "synonyms",
    "temperature",
    "train",
    "tune",
    "typos",
    "vat",
    "views",
    "words",
]

# Where each public name lives. Nothing is imported before it is asked for, so `import toughen` costs nothing.
_MODULES = {
    "engine.attached": "Attached",
    "method": "Method MethodSum",
    "schedules": "LinearSchedule",
    "reports.attention": "draw_attention",
    "options": "MethodOptions",
    "registry": "list_methods create_method register_method",
    "trainers.accelerate": "accelerate_backward",
    "trainers.hf": "robust",
    "heads.build": "second_order",
    "runs.api": "Run resume train",
    "runs.predictor": "load",
    "evaluation.evaluate_model": "evaluate",
    "evaluation.scan": "scan",
    "reports.page": "report",
    "sweeps.api": "Sweep sweep",
    "tuning.api": "Tuned tune",
    "hardening.api": "Hardened harden",
}
_HOMES = {name: module for module, names in _MODULES.items() for name in names.split()}

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
            return registry.public_factory(name)
    raise AttributeError(f"module 'toughen' has no attribute {name!r}")


def __dir__() -> list[str]:
    registry = import_module(".registry", __name__)
    return sorted({*globals(), *_HOMES, *_ALIASES, *_PACKAGES, *registry.list_methods()})
