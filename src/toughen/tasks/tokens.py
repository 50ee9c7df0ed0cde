"""Token labelling: CoNLL-2003 and WNUT-17 entities, Penn Treebank tags."""

from .registry import register
from .spec import Hub, Task

_TREEBANK = """
# $ '' , -LRB- -RRB- . : CC CD DT EX FW IN JJ JJR JJS LS MD NN NNP NNPS NNS PDT POS PRP PRP$ RB RBR RBS RP SYM
TO UH VB VBD VBG VBN VBP VBZ WDT WP WP$ WRB ``
"""
ENTITY_METRICS = ("entity_f1", "entity_precision", "entity_recall", "token_accuracy")


def iob2(*kinds: str) -> tuple[str, ...]:
    """The tag set of these entity kinds: O, then B- and I- of each."""
    return ("O", *(f"{prefix}-{kind}" for kind in kinds for prefix in "BI"))


CONLL2003 = register(
    Task(
        name="conll2003",
        title="CoNLL-2003",
        kind="tokens",
        head="tokens",
        columns=("tokens",),
        labels=iob2("PER", "ORG", "LOC", "MISC"),
        metrics=ENTITY_METRICS,
        hub=Hub("eriktks/conll2003", "conll2003", converted=True),
        origin="Tjong Kim Sang and De Meulder, CoNLL 2003",
        also=("conll", "conll03"),
        synonyms={"label": ("ner_tags", "tags")},
        splits={
            "train": ("train", "eng.train"),
            "validation": ("validation", "valid", "dev", "testa", "eng.testa"),
            "test": ("test", "testb", "eng.testb"),
        },
    )
)

WNUT17 = register(
    Task(
        name="wnut17",
        title="WNUT-17",
        kind="tokens",
        head="tokens",
        columns=("tokens",),
        labels=iob2("corporation", "creative-work", "group", "location", "person", "product"),
        metrics=ENTITY_METRICS,
        hub=Hub("leondz/wnut_17", "wnut_17", converted=True),
        origin="Derczynski et al., W-NUT 2017",
        also=("wnut", "wnut_17"),
        synonyms={"label": ("ner_tags", "tags")},
        splits={
            "train": ("train", "wnut17train"),
            "validation": ("validation", "dev", "emerging.dev"),
            "test": ("test", "emerging.test.annotated", "emerging.test"),
        },
    )
)

PENN_TREEBANK = register(
    Task(
        name="ptb",
        title="Penn Treebank",
        kind="tokens",
        head="tokens",
        columns=("tokens",),
        labels=tuple(_TREEBANK.split()),
        metrics=("token_accuracy",),
        # Licensed by the LDC: read from the owner's own files, one word and its tag on a line.
        hub=None,
        origin="Marcus et al., Computational Linguistics 1993",
        also=("penn-treebank", "ptb-pos"),
        synonyms={"label": ("pos_tags", "tags")},
        words={"(": "-LRB-", ")": "-RRB-", '"': "''"},
    )
)
