"""What a method costs, from its composition: passes of one micro-batch in units of a plain step."""

from typing import Any

from ..combine.accumulate import Accumulate
from ..combine.free_replay import FreeReplay
from ..combine.sharpness import SharpnessAware
from ..combine.single_pass import PerturbedOnly
from ..sites import NoSite

SEARCH = 2 / 3  # a pass of the search: forward, and back to the perturbation only, without the weights' gradients
TEACHER = 1 / 3  # a forward pass alone


def cost_of(method: Any) -> float:
    """About how many plain steps a step of a method or sum costs; a backward pass is taken as two forward ones."""
    first, *others = getattr(method, "methods", (method,))
    return _alone(first) + sum(_alone(other) - 1 for other in others)  # a sum shares the clean pass


def _alone(method: Any) -> float:
    combine = method.combine
    if isinstance(combine, (Accumulate, FreeReplay)):
        return float(combine.passes)
    if isinstance(combine, SharpnessAware):
        return 2.0
    passes = 1.0 if isinstance(method.site, NoSite) or isinstance(combine, PerturbedOnly) else 2.0
    return passes + method.search.steps * SEARCH + (TEACHER if method.reference is not None else 0.0)


def search_gradients(method: Any) -> int:
    """Gradients that the search takes by itself, beside the training's backward passes."""
    own = (Accumulate, FreeReplay, SharpnessAware)
    return sum(m.search.steps for m in getattr(method, "methods", (method,)) if not isinstance(m.combine, own))
