"""Keep what only the trained method can show: an adversary's masks, and the spectrum of a head."""

import json
import traceback
import warnings
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

from ..internal.atomic import write_text
from .prepare import SeedJob

ROWS, SHOWN, LONGEST = 32, 3, 16  # rows looked at, texts whose attention is kept, tokens of such a text


def write_diagnostics(job: SeedJob, trainer: Any, rows: Any) -> None:
    """Write diagnostics/*.json of a seed, a few kilobytes each; a failure is logged and ends nothing."""
    if not trainer.is_world_process_zero() or trainer.is_fsdp_enabled or trainer.is_deepspeed_enabled:
        return  # one process alone cannot run a model that is spread over several
    for name, compute in (("attention", _attention), ("spectrum", _spectrum)):
        _write(job, name, partial(compute, job, trainer, rows))


def _write(job: SeedJob, name: str, compute: Callable[[], dict[str, Any] | None]) -> None:
    try:
        values = compute()
        if values is not None:
            text = json.dumps(values, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
            write_text(job.folder / "diagnostics" / f"{name}.json", text)
    except Exception:  # a picture is not worth a trained model
        warnings.warn(f"no {name} diagnostics: {traceback.format_exc()}", stacklevel=2)


def _batch(trainer: Any, rows: Any) -> dict[str, Any]:
    batch = trainer.data_collator([rows[number] for number in range(min(ROWS, len(rows)))])
    return {key: value for key, value in trainer._prepare_inputs(batch).items() if key != "labels"}


def _attention(job: SeedJob, trainer: Any, rows: object) -> dict[str, Any] | None:
    """Return clean and adversarial attention of a few texts, and how much each layer hides; None without adversary."""
    attached = trainer.attached
    if not attached.updates or not any(states.adversary for states in attached.states):
        return None
    from ..reports.attention import attention_maps

    batch = _batch(trainer, rows)
    attached.attach()
    try:
        maps = attention_maps(attached, batch, sample=True)  # drawn as in training
    finally:
        attached.detach()
    ids = batch["input_ids"].flatten(0, -2)
    real = batch.get("attention_mask", ids.new_ones(ids.shape)).flatten(0, -2).bool()
    pairs = real[:, None, :, None] & real[:, None, None, :]
    seen = {layer: pairs & (each.clean > 0).any(1, keepdim=True) for layer, each in maps.items()}
    hidden = {layer: ~each.visible & seen[layer] for layer, each in maps.items()}
    shares = {layer: float(hidden[layer].float().mean(1).sum() / seen[layer].sum()) for layer in maps}
    layer = max(shares, key=lambda number: shares[number])
    return {
        "rows": len(ids),
        "hidden_by_layer": {str(number): round(share, 6) for number, share in shares.items()},
        "layer": layer,
        "texts": [
            _text(job, ids[row][real[row]], real[row], maps[layer], hidden[layer][row], row)
            for row in _short_texts(real.sum(1).tolist())
        ],
    }


def _short_texts(lengths: list[int]) -> list[int]:
    """Return the first texts that fit a drawing; if none does, the shortest."""
    fitting = [row for row, length in enumerate(lengths) if length <= LONGEST]
    return fitting[:SHOWN] or [lengths.index(min(lengths))]


def _text(job: SeedJob, ids: Any, real: Any, maps: Any, hidden: Any, row: int) -> Mapping[str, Any]:
    def square(weights: Any) -> list[list[float]]:
        kept = weights[row].float().mean(0)[real][:, real][:LONGEST, :LONGEST]
        return [[round(value, 3) for value in line] for line in kept.tolist()]

    gone = hidden.all(0)[real][:, real][:LONGEST, :LONGEST]  # from every head
    return {
        "tokens": job.prepared.tokenizer.convert_ids_to_tokens(ids.tolist()[:LONGEST]),
        "clean": square(maps.clean),
        "adversarial": square(maps.adversarial),
        "hidden": gone.nonzero().tolist(),
    }


def _spectrum(job: SeedJob, trainer: Any, rows: Any) -> dict[str, Any] | None:
    if job.config.head.name != "second-order":
        return None
    from ..heads.spectrum import spectrum
    from ..internal.rng import without_dropout

    model = trainer.accelerator.unwrap_model(trainer.model)
    with without_dropout(model):
        return spectrum(model, _batch(trainer, rows))
