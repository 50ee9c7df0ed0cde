"""Pretrained models with a second-order head: sequence classification, multiple choice, image classification."""

import os
from collections.abc import Sequence
from typing import Any, ClassVar, cast

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from transformers import initialization as init
from transformers.modeling_outputs import ImageClassifierOutput, MultipleChoiceModelOutput, SequenceClassifierOutput
from transformers.modeling_utils import PreTrainedModel

from .backbone import body_of, can_be_made_from
from .card import write_card
from .configuration import SecondOrderConfig
from .covariance import masked_mean
from .head import SecondOrderHead
from .normalize import SVPN
from .settings import HeadSettings


class SecondOrderPreTrainedModel(PreTrainedModel):
    """Join a backbone and a `SecondOrderHead` named `classifier`, the name that adapters and optimizers look for."""

    config_class = SecondOrderConfig
    config: SecondOrderConfig
    output_class: ClassVar[Any] = SequenceClassifierOutput
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
                setattr(module, "_is_hf_initialized", True)  # it comes initialised, perhaps trained
        # Its layers hold this very config object: sharing it lets a change of attention reach them.
        if can_be_made_from(backbone.config):
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

    def save_pretrained(self, save_directory: str | os.PathLike[str], *args: Any, **kwargs: Any) -> None:
        """Save the model as `PreTrainedModel` does, with a model card unless the folder has one."""
        if kwargs.get("is_main_process", True):
            write_card(self, save_directory)
        super().save_pretrained(save_directory, *args, **kwargs)

    def _logits(self, inputs: dict[str, Any], special: Tensor | None = None) -> tuple[Any, Sequence[Tensor]]:
        """Return the backbone's output, and one or two logits."""
        given = {name: value for name, value in inputs.items() if value is not None}
        output = self.backbone(**given, return_dict=True)
        tokens = output.last_hidden_state
        if tokens.dim() == 4:  # feature maps (B, C, H, W)
            tokens = tokens.flatten(2).mT
        pooled = self.config.class_token == "pooled"
        tokens = tokens if pooled else without_prefix(self.config, tokens)
        real = real_tokens(self.config, given, tokens.shape[1])
        mask = word_mask(self.config, real, given, special)
        if pooled:
            vector = output.get("pooler_output")
            if vector is None:
                vector = tokens.mean(1) if real is None else masked_mean(tokens, real).to(tokens.dtype)
            else:  # vision models pool to (B, C), (B, C, 1, 1), or TextNet to (B, C, 2, 2)
                vector = vector[..., None].flatten(2).mean(-1)
            logits = self.classifier(tokens, mask, class_vector=vector)
        else:
            logits = self.classifier(tokens, mask, class_index=class_index(self.config, tokens, real))
        return output, logits if isinstance(logits, tuple) else (logits,)

    def _loss(self, logits: Tensor, labels: Tensor) -> Tensor:
        # By `problem_type`: cross entropy, one binary one per label, or squared error.
        return cast(Any, self.loss_function)(labels, logits, self.config)

    def _result(self, output: Any, each: Sequence[Tensor], labels: Tensor | None, return_dict: bool | None) -> Any:
        """Return loss and logits as a record, or as a tuple if that is asked for.

        A head that trains two predictions has the sum of their losses and the mean of their logits.
        """
        losses = [] if labels is None else [self._loss(logits, labels) for logits in each]
        loss = sum(losses[1:], losses[0]) if losses else None
        logits = each[0] if len(each) == 1 else (each[0] + each[1]) / 2
        seen = {name: output.get(name) for name in ("hidden_states", "attentions")}
        result = self.output_class(loss=loss, logits=logits, **seen)
        as_record = self.config.return_dict if return_dict is None else return_dict
        return result if as_record else result.to_tuple()


class _SecondOrderForText(SecondOrderPreTrainedModel):
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
    ) -> Any:
        inputs = {
            "input_ids": input_ids,
            "attention_mask": attention_mask,
            "token_type_ids": token_type_ids,
            "position_ids": position_ids,
            "inputs_embeds": inputs_embeds,
            "special_tokens_mask": special_tokens_mask,
        }
        output, each = self._read({name: value for name, value in inputs.items() if value is not None}, kwargs)
        return self._result(output, each, labels, return_dict)

    def _read(self, inputs: dict[str, Tensor], more: dict[str, Any]) -> tuple[Any, Sequence[Tensor]]:
        special = inputs.pop("special_tokens_mask", None)
        return self._logits({**more, **inputs}, special)


class SecondOrderForSequenceClassification(_SecondOrderForText):
    """Classify a text or a pair of texts (one or several labels), or predict a number.

    Args:
        config: A `SecondOrderConfig`; `second_order` makes it.
        backbone: The model under the head; built from the config if omitted.

    Examples:
        >>> made = toughen.second_order(model, num_labels=3, q=8, k=4)
        >>> type(made).__name__
        'SecondOrderForSequenceClassification'
    """


