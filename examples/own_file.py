"""Train a classifier on your own CSV: from a file to batches, a step and a score with its interval.

Everything is tiny and made here, so that it runs offline in seconds; with a real model only `tokenizer` and `model`
change: `AutoTokenizer.from_pretrained(...)`, `tasks.auto_class(task).from_pretrained(..., **tasks.model_kwargs(task))`.
"""

import tempfile
from pathlib import Path

import torch
from tokenizers import Tokenizer, models, pre_tokenizers
from torch.utils.data import DataLoader
from transformers import BertConfig, PreTrainedTokenizerFast

from toughen import tasks

SUBJECTS = ("the film", "the plot", "the acting", "the ending of this film", "a story", "the cast and the story")
GOOD = ("is good", "is bright", "is really very fine", "moved us")
BAD = ("is dull", "is slow", "is really very bad", "bored us")


def make_tokenizer() -> PreTrainedTokenizerFast:
    words = sorted({word for text in SUBJECTS + GOOD + BAD for word in text.split()})
    vocabulary = {word: number for number, word in enumerate(["[PAD]", "[UNK]", *words])}
    core = Tokenizer(models.WordLevel(vocabulary, unk_token="[UNK]"))
    core.pre_tokenizer = pre_tokenizers.Whitespace()
    return PreTrainedTokenizerFast(tokenizer_object=core, pad_token="[PAD]", unk_token="[UNK]", model_max_length=32)


def main() -> None:
    torch.manual_seed(0)
    with tempfile.TemporaryDirectory() as place:
        file = Path(place) / "reviews.csv"
        verdicts = [(text, "pos") for text in GOOD] + [(text, "neg") for text in BAD]
        rows = [f"{subject} {text},{label}" for text, label in verdicts for subject in SUBJECTS]
        file.write_text("review,verdict\n" + "\n".join(rows) + "\n")

        data = tasks.load(train_file=file, label_column="verdict", validation_share=0.25, cache_dir=place)
        tokenizer = make_tokenizer()
        print(data.report(tokenizer))

        task = data.task
        ready = tasks.prepare(data, tokenizer, cache_dir=place)
        collate = tasks.collator(task, tokenizer, pad_to_multiple_of=4)
        sampler = tasks.LengthGrouped(tasks.lengths(ready.train), batch_size=8)
        batches = DataLoader(ready.train, batch_sampler=sampler, collate_fn=collate)

        config = BertConfig(
            vocab_size=len(tokenizer),
            hidden_size=32,
            num_hidden_layers=2,
            num_attention_heads=2,
            intermediate_size=64,
            **tasks.model_kwargs(task),
        )
        model = tasks.auto_class(task).from_config(config)
        optimizer = torch.optim.AdamW(model.parameters(), lr=5e-3)
        for epoch in range(5):
            sampler.set_epoch(epoch)
            for batch in batches:
                model(**batch).loss.backward()
                optimizer.step()
                optimizer.zero_grad()

        model.eval()
        batch = collate(list(ready.validation))
        labels = batch.pop("labels").numpy()
        with torch.no_grad():
            logits = model(**batch).logits.numpy()
        print("scores:", tasks.metrics(task)(logits, labels))
        print("95 % interval of the accuracy:", tasks.interval(task, logits, labels))


if __name__ == "__main__":
    main()
