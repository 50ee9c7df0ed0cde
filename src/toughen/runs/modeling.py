"""The model and tokenizer of a run: dtype, head, labels, adapters."""

import copy
import inspect
import re
from collections.abc import Callable, Collection, Mapping
from pathlib import Path
from shlex import quote
from typing import Any

from ..errors import nearest, require
from ..tasks import Task, auto_class, longest_input, model_kwargs
from .config import Config, DataConfig, PeftConfig, describe_type, matches_type
from .config_io import MODEL_RESERVED
from .errors import RunError


def load_tokenizer(name: str, lower_case: bool = False) -> Any:
    """Load the tokenizer, with a padding token; with `lower_case` one that lower-cases, or an error."""
    from transformers import AutoTokenizer

    check_model_folder(name)
    settings = {"do_lower_case": True} if lower_case else {}
    tokenizer = load_or_run_error(AutoTokenizer.from_pretrained, name, **settings)
    if lower_case and _keeps_case(tokenizer):
        raise RunError(
            f"data.lower_case: the {type(tokenizer).__name__} of {name} cannot lower-case; leave the option out, or "
            "lower-case the files."
        )
    # Where the files are missing transformers makes an empty one, to which every word is unknown.
    if len(tokenizer) <= len(tokenizer.all_special_ids):
        raise RunError(f"model {name!r} has no tokenizer with a vocabulary; save one there with save_pretrained.")
    if tokenizer.pad_token_id is None:
        if tokenizer.eos_token is None:
            raise RunError(f"the tokenizer of {name} has neither a padding nor an end token; batches need one.")
        tokenizer.pad_token = tokenizer.eos_token
    return tokenizer


def _keeps_case(tokenizer: object) -> bool:
    normalizer = getattr(getattr(tokenizer, "backend_tokenizer", None), "normalizer", None)
    return normalizer is None or "A" in normalizer.normalize_str("A")


def check_model_folder(name: str) -> None:
    """Refuse a folder without a model or tokenizer, of which transformers says that sentencepiece is missing."""
    folder, model = Path(name), Path(name) / "model"
    if (model / "config.json").is_file() and not (folder / "config.json").is_file():
        raise RunError(f"model {name!r} is a run; give its model: {str(model)!r}.")
    if not folder.exists():
        return  # on the Hub
    if not folder.is_dir():
        raise RunError(f"model {name!r} is a file; give the folder that save_pretrained wrote.")
    files = {file.name for file in folder.iterdir()}
    if not files & {"config.json", "adapter_config.json"}:
        raise RunError(f"model {name!r} is no model folder: it has no config.json; give what save_pretrained wrote.")
    words = ("tokenizer.json", "tokenizer_config.json", "vocab.txt", "vocab.json", "merges.txt")
    if not files.intersection(words) and not any(file.endswith((".model", ".tiktoken")) for file in files):
        raise RunError(f"model {name!r} has no tokenizer with a vocabulary; save one there with save_pretrained.")


def max_input_length(config: Config, tokenizer: object) -> tuple[int, int | None, str | None]:
    """Return the tokens a text is cut at, those the model reads at most, and a notice if those are fewer.

    Refuse to cut at more than it reads.
    """
    from transformers import AutoConfig

    asked, default = config.data.max_length, DataConfig.max_length
    limit = longest_input(tokenizer, load_or_run_error(AutoConfig.from_pretrained, config.model))
    if limit is None or asked <= limit:
        return asked, limit, None
    if asked != default:
        raise RunError(f"data.max_length={asked}: {config.model} reads at most {limit} tokens; lower it.")
    return limit, limit, f"data.max_length is {limit} and not {default}: the model reads no more"


def hidden_width(model: str) -> int:
    """Return the width of a model's layers; 0 if its config does not say."""
    from transformers import AutoConfig

    check_model_folder(model)
    return int(getattr(load_or_run_error(AutoConfig.from_pretrained, model), "hidden_size", None) or 0)


def load_model(config: Config, task: Task, tokenizer: Any) -> Any:
    """Load the model with the head of the task; always in float32, whatever the checkpoint was saved in."""
    import torch

    settings: dict[str, Any] = {"dtype": torch.float32, **overridden_config(config, task)}
    report: dict[str, Any] = {"missing_keys": ()}
    if config.head.name == "second-order":
        model = _second_order(config, task, tokenizer, settings)
    else:
        kind = auto_class(task)
        settings = settings if config.model_config else {**settings, **model_kwargs(task)}
        # A head of another size gets random weights; the LOAD REPORT of transformers says so.
        settings |= {"ignore_mismatched_sizes": True, "output_loading_info": True}
        model, report = load_or_run_error(kind.from_pretrained, config.model, **settings)
        _check_weights(config, model, report)
    _check_vocabulary(config.model, model, tokenizer)
    _pad_right(model, tokenizer)
    if getattr(model.config, "pad_token_id", None) is None:
        model.config.pad_token_id = tokenizer.pad_token_id
    return with_adapters(model, config.peft, task, report["missing_keys"]) if config.peft.name else model


