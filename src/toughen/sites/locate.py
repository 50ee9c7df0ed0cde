"""Finding places in a model: under wrappers, by role, or by dotted path."""

from collections.abc import Callable, Sequence
from typing import Any, cast

from torch import nn

from ..errors import SiteError, nearest
from ..internal.architectures import is_causal_decoder
from .base import Detach
from .token_mask import TokenLayout

_PADDING = ("_pad_to_window_size", "_pad_to_block_size", "_pad_to_mult_of_chunk_length")  # what such models have
_PROJECTIONS = ("feature_projection", "patch_embeddings", "patch_embedding", "patch_embed", "patch_embedder")
_NAME_IT = "Name the module yourself, as in toughen.smart(site='path.to.the.embedding')."
# Of convolutional networks; of CANINE, which has no vocabulary; of Perceiver, whatever it reads.
_STEMS = ("embedder", "conv_stem", "char_embeddings", "input_preprocessor")
_EMBEDDING_NORMS = ("embeddings.LayerNorm", "embeddings.norm", "embeddings.layer_norm", "layernorm_embedding")


def unwrap_parallel(model: nn.Module) -> nn.Module:
    """The user's own model under DistributedDataParallel, DataParallel and torch.compile."""
    while True:
        inner = getattr(model, "_orig_mod", None)
        if inner is None and isinstance(model, (nn.parallel.DistributedDataParallel, nn.DataParallel)):
            inner = model.module
        if inner is None:
            return model
        model = cast(nn.Module, inner)


def transformer_of(model: nn.Module) -> nn.Module:
    """The part that knows its input embedding: the model itself, or the only such part that a wrapper holds."""
    found: list[nn.Module] = []
    inside: set[nn.Module] = set()
    for module in model.modules():  # wrappers come before what they hold
        if module not in inside and _own_embedding(module) is not None:
            found.append(module)
            inside.update(module.modules())
    if len(found) > 1:
        names = [name for name, module in model.named_modules() if module in found]
        raise SiteError(
            f"{type(model).__name__} holds several models with an input embedding: {', '.join(names)}. {_NAME_IT}"
        )
    return found[0] if found else model


def _own_embedding(module: nn.Module) -> nn.Module | None:
    try:
        found = cast(Any, module).get_input_embeddings()
    except (AttributeError, NotImplementedError):
        return None
    return found if isinstance(found, nn.Module) else None  # Perceiver names its latents, which are weights


def config_of(model: nn.Module) -> Any:
    """The config of a model, or of the only one that a wrapper holds; None if there is none."""
    own = getattr(model, "config", None)
    if own is not None:
        return own
    try:
        return getattr(transformer_of(model), "config", None)
    except SiteError:
        return None


def encoder_of(model: nn.Module) -> nn.Module:
    """The part that reads the input: the encoder of an encoder-decoder, the model itself otherwise."""
    config = getattr(model, "config", None)
    return cast(Any, model).get_encoder() if getattr(config, "is_encoder_decoder", False) else model


def input_embedding(model: nn.Module) -> nn.Module:
    """The module that embeds the input: of text, of patches, or of the features of speech.

    Not always `model.get_input_embeddings()`: BART and T5 never call theirs, only their encoder's.
    """
    reader = encoder_of(transformer_of(model))
    # ViT and its like return their patch embedding.
    module = _own_embedding(reader)
    if module is not None:
        return module
    modules = dict(model.named_modules())
    found = [name for name in modules if name.endswith(_PROJECTIONS)] or [n for n in modules if n.endswith(_STEMS)]
    outer = [name for name in found if not any(name.startswith(other + ".") for other in found)]
    if len(outer) == 1:
        return modules[outer[0]]
    several = f" It has several that may be meant: {', '.join(outer)}." if outer else ""
    raise SiteError(
        f"{type(model).__name__} has no get_input_embeddings(), so there is no word embedding to perturb.{several} "
        + _NAME_IT
    )


def input_embeddings(model: nn.Module) -> list[nn.Module]:
    """The modules that may embed the input: all with one table, of which only some are ever called (T5's)."""
    named = input_embedding(model)
    if not isinstance(named, nn.Embedding):
        return [named]
    reader = encoder_of(transformer_of(model))
    same: list[nn.Module] = [m for m in reader.modules() if isinstance(m, nn.Embedding) and m.weight is named.weight]
    return same or [named]


def text_model_of(model: nn.Module) -> nn.Module:
    """The innermost transformers model that embeds the input: of a model of text and images the one that reads text."""
    reader = encoder_of(transformer_of(model))
    try:
        embedding = input_embedding(model)
    except SiteError:
        return reader
    around = [m for m in reader.modules() if _has_layers(m) and embedding in set(m.modules())]
    return around[-1] if around else reader


def _has_layers(module: nn.Module) -> bool:
    return hasattr(module, "set_attn_implementation") and hasattr(getattr(module, "config", None), "num_hidden_layers")


