"""HOW to find a perturbation."""

from .adversary import Reversal as Reversal
from .ascent import Ascent as Ascent
from .init import Given as Given
from .init import Init as Init
from .init import NeftuneNoise as NeftuneNoise
from .init import Normal as Normal
from .init import Uniform as Uniform
from .init import UniformBall as UniformBall
from .init import Zeros as Zeros
from .noise import Noise as Noise
from .noise import nothing as nothing
from .norms import INF as INF
from .norms import Absolute as Absolute
from .norms import Ball as Ball
from .norms import Free as Free
from .norms import Growing as Growing
from .norms import Raw as Raw
from .norms import Relative as Relative
from .norms import Rescale as Rescale
from .norms import Sign as Sign
from .norms import Unit as Unit
from .norms import Units as Units
from .power_iteration import PowerIteration as PowerIteration
from .weights import RelativeWeightAscent as RelativeWeightAscent
from .weights import SharpnessAscent as SharpnessAscent
