from dataclasses import dataclass
from typing import TYPE_CHECKING

from ..options import SiteOptions
from ..registry import register_method

if TYPE_CHECKING:
    from ..method import Method


@register_method("neftune")
@dataclass(frozen=True)
class NEFTune(SiteOptions):
    """NEFTune (Jain et al., ICLR 2024): uniform noise of alpha / sqrt(length * width) on the embedding, one pass.

    The length is each text's true one and padding gets no noise, as in the authors' training code; transformers' own
    hook uses the padded length and noises padding.
    """

    alpha: float = 1.0
    """Size of the noise."""

    def build(self) -> "Method":
        from ..parts import Absolute, Method, NeftuneNoise, Noise, PerturbedOnly, TaskLoss, WordEmbedding

        return Method(
            site=WordEmbedding(skip=("padding",)),
            search=Noise(NeftuneNoise(self.alpha), Absolute()),
            compare=TaskLoss(),
            combine=PerturbedOnly(),
        )
