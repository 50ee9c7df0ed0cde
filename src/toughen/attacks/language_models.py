"""Models that help an attack and are not under attack: a judge of similarity, and one that proposes words."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

from ..tasks.spec import DataError
from ..text.vocabulary import whole_words
from ..text.words import SplitText, split_punctuation
from .attacked_text import WordPosition
from .base import Row

if TYPE_CHECKING:
    from torch import Tensor

TextEncoder: TypeAlias = Callable[[list[str]], Any]
"""From a list of texts to an array with a vector for each."""
_TOKENS = 2048  # of a batch: the logits of a vocabulary are large
_LONGEST = 512
_CACHE_SIZE = 100_000  # texts


def check_name(name: str, option: str) -> None:
    """Refuse a path where nothing is; what may be a Hub id is left for the moment when it is loaded."""
    path = Path(name).expanduser()
    if not path.is_dir() and (path.is_absolute() or name.startswith(".") or name.count("/") > 1):
        raise DataError(f"{option}: {name} is no folder; give a folder of a saved model, or a Hub id.")


def _load(name: str, option: str, auto_class: Any, device: object) -> tuple[Any, Any, Mapping[str, Any]]:
    """Return a model in float32 with its tokenizer, and what loading said."""
    import torch
    from transformers import AutoTokenizer

    try:
        model, info = auto_class.from_pretrained(name, dtype=torch.float32, output_loading_info=True)
        return model.to(device).eval(), AutoTokenizer.from_pretrained(name), info
    except (OSError, ValueError) as problem:
        raise DataError(f"{option}: {name} cannot be loaded ({str(problem).splitlines()[0]}).") from None


class _Texts:
    """Texts through a model, those of like length together."""

    def __init__(self, model: Any, tokenizer: Any) -> None:
        self.model, self.tokenizer = model, tokenizer
        own = getattr(model.config, "max_position_embeddings", _LONGEST)
        self.longest = min(tokenizer.model_max_length, own, _LONGEST)

    def encode(self, texts: "str | Sequence[str]", **more: Any) -> Any:
        return self.tokenizer(texts, truncation=True, max_length=self.longest, **more)

    def batches(self, ids: Sequence[Sequence[int]]) -> Iterator[tuple[list[int], "Tensor", "Tensor"]]:
        """Yield the numbers of texts, the model's output for their tokens, and which tokens are real."""
        import torch

        ranked = sorted(range(len(ids)), key=lambda number: len(ids[number]))
        while ranked:
            count = max(1, _TOKENS // max(1, len(ids[ranked[-1]])))
            ranked, numbers = ranked[:-count], ranked[-count:]
            rows = [torch.tensor(ids[number], device=self.model.device) for number in numbers]
            real = [torch.ones_like(row) for row in rows]
            pad = self.tokenizer.pad_token_id or 0
            batch = {
                "input_ids": torch.nn.utils.rnn.pad_sequence(rows, batch_first=True, padding_value=pad),
                "attention_mask": torch.nn.utils.rnn.pad_sequence(real, batch_first=True),
            }
            with torch.inference_mode():
                output = self.model(**batch)[0].float()
            yield numbers, output, batch["attention_mask"]


class SentenceEncoder:
    """Unit vectors of texts: those of a function, or of a model the mean of its token vectors."""

    def __init__(self, judge: "str | TextEncoder", device: object) -> None:
        from transformers import AutoModel

        self._encode = judge if callable(judge) else _MeanVectors(*_load(judge, "judge", AutoModel, device)[:2])
        self._vectors: dict[str, Any] = {}

    def __call__(self, rows: Sequence[Row], labels: Sequence[int]) -> list[Any]:
        """Return for each row an array with a vector for each of its texts."""
        import numpy as np

        texts = [[value for value in row.values() if isinstance(value, str)] for row in rows]
        if len(self._vectors) > _CACHE_SIZE:
            self._vectors.clear()
        if new := list(dict.fromkeys(text for some in texts for text in some if text not in self._vectors)):
            answer = self._encode(new)
            try:
                vectors = np.asarray(answer, dtype=np.float32)
            except (TypeError, ValueError):  # a tensor of a GPU, vectors of several lengths
                vectors = np.empty(0)
            if vectors.ndim != 2 or len(vectors) != len(new) or not np.isfinite(vectors).all():
                raise DataError(
                    f"judge: for {len(new)} texts it returned {type(answer).__name__} and not one "
                    "vector of finite numbers for each; give a function like SentenceTransformer.encode."
                )
            lengths = np.linalg.norm(vectors, axis=1, keepdims=True)
            self._vectors.update(zip(new, vectors / np.maximum(lengths, 1e-12), strict=True))
        return [np.stack([self._vectors[text] for text in some]) for some in texts]


class _MeanVectors(_Texts):
    """The mean of the token vectors of each text."""

    def __call__(self, texts: list[str]) -> Any:
        means: list[Any] = [None] * len(texts)
        for numbers, hidden, real in self.batches(self.encode(texts)["input_ids"]):
            mean = (hidden * real[..., None]).sum(1) / real.sum(1, keepdim=True).clamp(min=1)
            for number, vector in zip(numbers, mean.cpu().numpy(), strict=True):
                means[number] = vector
        return means


class MaskedProposals:
    """Words that a masked language model would write in place of each word of a text.

    A word of one token is predicted from the text as it is, so that the word itself has its say; of a word of several
    tokens one mask takes the place. Only tokens that are whole words are proposed.
    """

    def __init__(self, name: str, count: int, device: Any) -> None:
        import torch
        from transformers import AutoModelForMaskedLM

        model, tokenizer, info = _load(name, "masked_lm", AutoModelForMaskedLM, device)
        if missing := sorted(info["missing_keys"]):
            raise DataError(f"masked_lm: {name} has no trained head that predicts words (it lacks {missing[0]}).")
        if tokenizer.mask_token is None:
            raise DataError(f"masked_lm: the tokenizer of {name} has no mask; give a masked language model.")
        words = whole_words(tokenizer, model.config.vocab_size)
        self.count, self.words = count, list(words)
        self._ids = torch.tensor(list(words.values()), device=device)
        self._texts = _Texts(model, tokenizer)

    def __call__(self, rows: Sequence[Row], labels: Sequence[int]) -> list[dict[WordPosition, list[str]]]:
        """Return words for each word of each text of the rows, the likeliest first."""
        jobs = [(number, *job) for number, row in enumerate(rows) for job in self._jobs(row)]
        proposals: list[dict[WordPosition, list[str]]] = [{} for _ in rows]
        most = min(self.count + 1, len(self.words))  # one more: the word itself will be among them
        for numbers, logits, _ in self._texts.batches([ids for _, ids, _ in jobs]):
            for number, scores in zip(numbers, logits, strict=True):
                row, _, tokens = jobs[number]
                if tokens:
                    best = scores[list(tokens.values())][:, self._ids].topk(most).indices.tolist()
                    for position, order in zip(tokens, best, strict=True):
                        proposals[row][position] = [self.words[index] for index in order]
        return proposals

    def _jobs(self, row: Row) -> Iterator[tuple[list[int], Mapping[WordPosition, int]]]:
        """Yield token ids with the words that tokens in them stand for: each text as it is, then with masks."""
        from .vocabulary import one_token_words

        mask, mask_id = self._texts.tokenizer.mask_token, self._texts.tokenizer.mask_token_id
        for column, text in row.items():
            encoded = self._texts.encode(text, return_offsets_mapping=True)
            tokens = one_token_words(row, (column,), encoded["offset_mapping"], encoded.sequence_ids(0))
            yield encoded["input_ids"], tokens
            words = SplitText.of(text)
            for number in words.positions:
                if (column, number) not in tokens:
                    before, _, after = split_punctuation(words.tokens[number])
                    masked = [*words.tokens[:number], f"{before}{mask}{after}", *words.tokens[number + 1 :]]
                    ids = self._texts.encode(words.joined(masked))["input_ids"]
                    if mask_id in ids:  # else the text was cut before it
                        yield ids, {(column, number): ids.index(mask_id)}
