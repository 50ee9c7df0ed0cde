"""Refuse and warn: what is wrong with a method on a model, before the first step or while it trains."""

import warnings
from collections.abc import Callable, Iterable, Mapping
from typing import Any, cast

import torch
from torch import Tensor, nn

from ..errors import RobustnessWarning, SiteError
from ..internal.foreach import HALF, local_shard
from ..internal.rng import has_batch_norm, has_dropout
from ..method import Method
from ..needs import declared
from ..sites.base import CandidateTable, Detach
from ..sites.embedding import track_input
from ..sites.locate import config_of, input_embedding, input_embeddings
from .perturbation import Injector


def warn_incompatible(model: nn.Module, method: Method) -> None:
    """Warn where model and method do not fit, so that a term would be 0 or a state wrong."""
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
    warn_if_below_resolution(model, method)


def warn_at_start(model: nn.Module, methods: Iterable[Method]) -> None:
    """Warn before the first step about what it would show, and no error would."""
    name = type(model).__name__
    trained = [weight for weight in model.parameters() if weight.requires_grad]
    # Plain training fails without one; a loss of the perturbation has a gradient all the same.
    if not trained:
        _warn(
            f"{name} has no trainable weight, so nothing is learnt. Unfreeze some of them (weight.requires_grad_()), "
            "or add adapters before the method is attached."
        )
    # `from_pretrained` keeps the dtype of the file, so this is seldom what a person chose.
    half = next((weight.dtype for weight in trained if weight.dtype in HALF), None)
    if half is not None:
        _warn(
            f"The trained weights of {name} are in {_name(half)}: small updates are rounded away, and so are the small "
            "gradients of a perturbation. from_pretrained takes the dtype of the file: load the model with "
            "dtype=torch.float32, and train under autocast (Trainer: bf16=True)."
        )
    # `from_pretrained` leaves a model in eval mode, and a loop without `train()` goes on without dropout.
    if any(method.dropout != "off" for method in methods) and not model.training and has_dropout(model):
        _warn(f"{name} is in eval mode, so its dropout is off: call model.train() first.")


def warn_if_below_resolution(model: nn.Module, method: Method, half: torch.dtype | None = None) -> None:
    """Warn about an absolute perturbation that half precision rounds away, as most of the papers' are.

    `half` is the precision of the layers under autocast. Without it the embedding's own is looked at.
    """
    size = getattr(method.search, "absolute_size", None)
    weight: Any = (
        getattr(input_embedding(model), "weight", None) if declared(method.site, "at_input_embedding") else None
    )
    if size is None or not isinstance(weight, Tensor) or (weight.dtype in HALF) == (half is not None):
        return
    if half is not None:
        values = local_shard(weight.detach())
        felt = float(((values + size).to(half) != values.to(half)).float().mean())
        if felt < 0.5:
            _warn(
                f"A perturbation of {size:g} changes {felt:.0%} of the embedding's elements in {_name(half)}; the "
                "others are rounded back. Train in float32, or use a radius in units of the embedding (the default "
                "preset)."
            )
        return
    typical = float(weight.detach().float().square().mean().sqrt())
    if size < torch.finfo(weight.dtype).eps * typical:
        _warn(
            f"A perturbation of {size:g} is lost in a {_name(weight.dtype)} embedding (typical value {typical:.2g}). "
            "Load the model with dtype=torch.float32 and train under autocast, or use a radius in units of the "
            "embedding (the default preset)."
        )


def _name(dtype: torch.dtype) -> str:
    return str(dtype).removeprefix("torch.")


def _warn(message: str) -> None:
    warnings.warn(message, RobustnessWarning, stacklevel=5)


def special_ids(model: nn.Module, tokenizer: Any) -> Tensor | None:
    """Return the ids of the tokens that carry no text: the tokenizer's, else those the model's config knows."""
    ids = list(getattr(_tokenizer(tokenizer), "all_special_ids", ()) or ())
    if not ids:
        config = config_of(model)
        names = ("pad_token_id", "bos_token_id", "eos_token_id", "cls_token_id", "sep_token_id")
        known = [getattr(config, name, None) for name in names]
        ids = [one for value in known for one in (value if isinstance(value, list) else [value]) if one is not None]
    return torch.tensor(sorted(set(ids))) if ids else None


