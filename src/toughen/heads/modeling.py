"""Pretrained models with a second-order head: sequence classification, multiple choice, image classification."""

from __future__ import annotations

import os
from typing import Any, cast

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from transformers import initialization as init
from transformers.modeling_outputs import ImageClassifierOutput, MultipleChoiceModelOutput, SequenceClassifierOutput
from transformers.modeling_utils import PreTrainedModel

from . import token_roles as words
from .backbone import body_of
from .card import write_card
from .configuration import SecondOrderConfig
from .head import SecondOrderHead
from .normalize import SVPN
from .settings import HeadSettings


class SecondOrderPreTrainedModel(PreTrainedModel):
    """Join a backbone and a `SecondOrderHead` named `classifier`, the name that adapters and optimizers look for."""

    config_class = SecondOrderConfig
    config: SecondOrderConfig
    base_model_prefix = "backbone"
    supports_gradient_checkpointing = True  # as far as the backbone does
    # The loss is a mean over examples; without this Trainer takes it as already divided by accumulation steps.
    accepts_loss_kwargs = False
    _supports_sdpa = True
    _supports_flash_attn = True
    _supports_flex_attn = True
    _supports_attention_backend = True

    def __init__(self, config: SecondOrderConfig, backbone: PreTrainedModel | None = None) -> None:
        super().__init__(config)
        if backbone is None:
            from transformers import AutoModel

            if config.backbone_config is None:
                raise ValueError("SecondOrderConfig has no backbone_config. Build the model with second_order(...).")
            backbone = cast(PreTrainedModel, body_of(AutoModel.from_config(config.backbone_config), config.class_token))
        else:
            for module in backbone.modules():
                cast(Any, module)._is_hf_initialized = True  # it comes initialised, perhaps trained
        # Its layers hold this very config object: sharing it lets a change of attention reach them.
        self.config.backbone_config = backbone.config
        self.backbone = backbone
        self.supports_gradient_checkpointing = backbone.supports_gradient_checkpointing
        self.classifier = SecondOrderHead(config.hidden_size, self._outputs(), HeadSettings(**config.head))
        self.post_init()

    def _outputs(self) -> int:
        return cast(int, self.config.num_labels)

    @torch.no_grad()
    def _init_weights(self, module: nn.Module) -> None:
        super()._init_weights(module)
        if isinstance(module, SVPN) and module.start is not None:
            init.normal_(module.start, mean=0.0, std=1.0)

    @classmethod
    def _can_set_attn_implementation(cls) -> bool:
        return True  # the backbone decides for itself

    def get_input_embeddings(self) -> nn.Module:
        return self.backbone.get_input_embeddings()

    def set_input_embeddings(self, value: nn.Module) -> None:
        self.backbone.set_input_embeddings(value)

    def save_pretrained(self, save_directory: str | os.PathLike[str], *args: Any, **kwargs: Any) -> None:
        """Save the model as `PreTrainedModel` does, with a model card unless the folder has one."""
        if kwargs.get("is_main_process", True):
            write_card(self, save_directory)
        super().save_pretrained(save_directory, *args, **kwargs)

    def _logits(self, inputs: dict[str, Any], special: Tensor | None = None) -> tuple[Any, Any]:
        """(the backbone's output, logits or a pair of logits)."""
        given = {name: value for name, value in inputs.items() if value is not None}
        output = self.backbone(**given, return_dict=True)
        tokens = output.last_hidden_state
        if tokens.dim() == 4:  # feature maps (B, C, H, W)
            tokens = tokens.flatten(2).mT
        pooled = self.config.class_token == "pooled"
        tokens = tokens if pooled else words.without_prefix(self.config, tokens)
        real = words.real_tokens(self.config, given)
        mask = words.word_mask(self.config, real, given, special)
        if pooled:
            vector = output.get("pooler_output")
            vector = words.mean_of(tokens, real) if vector is None else vector.flatten(1)
            return output, self.classifier(tokens, mask, class_vector=vector)
        return output, self.classifier(tokens, mask, class_index=words.class_index(self.config, tokens, real))

    def _loss(self, logits: Any, labels: Tensor | None) -> Tensor | None:
        if labels is None:
            return None
        each = logits if isinstance(logits, tuple) else (logits,)
        # By `problem_type`: cross entropy, one binary one per label, or squared error.
        loss_of = cast(Any, self.loss_function)
        losses = [loss_of(labels, one, self.config) for one in cast("tuple[Tensor, ...]", each)]
        return losses[0] if len(losses) == 1 else torch.stack(losses).sum()

    def _result(self, kind: Any, output: Any, loss: Tensor | None, logits: Tensor, return_dict: bool | None) -> Any:
        """Return the outputs as a record of this kind, or as a tuple if that is asked for."""
        seen = {name: output.get(name) for name in ("hidden_states", "attentions")}
        result = kind(loss=loss, logits=logits, **seen)
        return result.to_tuple() if words.wants_tuple(self.config, return_dict) else result