def _check_weights(config: Config, model: Any, report: Mapping[str, Any]) -> None:
    """Refuse weights that are no numbers, and a body with random ones: only the head may have them."""
    name = config.model
    body = {f"{model.base_model_prefix}.{key}" for key, _ in model.base_model.named_parameters()}
    other = next((each for each in sorted(report["mismatched_keys"]) if each[0] in body), None)
    if other is not None:
        shapes = f"{list(other[1])} in the file and {list(other[2])} in the config"
        ways = "leave out the model_config key that changes it" if config.model_config else "copy both from one model"
        raise RunError(f"model {name!r}: {other[0]} is {shapes}; {ways}.")
    if len(body & set(report["missing_keys"])) > len(body) // 2:
        kind = type(model.base_model).__name__
        raise RunError(
            f"model {name!r}: its file lacks most weights of a {kind}; do config.json and weights belong together?"
        )
    broken = next((key for key, value in model.named_parameters() if not value.isfinite().all()), None)
    if broken is not None:
        raise RunError(f"model {name!r}: {broken} holds NaN or infinity; copy or fetch the model again.")


def load_trained(kind: Any, path: Path, tokenizer: Any) -> Any:
    """Load a classifier as it was saved, in float32; refuse a file without some weights, which would be random."""
    import torch

    name = str(path)
    settings = {"dtype": torch.float32, "output_loading_info": True}
    model, report = load_or_run_error(kind.from_pretrained, name, **settings)
    if lacking := sorted(report["missing_keys"]):
        more = f" and {len(lacking) - 2} more" if len(lacking) > 2 else ""
        raise RunError(
            f"model {name!r}: {', '.join(lacking[:2])}{more} are not in its file, so its answers would be random; "
            f"fine-tune it first: toughen train --model {quote(name)}"
        )
    _check_vocabulary(name, model, tokenizer)
    _pad_right(model, tokenizer)
    ends = tokenizer("a")["input_ids"][-1:]  # where texts end with that token, it would move what is read
    if getattr(model.config, "pad_token_id", None) is None and ends != [tokenizer.pad_token_id]:
        model.config.pad_token_id = tokenizer.pad_token_id  # a decoder reads the class at the last token before it
    return model


def _pad_right(model: Any, tokenizer: Any) -> None:
    """Pad on the right: on the left, a text of BERT or GPT-2 has other positions beside a longer one."""
    parameters = inspect.signature(model.forward).parameters
    if "position_ids" in parameters:  # XLNet has none, and reads its class at the right end
        tokenizer.padding_side = "right"


def _check_vocabulary(name: str, model: Any, tokenizer: Any) -> None:
    try:
        rows = getattr(model.get_input_embeddings(), "num_embeddings", None)
    except NotImplementedError:  # CANINE and Perceiver read characters
        return
    if rows is not None and tokenizer.vocab_size > rows:
        words = f"{tokenizer.vocab_size:,} words and the model {rows:,}"
        raise RunError(f"model {name!r}: the tokenizer has {words}; it is the tokenizer of another model.")


def overridden_config(config: Config, task: Task) -> dict[str, Any]:
    """Return the model's config with the keys of `model_config`, as an argument; nothing if there are none.

    Refuse keys and values that do not fit; no weight is read for that.
    """
    if not config.model_config:
        return {}
    from transformers import AutoConfig, AutoModel

    own = config.head.name == "second-order"
    kind, kwargs = (AutoModel, {}) if own else (auto_class(task), model_kwargs(task))
    below = load_or_run_error(AutoConfig.from_pretrained, config.model, **kwargs)
    check_keys(config.model_config, below, model_class(below, kind))
    for key, value in config.model_config.items():
        setattr(below, key, value)
    return {"config": below}


def _second_order(config: Config, task: Task, tokenizer: Any, arguments: dict[str, Any]) -> Any:
    from transformers import AutoConfig

    from ..heads.build import second_order

    if task.head == "tokens":
        raise RunError("head second-order pools all words into one vector; leave it out for token tasks.")
    if load_or_run_error(AutoConfig.from_pretrained, config.model).model_type == "second_order":
        raise RunError(f"model {config.model!r} has a second-order head already; leave head out to train it on.")
    choices, labels = task.head == "choices", model_kwargs(task)
    if choices:
        labels = {"num_labels": 1}
    elif "id2label" in labels:
        labels = {key: labels[key] for key in ("id2label", "problem_type")}
    settings: dict[str, Any] = {
        **{key: value for key, value in vars(config.head).items() if key != "name"},
        "task": "multiple-choice" if choices else "sequence-classification",
        "special_token_ids": tokenizer.all_special_ids,
        "from_pretrained": arguments,
        **labels,
    }
    return load_or_run_error(second_order, config.model, **settings)


