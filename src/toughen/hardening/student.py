"""Train the student with transformers' Trainer, which resumes, accumulates and runs on several GPUs."""

import json
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import torch
from torch import Tensor, nn
from torch.utils.data import DataLoader
from transformers import Trainer, TrainingArguments

from ..errors import UsageError, nearest
from ..internal.rng import without_dropout
from .encoder import Encoder, Weights, loss_parts, vectors
from .texts import Collator, EditedTexts

if TYPE_CHECKING:
    from .api import HardenSpec

BANK = 8192  # texts, whose old vectors hold the student's similarities


class HardeningTrainer(Trainer):
    """Holds the student's views to the teacher's texts; logs the parts of the loss."""

    def __init__(self, teacher: nn.Module, encoder: Encoder, weights: Weights, **settings: Any) -> None:
        super().__init__(**settings)
        self.encoder, self.weights = encoder, weights
        self.teacher = teacher.to(self.args.device)
        # Made again at a resume: the texts and the teacher are the same.
        self.bank = self._old_vectors() if weights.neighbours else None
        if self.args.torch_compile:
            self.teacher = cast(nn.Module, torch.compile(self.teacher))
        self._parts: dict[str, Tensor] = {}
        self._counted = 0

    def _old_vectors(self) -> Tensor:
        texts = cast("EditedTexts", self.train_dataset)
        first, how = texts.first(BANK), self.encoder.pooling
        return vectors(self.teacher, texts.tokenizer, first, how, texts.max_length).to(self.args.device)

    def get_train_dataloader(self) -> DataLoader[Any]:
        """Return batches of this process alone: the texts are divided where they are read."""
        return DataLoader(
            cast("EditedTexts", self.train_dataset),
            batch_size=self.args.per_device_train_batch_size,
            collate_fn=self.data_collator,
            num_workers=self.args.dataloader_num_workers,
            pin_memory=self.args.device.type == "cuda",
        )

    def compute_loss(
        self,
        model: nn.Module,
        inputs: dict[str, Tensor | Any],
        return_outputs: bool = False,
        num_items_in_batch: Tensor | int | None = None,
    ) -> Tensor:
        with without_dropout(model):  # the teacher's answers are fixed
            parts = loss_parts(model, self.teacher, inputs, self.encoder.pooling, self.weights, self.bank)
        for name, part in parts.items():
            self._parts[name] = self._parts.get(name, torch.zeros_like(part)) + part.detach()
        self._counted += 1
        return torch.stack(list(parts.values())).sum()

    def log(self, logs: dict[str, float], *rest: Any, **more: Any) -> None:
        if self._counted and "loss" in logs:
            logs |= {name: round(float(part) / self._counted, 5) for name, part in self._parts.items()}
            self._parts, self._counted = {}, 0
        super().log(logs, *rest, **more)


def arguments(spec: "HardenSpec", folder: Path, trainer: Mapping[str, Any]) -> TrainingArguments:
    """Return the settings of the Trainer; `trainer` changes them."""
    if unknown := [name for name in trainer if name not in TrainingArguments.__dataclass_fields__]:
        hint = nearest(unknown[0], TrainingArguments.__dataclass_fields__)
        raise UsageError(f"trainer has no setting {unknown[0]!r}. {hint}", ("trainer",))
    cuda = torch.cuda.is_available()
    settings: dict[str, Any] = {
        "max_steps": spec.steps,
        "per_device_train_batch_size": spec.batch_size,
        "learning_rate": spec.learning_rate,
        "warmup_steps": 0.06,
        "bf16": cuda and torch.cuda.is_bf16_supported(including_emulation=False),
        "torch_compile": spec.fast and cuda,
        "save_steps": spec.save_steps,
        "save_total_limit": 1,
        "logging_steps": 50,
        "dataloader_num_workers": spec.workers,
        "report_to": "none",
        "seed": spec.seed,
        "remove_unused_columns": False,
        "ignore_data_skip": True,  # the texts themselves know where to go on
    }
    made = TrainingArguments(output_dir=str(folder), **{**settings, **trainer})
    if made.n_gpu > 1:
        raise UsageError(
            f"one process sees {made.n_gpu} GPUs: start one process per GPU (accelerate launch -m toughen harden ...), "
            "or choose one GPU (CUDA_VISIBLE_DEVICES=0)."
        )
    return made


def train_student(
    student: nn.Module,
    teacher: nn.Module,
    encoder: Encoder,
    weights: Weights,
    texts: EditedTexts,
    settings: TrainingArguments,
) -> nn.Module:
    """Train the student, from the last whole checkpoint if there is one."""
    checkpoint, step = last_checkpoint(Path(cast(str, settings.output_dir)))
    texts = replace(
        texts,
        batch_size=settings.per_device_train_batch_size,
        rank=settings.process_index,
        processes=settings.world_size,
        done=step * settings.gradient_accumulation_steps,
    )
    pad: int | None = texts.tokenizer.pad_token_id
    collator = Collator(0 if pad is None else pad)
    made = HardeningTrainer(
        teacher, encoder, weights, model=student, args=settings, train_dataset=texts, data_collator=collator
    )
    made.train(resume_from_checkpoint=checkpoint)
    return student.eval()


def last_checkpoint(folder: Path) -> tuple[str | None, int]:
    """Return the last checkpoint that was written to its end, and its updates."""
    found = sorted(folder.glob("checkpoint-*"), key=lambda each: int(each.name.rpartition("-")[2]))
    for each in reversed(found):
        with suppress(OSError, ValueError):  # the Trainer writes this file last
            return str(each), int(json.loads((each / "trainer_state.json").read_text())["global_step"])
    return None, 0
