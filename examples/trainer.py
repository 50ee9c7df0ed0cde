"""The Hugging Face Trainer with FreeLB, saved as a plain checkpoint."""

import tempfile

import torch
from transformers import (
    AutoModelForSequenceClassification,
    BertConfig,
    BertForSequenceClassification,
    Trainer,
    TrainingArguments,
)

import toughen

torch.manual_seed(0)
config = BertConfig(hidden_size=32, num_hidden_layers=2, num_attention_heads=4, intermediate_size=64, vocab_size=200)
model = BertForSequenceClassification(config)
ids = torch.randint(5, 60, (64, 12))
rows = [{"input_ids": row, "labels": int((row == 7).any())} for row in ids]

with tempfile.TemporaryDirectory() as folder:
    arguments = TrainingArguments(
        output_dir=folder, max_steps=6, logging_steps=2, report_to="none", disable_tqdm=True, use_cpu=True
    )
    trainer = toughen.robust(Trainer)(model, arguments, train_dataset=rows, method=toughen.freelb())
    trainer.train()
    for entry in trainer.state.log_history[:-1]:
        print({key: round(value, 4) for key, value in entry.items() if key in ("loss", "robust/delta_relative")})
    trainer.save_model(folder)
    AutoModelForSequenceClassification.from_pretrained(folder)  # no toughen needed
