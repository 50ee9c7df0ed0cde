"""How good a trained model is: metrics with intervals, calibration, confusion, slices; under attack."""

from typing import TYPE_CHECKING

from ..internal.lazy import lazily

if TYPE_CHECKING:
    from ..attacks.budget import Budget as Budget
    from ..attacks.paired import Difference as Difference
    from ..attacks.paired import differences as differences
    from ..attacks.paired import seed_scores as seed_scores
    from ..attacks.running import Attacked as Attacked
    from ..attacks.running import run_attack as run_attack
    from ..attacks.settings import AttackSettings as AttackSettings
    from ..attacks.settings import make_attacks as make_attacks
    from ..attacks.target import Target as Target
    from ..attacks.victim import Victim as Victim
    from .clean import evaluate as evaluate
    from .measures import Evaluation as Evaluation
    from .measures import measure as measure
    from .outputs import Outputs as Outputs
    from .outputs import outputs_of as outputs_of
    from .subjects import Subject as Subject
    from .subjects import subjects_of as subjects_of

_HOME = {
    "Budget": ".attacks.budget",
    "Difference": ".attacks.paired",
    "differences": ".attacks.paired",
    "seed_scores": ".attacks.paired",
    "Attacked": ".attacks.running",
    "run_attack": ".attacks.running",
    "AttackSettings": ".attacks.settings",
    "make_attacks": ".attacks.settings",
    "Target": ".attacks.target",
    "Victim": ".attacks.victim",
    "evaluate": "clean",
    "Evaluation": "measures",
    "measure": "measures",
    "Outputs": "outputs",
    "outputs_of": "outputs",
    "Subject": "subjects",
    "subjects_of": "subjects",
}
__all__ = sorted(_HOME)  # pyright: ignore[reportUnsupportedDunderAll]
__getattr__, __dir__ = lazily(__name__, _HOME)
