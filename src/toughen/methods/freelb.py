from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, ClassVar, Literal

from ..errors import MethodError
from ..options import AscentOptions, PresetOptions
from ..registry import register_method

if TYPE_CHECKING:
    from ..method import Method
    from ..search import Ascent


@dataclass(frozen=True, kw_only=True)
class FreeOptions(AscentOptions):
    """Options of FreeLB, and of FreeAT."""

    ROBUST: ClassVar[Mapping[str, float]] = {"step_size": 0.015, "init_scale": 0.006, "max_norm": 0.03}
    """Lengths of the presets `robust`: those of `recommended`, thirty times as long."""

    steps: int = 3
    """Forward and backward passes; the perturbation takes a step between two of them."""
    step_size: float = 0.0005
    init_scale: float = 0.0002
    max_norm: float = 0.001
    norm: Literal["l2", "linf"] = "l2"
    """Norm of step and ball."""

    def ascent(self, preset: str = "recommended") -> "Ascent":
        """Make the step between two passes."""
        from ..parts import INF, Normalized, Uniform, UniformBall
        from ._common import RELATIVE_PRESETS, make_ascent

        if self.norm not in ("l2", "linf"):
            raise MethodError(f"norm={self.norm!r} is not known. Choose 'l2' or 'linf'.")
        p, noise = (2, UniformBall) if self.norm == "l2" else (INF, Uniform)
        direction = Normalized(p, "example", min_norm=1e-8 if preset in ("original", "fairseq", "plus") else 1e-30)
        search = make_ascent(self, noise(self.init_scale), direction)
        return replace(search, steps=self.steps - 1, mask_gradient=preset in RELATIVE_PRESETS)


@register_method("freelb")
@dataclass(frozen=True, kw_only=True)
class FreeLB(PresetOptions, FreeOptions):
    """Free large-batch adversarial training (Zhu et al., ICLR 2020): every pass of the ascent also trains the weights.

    `steps` counts forward and backward passes; the perturbation steps between two of them. `max_norm` 0 is no ball.

    Presets:
        recommended: three passes, l2 steps of 0.05 % of the embedding's norm inside a ball of 0.1 %, masked. Ours. All
            of training sees perturbed texts: with a ball of 1 % small models did not learn CoLA, with 3 % not RTE.
        robust: the same with thirty times the lengths, a ball of 3 %. Ours, from a pilot on one task (SST-2, MiniLM,
            one or two seeds), where it held up better under attacks; what it may cost elsewhere stands above.
        plus: FreeLB++ (Li et al., EMNLP 2021; RockyLzy/TextDefender 901977e, trainer/freelb.py): step 0.03, no ball,
            fresh dropout. The paper makes 10 to 30 passes; here are 10, and `steps=30` is the other end.
        original: zhuchen03/FreeLB eb23701, run_glue_freelb.py, with its RTE row for ALBERT: step 0.1 from zero, no
            ball. Noise starts as U(-1, 1) * init_scale / sqrt(length * width); padding is masked in the start only.
        fairseq: the same repository's RoBERTa code with its MNLI row. Its `adv_steps` counts passes after the first,
            so its 2 is 3 here. Its optional clean regulariser is off, as there.
        paragen: bytedance/ParaGen 4e33a90: gradients of the three passes summed, not averaged; token id 1 taken for
            padding whatever the tokenizer says; fresh dropout.
    """

    PRESETS: ClassVar = {
        "recommended": {},
        "robust": FreeOptions.ROBUST,
        "plus": {"steps": 10, "step_size": 0.03, "init_scale": 0.05, "max_norm": 0.0, "dropout": "fresh"},
        "original": {"step_size": 0.1, "init_scale": 0.0, "max_norm": 0.0},
        "fairseq": {"step_size": 0.1, "init_scale": 0.1, "max_norm": 0.3},
        "paragen": {"step_size": 0.1, "init_scale": 0.05, "max_norm": 0.06, "dropout": "fresh"},
    }

    def build(self) -> "Method":
        from ..parts import RECOMMENDED_SKIP, Accumulate, Method, TaskLoss, WordEmbedding
        from ._common import RELATIVE_PRESETS

        skip = (
            RECOMMENDED_SKIP if self.preset in RELATIVE_PRESETS else (1,) if self.preset == "paragen" else ("padding",)
        )
        combine = Accumulate(self.steps, average=self.preset != "paragen")
        return Method(WordEmbedding(skip), self.ascent(self.preset), TaskLoss(), combine, dropout=self.dropout)
