"""WHERE to perturb."""

from .attention import AttentionLogits as AttentionLogits
from .embedding import NormalizedEmbedding as NormalizedEmbedding
from .embedding import WordEmbedding as WordEmbedding
from .hidden import Hidden as Hidden
from .text import EditedText as EditedText
from .token_mask import RECOMMENDED_SKIP as RECOMMENDED_SKIP
from .virtual import NoSite as NoSite
from .virtual import SecondDropoutMask as SecondDropoutMask
from .virtual import Weights as Weights
