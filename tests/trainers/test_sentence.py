"""Methods under the Trainers of sentence-transformers."""

import copy

import pytest
import torch
import torch.nn.functional as F
from transformers import BertConfig, BertForSequenceClassification, BertModel

import toughen
from toughen.errors import MethodError

from ..hardening.texts import TEXTS, wordpiece

st = pytest.importorskip("sentence_transformers")
from datasets import Dataset  # noqa: E402
from sentence_transformers import losses  # noqa: E402
from sentence_transformers.cross_encoder import losses as cross_losses  # noqa: E402

SIZES = {
    **{"vocab_size": 200, "hidden_size": 32, "num_hidden_layers": 1, "num_attention_heads": 2, "intermediate_size": 64},
    **{"max_position_embeddings": 64, "hidden_dropout_prob": 0.0, "attention_probs_dropout_prob": 0.0},
    "initializer_range": 0.2,
}
PAIRS = {"query": TEXTS[:8], "answer": TEXTS[20:28]}


@pytest.fixture(scope="module")
def folders(tmp_path_factory):
    home = tmp_path_factory.mktemp("models")
    torch.manual_seed(0)
    BertModel(BertConfig(**SIZES)).save_pretrained(home / "embed")
    BertForSequenceClassification(BertConfig(**SIZES, num_labels=1)).save_pretrained(home / "rank")
    for name in ("embed", "rank"):
        wordpiece(TEXTS).save_pretrained(home / name)
    return home


@pytest.fixture
def train(folders, tmp_path):
    """Train one step on all pairs, and return the Trainer."""

    def run(method, make=losses.MultipleNegativesRankingLoss, rows=PAIRS, kind="embed", **settings):
        rank = kind == "rank"
        model = (st.CrossEncoder if rank else st.SentenceTransformer)(str(folders / kind), device="cpu")
        arguments, trainer = (
            (st.CrossEncoderTrainingArguments, st.CrossEncoderTrainer)
            if rank
            else (st.SentenceTransformerTrainingArguments, st.SentenceTransformerTrainer)
        )
        quiet = {"report_to": "none", "disable_tqdm": True, "save_strategy": "no", "logging_steps": 1, "use_cpu": True}
        given = {"max_steps": 1, "per_device_train_batch_size": 8, "optim": "sgd", "learning_rate": 0.1} | settings
        fast = {"fast": given.pop("fast")} if "fast" in given else {}
        made = toughen.robust(trainer)(
            model=model,
            args=arguments(output_dir=str(tmp_path), **quiet, **given),
            train_dataset=Dataset.from_dict(rows),
            loss=make(model),
            method=method,
            **fast,
        )
        made.before = copy.deepcopy(model)
        made.train()
        return made

    return run


def logged(trainer, name="loss"):
    return trainer.state.log_history[0][name]


def batch_of(trainer):
    return next(iter(trainer.get_train_dataloader()))


def test_self_teaching_is_that_of_dst(train):
    trainer = train(toughen.typos(weight=1.5, rate=1.0))
    batch, model = batch_of(trainer), trainer.before.eval()
    ids = batch["toughen_view0_input_ids"][:, 0]
    assert not torch.equal(ids[:, : batch["input_ids"].shape[1]], batch["input_ids"])

    def vectors(ids, mask):
        return F.normalize(model({"input_ids": ids, "attention_mask": mask})["sentence_embedding"], dim=-1)

    rest = batch["toughen_columns"]
    with torch.no_grad():
        answers = vectors(rest["answer_input_ids"], rest["answer_attention_mask"])
        clean = 20 * vectors(batch["input_ids"], batch["attention_mask"]) @ answers.T
        typo = 20 * vectors(ids, batch["toughen_view0_attention_mask"][:, 0]) @ answers.T

    def kl(typo, clean):
        return F.kl_div(typo.log_softmax(1), clean.log_softmax(1), reduction="batchmean", log_target=True)

    # tevatron_dst/loss.py of panuthept/DST-DenseRetrieval (13a84fa), sigma 0.2; the cross entropy is the loss's own
    teaching = 0.8 * kl(typo, clean) + 0.2 * kl(typo.T, clean.T)
    wanted = F.cross_entropy(clean, torch.arange(8)) + 1.5 * teaching
    assert float(teaching) > 0.01
    assert logged(trainer) == pytest.approx(float(wanted), rel=1e-4)


def test_a_plain_method_is_the_trainer_itself(train):
    trainer = train(toughen.plain())
    other = copy.deepcopy(trainer.before).train()
    rest = (batch := batch_of(trainer))["toughen_columns"]
    texts = [{"input_ids": batch["input_ids"], "attention_mask": batch["attention_mask"]}]
    texts.append({"input_ids": rest["answer_input_ids"], "attention_mask": rest["answer_attention_mask"]})
    loss = losses.MultipleNegativesRankingLoss(other)(texts, None)
    assert logged(trainer) == pytest.approx(float(loss.detach()), rel=1e-5)
    assert not trainer.model._forward_hooks
    assert not trainer.model._forward_pre_hooks


