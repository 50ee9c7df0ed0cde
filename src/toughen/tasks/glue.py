"""GLUE: nine tasks, MNLI's mismatched half and the diagnostic set (Wang et al. 2019, gluebenchmark.com)."""

from .registry import register
from .spec import Hub, Task

ORIGIN = "GLUE, Wang et al., ICLR 2019, https://gluebenchmark.com"
NLI_LABELS = ("entailment", "neutral", "contradiction")
_SENTENCES = ("sentence1", "sentence2")
_NLI_COLUMNS = ("premise", "hypothesis")
# The original files say sentence1/sentence2 and gold_label where the Hub says premise/hypothesis and label.
_NLI_NAMES = {"premise": ("sentence1",), "hypothesis": ("sentence2",), "label": ("gold_label",)}

COLA = register(
    Task(
        name="cola",
        title="CoLA",
        kind="sentence",
        head="classes",
        columns=("sentence",),
        labels=("unacceptable", "acceptable"),
        metrics=("matthews", "accuracy"),
        hub=Hub("nyu-mll/glue", "cola"),
        origin=f"Warstadt et al., TACL 2019; {ORIGIN}",
        headerless=("source", "label", "mark", "sentence"),
    )
)

SST2 = register(
    Task(
        name="sst2",
        title="SST-2",
        kind="sentence",
        head="classes",
        columns=("sentence",),
        labels=("negative", "positive"),
        hub=Hub("nyu-mll/glue", "sst2"),
        origin=f"Socher et al., EMNLP 2013; {ORIGIN}",
        also=("sst",),
    )
)

MRPC = register(
    Task(
        name="mrpc",
        title="MRPC",
        kind="pair",
        head="classes",
        columns=_SENTENCES,
        labels=("not_equivalent", "equivalent"),
        metrics=("accuracy", "f1"),
        hub=Hub("nyu-mll/glue", "mrpc"),
        origin=f"Dolan and Brockett, IWP 2005; {ORIGIN}",
        synonyms={"sentence1": ("#1 String",), "sentence2": ("#2 String",), "label": ("Quality",)},
    )
)

QQP = register(
    Task(
        name="qqp",
        title="QQP",
        kind="pair",
        head="classes",
        columns=("question1", "question2"),
        labels=("not_duplicate", "duplicate"),
        metrics=("accuracy", "f1"),
        hub=Hub("nyu-mll/glue", "qqp"),
        origin=f"Quora Question Pairs; {ORIGIN}",
        synonyms={"label": ("is_duplicate",)},
    )
)

STSB = register(
    Task(
        name="stsb",
        title="STS-B",
        kind="pair",
        head="regression",
        columns=_SENTENCES,
        metrics=("pearson", "spearman"),
        hub=Hub("nyu-mll/glue", "stsb"),
        origin=f"Cer et al., SemEval 2017; {ORIGIN}",
        synonyms={"label": ("score",)},
    )
)

MNLI = register(
    Task(
        name="mnli",
        title="MNLI",
        kind="pair",
        head="classes",
        columns=_NLI_COLUMNS,
        labels=NLI_LABELS,
        hub=Hub("nyu-mll/glue", "mnli"),
        origin=f"Williams et al., NAACL 2018; {ORIGIN}",
        also=("mnli-m", "multinli"),
        synonyms=_NLI_NAMES,
        splits={
            "train": ("train",),
            "validation": ("validation_matched", "dev_matched"),
            "test": ("test_matched",),
        },
    )
)

MNLI_MM = register(
    Task(
        name="mnli-mm",
        title="MNLI-mm",
        kind="pair",
        head="classes",
        columns=_NLI_COLUMNS,
        labels=NLI_LABELS,
        hub=Hub("nyu-mll/glue", "mnli"),
        origin=f"Williams et al., NAACL 2018; {ORIGIN}",
        also=("mnli-mismatched",),
        folder="MNLI",
        synonyms=_NLI_NAMES,
        tests="mnli",
        splits={"validation": ("validation_mismatched", "dev_mismatched"), "test": ("test_mismatched",)},
    )
)

AX = register(
    Task(
        name="ax",
        title="AX",
        kind="pair",
        head="classes",
        columns=_NLI_COLUMNS,
        labels=NLI_LABELS,
        metrics=("matthews", "accuracy"),
        hub=Hub("nyu-mll/glue", "ax"),
        origin=f"the diagnostic set of {ORIGIN}",
        also=("diagnostic",),
        synonyms=_NLI_NAMES,
        tests="mnli",
        splits={"test": ("test", "diagnostic", "AX")},
    )
)

QNLI = register(
    Task(
        name="qnli",
        title="QNLI",
        kind="pair",
        head="classes",
        columns=("question", "sentence"),
        labels=("entailment", "not_entailment"),
        hub=Hub("nyu-mll/glue", "qnli"),
        origin=f"Rajpurkar et al., EMNLP 2016; {ORIGIN}",
    )
)

RTE = register(
    Task(
        name="rte",
        title="RTE",
        kind="pair",
        head="classes",
        columns=_SENTENCES,
        labels=("entailment", "not_entailment"),
        hub=Hub("nyu-mll/glue", "rte"),
        origin=f"RTE 1, 2, 3 and 5; {ORIGIN}",
    )
)

WNLI = register(
    Task(
        name="wnli",
        title="WNLI",
        kind="pair",
        head="classes",
        columns=_SENTENCES,
        labels=("not_entailment", "entailment"),
        hub=Hub("nyu-mll/glue", "wnli"),
        origin=f"Levesque et al., KR 2012; {ORIGIN}",
    )
)

# Sets whose labels are words in the original files and in a submission, where the others have numbers.
SPELLED = ("mnli", "mnli-mm", "ax", "qnli", "rte")
GLUE = ("cola", "sst2", "mrpc", "stsb", "qqp", "mnli", "mnli-mm", "qnli", "rte", "wnli", "ax")
