"""The Trainer of a run: the robust one, counting passes and watching for numbers that are none."""

from collections.abc import Generator
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor
from transformers import Trainer

from ..combine.single_pass import Add
from ..trainers import checkpoint as state
from ..trainers.hf import robust
from .cost import cost_of, search_gradients
from .errors import RunError
from .health import Health
from .sharding import take_processors_for_gpus

_Robust: Any = robust(Trainer)
LOSSES = {"loss_clean", "loss_perturbed", "term"}


class RunTrainer(_Robust):
    """Adds what a run reports: passes of a micro-batch, and since when a part of the loss is broken."""

    def __init__(self, *args: Any, method: Any, health: Health, **kwargs: Any) -> None:
        try:
            super().__init__(*args, method=method, **kwargs)
        except RuntimeError as error:
            if "to be installed" in str(error):  # a tracker that trainer.report_to names
                raise RunError(str(error)) from error
            raise
        self.health, self.cost, self.searched = health, cost_of(method), search_gradients(method)
        self.forwards = self.backwards = self.micro_batches = 0
        self._sums: dict[str, Tensor] = {}
        self._summed = 0

    def create_accelerator_and_postprocess(self) -> None:
        if self.args.fsdp:
            take_processors_for_gpus()
        super().create_accelerator_and_postprocess()

    def _get_eval_sampler(self, eval_dataset: Any) -> None:
        """No sampler, which is the rows' own order: Trainer would group them by length where training does."""
        return None

    def get_eval_dataloader(self, *args: Any, **kwargs: Any) -> Any:
        with self._whole():
            return super().get_eval_dataloader(*args, **kwargs)

    def get_test_dataloader(self, *args: Any, **kwargs: Any) -> Any:
        with self._whole():
            return super().get_test_dataloader(*args, **kwargs)

    @contextmanager
    def _whole(self) -> Generator[None]:
        """`dataloader_drop_last` is for training: a score is of all rows, and each has its prediction."""
        dropped, self.args.dataloader_drop_last = self.args.dataloader_drop_last, False
        try:
            yield
        finally:
            self.args.dataloader_drop_last = dropped

    def training_step(self, model: Any, inputs: Any, num_items_in_batch: Any = None) -> Tensor:
        loss = super().training_step(model, inputs, num_items_in_batch)
        last_batches = self.attached.last_batches
        self.forwards += last_batches[0].passes.forwards
        self.backwards += last_batches[0].passes.backwards
        self.micro_batches += 1
        with torch.no_grad():
            parts = {"loss": loss.detach()}
            for number, batch in enumerate(last_batches):
                parts |= {f"{number}/{key}": value for key, value in batch.seen.items() if key != "weight_move"}
            self.health.see(self.state.global_step + 1, parts)
            self._sum(last_batches)
        return loss

    def _sum(self, last_batches: Any) -> None:
        self._summed += 1
        for number, batch in enumerate(last_batches):
            for key in LOSSES & batch.seen.keys():
                name = f"{number}/{key}" if len(last_batches) > 1 else key
                self._sums[name] = self._sums.get(name, 0.0) + batch.seen[key]

    def figures(self) -> dict[str, Tensor]:
        """Losses as means since they were last logged, as the Trainer's own is; and everything over all processes."""
        found = {**super().figures(), **{key: value / self._summed for key, value in self._sums.items()}}
        self._sums, self._summed = {}, 0
        if self.args.world_size == 1 or not found:
            return found
        values = torch.stack([value.detach().float().to(self.args.device) for value in found.values()])
        return dict(zip(found, self.accelerator.reduce(values, "mean"), strict=True))

    @property
    def terms(self) -> dict[str, float]:
        """The weights with which terms are added to the clean loss, by their names in the log; none if it is no sum."""
        methods = getattr(self._method, "methods", (self._method,))
        weights = [m.combine.weight for m in methods if isinstance(m.combine, Add)]
        plain = [float(weight) for weight in weights if isinstance(weight, (int, float))]
        if len(plain) < len(methods):
            return {}
        return {f"robust/{number}/term" if len(methods) > 1 else "robust/term": w for number, w in enumerate(plain)}

    @property
    def passes(self) -> dict[str, float]:
        """Forward and backward passes of one micro-batch, on average; gradients of the search are backward passes."""
        count = max(self.micro_batches, 1)
        return {"forward": self.forwards / count, "backward": self.backwards / count + self.searched}

    def load_best(self, checkpoint: Any) -> None:
        """Put the best epoch's weights in, without training: for a run that ended between training and scoring."""
        from transformers import TrainerState

        self.state = TrainerState.load_from_json(str(checkpoint / "trainer_state.json"))
        if self.state.best_global_step:
            # Beside this one, and not where the state says: the folder may have been moved, or named from elsewhere,
            # and where nothing is found Trainer only warns and keeps the weights it has, which are not trained.
            best = checkpoint.with_name(f"checkpoint-{self.state.best_global_step}")
            if not best.is_dir():
                raise RunError(f"{best} is gone, which holds the best epoch; start a new run.")
            self.state.best_model_checkpoint = str(best)
            self._load_best_model()
        else:
            self._load_from_checkpoint(str(checkpoint))
        state.load(self.attached, checkpoint, self.args.process_index)  # diagnostics look at a trained adversary
