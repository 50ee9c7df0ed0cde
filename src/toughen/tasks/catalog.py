"""The built-in tasks, one row each."""

from collections.abc import Iterable
from dataclasses import replace
from typing import Any

from .spec import Head, Hub, Kind, Task

NLI_LABELS = ("entailment", "neutral", "contradiction")
ENTITY_METRICS = ("entity_f1", "entity_precision", "entity_recall", "token_accuracy")
# The test rows of GLUE's server, in its order.
GLUE_TEST_ROWS = {
    **{"cola": 1063, "sst2": 1821, "mrpc": 1725, "stsb": 1379, "qqp": 390965, "mnli": 9796, "mnli-mm": 9847},
    **{"qnli": 5463, "rte": 3000, "wnli": 146, "ax": 1104},
}
GLUE = tuple(GLUE_TEST_ROWS)
# Sets whose labels are words in the original files and in a submission, where the others have numbers.
SPELLED = ("mnli", "mnli-mm", "ax", "qnli", "rte")

_GLUE = "GLUE, Wang et al., ICLR 2019, https://gluebenchmark.com"
_NLI = " ".join(NLI_LABELS)
_TREEBANK = (
    "# $ '' , -LRB- -RRB- . : CC CD DT EX FW IN JJ JJR JJS LS MD NN NNP NNPS NNS PDT POS PRP PRP$ RB RBR RBS RP SYM "
    "TO UH VB VBD VBG VBN VBP VBZ WDT WP WP$ WRB ``"
)
# Authors' files say sentence1, sentence2 and gold_label where the Hub says premise, hypothesis and label.
_NLI_NAMES = {"premise": ("sentence1",), "hypothesis": ("sentence2",), "label": ("gold_label",)}


def dream_rows(record: Any) -> Iterable[dict[str, Any]]:
    """Yield every question of a dialogue: the authors' record is [turns, questions, id]."""
    if isinstance(record, dict):
        yield record
        return
    turns, questions, dialogue = record
    for question in questions:
        yield {"dialogue": turns, "dialogue_id": dialogue, **question}


def iob2(*kinds: str) -> tuple[str, ...]:
    """Return the tags of these kinds of entities: O, then B- and I- of each."""
    return ("O", *(f"{prefix}-{kind}" for kind in kinds for prefix in "BI"))


def _task(name: str, title: str, columns: str, labels: str, metrics: str, hub: str, citation: str, **more: Any) -> Task:
    """Make a task of its row: words in one cell have spaces between them, and `hub` is "id", "id config" or
    "id config converted".
    """
    texts = tuple(columns.split())
    kind: Kind = "tokens" if texts == ("tokens",) else ("sentence", "pair", "choices")[len(texts) - 1]
    head: Head = kind if kind in ("tokens", "choices") else "classes" if labels else "regression"
    where = Hub(*hub.split()[:2], converted=hub.endswith(" converted")) if hub else None
    classes, scores = tuple(labels.split()), tuple(metrics.split())
    return Task(name, title, kind, head, texts, classes, scores, hub=where, citation=citation, **more)


