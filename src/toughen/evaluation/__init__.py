"""How good a trained model is: metrics with intervals, calibration, confusion, slices; under attack."""

from typing import TYPE_CHECKING

from ..internal.lazy import lazily

if TYPE_CHECKING:
    from ..attacks.attacked_text import Budget as Budget
    from ..attacks.paired import Difference as Difference
    from ..attacks.paired import differences as differences
    from ..attacks.paired import seed_scores as seed_scores
    from ..attacks.runner import AttackResult as AttackResult
    from ..attacks.runner import run_attack as run_attack
    from ..attacks.suite import AttackSettings as AttackSettings
    from ..attacks.suite import make_attacks as make_attacks
    from ..attacks.target import Target as Target
    from ..attacks.victim import FunctionVictim as FunctionVictim
    from ..attacks.victim import Victim as Victim
    from .evaluate_model import ModelRef as ModelRef
    from .evaluate_model import evaluate as evaluate
    from .evaluate_model import model_refs as model_refs
    from .evaluate_model import read_split as read_split
    from .measures import Evaluation as Evaluation
    from .measures import measure as measure
    from .outputs import Outputs as Outputs
    from .outputs import outputs_of as outputs_of

__getattr__, __dir__, __all__ = lazily(
    __name__,
    {
        ".attacks.attacked_text": "Budget",
        ".attacks.paired": "Difference differences seed_scores",
        ".attacks.runner": "AttackResult run_attack",
        ".attacks.suite": "AttackSettings make_attacks",
        ".attacks.target": "Target",
        ".attacks.victim": "FunctionVictim Victim",
        "evaluate_model": "ModelRef evaluate model_refs read_split",
        "measures": "Evaluation measure",
        "outputs": "Outputs outputs_of",
    },
)
