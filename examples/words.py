"""Train against other words: synonyms of a file in a word's place, chosen by the gradient.

python examples/words.py
"""

import json
import tempfile
from pathlib import Path

import torch
from tokenizers import Tokenizer, models, pre_tokenizers
from transformers import BertConfig, BertForSequenceClassification, PreTrainedTokenizerFast

import toughen

GOOD, BAD = ["good", "fine", "bright", "warm"], ["bad", "dull", "grey", "cold"]
OTHER = ["the", "film", "movie", "story", "plot", "is", "was", "seems", "very", "so"]
SYNONYMS = {word: words for words in (GOOD, BAD, ["film", "movie"], ["story", "plot"]) for word in words}

vocabulary = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", *GOOD, *BAD, *OTHER]
core = Tokenizer(models.WordLevel({word: number for number, word in enumerate(vocabulary)}, unk_token="[UNK]"))
core.pre_tokenizer = pre_tokenizers.Whitespace()
tokenizer = PreTrainedTokenizerFast(
    tokenizer_object=core, pad_token="[PAD]", unk_token="[UNK]", cls_token="[CLS]", sep_token="[SEP]"
)
config = BertConfig(
    hidden_size=32, num_hidden_layers=2, num_attention_heads=4, intermediate_size=64, vocab_size=len(vocabulary)
)


def batch(words: tuple[str, str]) -> dict[str, torch.Tensor]:
    """The label of a text is whether its last word is the good one."""
    texts = [f"the {noun} is very {word}" for noun in ("film", "story") for word in words]
    return {**tokenizer(texts, return_tensors="pt"), "labels": torch.tensor([1, 0, 1, 0])}


def train(method: toughen.Method) -> None:
    """Train on two words, and ask for others that no training text had."""
    torch.manual_seed(0)
    model = BertForSequenceClassification(config).train()
    with method.attach(model, tokenizer, seed=0) as attached:
        optimizer = torch.optim.AdamW(model.parameters(), lr=3e-3)
        for _ in range(150):
            attached.backward(model, batch(("good", "bad")))
            optimizer.step()
            optimizer.zero_grad()
        report = {
            name: round(float(value), 2) for name, value in attached.report().items() if name.startswith("words_")
        }
    model.eval()
    rows = batch(("warm", "cold"))
    with torch.no_grad():
        right = (model(**rows).logits.argmax(-1) == rows["labels"]).float().mean()
    print(f"right on other words: {right:.0%}", report)


train(toughen.plain())
with tempfile.TemporaryDirectory() as folder:
    synonyms = Path(folder) / "synonyms.json"
    synonyms.write_text(json.dumps({word: [w for w in words if w != word] for word, words in SYNONYMS.items()}))
    train(toughen.words("flip", share=0.5, synonyms=str(synonyms)))
