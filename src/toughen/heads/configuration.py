"""The config of a second-order model: a backbone's config and the settings of the head."""

import os
from dataclasses import asdict
from pathlib import Path
from typing import Any, ClassVar

from transformers.configuration_utils import PretrainedConfig

from .register import register_models


def is_published(name: str | None) -> bool:
    """Tell whether a backbone's name is one of the Hub and not a local folder."""
    return bool(name) and not os.path.isabs(name) and not Path(name).exists() and name.count("/") <= 1


class SecondOrderConfig(PretrainedConfig):
    """Configure `SecondOrderFor...` models.

    `backbone_config` is the backbone's own config (or its dictionary), `head` the fields of `HeadSettings`.
    `class_token` says where the class token is: `first` or `last` real token, or `pooled`, the backbone's pooled
    output (the mean of its tokens where it has none). `prefix_tokens` leading tokens (class, distillation, registers)
    are no words. `special_token_ids` are the tokens that `skip_special` leaves out. `width` is that of the backbone's
    tokens, where it was measured.

    Args:
        backbone_config: The config of the backbone.
        head: The fields of `HeadSettings`.
        class_token: "first", "last" or "pooled".
        prefix_tokens: Leading tokens that are no words.
        special_token_ids: Tokens that `skip_special` leaves out.
        width: The width of the tokens.
        kwargs: Further keys of a config of transformers.

    Examples:
        >>> toughen.second_order(model, num_labels=3, q=8, k=4).config.head["q"]
        8
    """

    model_type = "second_order"
    # Only the keys matter: transformers walks them to hand attention implementations and dtypes down.
    sub_configs: ClassVar[dict[str, Any]] = {  # pyright: ignore[reportIncompatibleMethodOverride]
        "backbone_config": PretrainedConfig
    }
    has_no_defaults_at_init: ClassVar[bool] = True

    def __init__(
        self,
        backbone_config: PretrainedConfig | dict[str, Any] | None = None,
        head: dict[str, Any] | None = None,
        class_token: str = "first",
        prefix_tokens: int = 1,
        special_token_ids: list[int] | None = None,
        width: int | None = None,
        **kwargs: Any,
    ) -> None:
        if isinstance(backbone_config, dict):
            from transformers import AutoConfig

            backbone_config = AutoConfig.for_model(**backbone_config)
        from .settings import head_settings

        self.backbone_config = backbone_config
        # Validated and completed here, so that a file written by hand fails with the name of the wrong field.
        self.head = asdict(head_settings(**(head or {})))
        if class_token not in ("first", "last", "pooled"):
            raise ValueError(f"class_token={class_token!r} is unknown. Use 'first', 'last' or 'pooled'.")
        self.class_token = class_token
        self.prefix_tokens = prefix_tokens
        self.special_token_ids = special_token_ids
        self.width = width
        if backbone_config is not None:
            # The base class hands the attention implementation down, so it must start from what the backbone runs on.
            kwargs.setdefault("attn_implementation", backbone_config._attn_implementation)
            for name in ("pad_token_id", "initializer_range"):
                kwargs.setdefault(name, getattr(backbone_config, name, None))
            if kwargs["initializer_range"] is None:
                kwargs["initializer_range"] = 0.02
        super().__init__(**kwargs)
        register_models()

    def get_text_config(self, *args: Any, **kwargs: Any) -> Any:
        """Return the backbone's config, which holds the vocabulary, for instance when embeddings are resized."""
        if self.backbone_config is None:
            return super().get_text_config(*args, **kwargs)
        return self.backbone_config.get_text_config(*args, **kwargs)

    def to_dict(self) -> dict[str, Any]:
        """Return the values for config.json, without the local folder that a backbone came from."""
        values = super().to_dict()
        backbone = values.get("backbone_config")
        if isinstance(backbone, dict) and not is_published(backbone.get("_name_or_path")):
            backbone.pop("_name_or_path", None)
        return values

    @property
    def hidden_size(self) -> int:
        """Return the width of the backbone's tokens."""
        from .backbone import width_of

        assert self.backbone_config is not None
        return self.width or width_of(self.backbone_config)