def embeds_token_types(model: nn.Module, embeddings: Sequence[nn.Module]) -> bool:
    """Tell whether token types may go through the word embedding, for want of a table of their own (GPT-2's, XLM's)."""
    tables = (name for name, m in model.named_modules() if isinstance(m, nn.Embedding) and m not in embeddings)
    return not any("type" in name or "seg" in name for name in tables)


def track_encoder_forward(model: nn.Module, embedding: nn.Module) -> tuple[Callable[[], bool], Detach]:
    """Whether the encoder is running now, for an embedding that the decoder calls too; and the way to stop watching.

    `resize_token_embeddings` gives the encoder and the decoder of BART and T5 the very same module.
    """
    model = transformer_of(model)
    encoder = encoder_of(model)
    decoder = cast(Any, model).get_decoder() if encoder is not model and hasattr(model, "get_decoder") else None
    if not isinstance(decoder, nn.Module) or decoder is model or embedding not in set(decoder.modules()):
        return (lambda: True), (lambda: None)
    inside = [False]

    def enter(*_: Any) -> None:
        inside[0] = True

    def leave(*_: Any) -> None:
        inside[0] = False

    handles = encoder.register_forward_pre_hook(enter), encoder.register_forward_hook(leave, always_call=True)

    def stop() -> None:
        for handle in handles:
            handle.remove()

    return (lambda: inside[0]), stop


def token_layout_of(model: nn.Module, module: nn.Module) -> TokenLayout:
    """Return how a module lays texts out: XLNet puts positions first, Longformer and its like pad to their windows,
    prompt tuning puts learnt vectors before the text, and images stand behind a text, for decoders before it.
    """
    xlnets = [m for m in model.modules() if type(m).__name__ == "XLNetModel" and m is not module]
    time_major = any(module in set(m.modules()) for m in xlnets)
    if getattr(getattr(model, "active_peft_config", None), "is_prompt_learning", False):
        return TokenLayout(time_major, "before")
    pads = any(hasattr(m, name) for m in model.modules() for name in _PADDING)
    images = "before" if is_causal_decoder(getattr(model, "config", None)) else "behind"
    return TokenLayout(time_major, "behind" if pads else "", images)


def embedding_norm(model: nn.Module) -> nn.Module:
    """The normalisation at the end of the embedding block (SiFT perturbs its input)."""
    encoder = encoder_of(transformer_of(model))
    found = [m for name, m in encoder.named_modules() if name.endswith(_EMBEDDING_NORMS)]
    if len(found) != 1:
        raise SiteError(
            f"NormalizedEmbedding needs one norm inside the embedding block and {type(model).__name__} has "
            f"{len(found)}. Use toughen.smart(), whose radius is scale-free as well, or name the norm: "
            "site=NormalizedEmbedding(path='...') of toughen.sites."
        )
    return found[0]


def get_module(model: nn.Module, path: str) -> nn.Module:
    """A module by its dotted path, or by the end of it where only one module's path ends so."""
    modules = dict(model.named_modules())
    if path in modules:
        return modules[path]
    ending = [name for name in modules if name.endswith("." + path)]
    if len(ending) == 1:
        return modules[ending[0]]
    if ending:
        raise SiteError(f"{type(model).__name__} has several modules {path!r}: {', '.join(ending)}. Give a full path.")
    raise SiteError(f"{type(model).__name__} has no module {path!r}. {nearest(path, filter(None, modules))}")


def layers(model: nn.Module) -> list[nn.Module]:
    """The stack of transformer layers in the part that reads the input: as long as the config says, else the longest.

    T5's blocks hold lists themselves, and Funnel's are lists of layers. ALBERT runs one module as every layer, so no
    single layer of it can be perturbed.
    """
    reader = text_model_of(model)
    modules = enumerate(reader.named_modules())
    found = [(name.count("."), number, _flat(m)) for number, (name, m) in modules if isinstance(m, nn.ModuleList)]
    stacks = [stack for _, _, stack in sorted(found)]  # the outermost first: Evolla's proteins may have as many layers
    if not stacks:
        raise SiteError(f"{type(model).__name__} has no list of layers. Name one: site='path.to.the.layer'.")
    number = getattr(getattr(reader, "config", None), "num_hidden_layers", None)
    stack = next((m for m in stacks if len(m) == number), max(stacks, key=len))
    if isinstance(number, int) and len(stack) < number:
        raise SiteError(
            f"{type(model).__name__} runs {len(stack)} module(s) as its {number} layers, so a single layer cannot be "
            "perturbed. Use the output of the embedding block: site='embeddings'."
        )
    return stack


def _flat(stack: nn.ModuleList) -> list[nn.Module]:
    return [layer for each in stack for layer in (_flat(each) if isinstance(each, nn.ModuleList) else [each])]


def layer_path(model: nn.Module, layer: int) -> str:
    """The dotted path of a layer by its number; negative numbers count from the last."""
    stack = layers(model)
    if not -len(stack) <= layer < len(stack):
        raise SiteError(f"{type(model).__name__} has layers 0 to {len(stack) - 1}, and no layer {layer}.")
    target = stack[layer]
    return next(name for name, module in model.named_modules() if module is target)
