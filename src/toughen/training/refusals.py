"""Trainer classes that would train without the method, or ask it for what it has not."""

import inspect

from transformers import Trainer

from ..errors import MethodError


def refuse_overrides(kind: type[Trainer], ours: type[Trainer]) -> None:
    """A class over robust(Trainer) may look on at a step, and must not take the place of what runs the method."""
    step = kind.training_step
    code = getattr(inspect.unwrap(step), "__code__", None)
    looks_on = step is ours.training_step or code is None or "training_step" in code.co_names  # calls super's
    replaced = ["compute_loss"] * (kind.compute_loss is not ours.compute_loss) + ["training_step"] * (not looks_on)
    if replaced:
        raise MethodError(
            f"{kind.__name__}.{replaced[0]} takes the place of the one that runs the method. Write it into a "
            "class of Trainer's own, and give that to robust: robust(MyTrainer)(..., method=...)."
        )


def refuse_outputs(kind: type[Trainer]) -> None:
    """The loss of a method comes from several passes."""
    raise MethodError(
        f"The training_step under {kind.__name__} asks self.compute_loss for the outputs of the model, and a method "
        "makes several passes for one loss. Look at them in a compute_loss of your own: every pass goes through it."
    )