def _tokenizer(given: Any) -> Any:
    """Return the tokenizer itself, also of a processor that has one beside other parts."""
    return getattr(given, "tokenizer", given)


def candidate_table(model: nn.Module, method: Method, tokenizer: Any) -> CandidateTable | None:
    """Return which words may stand in a word's place, for a search that asks for it."""
    source = declared(method.search, "candidates")
    return None if source is None else source.build(model, tokenizer)


def warn_if_special_unknown(model: nn.Module, method: Method, tokenizer: Any) -> None:
    """Warn if special tokens are unknown, as many encoders' configs do not name them."""
    site = method.site
    masked = "special" in declared(site, "skip")
    config = config_of(model)
    text = getattr(model, "main_input_name", "input_ids") == "input_ids"
    known = any(getattr(config, name, None) is not None for name in ("bos_token_id", "eos_token_id", "cls_token_id"))
    has_tokenizer = hasattr(_tokenizer(tokenizer), "all_special_ids")
    if masked and text and not has_tokenizer and not known and config is not None:
        _warn(
            "Special tokens should not be perturbed, but their ids are unknown, so they are perturbed like words. "
            "Pass the tokenizer: method.attach(model, tokenizer), or a 'special_tokens_mask' in the batch."
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
            _warn(
                f"{trained} batches were trained on {type(model).__name__} without its attached method: this is plain "
                "training. Create the Trainer with toughen.robust(Trainer)(..., method=method); in your own loop, "
                "replace model(**batch).loss.backward() by attached.backward(model, batch)."
            )
        elif model.training and torch.is_grad_enabled():
            torch.autograd.graph.register_multi_grad_hook(_tensors(output), count, mode="any")

    def count(_gradient: Tensor) -> None:
        nonlocal trained
        trained += 1

    handle = model.register_forward_hook(look)
    return handle.remove


def _tensors(output: Any) -> list[Tensor]:
    """List the tensors that somebody may back-propagate from."""
    parts = cast("Mapping[str, Any]", output).values() if isinstance(output, Mapping) else output
    several = cast("Iterable[Any]", parts if isinstance(parts, Iterable) and not isinstance(parts, Tensor) else [parts])
    return [each for each in several if isinstance(each, Tensor) and each.requires_grad]


def warn_if_multiple_inputs(model: nn.Module, injector: Injector) -> Detach:
    """Warn once if a perturbed call embeds two inputs of one shape, as a model of pairs does that runs twice.

    The same tensor may come again: some Trainers make a second pass for their outputs. Inputs of two shapes are refused
    by the site. Under torch.compile nothing is said.
    """
    try:
        embeddings = input_embeddings(model)
    except SiteError:
        return lambda: None
    watched = [(embedding, *track_input(model, embedding, injector)) for embedding in embeddings]

    def look(called: nn.Module, args: Any) -> None:
        if torch.compiler.is_compiling() or not injector.active or not args:
            return
        if not any(called is embedding and reads_input(args) for embedding, reads_input, _ in watched):
            return
        first, now = injector.first_input, args[0]
        if first is None:
            injector.first_input = now
        elif first.shape == now.shape and first.data_ptr() != now.data_ptr():
            stop_looking()
            warnings.warn(
                f"{type(model).__name__} read several inputs in one call, and all get the perturbation and the mask of "
                "the first: for the others it is no better than noise. Run them as one batch, and split its output.",
                RobustnessWarning,
                stacklevel=2,
            )

    handles = [embedding.register_forward_pre_hook(look) for embedding in embeddings]

    def stop_looking() -> None:
        for handle in handles:
            handle.remove()

    def detach() -> None:
        stop_looking()
        for *_, stop_watching in watched:
            stop_watching()

    return detach
