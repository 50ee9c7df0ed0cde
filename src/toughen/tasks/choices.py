"""Multiple choice: SWAG, HellaSwag, DREAM. A row is a context, a question or lead-in, and its choices."""

from collections.abc import Iterable
from typing import Any, cast

from .registry import register
from .spec import Hub, Task

COLUMNS = ("context", "question", "choices")
FOUR = ("0", "1", "2", "3")


def dream_rows(record: Any) -> Iterable[dict[str, Any]]:
    """Every question of a dialogue: the authors' record is [turns, questions, id]."""
    if isinstance(record, dict):
        yield cast(dict[str, Any], record)
        return
    turns, questions, dialogue = record
    for question in questions:
        yield {"dialogue": turns, "dialogue_id": dialogue, **question}


SWAG = register(
    Task(
        name="swag",
        title="SWAG",
        kind="choices",
        head="choices",
        columns=COLUMNS,
        labels=FOUR,
        hub=Hub("allenai/swag", "regular"),
        origin="Zellers et al., EMNLP 2018",
        synonyms={"context": ("sent1",), "question": ("sent2",), "choices": ("endings", "ending")},
    )
)

HELLASWAG = register(
    Task(
        name="hellaswag",
        title="HellaSwag",
        kind="choices",
        head="choices",
        columns=COLUMNS,
        labels=FOUR,
        hub=Hub("Rowan/hellaswag"),
        origin="Zellers et al., ACL 2019",
        synonyms={"context": ("ctx",), "choices": ("endings",)},
        keep=("activity_label",),
        splits={
            "train": ("train", "hellaswag_train"),
            "validation": ("validation", "hellaswag_val", "val", "dev"),
            "test": ("test", "hellaswag_test"),
        },
    )
)

DREAM = register(
    Task(
        name="dream",
        title="DREAM",
        kind="choices",
        head="choices",
        columns=COLUMNS,
        labels=("0", "1", "2"),
        hub=Hub("dataset-org/dream", "plain_text", converted=True),
        origin="Sun et al., TACL 2019",
        synonyms={"context": ("dialogue",), "choices": ("choice",), "label": ("label", "answer")},
        keep=("dialogue_id",),
        unpack=dream_rows,
    )
)
