"""Other words in a word's place: drawn at random, chosen by the gradient, or mixed inside the hull of their embeddings.

The perturbation of a position is E[candidate] - E[token], on the output of the input embedding: the pass is exactly
that of the other text.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import ClassVar

import torch
import torch.nn.functional as F
from torch import Tensor

from ..errors import MethodError, SiteError
from ..sites.base import Activation
from .base import SearchDefaults
from .candidates import Candidates
from .init import draw
from .norms import norm

_OFFSETS, _LOGITS, _CHOSEN = "word_offsets", "hull_logits", "hull_words"


@dataclass(frozen=True)
class Words:
    """The words of a batch and their candidates; all shapes are (texts, tokens, ...)."""

    view: Activation

    @cached_property
    def candidates(self) -> Tensor:
        """Ids of the candidates; a token's own id where it has no more."""
        tokens, table = self.view.tokens, self.view.candidates
        if tokens is None or table is None or tokens.ids.shape != self.view.value.shape[:2]:
            raise SiteError(
                "The model embeds no token ids, so words cannot be replaced. Pass input_ids, not inputs_embeds, "
                "and attach the method to the model itself."
            )
        return table.ids[tokens.ids]

    @cached_property
    def words(self) -> Tensor:
        """Tokens that begin a word which may be perturbed."""
        tokens, table = self.view.tokens, self.view.candidates
        assert tokens is not None  # `candidates` has looked
        assert table is not None
        mask = self.view.mask
        begins = ~table.continues[tokens.ids]
        return begins if mask is None else begins & mask.bool().view(-1, mask.shape[1])

    @cached_property
    def available(self) -> Tensor:
        """Which candidates may be taken: those of whole words that may be perturbed."""
        tokens, table = self.view.tokens, self.view.candidates
        other = self.candidates != tokens.ids.unsqueeze(-1)  # pyright: ignore[reportOptionalMemberAccess]
        goes_on = F.pad(table.continues[tokens.ids[:, 1:]], (0, 1))  # pyright: ignore[reportOptionalMemberAccess]
        return other & (self.words & ~goes_on).unsqueeze(-1)

    @cached_property
    def offsets(self) -> Tensor:
        """What each candidate adds to its token's embedding, (texts, tokens, candidates, width).

        Kept from the start on: between the passes a sharded table is not there.
        """
        memory, view = self.view.memory, self.view
        if _OFFSETS not in memory:
            assert view.tokens is not None
            rows = [view.tokens.embed(ids).to(view.dtype) for ids in self.candidates.unbind(-1)]
            memory[_OFFSETS] = torch.stack(rows, 2) - view.value.to(view.dtype).unsqueeze(2)
        return memory[_OFFSETS]

    def most(self, share: float) -> Tensor:
        """How many words of each text may change, at least one, (texts, 1)."""
        count = self.words.sum(1, keepdim=True)
        return (count * share - 1e-4).ceil().clamp(min=1)  # 0.2 * 15 is above 3 in float32

    def take(self, chosen: Tensor, where: Tensor) -> Tensor:
        """Return the offsets of the chosen candidates, where a word changes."""
        index = chosen.unsqueeze(-1).unsqueeze(-1).expand(-1, -1, 1, self.offsets.shape[-1])
        return self.offsets.gather(2, index).squeeze(2) * where.unsqueeze(-1)


def highest(scores: Tensor, allowed: Tensor, count: Tensor) -> Tensor:
    """Mark the `count` highest scores of each row among those that are allowed."""
    kept = scores.masked_fill(~allowed, -torch.inf)
    order = torch.sort(kept, dim=1, descending=True, stable=True).indices
    return allowed & (order.argsort(1) < count)


@dataclass(frozen=True)
class _Substitution(SearchDefaults):
    """What the searches for words share."""

    share: float = 0.3
    candidates: Candidates = field(default_factory=Candidates)

    def __post_init__(self) -> None:
        if not 0 < self.share <= 1:
            raise MethodError(f"{type(self).__name__}(share={self.share}): a share of the words lies above 0, up to 1.")

    def metrics(self, delta: Tensor, view: Activation) -> dict[str, Tensor]:
        """Return which share of the words has a candidate, which share changed, and the texts without a candidate."""
        found = Words(view)
        words, some = found.words.sum().clamp(min=1), found.available.any(-1)
        changed = delta.detach().ne(0).any(-1)
        return {
            "words_with_candidates": some.sum() / words,
            "words_changed": changed.sum() / words,
            "texts_without_candidates": self.count_texts(view)[1],
        }

    def count_texts(self, view: Activation) -> Tensor:
        """Count the texts with words, and those of them without any candidate."""
        found = Words(view)
        texts = found.words.any(1)
        return torch.stack([texts, texts & ~found.available.flatten(1).any(1)]).sum(1)


@dataclass(frozen=True)
class RandomWords(_Substitution):
    """Each of a `share` of the words takes a random one of its candidates and itself (SAFER)."""

    steps: int = 0

    def start(self, view: Activation) -> Tensor:
        found = Words(view)
        available, noise = found.available, draw(view, torch.rand, found.available.shape[-1] + 2)
        order, itself, others = noise[..., 0], noise[..., 1], noise[..., 2:]
        best, chosen = others.masked_fill(~available, -1).max(-1)
        where = highest(order, available.any(-1), found.most(self.share)) & (best > itself)
        return found.take(chosen, where)


