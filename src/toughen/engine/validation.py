"""Refuse and warn: what is wrong with a method on a model, before the first step or while it trains."""

import warnings
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, cast

import torch
from torch import Tensor, nn

from ..errors import MethodError, RobustnessWarning, SiteError
from ..internal.foreach import HALF, local_shard
from ..internal.rng import has_batch_norm, has_dropout
from ..method import Method
from ..needs import declared
from ..sites.base import Detach
from ..sites.locate import input_embedding, track_encoder_forward
from .perturbation import Injector


def check_accumulate(micro_batches: int) -> int:
    """The number of micro-batches of an update; by none the loss cannot be shared."""
    if micro_batches < 1:
        raise MethodError(f"accumulate={micro_batches}: an update has at least one micro-batch.")
    return micro_batches


def refuse_detached(hooks: Sequence[Any]) -> None:
    """Without its hooks a method would train plainly, or say that the batch never came by them."""
    if not hooks:
        raise MethodError("the method was detached from its model; put it back with attached.attach() before a step.")


def require_module(model: Any) -> None:
    """A method is attached to a module, and not to its name or its tokenizer."""
    if not isinstance(model, nn.Module):
        raise MethodError(f"a method is attached to a model, and {type(model).__name__} is none; load it first.")


def warn_incompatible(model: nn.Module, method: Method) -> None:
    if declared(method.site, "target") == "dropout" and not has_dropout(model):
        _warn(
            f"R-Drop compares two dropout masks, and {type(model).__name__} has no dropout: both passes are the same "
            "and the term is 0. Set a dropout rate in the config, or use toughen.r3f(), which compares under noise."
        )
    if declared(method.site, "target") != "none" and has_batch_norm(model):
        _warn(
            f"{type(model).__name__} has BatchNorm: every pass of the method, perturbed ones too, updates its running "
            "statistics. Put it in eval mode, or replace it by LayerNorm."
        )
    if _at_input_embedding(method):
        _warn_if_below_resolution(model, method)


def warn_at_start(model: nn.Module, methods: Iterable[Method], updates: int) -> None:
    """What the first step shows, and no error would."""
    if not updates:
        _warn_if_frozen(model)
        _warn_if_half(model)
        if any(method.dropout != "off" for method in methods):
            _warn_if_in_eval_mode(model)


def _warn_if_in_eval_mode(model: nn.Module) -> None:
    """`from_pretrained` leaves a model so, and a loop without `train()` goes on without dropout."""
    if not model.training and has_dropout(model):
        _warn(f"{type(model).__name__} is in eval mode, so its dropout is off: call model.train() first.")


def _warn_if_frozen(model: nn.Module) -> None:
    """Plain training fails there; a loss of the perturbation has a gradient all the same, and nothing would be said."""
    if not any(weight.requires_grad for weight in model.parameters()):
        _warn(
            f"{type(model).__name__} has no trainable weight, so nothing is learnt. Unfreeze some of them "
            "(weight.requires_grad_()), or add adapters before the method is attached."
        )


def _warn_if_half(model: nn.Module) -> None:
    """`from_pretrained` keeps the dtype of the file, so this is seldom what a person chose."""
    kind = next((weight.dtype for weight in model.parameters() if weight.requires_grad and weight.dtype in HALF), None)
    if kind is not None:
        _warn(
            f"The trained weights of {type(model).__name__} are in {_name(kind)}: small updates are rounded away, "
            "and so are the small gradients of a perturbation. from_pretrained takes the dtype of the file: load the "
            "model with dtype=torch.float32, and train under autocast (Trainer: bf16=True)."
        )


def warn_if_below_resolution(model: nn.Module, method: Method, half: torch.dtype) -> None:
    """An absolute perturbation that the first layer rounds away, as most of the papers' are under autocast."""
    size = getattr(method.search, "absolute_size", None)
    weight: Any = getattr(input_embedding(model), "weight", None) if _at_input_embedding(method) else None
    if size is None or not isinstance(weight, Tensor) or weight.dtype in HALF:  # those were warned about at the start
        return
    felt = share_felt(size, local_shard(weight.detach()), half)
    if felt < 0.5:
        _warn(
            f"A perturbation of {size:g} changes {felt:.0%} of the embedding's elements in {_name(half)}; the others "
            "are rounded back. Train in float32, or use a radius in units of the embedding (the default preset)."
        )


def share_felt(size: float, values: Tensor, half: torch.dtype) -> float:
    """The share of values that become another number of half precision when `size` is added."""
    moved = (values + size).to(half) != values.to(half)
    return float(moved.float().mean())


def _name(dtype: torch.dtype) -> str:
    return str(dtype).removeprefix("torch.")


def _warn_if_below_resolution(model: nn.Module, method: Method) -> None:
    """An absolute perturbation below the resolution of a half-precision embedding is rounded away."""
    size = getattr(method.search, "absolute_size", None)
    weight: Any = getattr(input_embedding(model), "weight", None)
    if size is None or not isinstance(weight, Tensor) or weight.dtype not in HALF:
        return
    typical = float(weight.detach().float().square().mean().sqrt())
    if size < torch.finfo(weight.dtype).eps * typical:
        _warn(
            f"A perturbation of {size:g} is lost in a {str(weight.dtype).removeprefix('torch.')} embedding (typical "
            f"value {typical:.2g}). Load the model with dtype=torch.float32 and train under autocast, or use a radius "
            "in units of the embedding (the default preset)."
        )


