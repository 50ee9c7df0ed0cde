"""Trainer classes that would train without the method, or ask it for what it has not."""

from typing import Any

from transformers import Trainer, TrainerCallback

from ..errors import MethodError


class OverrideGuard(TrainerCallback):
    """What a class over robust(Trainer) must not put in the place of what runs the method."""

    def __init__(self, kind: type[Trainer], ours: type[Trainer]) -> None:
        self.kind, self.ran = kind, False
        if kind.compute_loss is not ours.compute_loss:
            self._refuse("compute_loss")

    def on_pre_optimizer_step(self, *args: Any, **kwargs: Any) -> None:
        """Before any weight moves. Only a step tells: one of the user's may call ours by whatever name."""
        if not self.ran:
            self._refuse("training_step")

    def _refuse(self, name: str) -> None:
        raise MethodError(
            f"{self.kind.__name__}.{name} takes the place of the one that runs the method. Write it into a "
            "class of Trainer's own, and give that to robust: robust(MyTrainer)(..., method=...)."
        )


def reject_return_outputs(kind: type[Trainer]) -> None:
    """The loss of a method comes from several passes."""
    raise MethodError(
        f"The training_step under {kind.__name__} asks self.compute_loss for the outputs of the model, and a method "
        "makes several passes for one loss. Look at them in a compute_loss of your own: every pass goes through it."
    )