@dataclass(frozen=True)
class FlipWords(_Substitution):
    """The words whose change raises the goal most, to first order: at most a `share` of them (HotFlip, A2T).

    Candidate k of position i promises g_i . (E[k] - E[t_i]). Every step starts from the gradient at the words before it
    and chooses all words again. Gumbel `noise`, in units of a text's mean gain, makes the choice vary; a candidate that
    lowers the goal to first order is never taken.
    """

    starts_at_clean: ClassVar[bool] = True

    steps: int = 1
    noise: float = 0.0

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.steps < 1 or not self.noise >= 0:
            raise MethodError(
                f"FlipWords(steps={self.steps}, noise={self.noise}): at least one step, and no negative noise."
            )

    def start(self, view: Activation) -> Tensor:
        assert Words(view).offsets is not None
        return torch.zeros(view.value.shape, device=view.value.device, dtype=view.dtype)

    def ascend(self, deltas: Sequence[Tensor], grads: Sequence[Tensor], views: Sequence[Activation]) -> list[Tensor]:
        return [self._ascend(grad.to(view.dtype), view) for grad, view in zip(grads, views, strict=True)]

    def _ascend(self, grad: Tensor, view: Activation) -> Tensor:
        found = Words(view)
        gains = torch.einsum("blh,blkh->blk", grad, found.offsets)
        best, chosen = gains.masked_fill(~found.available, -torch.inf).max(-1)
        rising = best > 0
        scores = best
        if self.noise:
            mean = best.where(rising, 0).sum(1, keepdim=True) / rising.sum(1, keepdim=True).clamp(min=1)
            uniform = draw(view, torch.rand, 1).squeeze(-1).clamp(min=torch.finfo(view.dtype).tiny)
            scores = best - self.noise * mean * (-uniform.log()).log()
        return found.take(chosen, highest(scores, rising, found.most(self.share)))


@dataclass(frozen=True)
class HullWords(_Substitution):
    """A mixture of each word and its candidates: delta_i = sum_k p_ik (E[k] - E[t_i]), p_i = softmax(u_i) (ASCC, DNE).

    u climbs the goal by steps of length `step_size` a word, du_ik = p_ik (s_ik - sum_j p_ij s_ij) with
    s_ik = g_i . (E[k] - E[t_i]). With `entropy` the goal is less that many times the entropy of p: its mean over the
    words of a text that may change, and then over the batch, as the loss is. `noise` is the power to which the weights
    of the start are raised: 0 weighs all the same, 1 draws from the flat Dirichlet distribution.
    """

    steps: int = 1
    step_size: float = 10.0
    noise: float = 1.0
    entropy: float = 0.0

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.steps < 0 or not self.step_size > 0 or not self.noise >= 0 or not self.entropy >= 0:
            raise MethodError(f"{self!r}: step_size must be above 0, and steps, noise and entropy not negative.")

    def start(self, view: Activation) -> Tensor:
        found = Words(view)
        available = found.available
        noise = draw(view, torch.rand, available.shape[-1] + 2).clamp(min=torch.finfo(view.dtype).tiny)
        some = available.any(-1)
        chosen = some if self.share == 1 else highest(noise[..., 0], some, found.most(self.share))
        # log of exponential variables: their normalised values are uniform on the simplex
        view.memory[_LOGITS] = self.noise * (-noise[..., 1:].log()).clamp(min=torch.finfo(view.dtype).tiny).log()
        view.memory[_CHOSEN] = chosen
        return self._mix(found, self._log_weights(found))

    def _log_weights(self, found: Words) -> Tensor:
        """Return log p; the word itself stands first and is always there."""
        itself = torch.ones_like(found.available[..., :1])
        there = torch.cat([itself, found.available & found.view.memory[_CHOSEN].unsqueeze(-1)], -1)
        return found.view.memory[_LOGITS].masked_fill(~there, -torch.inf).log_softmax(-1)

    @staticmethod
    def _mix(found: Words, log_p: Tensor) -> Tensor:
        return torch.einsum("blk,blkh->blh", log_p[..., 1:].exp(), found.offsets)

    def ascend(self, deltas: Sequence[Tensor], grads: Sequence[Tensor], views: Sequence[Activation]) -> list[Tensor]:
        return [self._ascend(grad.to(view.dtype), view) for grad, view in zip(grads, views, strict=True)]

    def _ascend(self, grad: Tensor, view: Activation) -> Tensor:
        found = Words(view)
        log_p = self._log_weights(found)
        gains = torch.einsum("blh,blkh->blk", grad, found.offsets)
        slope = torch.cat([torch.zeros_like(gains[..., :1]), gains], -1)
        if self.entropy:
            # dH/dp_k is -(log p_k + 1), and the constant falls out below
            words = view.memory[_CHOSEN].sum(1).clamp(min=1).view(-1, 1, 1) * len(grad)
            slope = slope + self.entropy * log_p.clamp(min=-1e4) / words
        p = log_p.exp()
        step = p * (slope - (p * slope).sum(-1, keepdim=True))
        step = step / norm(step, 2, "token").clamp(min=1e-30)
        view.memory[_LOGITS] = view.memory[_LOGITS] + self.step_size * step.nan_to_num(0.0, 0.0, 0.0)
        return self._mix(found, self._log_weights(found))
