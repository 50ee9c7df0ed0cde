"""HOW the comparison enters the update.

A Combine is a generator of losses. Its driver back-propagates each loss before it asks for the next, so what stands
after a `yield` runs after backward: FreeLB reads the perturbation's gradient there, SAM moves the weights.
"""

from .accumulate import Accumulate as Accumulate
from .base import Combine as Combine
from .free_replay import FreeReplay as FreeReplay
from .sharpness import SharpnessAware as SharpnessAware
from .single_pass import Add as Add
from .single_pass import Average as Average
from .single_pass import PerturbedOnly as PerturbedOnly