@pytest.mark.parametrize(
    "method",
    [
        toughen.vat(),
        toughen.smart(),
        toughen.words("flip", synonyms="vocabulary"),
        toughen.freelb(),
        toughen.rdrop(),
        toughen.sam(),
        toughen.typos(on="view") + toughen.vat(),
        toughen.typos(learn="label"),
    ],
    ids=["vat", "smart", "words", "freelb", "rdrop", "sam", "sum", "label"],
)
@pytest.mark.filterwarnings("ignore::toughen.errors.RobustnessWarning")
def test_methods_that_fit(method, train):
    rows = PAIRS | {"negative": TEXTS[40:48]}  # the other columns may be of one width, and would be merged
    trainer = train(method, rows=rows)
    changed = [
        not torch.equal(a, b) for a, b in zip(trainer.before.parameters(), trainer.model.parameters(), strict=True)
    ]
    assert any(changed)
    figures = {name: value for name, value in trainer.state.log_history[0].items() if name.startswith("robust/")}
    assert all(torch.tensor(list(figures.values())).isfinite())


def test_only_the_first_text_is_perturbed(train, monkeypatch):
    from toughen.search.ascent import Ascent

    shapes, start = [], Ascent.start
    monkeypatch.setattr(Ascent, "start", lambda self, view: shapes.append(view.value.shape) or start(self, view))
    rows = {"query": [text[:12] for text in TEXTS[:8]], "answer": TEXTS[20:28]}
    trainer = train(toughen.smart(), rows=rows)
    assert [tuple(shape[:2]) for shape in shapes] == [tuple(batch_of(trainer)["input_ids"].shape)]
    assert logged(trainer, "robust/term") > 0


def test_a_text_alone_is_held_to_its_vector(train):
    rows = {"text": TEXTS[:8], "label": [0, 0, 1, 1, 2, 2, 3, 3]}
    trainer = train(toughen.typos(rate=1.0), losses.BatchAllTripletLoss, rows)
    batch, model = batch_of(trainer), trainer.before.eval()
    with torch.no_grad():
        first, second = (
            F.normalize(model({"input_ids": i, "attention_mask": m})["sentence_embedding"], dim=-1)
            for i, m in (
                (batch["input_ids"], batch["attention_mask"]),
                (batch["toughen_view0_input_ids"][:, 0], batch["toughen_view0_attention_mask"][:, 0]),
            )
        )
    distance = float((2 - 2 * (first * second).sum(1)).mean())
    assert logged(trainer, "robust/term") == pytest.approx(distance, rel=1e-4)


def test_a_reranker_learns_from_mistyped_queries(train, monkeypatch):
    read = []
    preprocess = st.CrossEncoder.preprocess
    monkeypatch.setattr(
        st.CrossEncoder, "preprocess", lambda self, pairs, **rest: read.append(pairs) or preprocess(self, pairs, **rest)
    )
    rows = PAIRS | {"label": [0.0, 1.0] * 4}
    trainer = train(toughen.typos(rate=1.0), cross_losses.BinaryCrossEntropyLoss, rows, "rank")
    batches = [pairs for pairs in read if isinstance(pairs[0], tuple)]  # and not what a model card shows
    clean, view = ({answer: query for query, answer in pairs} for pairs in batches[:2])
    assert clean == dict(zip(PAIRS["answer"], PAIRS["query"], strict=True))
    assert clean.keys() == view.keys()
    assert clean != view
    model = trainer.before.eval()
    with torch.no_grad():
        first, second = (
            model(preprocess(model, [(pairs[answer], answer) for answer in clean]))["scores"].view(-1)
            for pairs in (clean, view)
        )
    p, q = first.sigmoid(), second.sigmoid()
    kl = (p * (p / q).log() + (1 - p) * ((1 - p) / (1 - q)).log()).mean()
    assert logged(trainer, "robust/term") == pytest.approx(float(kl), rel=1e-3)


@pytest.mark.parametrize(
    ("method", "options", "message"),
    [
        (toughen.asa(), {}, "inside the layers"),
        (toughen.spectral(), {}, "for a classifier"),
        (toughen.creat(), {}, "only classifiers"),
        (toughen.typos(worst_of=2), {}, "worst_of=2"),
        (toughen.typos(on="both") + toughen.smart(), {}, "use on='view'"),
        (toughen.typos(), {"fast": True}, "fast=True"),
        (toughen.typos(), {"make": losses.CachedMultipleNegativesRankingLoss}, "use MultipleNegativesRankingLoss"),
        (toughen.typos(), {"make": lambda m: losses.MatryoshkaLoss(m, losses.CoSENTLoss(m), [8])}, "MatryoshkaLoss"),
        (toughen.vat(), {"make": cross_losses.MultipleNegativesRankingLoss, "kind": "rank"}, "draws other pairs"),
    ],
)
def test_refusals(method, options, message, train):
    with pytest.raises(MethodError, match=message):
        train(method, **options)
