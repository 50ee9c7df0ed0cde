"""A sweep from Python: settings that move together, two seeds each, and the same sweep started once more.

Model and data are tiny and made here, so this runs in seconds and offline. With real ones: toughen sweep sweep.yaml.
"""

import tempfile
from pathlib import Path

from tokenizers import Tokenizer
from tokenizers.models import WordLevel
from tokenizers.pre_tokenizers import Whitespace
from transformers import BertConfig, BertForSequenceClassification, PreTrainedTokenizerFast

import toughen

WORDS = ["[PAD]", "[UNK]", "good", "fine", "bad", "dull", "film", "story"]


def make_model(folder: Path) -> str:
    core = Tokenizer(WordLevel({word: i for i, word in enumerate(WORDS)}, unk_token="[UNK]"))
    core.pre_tokenizer = Whitespace()
    PreTrainedTokenizerFast(
        tokenizer_object=core, model_max_length=32, pad_token="[PAD]", unk_token="[UNK]"
    ).save_pretrained(folder)
    size = {"hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 4, "intermediate_size": 64}
    BertForSequenceClassification(BertConfig(vocab_size=len(WORDS), **size)).save_pretrained(folder)
    return str(folder)


def make_data(path: Path, rows: int) -> str:
    lines = [f"{WORDS[2 + n % 4]} {WORDS[6 + n % 2]},{'pos' if n % 4 < 2 else 'neg'}" for n in range(rows)]
    path.write_text("\n".join(["text,label", *lines]))
    return str(path)


with tempfile.TemporaryDirectory() as name:
    folder = Path(name)
    values = {
        "base": {
            "model": make_model(folder / "model"),
            "method": "freelb",
            "data": {"train_file": make_data(folder / "train.csv", 48), "cache_dir": str(folder / "cache")},
            "train": {"batch_size": 8, "epochs": 1, "learning_rate": 3e-3},
        },
        "tied": [
            {"method.step_size": 0.02, "method.max_norm": 0.05},
            {"method.step_size": 0.1, "method.max_norm": 0.2},
        ],
        "seeds": [1, 2],
    }
    found = toughen.sweep(values, output_dir=folder / "sweep", engine="serial")
    for row in found.rows:
        print(row.rank, row)
    try:
        toughen.sweep(values, output_dir=folder / "sweep", engine="serial")
    except toughen.sweeps.SweepError as refused:
        print("refused:", refused)
