"""WHERE to perturb."""

from .attention import AttentionLogits as AttentionLogits
from .embedding import NormalizedEmbedding as NormalizedEmbedding
from .embedding import WordEmbedding as WordEmbedding
from .hidden import Hidden as Hidden
from .virtual import DropoutMask as DropoutMask
from .virtual import Nowhere as Nowhere
from .virtual import Weights as Weights
