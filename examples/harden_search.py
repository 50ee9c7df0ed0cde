"""Search a few hundred texts with mistyped queries, before and after an encoder was hardened without labels.

The encoder is tiny and its weights are random, so that this runs in seconds; take your own in its place.
"""

import itertools
import random
from pathlib import Path

from tokenizers import Tokenizer, decoders, models, normalizers, pre_tokenizers, processors, trainers
from transformers import AutoTokenizer, BertConfig, BertModel, PreTrainedTokenizerFast, set_seed

import toughen
from toughen.hardening.encoder import Encoder, vectors
from toughen.text.edits import TYPOS, random_edit

set_seed(0)
things = ["invoice", "password", "delivery", "refund", "account", "battery", "keyboard", "subscription"]
doings = ["change", "cancel", "download", "replace", "understand", "confirm", "return"]
places = ["on the website", "in the application", "from another country", "without a receipt", "before tomorrow"]
texts = [f"how to {do} my {thing} {place}" for do, thing, place in itertools.product(doings, things, places)]

inner = Tokenizer(models.WordPiece(unk_token="[UNK]"))
inner.normalizer, inner.pre_tokenizer = normalizers.BertNormalizer(), pre_tokenizers.BertPreTokenizer()
inner.decoder = decoders.WordPiece()
special, letters = ["[PAD]", "[UNK]", "[CLS]", "[SEP]"], [*"abcdefghijklmnopqrstuvwxyz"]
inner.train_from_iterator(
    texts, trainers.WordPieceTrainer(vocab_size=200, special_tokens=special, initial_alphabet=letters)
)
inner.post_processor = processors.TemplateProcessing("[CLS] $A [SEP]", special_tokens=[("[CLS]", 2), ("[SEP]", 3)])
names = {f"{name.strip('[]').lower()}_token": name for name in special}
PreTrainedTokenizerFast(tokenizer_object=inner, **names).save_pretrained("encoder")
sizes = {"hidden_size": 64, "num_hidden_layers": 1, "num_attention_heads": 2, "intermediate_size": 64}
BertModel(BertConfig(vocab_size=200, initializer_range=0.2, **sizes)).save_pretrained("encoder")
Path("texts.txt").write_text("\n".join(texts), encoding="utf-8")

done = toughen.harden(
    "encoder", "texts.txt", output_dir="hardened", steps=100, batch_size=32, learning_rate=3e-3, families=["typos"]
)

rng = random.Random(1)


def mistype(text: str) -> str:
    """Return a text with a typing error in some of its words."""
    words = (random_edit(word, TYPOS, rng) if len(word) > 4 and rng.random() < 0.5 else word for word in text.split())
    return " ".join(words)


queries = [mistype(text) for text in texts]
tokenizer = AutoTokenizer.from_pretrained("encoder")


def read(folder: str, given: list[str]):
    """Return the vectors of texts."""
    encoder = Encoder.find(folder, None)
    return vectors(encoder.load().eval(), tokenizer, given, encoder.pooling, 64)


index = read("encoder", texts)  # it stays as it was
print(f"\n{len(texts)} texts, the query {queries[3]!r} looks for {texts[3]!r}")
for name, folder in (("before", "encoder"), ("after", str(done))):
    for kind, given in (("clean", texts), ("mistyped", queries)):
        found = (read(folder, given) @ index.T).topk(10).indices.tolist()
        right = sum(wanted in numbers for wanted, numbers in enumerate(found)) / len(texts)
        print(f"{name:6} {kind:8} queries: {right:4.0%} find their text among ten; first here: {texts[found[3][0]]!r}")
