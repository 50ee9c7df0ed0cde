from ..combine.single_pass import Add
from ..compare import Divergence
from ..compare.ema_teacher import EmaTeacher
from ..internal.rng import Dropout
from ..method import Method
from ..registry import register_method
from ..search import no_perturbation
from ..sites import NoSite


@register_method("bregman")
def bregman(
    weight: float = 0.3,
    *,
    decay: float = 0.99,
    later: float = 0.999,
    switch: float = 0.1,
    dropout: Dropout = "shared",
) -> Method:
    """Momentum Bregman proximal point (SMART, Jiang et al. 2020): stay near the prediction of a mean of past weights.

    `decay` holds for the first `switch` of the updates, `later` after it (paper: 0.99, 0.999, a tenth). The paper's
    weight is 1, which held small models back on CoLA; in its ablation this term alone brings most of the gain on small
    data. The teacher runs without dropout.
    """
    return Method(
        site=NoSite(),
        search=no_perturbation(),
        compare=Divergence(),
        combine=Add(weight),
        reference=EmaTeacher(decay, later, switch),
        dropout=dropout,
    )