# fmt: off
_SETS = (
    # name, title, columns, labels, metrics, the Hub's id and config, citation; then what only this set has
    _task("cola", "CoLA", "sentence", "unacceptable acceptable", "matthews accuracy", "nyu-mll/glue cola",
          f"Warstadt et al., TACL 2019; {_GLUE}", headerless=("source", "label", "mark", "sentence")),
    _task("sst2", "SST-2", "sentence", "negative positive", "accuracy", "nyu-mll/glue sst2",
          f"Socher et al., EMNLP 2013; {_GLUE}", aliases=("sst",)),
    _task("mrpc", "MRPC", "sentence1 sentence2", "not_equivalent equivalent", "accuracy f1", "nyu-mll/glue mrpc",
          f"Dolan and Brockett, IWP 2005; {_GLUE}",
          synonyms={"sentence1": ("#1 String",), "sentence2": ("#2 String",), "label": ("Quality",)}),
    _task("qqp", "QQP", "question1 question2", "not_duplicate duplicate", "accuracy f1", "nyu-mll/glue qqp",
          f"Quora Question Pairs; {_GLUE}", synonyms={"label": ("is_duplicate",)}),
    _task("stsb", "STS-B", "sentence1 sentence2", "", "pearson spearman", "nyu-mll/glue stsb",
          f"Cer et al., SemEval 2017; {_GLUE}", synonyms={"label": ("score",)}),
    _task("mnli", "MNLI", "premise hypothesis", _NLI, "accuracy", "nyu-mll/glue mnli",
          f"Williams et al., NAACL 2018; {_GLUE}", aliases=("mnli-m", "multinli"), synonyms=_NLI_NAMES,
          splits={"train": ("train",), "validation": ("validation_matched", "dev_matched"),
                  "test": ("test_matched",)}),
    _task("mnli-mm", "MNLI-mm", "premise hypothesis", _NLI, "accuracy", "nyu-mll/glue mnli",
          f"Williams et al., NAACL 2018; {_GLUE}", aliases=("mnli-mismatched",), synonyms=_NLI_NAMES, folder="MNLI",
          tests="mnli", splits={"validation": ("validation_mismatched", "dev_mismatched"),
                                "test": ("test_mismatched",)}),
    _task("ax", "AX", "premise hypothesis", _NLI, "matthews accuracy", "nyu-mll/glue ax",
          f"the diagnostic set of {_GLUE}", aliases=("diagnostic",), synonyms=_NLI_NAMES, tests="mnli",
          splits={"test": ("test", "diagnostic", "AX")}),
    _task("qnli", "QNLI", "question sentence", "entailment not_entailment", "accuracy", "nyu-mll/glue qnli",
          f"Rajpurkar et al., EMNLP 2016; {_GLUE}"),
    _task("rte", "RTE", "sentence1 sentence2", "entailment not_entailment", "accuracy", "nyu-mll/glue rte",
          f"RTE 1, 2, 3 and 5; {_GLUE}"),
    _task("wnli", "WNLI", "sentence1 sentence2", "not_entailment entailment", "accuracy", "nyu-mll/glue wnli",
          f"Levesque et al., KR 2012; {_GLUE}"),
    # The annotators did not agree on the rows with "-": they have no label and are left out.
    _task("snli", "SNLI", "premise hypothesis", _NLI, "accuracy", "stanfordnlp/snli",
          "Bowman et al., EMNLP 2015", synonyms=_NLI_NAMES, label_aliases={"-": ""}),
    _task("hans", "HANS", "premise hypothesis", "entailment non-entailment", "accuracy",
          "jhu-cogsci/hans plain_text converted", "McCoy et al., ACL 2019", synonyms=_NLI_NAMES,
          extra_columns=("heuristic", "subcase", "template"), tests="mnli", class_map=(0, 1, 1),
          splits={"validation": ("validation", "heuristics_evaluation_set")}),
    # Quora's terms keep the rows off the Hub: they are made with the authors' script.
    _task("paws-qqp", "PAWS-QQP", "question1 question2", "not_duplicate duplicate", "accuracy f1", "",
          "Zhang et al., NAACL 2019, https://github.com/google-research-datasets/paws", aliases=("paws",),
          synonyms={"question1": ("sentence1",), "question2": ("sentence2",)}, tests="qqp",
          splits={"train": ("train",), "validation": ("dev_and_test", "validation", "dev")}),
    # AG News and IMDB have no development set: one is made from the training rows.
    _task("ag_news", "AG News", "text", "World Sports Business Sci/Tech", "accuracy f1_macro", "fancyzhx/ag_news",
          "Zhang et al., NeurIPS 2015", synonyms={"text": ("description",)},
          splits={"train": ("train",), "test": ("test",)}),
    _task("imdb", "IMDB", "text", "negative positive", "accuracy", "stanfordnlp/imdb",
          "Maas et al., ACL 2011", synonyms={"text": ("review",), "label": ("sentiment",)},
          label_aliases={"neg": "negative", "pos": "positive"}, splits={"train": ("train",), "test": ("test",)}),
    _task("swag", "SWAG", "context question choices", "0 1 2 3", "accuracy", "allenai/swag regular",
          "Zellers et al., EMNLP 2018",
          synonyms={"context": ("sent1",), "question": ("sent2",), "choices": ("endings", "ending")}),
    _task("hellaswag", "HellaSwag", "context question choices", "0 1 2 3", "accuracy", "Rowan/hellaswag",
          "Zellers et al., ACL 2019", synonyms={"context": ("ctx",), "choices": ("endings",)},
          extra_columns=("activity_label",),
          splits={"train": ("train", "hellaswag_train"), "validation": ("validation", "hellaswag_val", "val", "dev"),
                  "test": ("test", "hellaswag_test")}),
    _task("dream", "DREAM", "context question choices", "0 1 2", "accuracy",
          "dataset-org/dream plain_text converted", "Sun et al., TACL 2019",
          synonyms={"context": ("dialogue",), "choices": ("choice",), "label": ("label", "answer")},
          extra_columns=("dialogue_id",), unpack=dream_rows),
    _task("conll2003", "CoNLL-2003", "tokens", " ".join(iob2("PER", "ORG", "LOC", "MISC")), " ".join(ENTITY_METRICS),
          "eriktks/conll2003 conll2003 converted", "Tjong Kim Sang and De Meulder, CoNLL 2003",
          aliases=("conll", "conll03"), synonyms={"label": ("ner_tags", "tags")},
          splits={"train": ("train", "eng.train"), "validation": ("validation", "valid", "dev", "testa", "eng.testa"),
                  "test": ("test", "testb", "eng.testb")}),
    _task("wnut17", "WNUT-17", "tokens",
          " ".join(iob2("corporation", "creative-work", "group", "location", "person", "product")),
          " ".join(ENTITY_METRICS), "leondz/wnut_17 wnut_17 converted", "Derczynski et al., W-NUT 2017",
          aliases=("wnut", "wnut_17"), synonyms={"label": ("ner_tags", "tags")},
          splits={"train": ("train", "wnut17train"), "validation": ("validation", "dev", "emerging.dev"),
                  "test": ("test", "emerging.test.annotated", "emerging.test")}),
    # The LDC licenses the treebank: it is read from the owner's own files, one word and its tag on a line.
    _task("ptb", "Penn Treebank", "tokens", _TREEBANK, "token_accuracy", "",
          "Marcus et al., Computational Linguistics 1993", aliases=("penn-treebank", "ptb-pos"),
          synonyms={"label": ("pos_tags", "tags")}, label_aliases={"(": "-LRB-", ")": "-RRB-", '"': "''"}),
    *(_task(f"anli-r{number}", f"ANLI-R{number}", "premise hypothesis", _NLI, "accuracy", "facebook/anli",
            "Nie et al., ACL 2020", aliases=(f"anli{number}",), folder="anli", synonyms={"premise": ("context",)},
            label_aliases={"e": "entailment", "n": "neutral", "c": "contradiction"}, tests="mnli",
            splits={"train": (f"train_r{number}", f"R{number}/train"),
                    "validation": (f"dev_r{number}", f"R{number}/dev"),
                    "test": (f"test_r{number}", f"R{number}/test")})
      for number in (1, 2, 3)),
)
# fmt: on

