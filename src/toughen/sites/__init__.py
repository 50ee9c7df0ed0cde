"""WHERE to perturb."""

from .attention import AttentionLogits as AttentionLogits
from .elsewhere import DropoutMask as DropoutMask
from .elsewhere import Nowhere as Nowhere
from .elsewhere import Weights as Weights
from .embedding import NormalizedEmbedding as NormalizedEmbedding
from .embedding import WordEmbedding as WordEmbedding
from .hidden import Hidden as Hidden
