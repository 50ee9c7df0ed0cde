from ..combine.single_pass import PerturbedOnly
from ..compare import TaskLoss
from ..method import Method
from ..registry import register_method
from ..search import Absolute, NeftuneNoise, Noise
from ..sites import WordEmbedding


@register_method("neftune")
def neftune(alpha: float = 1.0) -> Method:
    """NEFTune (Jain et al., ICLR 2024): uniform noise of alpha / sqrt(length * width) on the embedding, one pass.

    The length is each text's true one and padding gets no noise, as in the authors' training code; transformers' own
    hook uses the padded length and noises padding.
    """
    return Method(
        site=WordEmbedding(skip=("padding",)),
        search=Noise(NeftuneNoise(alpha), Absolute()),
        compare=TaskLoss(),
        combine=PerturbedOnly(),
    )
