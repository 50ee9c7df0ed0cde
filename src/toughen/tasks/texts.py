"""Topics and sentiment beyond GLUE: AG News, IMDB."""

from .registry import register
from .spec import Hub, Task

AG_NEWS = register(
    Task(
        name="ag_news",
        title="AG News",
        kind="sentence",
        head="classes",
        columns=("text",),
        labels=("World", "Sports", "Business", "Sci/Tech"),
        metrics=("accuracy", "f1_macro"),
        hub=Hub("fancyzhx/ag_news"),
        origin="Zhang et al., NeurIPS 2015",
        synonyms={"text": ("description",)},
        # No development set was published: one is made from the training rows.
        splits={"train": ("train",), "test": ("test",)},
    )
)

IMDB = register(
    Task(
        name="imdb",
        title="IMDB",
        kind="sentence",
        head="classes",
        columns=("text",),
        labels=("negative", "positive"),
        hub=Hub("stanfordnlp/imdb"),
        origin="Maas et al., ACL 2011",
        synonyms={"text": ("review",), "label": ("sentiment",)},
        words={"neg": "negative", "pos": "positive"},
        splits={"train": ("train",), "test": ("test",)},
    )
)
