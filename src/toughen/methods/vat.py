from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

from ..options import PresetOptions, RegularizerOptions, Schedule, SiteOptions, Start
from ..registry import register_method

if TYPE_CHECKING:
    from ..method import Method


@register_method("vat")
@dataclass(frozen=True, kw_only=True)
class VAT(PresetOptions, SiteOptions, RegularizerOptions):
    """Virtual adversarial training (Miyato et al. 2016, 2018): needs no labels, so unlabelled batches may be mixed in.

    The direction is found by power iteration from a random probe; the clean prediction is the fixed target.

    Presets:
        recommended: a perturbation of 1 % of the embedding's norm, masked, one dropout mask. Ours.
        robust: the same with 3 %: more accuracy under attack, and less on tasks that are hard to learn. Ours.
        paper: l2 radius 5 with probe 0.1 in absolute numbers, those of adversarial training for text (Miyato et al.
            2017), where embeddings are normalised first; here they are not.
    """

    max_norm: float = 0.01
    """Length of the perturbation; in the recommended presets a share of the embedding's norm."""
    probe: float = 0.001
    """Size of the random probe from which the direction is found."""
    steps: int = 1
    """Steps of the search."""
    radius_schedule: Schedule = 1.0
    """Factor on all lengths of the search; [start, end] or [start, end, duration] if it grows over the training."""
    init: Start | None = None
    """A function that gives the starting perturbation, in place of the random draw."""

    PRESETS: ClassVar = {
        "recommended": {},
        "robust": {"max_norm": 0.03, "probe": 0.003},
        "paper": {"max_norm": 5.0, "probe": 0.1},
    }

    def build(self) -> "Method":
        from ..parts import Add, Divergence, Method, Normal, PowerIteration, WordEmbedding
        from ._common import make_init, make_units

        scale, noise = make_units(self.preset, self.radius_schedule), make_init(self.init, Normal(1.0))
        search = PowerIteration(self.max_norm, self.probe, self.steps, units=scale, init=noise)
        compare, combine = Divergence("kl", detach="clean"), Add(self.weight, optional_labels=True)
        return Method(WordEmbedding(), search, compare, combine, dropout=self.dropout)