_BY_NAME = {task.name: task for task in _SETS}
_STRESS = {
    "negation": "Negation/multinli_0.9_negation_matched",
    "word-overlap": "Word_Overlap/multinli_0.9_taut2_matched",
    "length-mismatch": "Length_Mismatch/multinli_0.9_length_mismatch_matched",
    "spelling-swap": "Spelling_Error/multinli_0.9_dev_gram_swap_matched",
}
_ADVGLUE = {
    **{"sst2": "adv_sst2", "qqp": "adv_qqp", "mnli": "adv_mnli", "mnli-mm": "adv_mnli_mismatched"},
    **{"qnli": "adv_qnli", "rte": "adv_rte"},
}

BUILT_IN = (
    *_SETS,
    *(
        replace(
            _BY_NAME["mnli"],
            name=f"stress-{kind}",
            title=f"Stress-{kind}",
            aliases=(),
            hub=None,
            citation="Naik et al., COLING 2018 (MNLI stress tests, matched)",
            folder="mnli_stress",
            tests="mnli",
            splits={"validation": (f"m_{kind.replace('-', '_')}", file)},
        )
        for kind, file in _STRESS.items()
    ),
    *(
        replace(
            _BY_NAME[name],
            name=f"advglue-{name}",
            title=f"AdvGLUE-{_BY_NAME[name].title}",
            aliases=(f"adv-{name}", config),
            hub=Hub("AI-Secure/adv_glue", config),
            citation="Wang et al., NeurIPS 2021 (AdvGLUE, development set)",
            folder="advglue",
            tests=_BY_NAME[name].tests or name,
            splits={"validation": ("validation", name)},
        )
        for name, config in _ADVGLUE.items()
    ),
)
