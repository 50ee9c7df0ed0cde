"""Sets that test a model away from its own data: SNLI, ANLI, HANS, the MNLI stress tests, PAWS-QQP, AdvGLUE."""

from dataclasses import replace

from .glue import MNLI, MNLI_MM, NLI_LABELS, QNLI, QQP, RTE, SST2
from .registry import register
from .spec import Hub, Task

SNLI = register(
    Task(
        name="snli",
        title="SNLI",
        kind="pair",
        head="classes",
        columns=("premise", "hypothesis"),
        labels=NLI_LABELS,
        hub=Hub("stanfordnlp/snli"),
        origin="Bowman et al., EMNLP 2015",
        synonyms={"premise": ("sentence1",), "hypothesis": ("sentence2",), "label": ("gold_label",)},
        # The annotators did not agree: these rows have no label and are left out.
        words={"-": ""},
    )
)

for _round in (1, 2, 3):
    register(
        Task(
            name=f"anli-r{_round}",
            title=f"ANLI-R{_round}",
            kind="pair",
            head="classes",
            columns=("premise", "hypothesis"),
            labels=NLI_LABELS,
            hub=Hub("facebook/anli"),
            origin="Nie et al., ACL 2020",
            also=(f"anli{_round}",),
            folder="anli",
            synonyms={"premise": ("context",)},
            words={"e": "entailment", "n": "neutral", "c": "contradiction"},
            tests="mnli",
            splits={
                "train": (f"train_r{_round}", f"R{_round}/train"),
                "validation": (f"dev_r{_round}", f"R{_round}/dev"),
                "test": (f"test_r{_round}", f"R{_round}/test"),
            },
        )
    )

HANS = register(
    Task(
        name="hans",
        title="HANS",
        kind="pair",
        head="classes",
        columns=("premise", "hypothesis"),
        labels=("entailment", "non-entailment"),
        hub=Hub("jhu-cogsci/hans", "plain_text", converted=True),
        origin="McCoy et al., ACL 2019",
        synonyms={"premise": ("sentence1",), "hypothesis": ("sentence2",), "label": ("gold_label",)},
        keep=("heuristic", "subcase", "template"),
        tests="mnli",
        fold=(0, 1, 1),
        splits={"validation": ("validation", "heuristics_evaluation_set")},
    )
)

for _kind, _file in (
    ("negation", "Negation/multinli_0.9_negation_matched"),
    ("word-overlap", "Word_Overlap/multinli_0.9_taut2_matched"),
    ("length-mismatch", "Length_Mismatch/multinli_0.9_length_mismatch_matched"),
    ("spelling-swap", "Spelling_Error/multinli_0.9_dev_gram_swap_matched"),
):
    register(
        replace(
            MNLI,
            name=f"stress-{_kind}",
            title=f"Stress-{_kind}",
            also=(),
            hub=None,
            origin="Naik et al., COLING 2018 (MNLI stress tests, matched)",
            folder="mnli_stress",
            tests="mnli",
            splits={"validation": (f"m_{_kind.replace('-', '_')}", _file)},
        )
    )

PAWS_QQP = register(
    Task(
        name="paws-qqp",
        title="PAWS-QQP",
        kind="pair",
        head="classes",
        columns=("question1", "question2"),
        labels=("not_duplicate", "duplicate"),
        metrics=("accuracy", "f1"),
        # Quora's terms keep the rows off the Hub: they are made with the authors' script.
        hub=None,
        origin="Zhang et al., NAACL 2019, https://github.com/google-research-datasets/paws",
        also=("paws",),
        synonyms={"question1": ("sentence1",), "question2": ("sentence2",)},
        tests="qqp",
        splits={"train": ("train",), "validation": ("dev_and_test", "validation", "dev")},
    )
)

for _base, _config in (
    (SST2, "adv_sst2"),
    (QQP, "adv_qqp"),
    (MNLI, "adv_mnli"),
    (MNLI_MM, "adv_mnli_mismatched"),
    (QNLI, "adv_qnli"),
    (RTE, "adv_rte"),
):
    register(
        replace(
            _base,
            name=f"advglue-{_base.name}",
            title=f"AdvGLUE-{_base.title}",
            also=(f"adv-{_base.name}", _config),
            hub=Hub("AI-Secure/adv_glue", _config),
            origin="Wang et al., NeurIPS 2021 (AdvGLUE, development set)",
            folder="advglue",
            tests=_base.tests or _base.name,
            splits={"validation": ("validation", _base.name)},
        )
    )
