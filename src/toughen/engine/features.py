"""The class token's features, watched as the model computes them."""

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any, cast

import torch
from torch import Tensor, nn

from ..compare.model_outputs import ModelOutputs
from ..errors import SiteError
from ..internal.architectures import is_causal_decoder, unwrap_peft
from ..sites.base import Detach


class FeatureHook:
    """Sees the features of a pass: the first real token's hidden state, or for decoders the last one's.

    For an encoder-decoder it is the decoder's first, which has read the whole text. Of other passes, such as an
    evaluation's, nothing is kept.
    """

    def __init__(self, model: nn.Module) -> None:
        base = _backbone(unwrap_peft(model))
        config = getattr(model, "config", None)
        self.decoder = is_causal_decoder(config)
        self.masked = not getattr(config, "is_encoder_decoder", False)  # the batch's mask is the encoder's
        self.enabled = False
        self.seen: Tensor | None = None
        self.detach: Detach = base.register_forward_hook(self._see).remove

    def _see(self, module: nn.Module, _args: Any, output: Any) -> None:
        if not self.enabled:
            return
        if hasattr(output, "last_hidden_state"):
            self.seen = output.last_hidden_state
        elif isinstance(output, tuple):
            self.seen = cast("tuple[Tensor, ...]", output)[0]
        else:
            raise SiteError(
                f"CreAT turns hidden states, and {type(module).__name__} gives a {type(output).__name__} without any. "
                "The model needs a `base_model` whose output has `last_hidden_state`, or is a tuple beginning with it."
            )

    def capture(self, run: Callable[[], ModelOutputs], batch: Mapping[str, Any]) -> ModelOutputs:
        """Return the outcome of a pass over the batch, with its features."""
        self.enabled = True
        try:
            outcome = run()
        finally:
            hidden, self.seen, self.enabled = self.seen, None, False
        mask = batch.get("attention_mask") if self.masked else None
        return outcome if hidden is None else replace(outcome, features=class_token(hidden, mask, self.decoder))


def _backbone(model: nn.Module) -> nn.Module:
    """Return the part that gives hidden states; T5 with a language model's head has a decoder and no backbone."""
    base = cast(nn.Module, getattr(model, "base_model", model))
    bare = base is model and getattr(getattr(model, "config", None), "is_encoder_decoder", False)
    return cast(Any, model).get_decoder() if bare else base


def class_token(hidden: Tensor, attention_mask: Tensor | None, decoder: bool) -> Tensor:
    if attention_mask is not None and attention_mask.dim() == 4 and attention_mask.is_floating_point():
        attention_mask = attention_mask >= 0  # (B, 1, 1, L), what is added to the logits: 0 stands for a word
    if attention_mask is not None and attention_mask.dim() > 2:  # multiple choice
        attention_mask = attention_mask.reshape(-1, attention_mask.shape[-1])
    if attention_mask is None or attention_mask.shape != hidden.shape[:2]:
        return hidden[:, -1] if decoder else hidden[:, 0]
    real = attention_mask.ne(0)
    rank = torch.arange(real.shape[1], device=real.device) if decoder else 1
    at = (real * rank).argmax(1)  # the last real one, or the first of all that are real
    return hidden.gather(1, at.view(-1, 1, 1).expand(-1, 1, hidden.shape[-1])).squeeze(1)
