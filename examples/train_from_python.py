"""A whole run from Python: train with two seeds and a plain baseline, read the results, predict.

Model and data are tiny and made here, so this runs in seconds and offline. With real ones:
toughen.train("smart", model="roberta-base", task="rte", seeds=[1, 2, 3]).
"""

import random
import tempfile
from pathlib import Path

import torch
from tokenizers import Tokenizer
from tokenizers.models import WordLevel
from tokenizers.pre_tokenizers import Whitespace
from tokenizers.processors import TemplateProcessing
from transformers import BertConfig, BertForSequenceClassification, PreTrainedTokenizerFast

import toughen

WORDS = {"pos": ["good", "fine", "warm"], "neg": ["bad", "dull", "cold"]}
OTHERS = ["the", "film", "is", "a", "very", "story"]


def make_model(folder: Path) -> Path:
    names = {"pad_token": "[PAD]", "unk_token": "[UNK]", "cls_token": "[CLS]", "sep_token": "[SEP]"}
    known = [*names.values(), *WORDS["pos"], *WORDS["neg"], *OTHERS]
    core = Tokenizer(WordLevel({word: i for i, word in enumerate(known)}, unk_token="[UNK]"))
    core.pre_tokenizer = Whitespace()
    core.post_processor = TemplateProcessing("[CLS] $A [SEP]", special_tokens=[("[CLS]", 2), ("[SEP]", 3)])
    PreTrainedTokenizerFast(tokenizer_object=core, model_max_length=32, **names).save_pretrained(folder)
    torch.manual_seed(0)
    size = {"hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 4, "intermediate_size": 64}
    BertForSequenceClassification(BertConfig(vocab_size=len(known), initializer_range=0.2, **size)).save_pretrained(
        folder
    )
    return folder


def make_data(path: Path, rows: int) -> Path:
    dice = random.Random(0)
    lines = ["text,label"]
    for number in range(rows):
        label = ("pos", "neg")[number % 2]
        words = [*dice.choices(OTHERS, k=4), dice.choice(WORDS[label])]
        lines.append(f"{' '.join(dice.sample(words, k=5))},{label}")
    path.write_text("\n".join(lines))
    return path


with tempfile.TemporaryDirectory() as name:
    folder = Path(name)
    run = toughen.train(
        "smart",
        model=make_model(folder / "model"),
        data={"train_file": make_data(folder / "train.csv", 96), "cache_dir": folder / "cache"},
        train={"batch_size": 8, "epochs": 2, "learning_rate": 3e-3},
        seeds=[1, 2],
        baseline=True,
        output_dir=folder / "run",
        weight=2.0,  # the method's own option
    )
    print(run.results)
    print("plain:", run.results.baseline.mean["accuracy"])
    classify = toughen.load(run.path)
    for text in ("the film is very good", "a dull story"):
        print(text, "->", classify(text))
