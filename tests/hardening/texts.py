"""Texts, and a tokenizer that knows their words and pieces of them."""

from tokenizers import Tokenizer, models, normalizers, pre_tokenizers, trainers
from tokenizers.processors import TemplateProcessing
from transformers import PreTrainedTokenizerFast

_SENTENCE = "the quick brown fox jumps over a lazy dog while seven wizards quietly examine ancient purple scrolls"
WORDS = _SENTENCE.split()
TEXTS = [" ".join(WORDS[(i * k) % len(WORDS)] for k in range(1, 9)) + f" number {i}" for i in range(120)]


def wordpiece(texts):
    inner = Tokenizer(models.WordPiece(unk_token="[UNK]"))
    inner.normalizer = normalizers.BertNormalizer()
    inner.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    special = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
    inner.train_from_iterator(texts, trainers.WordPieceTrainer(vocab_size=160, special_tokens=special))
    inner.post_processor = TemplateProcessing("[CLS] $A [SEP]", "[CLS] $A [SEP] $B [SEP]", [("[CLS]", 2), ("[SEP]", 3)])
    names = {f"{name.strip('[]').lower()}_token": name for name in special}
    return PreTrainedTokenizerFast(tokenizer_object=inner, **names)
