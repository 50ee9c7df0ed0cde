"""FSDP2 by one option, on GPUs and on processors, and never silently not at all."""

from typing import Any, cast

from ..errors import SiteError
from .errors import RunError


def arguments(model: Any) -> dict[str, Any]:
    """What TrainingArguments need: every layer of the stack is gathered by itself, right before it runs.

    Not transformers' own list of modules: it names BERT's embedding block, and accelerate shards the embedding in it
    once more and fails.
    """
    from ..sites.locate import layers

    try:
        settings: dict[str, Any] = {"transformer_layer_cls_to_wrap": sorted({type(e).__name__ for e in layers(model)})}
    except SiteError:  # no stack, or one module run many times (ALBERT): gathered as a whole
        settings = {"auto_wrap_policy": "NO_WRAP"}
    return {"fsdp": True, "fsdp_config": {"version": 2, **settings}}


def take_processors_for_gpus() -> None:
    """Accelerate leaves its FSDP settings out where there is no GPU, without a word; call before it is set up."""
    from accelerate.state import PartialState
    from accelerate.utils import DistributedType

    shared: dict[str, Any] = cast(Any, PartialState)._shared_state
    if shared.get("distributed_type") == DistributedType.MULTI_CPU:
        shared["distributed_type"] = DistributedType.MULTI_GPU


def check_sharded(model: Any) -> None:
    """Refuse to train on when every process holds the whole model after all."""
    if not any(hasattr(parameter, "to_local") for parameter in model.parameters()):
        raise RunError("the weights were not shared out among the processes; leave train.shard and trainer.fsdp out.")