def _at_input_embedding(method: Method) -> bool:
    return getattr(method.site, "at_input_embedding", False)


def _warn(message: str) -> None:
    warnings.warn(message, RobustnessWarning, stacklevel=5)


def special_ids(model: nn.Module, tokenizer: Any) -> Tensor | None:
    """Ids of the tokens that carry no text: the tokenizer's, else those the model's config knows."""
    ids = list(getattr(_tokenizer(tokenizer), "all_special_ids", ()) or ())
    if not ids:
        config = getattr(model, "config", None)
        names = ("pad_token_id", "bos_token_id", "eos_token_id", "cls_token_id", "sep_token_id")
        known = [getattr(config, name, None) for name in names]
        ids = [one for value in known for one in (value if isinstance(value, list) else [value]) if one is not None]
    return torch.tensor(sorted(set(ids))) if ids else None


def _tokenizer(given: Any) -> Any:
    """The tokenizer itself, also of a processor that has one beside other parts."""
    return getattr(given, "tokenizer", given)


def warn_if_special_unknown(model: nn.Module, method: Method, tokenizer: Any) -> None:
    """Many encoders' configs do not name their class and separator tokens."""
    site = method.site
    masked = "special" in declared(site, "skip")
    config = getattr(model, "config", None)
    text = getattr(model, "main_input_name", "input_ids") == "input_ids"
    known = any(getattr(config, name, None) is not None for name in ("bos_token_id", "eos_token_id", "cls_token_id"))
    told = hasattr(_tokenizer(tokenizer), "all_special_ids")
    if masked and text and not told and not known and config is not None:
        _warn(
            "Special tokens are to be left alone, and nobody says which they are, so they are perturbed like words. "
            "Give the tokenizer: method.attach(model, tokenizer), or a 'special_tokens_mask' in the batch."
        )


WARN_AFTER_BATCHES = 10  # batches; one or two are somebody having a look


def warn_if_method_unused(model: nn.Module, used: Callable[[], bool]) -> Detach:
    """Warn once if batch after batch goes forward and backward and no loss was ever asked of the method.

    Nothing is read from a device, and the hook goes as soon as the method is used. Under torch.compile nothing is said.
    """
    trained = 0

    def look(called: nn.Module, _args: Any, output: Any) -> None:
        if torch.compiler.is_compiling() or called is not model:  # a copy of the model has its hooks, too
            return
        if used():
            handle.remove()
        elif trained >= WARN_AFTER_BATCHES:
            handle.remove()
            _warn_unused(model, trained)
        elif model.training and torch.is_grad_enabled():
            once = _FirstCall(count)
            for tensor in _tensors(output):
                tensor.register_hook(once)

    def count() -> None:
        nonlocal trained
        trained += 1

    handle = model.register_forward_hook(look)
    return handle.remove


class _FirstCall:
    """A hook for several outputs of one pass, which may all get a gradient in its backward pass."""

    def __init__(self, then: Callable[[], None]) -> None:
        self.then: Callable[[], None] | None = then

    def __call__(self, _gradient: Tensor) -> None:
        then, self.then = self.then, None
        if then is not None:
            then()


def _tensors(output: Any) -> list[Tensor]:
    """The loss, the logits: what somebody may back-propagate from."""
    parts = cast("Mapping[str, Any]", output).values() if isinstance(output, Mapping) else output
    several = cast("Iterable[Any]", parts if isinstance(parts, Iterable) and not isinstance(parts, Tensor) else [parts])
    return [each for each in several if isinstance(each, Tensor) and each.requires_grad]


def _warn_unused(model: nn.Module, batches: int) -> None:
    warnings.warn(
        f"{batches} batches went forward and backward through {type(model).__name__} without the method that is "
        "attached to it: this is plain training. A Trainer must be made by toughen.robust(Trainer)(..., method=method);"
        " in a loop of your own attached.backward(model, batch) stands in place of model(**batch).loss.backward().",
        RobustnessWarning,
        stacklevel=5,
    )


def warn_if_multiple_inputs(model: nn.Module, injector: Injector) -> Detach:
    """Warn once if a perturbed pass embeds two inputs of one shape, as a model of pairs does that runs twice.

    The same tensor may come again: some Trainers make a second pass for their outputs. Inputs of two shapes are refused
    by the site. Under torch.compile nothing is said.
    """
    try:
        embedding = input_embedding(model)
    except SiteError:
        return lambda: None
    reading, stop_watching = track_encoder_forward(model, embedding)

    def look(called: nn.Module, args: Any) -> None:
        if torch.compiler.is_compiling() or not injector.active or called is not embedding or not args or not reading():
            return
        first, now = injector.first_input, args[0]
        if first is None:
            injector.first_input = now
        elif first.shape == now.shape and first.data_ptr() != now.data_ptr():
            handle.remove()
            warnings.warn(
                f"{type(model).__name__} read several inputs in one pass, and all get the perturbation and the mask of "
                "the first: for the others it is no better than noise. Run them as one batch, and split its output.",
                RobustnessWarning,
                stacklevel=2,
            )

    handle = embedding.register_forward_pre_hook(look)

    def detach() -> None:
        handle.remove()
        stop_watching()

    return detach
