"""Train the student with transformers' Trainer, which resumes, accumulates and runs on several GPUs."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor, nn
from transformers import Trainer, TrainingArguments
from transformers.trainer_utils import get_last_checkpoint

from ..internal.rng import without_dropout
from ..text.synonyms import load_synonyms
from ..text.token_words import TokenWords
from ..text.views import TextEditor
from .encoder import Encoder, Weights, loss_parts
from .texts import Collator, EditedTexts

if TYPE_CHECKING:
    from .api import HardenSpec


class HardeningTrainer(Trainer):
    """Holds the student's views to the teacher's texts; logs the parts of the loss."""

    def __init__(self, teacher: nn.Module, encoder: Encoder, weights: Weights, **settings: Any) -> None:
        super().__init__(**settings)
        self.encoder, self.weights = encoder, weights
        self.teacher = teacher.to(self.args.device)
        self._parts: dict[str, Tensor] = {}
        self._counted = 0

    def compute_loss(
        self,
        model: nn.Module,
        inputs: dict[str, Tensor | Any],
        return_outputs: bool = False,
        num_items_in_batch: Tensor | int | None = None,
    ) -> Tensor:
        with without_dropout(model):  # the teacher's answers are fixed
            parts = loss_parts(model, self.teacher, inputs, self.encoder.pooling, self.weights)
        for name, part in parts.items():
            self._parts[name] = self._parts.get(name, torch.zeros_like(part)) + part.detach()
        self._counted += 1
        return torch.stack(list(parts.values())).sum()

    def log(self, logs: dict[str, float], *rest: Any, **more: Any) -> None:
        if self._counted and "loss" in logs:
            logs |= {name: round(float(part) / self._counted, 5) for name, part in self._parts.items()}
            self._parts, self._counted = {}, 0
        super().log(logs, *rest, **more)


def train_student(
    student: nn.Module,
    teacher: nn.Module,
    tokenizer: Any,
    encoder: Encoder,
    spec: "HardenSpec",
    files: Sequence[Path],
    held_out: frozenset[int],
    folder: Path,
    trainer: Mapping[str, Any],
) -> nn.Module:
    """Train the student, from the last checkpoint if there is one."""
    synonyms = load_synonyms(spec.synonyms)[0] if "synonyms" in spec.families else None
    editor = TextEditor(TokenWords(tokenizer), spec.families, spec.rate, synonyms)
    texts = EditedTexts(files, spec.column, tokenizer, editor, held_out, spec.max_length, spec.clean_share, spec.seed)
    cuda = torch.cuda.is_available()
    settings: dict[str, Any] = {
        "max_steps": spec.steps,
        "per_device_train_batch_size": spec.batch_size,
        "learning_rate": spec.learning_rate,
        "warmup_steps": 0.06,
        "weight_decay": 0.01,
        "bf16": cuda and torch.cuda.is_bf16_supported(including_emulation=False),
        "torch_compile": spec.fast and cuda,
        "save_steps": spec.save_steps,
        "save_total_limit": 1,
        "logging_steps": 50,
        "dataloader_num_workers": spec.workers,
        "report_to": "none",
        "seed": spec.seed,
        "remove_unused_columns": False,
        # Each process reads all texts and takes its own batches; else the first would read for all.
        "accelerator_config": {"dispatch_batches": False, "split_batches": False},
    }
    made = HardeningTrainer(
        teacher,
        encoder,
        Weights(spec.pooled_weight, spec.hidden_weight, spec.words_weight),
        model=student,
        args=TrainingArguments(output_dir=str(folder), **{**settings, **trainer}),
        train_dataset=texts,
        data_collator=Collator(tokenizer.pad_token_id if tokenizer.pad_token_id is not None else 0),
    )
    made.train(resume_from_checkpoint=get_last_checkpoint(str(folder)))
    return student.eval()