def _single(logits: Any) -> Tensor:
    """Average the two predictions of a head that trains two."""
    return (logits[0] + logits[1]) / 2 if isinstance(logits, tuple) else logits


class SecondOrderForSequenceClassification(SecondOrderPreTrainedModel):
    """Classify a text or a pair of texts (one or several labels), or predict a number."""

    def forward(
        self,
        input_ids: Tensor | None = None,
        attention_mask: Tensor | None = None,
        token_type_ids: Tensor | None = None,
        position_ids: Tensor | None = None,
        inputs_embeds: Tensor | None = None,
        special_tokens_mask: Tensor | None = None,
        labels: Tensor | None = None,
        return_dict: bool | None = None,
        **kwargs: Any,
    ) -> SequenceClassifierOutput | tuple[Any, ...]:
        inputs = {**kwargs, **words.text_inputs(input_ids, attention_mask, token_type_ids, position_ids, inputs_embeds)}
        output, logits = self._logits(inputs, special_tokens_mask)
        return self._result(SequenceClassifierOutput, output, self._loss(logits, labels), _single(logits), return_dict)


class SecondOrderForMultipleChoice(SecondOrderPreTrainedModel):
    """Score each of several texts (B, choices, L); the highest score is the answer."""

    def _outputs(self) -> int:
        return 1

    def forward(
        self,
        input_ids: Tensor | None = None,
        attention_mask: Tensor | None = None,
        token_type_ids: Tensor | None = None,
        position_ids: Tensor | None = None,
        inputs_embeds: Tensor | None = None,
        special_tokens_mask: Tensor | None = None,
        labels: Tensor | None = None,
        return_dict: bool | None = None,
        **kwargs: Any,
    ) -> MultipleChoiceModelOutput | tuple[Any, ...]:
        each = words.text_inputs(input_ids, attention_mask, token_type_ids, position_ids, inputs_embeds)
        shaped = input_ids if input_ids is not None else inputs_embeds
        if shaped is None or shaped.dim() < 3:
            raise ValueError("multiple choice needs input_ids (B, choices, L) or inputs_embeds (B, choices, L, D).")
        flat = {name: value.flatten(0, 1) for name, value in each.items() if value is not None}
        special = None if special_tokens_mask is None else special_tokens_mask.flatten(0, 1)
        output, raw = self._logits({**kwargs, **flat}, special)
        pair = cast("tuple[Tensor, ...]", raw if isinstance(raw, tuple) else (raw,))
        scores = [one.view(shaped.shape[:2]) for one in pair]
        loss = None if labels is None else torch.stack([F.cross_entropy(one, labels) for one in scores]).sum()
        logits = _single(tuple(scores)) if len(scores) == 2 else scores[0]
        return self._result(MultipleChoiceModelOutput, output, loss, logits, return_dict)


class SecondOrderForImageClassification(SecondOrderPreTrainedModel):
    """Classify images with a vision transformer, whose patches are the words."""

    main_input_name = "pixel_values"

    def forward(
        self,
        pixel_values: Tensor | None = None,
        labels: Tensor | None = None,
        return_dict: bool | None = None,
        **kwargs: Any,
    ) -> ImageClassifierOutput | tuple[Any, ...]:
        output, logits = self._logits({**kwargs, "pixel_values": pixel_values})
        return self._result(ImageClassifierOutput, output, self._loss(logits, labels), _single(logits), return_dict)
