"""Self-teaching on sentences with typing errors, with a tiny random model: what it reads, and how much is edited."""

import torch
from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers
from transformers import BertConfig, BertForSequenceClassification, PreTrainedTokenizerFast

import toughen

torch.manual_seed(0)
sentences = [
    "a warm and clever story",
    "a dull plot and silly people",
    "bright, funny and never long",
    "grey and cold",
] * 8
labels = torch.tensor([1, 0, 1, 0] * 8)

inner = Tokenizer(models.WordPiece(unk_token="[UNK]"))
inner.pre_tokenizer, inner.decoder = pre_tokenizers.BertPreTokenizer(), decoders.WordPiece()
special = ["[PAD]", "[UNK]", "[CLS]", "[SEP]"]
letters = [*"abcdefghijklmnopqrstuvwxyz"]
trainer = trainers.WordPieceTrainer(vocab_size=150, special_tokens=special, initial_alphabet=letters)
inner.train_from_iterator(sentences, trainer)
names = {"pad_token": "[PAD]", "unk_token": "[UNK]", "cls_token": "[CLS]", "sep_token": "[SEP]"}
tokenizer = PreTrainedTokenizerFast(tokenizer_object=inner, **names)

config = BertConfig(hidden_size=32, num_hidden_layers=2, num_attention_heads=4, intermediate_size=64, vocab_size=150)
model = BertForSequenceClassification(config).train()
optimizer = torch.optim.AdamW(model.parameters(), lr=3e-3)
batch = {**tokenizer(sentences, padding=True, return_tensors="pt"), "labels": labels}

with toughen.typos(rate=0.8).attach(model, tokenizer, seed=0) as attached:
    view = attached.add_views(batch)["toughen_view0_input_ids"][:4, 0]  # what the first step reads beside the batch
    for clean, edited in zip(sentences, tokenizer.batch_decode(view, skip_special_tokens=True), strict=False):
        print(f"{clean:30} {edited}")
    for epoch in range(8):
        loss = attached.backward(model, batch)
        optimizer.step()
        optimizer.zero_grad()
        report = attached.report()
        print(
            f"epoch {epoch}: loss {loss:.3f}, divergence {report['term']:.4f}, "
            f"{report['words_edited'] / report['words']:.0%} of the words edited"
        )
