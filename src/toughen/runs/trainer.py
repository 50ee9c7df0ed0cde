"""The Trainer of a run: the robust one, counting passes and watching for numbers that are none."""

from typing import Any

import torch
from torch import Tensor
from transformers import Trainer

from ..training.trainer import robust
from .cost import cost_of, search_gradients
from .health import Health
from .sharding import take_processors_for_gpus

_Robust: Any = robust(Trainer)


class RunTrainer(_Robust):
    """Adds what a run reports: passes of a micro-batch, and since when a part of the loss is broken."""

    def __init__(self, *args: Any, method: Any, health: Health, **kwargs: Any) -> None:
        super().__init__(*args, method=method, **kwargs)
        self.health, self.cost, self.searched = health, cost_of(method), search_gradients(method)
        self.forwards = self.backwards = self.micro_batches = 0

    def create_accelerator_and_postprocess(self) -> None:
        if self.args.fsdp:
            take_processors_for_gpus()
        super().create_accelerator_and_postprocess()

    def training_step(self, model: Any, inputs: Any, num_items_in_batch: Any = None) -> Tensor:
        loss = super().training_step(model, inputs, num_items_in_batch)
        passed = self.attached.passed
        self.forwards += passed[0].step.forwards
        self.backwards += passed[0].step.backwards
        self.micro_batches += 1
        with torch.no_grad():
            parts = {"loss": loss.detach()}
            for number, batch in enumerate(passed):
                parts |= {f"{number}/{key}": value for key, value in batch.seen.items() if key != "weight_move"}
            self.health.see(self.state.global_step + 1, parts)
        return loss

    @property
    def passes(self) -> dict[str, float]:
        """Forward and backward passes of one micro-batch, on average; gradients of the search are backward passes."""
        count = max(self.micro_batches, 1)
        return {"forward": self.forwards / count, "backward": self.backwards / count + self.searched}

    def load_best(self, checkpoint: Any) -> None:
        """Put the best epoch's weights in, without training: for a run that ended between training and scoring."""
        from transformers import TrainerState

        self.state = TrainerState.load_from_json(str(checkpoint / "trainer_state.json"))
        if self.state.best_model_checkpoint is not None:
            self._load_best_model()
        else:
            self._load_from_checkpoint(str(checkpoint))
