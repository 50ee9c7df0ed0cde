"""Texts to one file of token ids and weights. Needs `datasets`; nothing after it does."""

import random
from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import chain
from pathlib import Path
from typing import Any

import torch

from toughen import tasks
from toughen.attacks.builtin.noise import add_noise
from toughen.tasks.spec import Task
from toughen.tasks.tokenising import align, tokeniser
from toughen.text.synonyms import Misspellings, load_misspellings

from . import packed
from .protocol import Protocol, TaskPlan
from .texts import has_texts, packed_texts

_LEFT_OUT = ("architectures", "torch_dtype", "dtype", "_name_or_path", "transformers_version", "id2label", "label2id")


def prepare(
    folder: Path,
    name: str,
    data: Path,
    out: Path,
    protocol: Protocol,
    *,
    prune: bool = False,
    synonyms: Mapping[str, Path] | None = None,
    lexicon: Path | None = None,
) -> Path:
    """The file of a model: its weights, and every set of the protocol through its tokenizer.

    With `synonyms` (sources by name) it holds texts as well, for searches; with `lexicon` sets with misspellings.
    `prune` leaves out the embeddings of tokens that no set has. The model's answers stay the same, and so does training
    but for AWP, which goes by the norm of the whole matrix.
    """
    from transformers import AutoModel, AutoTokenizer

    if prune and synonyms:
        raise SystemExit("attacks on texts need every token: leave out --prune, or --synonyms.")
    tokenizer = AutoTokenizer.from_pretrained(folder)
    model = AutoModel.from_pretrained(folder)
    misspellings = load_misspellings(lexicon)[0] if lexicon is not None else None
    texts: dict[str, list[dict[str, Any]]] = {}
    learned: set[str] = set()
    found: dict[str, packed.Rows] = {}
    notes: dict[str, Any] = {}
    for plan in protocol.all_tasks if synonyms else protocol.tasks:
        for title, task, rows in _sets(plan, data, protocol, misspellings):
            if title == "dev" and has_texts(task):
                columns = (*task.columns, "label")
                texts[plan.name] = [{column: row[column] for column in columns} for row in rows[: protocol.text_rows]]
            if title == "train" and synonyms:
                learned |= {str(row[column]) for row in rows for column in task.columns}
            found[f"{plan.name}/{title}"] = _tokenised(task, tokenizer, plan.edges[-1], rows)
            notes[f"{plan.name}/{title}"] = len(rows)
    config = {key: value for key, value in model.config.to_dict().items() if key not in _LEFT_OUT}
    facts: dict[str, Any] = {
        "model": name,
        "config": config,
        "pad_id": tokenizer.pad_token_id or 0,
        "special_ids": sorted(tokenizer.all_special_ids),
        "rows": notes,
        "data_seed": protocol.data_seed,
        "pruned": prune,
    }
    if synonyms:
        facts["texts"] = packed_texts(tokenizer, texts, learned, synonyms)
    weights = dict(model.state_dict())
    if prune:
        found, weights = _pruned(facts, found, weights)
    packed.write(out, facts, weights, found)
    return out


def _pruned(
    facts: dict[str, Any], sets: dict[str, packed.Rows], weights: dict[str, torch.Tensor]
) -> tuple[dict[str, packed.Rows], dict[str, torch.Tensor]]:
    """Token numbers without gaps: of those that occur, and of the special ones."""
    special = torch.tensor([*facts["special_ids"], facts["pad_id"]])
    used = torch.cat([special, *(rows.ids for rows in sets.values())]).unique()

    def number(old: int) -> int:
        return int(torch.searchsorted(used, old))

    config = facts["config"]
    for key in [key for key in config if key.endswith("_token_id") and isinstance(config[key], int)]:
        config[key] = number(config[key])
    config["vocab_size"] = len(used)
    facts["special_ids"], facts["pad_id"] = [number(old) for old in facts["special_ids"]], number(facts["pad_id"])
    (table,) = [name for name in weights if name.endswith("word_embeddings.weight")]
    changed = {name: replace(rows, ids=torch.searchsorted(used, rows.ids)) for name, rows in sets.items()}
    return changed, {**weights, table: weights[table][used]}


def _sets(
    plan: TaskPlan, data: Path, protocol: Protocol, misspellings: Misspellings | None
) -> list[tuple[str, Task, list[dict[str, Any]]]]:
    """Training and development rows, the latter with noise, and other sets; each in an order drawn once."""
    loaded = tasks.load(plan.name, dir=data, **_named(plan.name, data))
    task = loaded.task
    train = _drawn(loaded.train, plan.train_rows, protocol.data_seed)
    dev = _drawn(loaded.validation, plan.dev_rows, protocol.data_seed)
    found = [("train", task, train), ("dev", task, dev)]
    kinds = [("typos", strength) for strength in protocol.strengths]
    kinds += [(kind, strength) for kind, strength in protocol.noise if kind != "misspellings" or misspellings]
    seed = protocol.data_seed
    for kind, strength in kinds:
        noisy = [
            dict(add_noise(task, row, number, kind, strength, seed, misspellings)) for number, row in enumerate(dev)
        ]
        found.append((f"{kind} {strength:g}", task, noisy))
    for name in plan.sets:
        other = tasks.load(name, dir=data, **_named(name, data))
        rows = _drawn(other.validation, plan.set_rows, protocol.data_seed)
        found.append((name, other.task, rows))
    return found


def _named(name: str, data: Path) -> dict[str, Any]:
    """HANS comes made anew from its templates where the official file cannot be had."""
    again = name == "hans" and list((data / "hans").glob("regenerated_validation*"))
    if again:
        return {"splits": {"validation": "regenerated_validation"}}
    # Sets that come without a development set, and that cannot be had whole: the labelled test set takes its place.
    part = next(iter(data.glob(f"{name}/train_subset*")), None)
    return {} if part is None or name != "ag_news" else {"splits": {"train": "train_subset", "validation": "test"}}


def _drawn(split: Any, count: int | None, seed: int) -> list[dict[str, Any]]:
    rows = [dict(row) for row in split]
    random.Random(seed).shuffle(rows)
    return rows[:count]


def _tokenised(task: Task, tokenizer: Any, longest: int, rows: Sequence[dict[str, Any]]) -> packed.Rows:
    work = tokeniser(task, tokenizer, longest)
    encoded = work.encode({column: [row[column] for row in rows] for column in task.columns})
    ids: list[list[int]] = encoded["input_ids"]
    ends = torch.tensor([0, *map(len, ids)]).cumsum(0)
    labels = [row["label"] for row in rows]
    if task.head == "tokens":
        labels = [tag for number, tags in enumerate(labels) for tag in align(encoded.word_ids(number), tags)]
    return packed.Rows(
        ids=torch.tensor(list(chain.from_iterable(ids))),
        ends=ends,
        labels=torch.tensor(labels, dtype=torch.float32 if task.head == "regression" else torch.int8),
        types=torch.tensor(list(chain.from_iterable(encoded["token_type_ids"])))
        if "token_type_ids" in encoded
        else None,
        choices=len(rows[0]["choices"]) if task.head == "choices" else 1,
        tagged=task.head == "tokens",
    )
