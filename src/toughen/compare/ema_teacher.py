"""An exponential moving average of the weights, to compare with in place of the clean pass."""

from dataclasses import dataclass

from ..errors import MethodError


@dataclass(frozen=True)
class EmaTeacher:
    """A mean of past weights: teacher <- decay * teacher + (1 - decay) * weights, after every update.

    SMART's momentum Bregman proximal point uses decay 0.99 for the first tenth of the updates and 0.999 after it
    (Jiang et al. 2020). `switch_at` is that share if below 1 - the number of updates is then asked of `attach` or taken
    from the Trainer - and a number of updates otherwise.
    """

    decay: float = 0.99
    final_decay: float = 0.999
    switch_at: float = 0.1

    def __post_init__(self) -> None:
        if not (0 <= self.decay <= 1 and 0 <= self.final_decay <= 1 and self.switch_at >= 0):
            raise MethodError(f"{self!r}: decays lie between 0 and 1, and the switch is not negative.")

    def decay_at(self, update: int, total: int | None) -> float:
        if self.switch_at < 1:
            if total is None:
                raise MethodError(
                    "The teacher changes its decay after a tenth of the training, and the number of updates is not "
                    "known. Give it: method.attach(model, total_steps=...), or set switch_at to a number of updates."
                )
            return self.decay if update < self.switch_at * total else self.final_decay
        return self.decay if update < self.switch_at else self.final_decay
