"""Second-order classification heads (MGCrP / SoT) and models that carry one on any backbone."""

from typing import TYPE_CHECKING

from ..internal.lazy import lazily
from .register import register as _register

if TYPE_CHECKING:
    from .build import second_order as second_order
    from .card import model_card as model_card
    from .configuration import SecondOrderConfig as SecondOrderConfig
    from .covariance import CrossCovariance as CrossCovariance
    from .covariance import cross_covariance as cross_covariance
    from .head import SecondOrderHead as SecondOrderHead
    from .modeling import SecondOrderForImageClassification as SecondOrderForImageClassification
    from .modeling import SecondOrderForMultipleChoice as SecondOrderForMultipleChoice
    from .modeling import SecondOrderForSequenceClassification as SecondOrderForSequenceClassification
    from .normalize import SVPN as SVPN
    from .normalize import matrix_square_root as matrix_square_root
    from .normalize import svpn as svpn
    from .normalize import svpn_exact as svpn_exact
    from .pooling import AveragePooling as AveragePooling
    from .pooling import CovariancePooling as CovariancePooling
    from .pooling import MultiHeadPooling as MultiHeadPooling
    from .settings import PRESETS as PRESETS
    from .settings import HeadSettings as HeadSettings
    from .settings import head_settings as head_settings

__getattr__, __dir__, __all__ = lazily(
    __name__,
    {
        "build": "second_order",
        "card": "model_card",
        "configuration": "SecondOrderConfig",
        "covariance": "CrossCovariance cross_covariance",
        "head": "SecondOrderHead",
        "modeling": "SecondOrderForImageClassification SecondOrderForMultipleChoice "
        "SecondOrderForSequenceClassification",
        "normalize": "SVPN matrix_square_root svpn svpn_exact",
        "pooling": "AveragePooling CovariancePooling MultiHeadPooling",
        "settings": "PRESETS HeadSettings head_settings",
    },
)

# A saved second-order model must load with the Auto classes after a bare import; this costs a millisecond.
_register()