class SecondOrderForMultipleChoice(_SecondOrderForText):
    """Score each of several texts (B, choices, L); the highest score is the answer.

    Args:
        config: A `SecondOrderConfig`; `second_order` makes it.
        backbone: The model under the head; built from the config if omitted.

    Examples:
        >>> made = toughen.second_order(model, task="multiple-choice", q=8, k=4)
        >>> type(made).__name__
        'SecondOrderForMultipleChoice'
    """

    output_class = MultipleChoiceModelOutput

    def _outputs(self) -> int:
        return 1

    def _loss(self, logits: Tensor, labels: Tensor) -> Tensor:
        return F.cross_entropy(logits, labels)

    def _read(self, inputs: dict[str, Tensor], more: dict[str, Any]) -> tuple[Any, Sequence[Tensor]]:
        shaped = inputs.get("input_ids", inputs.get("inputs_embeds"))
        if shaped is None or shaped.dim() < 3:
            raise ValueError("multiple choice needs input_ids (B, choices, L) or inputs_embeds (B, choices, L, D).")
        if isinstance(more.get("lengths"), Tensor):  # XLM's and Flaubert's: one of each row, not of each text
            raise ValueError("multiple choice cannot read lengths; leave them out, attention_mask says the same.")
        choices = shaped.shape[:2]  # other inputs have them as well: entities, languages, images
        more = {
            name: value.flatten(0, 1) if isinstance(value, Tensor) and value.shape[:2] == choices else value
            for name, value in more.items()
        }
        output, each = super()._read({name: value.flatten(0, 1) for name, value in inputs.items()}, more)
        return output, [logits.view(shaped.shape[:2]) for logits in each]


class SecondOrderForImageClassification(SecondOrderPreTrainedModel):
    """Classify images with a vision transformer, whose patches are the words.

    Args:
        config: A `SecondOrderConfig`; `second_order` makes it.
        backbone: The model under the head; built from the config if omitted.

    Examples:
        >>> from transformers import ViTConfig, ViTModel
        >>> small = {"hidden_size": 16, "num_hidden_layers": 1, "num_attention_heads": 2, "intermediate_size": 32}
        >>> vision = ViTModel(ViTConfig(image_size=8, patch_size=4, **small))
        >>> type(toughen.second_order(vision, num_labels=3, q=8, k=4)).__name__
        'SecondOrderForImageClassification'
    """

    main_input_name = "pixel_values"
    output_class = ImageClassifierOutput

    def forward(
        self,
        pixel_values: Tensor | None = None,
        labels: Tensor | None = None,
        return_dict: bool | None = None,
        **kwargs: Any,
    ) -> Any:
        output, each = self._logits({**kwargs, "pixel_values": pixel_values})
        return self._result(output, each, labels, return_dict)


def real_tokens(config: SecondOrderConfig, inputs: dict[str, Any], length: int) -> Tensor | None:
    """Return the mask (B, length) of tokens that are no padding; None if there is no padding.

    The tokens of images stand behind those of the text, whose mask does not have them.
    """
    mask = inputs.get("attention_mask")
    if mask is not None:
        if mask.dim() != 2:
            raise ValueError(
                f"attention_mask has {mask.dim()} dimensions; the head needs the padding mask (B, L) to tell words "
                "from padding."
            )
        has_images = any(name in inputs for name in ("pixel_values", "image", "visual_embeds"))
        return F.pad(mask, (0, length - mask.shape[1]), value=1) if has_images and mask.shape[1] < length else mask
    ids, pad = inputs.get("input_ids"), config.pad_token_id
    if config.class_token == "last" and ids is not None and pad is not None:
        return ids != pad  # as the decoder classifiers of transformers do
    return None


def class_index(config: SecondOrderConfig, tokens: Tensor, real: Tensor | None) -> Tensor | None:
    """Return the position of the class token in each row; None stands for 0."""
    if config.class_token == "first":
        # With padding on the left the first real token is not at 0.
        return None if real is None else real.int().argmax(1)
    if real is None:
        return torch.full(tokens.shape[:1], tokens.shape[1] - 1, device=tokens.device)
    positions = torch.arange(real.shape[1], device=real.device)
    return (real.ne(0) * positions).argmax(1)


def without_prefix(config: SecondOrderConfig, tokens: Tensor) -> Tensor:
    """Drop from tokens (B, N, D) of an image those between the class token and the patches.

    Cut out and not masked: they are no padding, which a head without `masked` lets in.
    """
    if config.prefix_tokens <= 1:
        return tokens
    return torch.cat([tokens[:, :1], tokens[:, config.prefix_tokens :]], dim=1)


def word_mask(
    config: SecondOrderConfig, real: Tensor | None, inputs: dict[str, Any], special: Tensor | None
) -> Tensor | None:
    """1 for tokens that enter mean and covariance, 0 for the others; None when all do."""
    if not config.head["skip_special"]:
        return real
    if special is None:
        special = _special_of(config, inputs)
    kept = special.eq(0)
    if real is not None and kept.shape[1] < real.shape[1]:
        kept = F.pad(kept, (0, real.shape[1] - kept.shape[1]), value=True)
    return kept if real is None else kept & real.ne(0)


def _special_of(config: SecondOrderConfig, inputs: dict[str, Any]) -> Tensor:
    ids = inputs.get("input_ids")
    if ids is None:
        raise ValueError("skip_special needs input_ids, or special_tokens_mask beside inputs_embeds.")
    if not config.special_token_ids:
        raise ValueError(
            "skip_special needs to know the special tokens: pass special_token_ids=tokenizer.all_special_ids to "
            "second_order, or special_tokens_mask with each batch."
        )
    special = torch.zeros_like(ids, dtype=torch.bool)
    for token in config.special_token_ids:
        special = special | (ids == token)
    return special