def with_adapters(model: Any, peft: PeftConfig, task: Task, fresh: Collection[str] = ()) -> Any:
    """Add LoRA to all linear layers but the head, which is trained itself.

    The head is everything beside the body, and the layers of the body whose weights are `fresh`, which the file did not
    have (often BERT's pooler): random weights that are neither trained nor saved would be lost.
    """
    library = require("peft", "peft")
    body = model.base_model
    beside = {} if body is model else {name: part for name, part in model.named_children() if part is not body}
    heads = [name for name, part in beside.items() if list(part.parameters())]
    layers = {name for name, part in body.named_modules(prefix=model.base_model_prefix) if not list(part.children())}
    heads += sorted(layers & {name.rpartition(".")[0] for name in fresh})
    settings = library.LoraConfig(
        task_type="TOKEN_CLS" if task.head == "tokens" else "SEQ_CLS",
        r=peft.r,
        lora_alpha=peft.alpha,
        lora_dropout=peft.dropout,
        target_modules=peft.targets or "all-linear",
        modules_to_save=heads or None,
        # From the start of the name: a list would leave out layers of the body that end so, too.
        exclude_modules=rf"({'|'.join(map(re.escape, heads))})(\..*)?" if heads else None,
    )
    return library.get_peft_model(model, settings)


def merge_adapters(model: Any) -> Any:
    """Return the model with its adapters added to the weights: a plain checkpoint."""
    return model.merge_and_unload() if hasattr(model, "merge_and_unload") else model


def load_or_run_error(load: Callable[..., Any], name: str, **settings: Any) -> Any:
    """Call `load(name, **settings)`; raise one line that says why the model cannot be loaded."""
    from safetensors import SafetensorError

    try:
        return load(name, **settings)
    except SafetensorError as error:
        raise RunError(f"model {name!r}: its weights cannot be read ({error}); copy or fetch them again.") from error
    except (KeyError, AttributeError, TypeError) as error:  # of a file that is JSON and holds something else
        raise RunError(f"model {name!r}: a file of it is broken ({error!r}); copy or fetch it again.") from error
    except ValueError as error:
        if "sentencepiece" in str(error) and not any(Path(name).glob("*.model")) and Path(name).is_dir():
            raise RunError(f"model {name!r} has no tokenizer.json; put one there with save_pretrained.") from error
        if not str(error).startswith("Unrecognized configuration class"):
            raise RunError(f"model {name!r}: {error}") from error
        kind = str(error).partition("for this kind of AutoModel: ")[2].partition(".")[0].removeprefix("AutoModelFor")
        raise RunError(
            f"model {name!r} cannot be loaded for {kind.split(chr(10))[0]}; choose a model for text."
        ) from error
    except (OSError, ConnectionError) as error:
        local = Path(name).exists()
        first = str(error).strip().partition("\n")[0]
        where = "cannot be loaded" if local else "is neither a folder nor available on the Hub (offline?)"
        raise RunError(f"model {name!r} {where}: {first}") from error


def check_keys(given: Mapping[str, Any], config: Any, kind: type | None) -> None:
    """Refuse keys that neither the model's config has nor the model reads, and values of another type."""
    for key, value in given.items():
        if not hasattr(config, key) and key not in _optional_keys(config, kind):
            known = [name for name in config.to_dict() if not name.startswith("_") and name not in MODEL_RESERVED]
            hint = f"{nearest(key, known)} To leave out what a recipe or file says, give null."
            raise RunError(f"model_config.{key}: {type(config).__name__} has no such key. {hint}")
        now = getattr(config, key, None)
        # None says nothing of the type, and a whole number may stand for a dropout of 0.
        kinds = float if isinstance(now, float) else type(now)
        if now is not None and isinstance(now, (bool, int, float, str)) and not matches_type(value, kinds):
            raise RunError(f"model_config.{key}={value}: expected {describe_type(kinds)}.")


def model_class(config: Any, auto: Any) -> type | None:
    """Return the class that an Auto class would make."""
    try:
        return auto._model_mapping[type(config)]
    except (AttributeError, KeyError):
        return None


def _optional_keys(config: object, kind: Any) -> set[str]:
    """Return the keys that a model asks for and its config need not have, such as cls_dropout of DeBERTa's heads."""
    if kind is None:
        return set()
    import torch

    asked: set[str] = set()

    def note(_: object, key: str) -> Any:
        asked.add(key)
        raise AttributeError(key)

    noting = copy.copy(config)
    noting.__class__ = type(type(config).__name__, (type(config),), {"__getattr__": note})
    with torch.device("meta"):  # no memory for weights
        kind(noting)
    return asked
