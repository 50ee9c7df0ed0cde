"""HOW to find a perturbation."""

from .adversary import GradientReversalAdversary as GradientReversalAdversary
from .ascent import Ascent as Ascent
from .ascent import Noise as Noise
from .ascent import no_perturbation as no_perturbation
from .constraint import SpectralNormHead as SpectralNormHead
from .init import CustomInit as CustomInit
from .init import Init as Init
from .init import NeftuneNoise as NeftuneNoise
from .init import Normal as Normal
from .init import Uniform as Uniform
from .init import UniformBall as UniformBall
from .init import Zeros as Zeros
from .norms import INF as INF
from .norms import Absolute as Absolute
from .norms import Ball as Ball
from .norms import NoProjection as NoProjection
from .norms import Normalized as Normalized
from .norms import RawGradient as RawGradient
from .norms import Relative as Relative
from .norms import RescaleTo as RescaleTo
from .norms import ScheduledUnits as ScheduledUnits
from .norms import Sign as Sign
from .norms import Units as Units
from .power_iteration import PowerIteration as PowerIteration
from .weights import RelativeWeightAscent as RelativeWeightAscent
from .weights import SharpnessAscent as SharpnessAscent
