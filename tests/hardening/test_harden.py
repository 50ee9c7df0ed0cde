"""Hardening an encoder: its texts, its loss, the folder it leaves, and how it goes on."""

import copy
import json
import math
import shutil
import tracemalloc
from itertools import chain, islice
from types import SimpleNamespace

import pytest
import torch
from transformers import AutoModel, AutoModelForMaskedLM, AutoTokenizer, BertConfig, BertModel

import toughen
from toughen.errors import DataError, UsageError
from toughen.hardening import student
from toughen.hardening import texts as texts_module
from toughen.hardening.api import HardenSpec, _Hardening
from toughen.hardening.encoder import Encoder, Weights, loss_parts, pool
from toughen.hardening.measure import Mean, Measurement, Query, compare, sentence
from toughen.hardening.student import HardeningTrainer
from toughen.hardening.texts import Collator, EditedTexts, check_texts, read_texts
from toughen.reports.harden_page import write_page
from toughen.runs.errors import RunError
from toughen.text.token_words import TokenWords
from toughen.text.views import TextEditor

from ..invariant.processes import free_port
from .texts import TEXTS, wordpiece


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """An encoder in the form of sentence-transformers, and its texts."""
    home = tmp_path_factory.mktemp("encoder")
    torch.manual_seed(0)
    sizes = {"hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 2, "intermediate_size": 64}
    BertModel(BertConfig(vocab_size=200, max_position_embeddings=64, **sizes)).save_pretrained(home / "model")
    wordpiece(TEXTS).save_pretrained(home / "model")
    pooling = home / "model" / "1_Pooling"
    pooling.mkdir()
    (pooling / "config.json").write_text(
        json.dumps({"pooling_mode_mean_tokens": True, "pooling_mode_cls_token": False})
    )
    kinds = [("", "models.Transformer"), ("1_Pooling", "models.Pooling"), ("2_Normalize", "models.Normalize")]
    modules = [{"path": path, "type": f"sentence_transformers.{kind}"} for path, kind in kinds]
    (home / "model" / "modules.json").write_text(json.dumps(modules))
    (home / "texts.txt").write_text("\n".join([*TEXTS, "", "   "]))
    return home


@pytest.fixture
def harden(folder, tmp_path):
    def run(name="out", **changes):
        small = {"steps": 6, "batch_size": 8, "save_steps": 4, "measured": 20, "families": ("typos",)}
        options = {"texts": folder / "texts.txt", "output_dir": tmp_path / name, **small, **changes}
        return toughen.harden(options.pop("model", folder / "model"), options.pop("texts"), **options)

    return run


def test_a_hardening(harden, folder, tmp_path, capsys):
    done = harden(steps=120, learning_rate=1e-3, save_steps=500)
    before = {row.name: row.overlap_before.value for row in done.rows}
    after = {row.name: row.overlap_after.value for row in done.rows}
    typos = "typos in 30% of the words"
    assert before["clean"] == 1.0
    assert after[typos] > before[typos]
    assert done.sentence in capsys.readouterr().out
    assert AutoModel.from_pretrained(done).config.hidden_size == 32
    assert AutoTokenizer.from_pretrained(done)
    assert (done.path / "modules.json").read_text() == (folder / "model" / "modules.json").read_text()
    assert Encoder.find(str(done.path), None).pooling == "mean"
    assert f"| {typos} |" in (done.path / "README.md").read_text()
    assert not list(done.path.glob("checkpoint-*"))
    page = (done.path / "harden.html").read_text()
    assert all(each in page for each in (typos, "clean", "misspellings", "obfuscation"))
    again = toughen.harden(resume=done)  # nothing is left to do
    assert again.rows == done.rows


def test_it_goes_on_where_it_was_killed(harden, tmp_path, monkeypatch):
    compute, old_vectors, banks = HardeningTrainer.compute_loss, HardeningTrainer._old_vectors, []
    monkeypatch.setattr(HardeningTrainer, "_old_vectors", lambda self: banks.append(old_vectors(self)) or banks[-1])
    whole, steps = harden("whole"), iter(range(5))

    def killed(*given, **options):
        if next(steps, None) is None:
            raise KeyboardInterrupt
        return compute(*given, **options)

    monkeypatch.setattr(HardeningTrainer, "compute_loss", killed)
    with pytest.raises(KeyboardInterrupt):
        harden("killed")
    monkeypatch.setattr(HardeningTrainer, "compute_loss", compute)
    assert (tmp_path / "killed/checkpoint-4").is_dir()
    (half := tmp_path / "killed/checkpoint-5").mkdir()  # as a kill leaves it in the middle of a save
    (half / "trainer_state.json").write_text('{"global_step": 5, "log_hi')
    resumed = toughen.harden(resume=tmp_path / "killed")
    assert [row.cosine_after.value for row in resumed.rows] == pytest.approx(
        [row.cosine_after.value for row in whole.rows], abs=1e-6
    )
    assert len(banks) == 3
    assert all(torch.equal(bank, banks[0]) for bank in banks)


def test_a_quarter_of_the_edits_obfuscates_where_case_is_not_seen(folder, tmp_path):
    spec = HardenSpec(str(folder / "model"), [str(folder / "texts.txt")])
    assert sorted(_Hardening(tmp_path, spec, {}).editor.families) == ["obfuscation", *["typos"] * 3]


@pytest.mark.parametrize("ending", ["csv", "jsonl", "parquet", "json.gz"])
def test_texts_of_every_form(ending, tmp_path):
    import gzip

    import pyarrow
    from pyarrow import parquet

    file, rows = tmp_path / f"texts.{ending}", [{"id": i, "query": text} for i, text in enumerate(TEXTS[:3])]
    if ending == "csv":
        file.write_text("\n".join(["id,query", *(f"{row['id']},{row['query']}" for row in rows)]))
    elif ending == "jsonl":
        file.write_text("\n".join(map(json.dumps, rows)))
    elif ending == "parquet":
        parquet.write_table(pyarrow.Table.from_pylist(rows), file)
    else:
        file.write_bytes(gzip.compress(json.dumps(rows).encode()))
    assert list(read_texts([file], "query")) == TEXTS[:3]
    with pytest.raises(DataError, match=r"column 'text'.*'query'"):
        list(read_texts([file], "text"))
    with pytest.raises(DataError, match=r"which column.*'query'"):
        list(read_texts([file], None))


def test_the_stream_leaves_out_what_is_measured(folder):
    tokenizer = AutoTokenizer.from_pretrained(folder / "model")
    held = check_texts([folder / "texts.txt"], None, 30, 0)
    editor = TextEditor(TokenWords(tokenizer))
    stream = EditedTexts([folder / "texts.txt"], None, tokenizer, editor, frozenset(held), 64, 0.5, 0)
    assert stream.first(200) == [text for number, text in enumerate(TEXTS) if number not in held]
    rows = list(islice(stream, 2 * (len(TEXTS) - len(held))))
    seen = {tokenizer.decode(row["ids"], skip_special_tokens=True) for row in rows}
    wanted = {
        tokenizer.decode(tokenizer(text)["input_ids"], skip_special_tokens=True)
        for text in TEXTS
        if text not in held.values()
    }
    assert seen == wanted
    assert 0.3 < sum(list(row["view"]) == row["ids"] for row in rows) / len(rows) < 0.9
    first, second = rows[: len(rows) // 2], rows[len(rows) // 2 :]
    assert {str(row["view"]) for row in first} != {str(row["view"]) for row in second}  # epochs differ


@pytest.mark.parametrize("workers", [1, 3])
def test_workers_and_processes_share_the_texts(workers, folder, monkeypatch):
    tokenizer, files = AutoTokenizer.from_pretrained(folder / "model"), [folder / "texts.txt"]
    editor = TextEditor(TokenWords(tokenizer))
    monkeypatch.setattr(texts_module, "BUFFER", 7)
    size = 4

    def batches(count, rank=0, processes=1, done=0):
        """As a DataLoader makes them: its workers take turns."""
        stream = EditedTexts(files, None, tokenizer, editor, frozenset(), 64, 0.5, 0, size, rank, processes, done)
        streams = []
        for number in range(workers):
            info = SimpleNamespace(id=number, num_workers=workers)
            monkeypatch.setattr(texts_module, "get_worker_info", lambda info=info: info)
            streams.append(iter(stream))
            row = next(streams[-1])  # a generator asks when it begins
            streams[-1] = chain([row], streams[-1])
        return [[str(row) for row in islice(streams[number % workers], size)] for number in range(count)]

    whole = batches(40)
    for done in (1, 2, 7, 31):
        assert batches(40 - done, done=done) == whole[done:]
    own = [{row for batch in batches(15, rank, 2) for row in batch} for rank in range(2)]
    assert len(own[0] | own[1]) == len(TEXTS)  # an epoch


def test_memory_does_not_grow_with_the_texts(folder, tmp_path, monkeypatch):
    tokenizer = AutoTokenizer.from_pretrained(folder / "model")
    monkeypatch.setattr(texts_module, "BUFFER", 100)
    peaks = []
    for count in (300, 6000):
        file = tmp_path / f"{count}.txt"
        file.write_text("\n".join(f"{TEXTS[i % 120]} {i}" for i in range(count)))
        stream = EditedTexts([file], None, tokenizer, TextEditor(TokenWords(tokenizer)), frozenset(), 64, 1.0, 0)
        tracemalloc.start()
        for _ in islice(stream, count):
            pass
        peaks.append(tracemalloc.get_traced_memory()[1])
        tracemalloc.stop()
    assert peaks[1] < 1.3 * peaks[0]


@pytest.mark.parametrize("how", ["mean", "cls", "last"])
def test_padding_changes_no_vector_and_no_loss(how, folder):
    model = AutoModel.from_pretrained(folder / "model").eval()
    other = AutoModel.from_pretrained(folder / "model").eval()
    with torch.no_grad():
        other.embeddings.word_embeddings.weight.mul_(1.1)
    rows = [
        {"ids": [2, 7, 8, 9, 3], "view": [2, 7, 11, 12, 9, 3], "source": [0, 1, 2, 2, 3, 4], "edited": True},
        {"ids": [2, 9, 3], "view": [2, 9, 3], "source": [0, 1, 2], "edited": False},
    ]
    short, long = Collator(0)([rows[1]]), Collator(0)(rows)
    hidden = [model(input_ids=b["view"], attention_mask=b["view_mask"]).last_hidden_state for b in (short, long)]
    one, two = (pool(h, b["view_mask"], how)[-1] for h, b in zip(hidden, (short, long), strict=True))
    torch.testing.assert_close(one, two)
    bank = torch.nn.functional.normalize(torch.randn(9, 32), dim=-1)
    alone = loss_parts(other, model, short, how, Weights(), bank)
    twice = loss_parts(other, model, Collator(0)([rows[1], rows[1]]), how, Weights(), bank)
    padded = {name: value[..., :].clone() for name, value in short.items()}
    for name in padded.keys() - {"edited"}:
        padded[name] = torch.nn.functional.pad(padded[name], (0, 4))
    for found in (twice, loss_parts(other, model, padded, how, Weights(), bank)):
        for name, part in alone.items():
            torch.testing.assert_close(found[name], part)


def test_the_loss_is_zero_for_the_teacher_itself(folder):
    model = AutoModel.from_pretrained(folder / "model").eval()
    batch = Collator(0)([{"ids": [2, 7, 8, 3], "view": [2, 7, 8, 3], "source": range(4), "edited": False}])
    bank = torch.nn.functional.normalize(torch.randn(9, 32), dim=-1)
    parts = loss_parts(model, model, batch, "mean", Weights(), bank)
    assert parts.keys() == {"pooled", "hidden", "neighbours"}
    assert all(float(part.detach()) == pytest.approx(0.0, abs=1e-5) for part in parts.values())


@pytest.fixture
def drifted(folder):
    """Return a teacher, a student that has moved away from it, and a batch of an edited and of an unedited text."""
    torch.manual_seed(1)
    teacher = AutoModelForMaskedLM.from_pretrained(folder / "model").eval()
    student = copy.deepcopy(teacher)
    with torch.no_grad():
        for value in student.parameters():
            value.add_(0.3 * value.std().nan_to_num() * torch.randn_like(value))
    edited = {"ids": [2, 9, 7, 3], "view": [2, 9, 8, 7, 3], "source": [0, 1, 2, 2, 3], "edited": True}
    clean = {"ids": [2, 7, 8, 3], "view": [2, 7, 8, 3], "source": range(4), "edited": False}
    return teacher, student, [edited, clean]


def test_similarities_to_the_bank_as_a_naive_loop(drifted):
    teacher, student, rows = drifted
    others, wanted = torch.randn(6, 32).tolist(), 0.0

    def read(model, ids):
        return model.base_model(input_ids=torch.tensor([ids])).last_hidden_state[0].mean(0).tolist()

    def shares(vector, texts):
        cosines = [sum(a * b for a, b in zip(vector, each, strict=True)) for each in texts]
        lengths = [math.hypot(*vector) * math.hypot(*each) for each in texts]
        found = [math.exp(cosine / length / 0.05) for cosine, length in zip(cosines, lengths, strict=True)]
        return [each / sum(found) for each in found]

    bank = [*others, read(teacher, rows[0]["ids"])]
    for row, texts, weight in zip(rows, (others, bank), (1.0, 8.0), strict=True):  # its own text is left out
        before, after = shares(read(teacher, row["ids"]), texts), shares(read(student, row["view"]), texts)
        wanted += weight / 2 * sum(p * math.log(p / q) for p, q in zip(before, after, strict=True))
    given = torch.nn.functional.normalize(torch.tensor(bank), dim=-1)
    found = loss_parts(student, teacher, Collator(0)(rows), "mean", Weights(neighbours=3.0), given)
    assert found["neighbours"].item() == pytest.approx(3.0 * wanted, rel=1e-3)


@pytest.mark.parametrize("part", ["pooled", "hidden", "words", "neighbours"])
def test_an_unedited_text_that_moved_is_pulled_back(part, drifted):
    teacher, student, rows = drifted
    bank = torch.nn.functional.normalize(torch.randn(9, 32), dim=-1)
    clean, weights = Collator(0)(rows[1:]), Weights()

    def read(edited):
        batch = clean | {"edited": torch.tensor([edited])}
        return loss_parts(student, teacher, batch, "mean", weights, bank)[part]

    before = read(edited=False)
    torch.testing.assert_close(before, 8 * read(edited=True))
    loss_parts(student, teacher, Collator(0)(rows), "mean", weights, bank)[part].backward()
    torch.nn.utils.clip_grad_norm_(student.parameters(), 1.0)
    torch.optim.SGD(student.parameters(), 1e-3).step()
    assert read(edited=False) < before


def test_pooling_as_sentence_transformers_6_writes_it(folder, tmp_path):
    shutil.copytree(folder / "model", tmp_path / "model")
    (tmp_path / "model" / "1_Pooling" / "config.json").write_text(
        json.dumps({"embedding_dimension": 32, "pooling_mode": "cls", "include_prompt": True})
    )
    assert Encoder.find(str(tmp_path / "model"), None).pooling == "cls"
    modules = json.loads((tmp_path / "model" / "modules.json").read_text())
    modules.append({"path": "3_Dense", "type": "sentence_transformers.sentence_transformer.modules.dense.Dense"})
    (tmp_path / "model" / "modules.json").write_text(json.dumps(modules))
    with pytest.raises(UsageError, match="Dense is none of"):
        Encoder.find(str(tmp_path / "model"), None)


def test_a_folder_is_written_without_what_was_said_of_another(folder, tmp_path):
    shutil.copytree(folder / "model", home := tmp_path / "model")
    (home / "harden.json").write_text("{}")
    (out := home / "out").mkdir()
    (out / "harden.yaml").write_text("mine")
    encoder = Encoder.find(str(home), None)
    encoder.save(encoder.load(), encoder.load_tokenizer(), out)
    assert (out / "harden.yaml").read_text() == "mine"
    assert not (out / "harden.json").exists()
    assert not (out / "out").exists()
    assert Encoder.find(str(out), None).pooling == "mean"


def test_a_page_shows_texts_as_they_are(tmp_path):
    mean = Mean(0.5, 0.1)
    row = Measurement("typos", 0.3, mean, mean, mean, mean)
    query = Query("typos", "<b>fox", "<script>fxo", "a & b", "c", "a & b")
    write_page(tmp_path / "page.html", "<i>t", "v", [row], [query], texts=9, notes=["<u>n"])
    page = (tmp_path / "page.html").read_text()
    assert "&lt;script&gt;fxo" in page
    assert not any(each in page for each in ("<b>fox", "<script>fxo", "<i>t", "<u>n"))


def test_the_sentence_says_whether_an_index_stays():
    index = torch.nn.functional.normalize(torch.randn(40, 8, generator=torch.manual_seed(0)), dim=-1)
    other = torch.nn.functional.normalize(torch.randn(40, 8, generator=torch.manual_seed(1)), dim=-1)
    same, moved = compare("clean", 0.0, index, index, index), compare("clean", 0.0, index, other, index)
    assert "can stay" in sentence([same])
    assert "index the texts again" in sentence([moved])


def test_refusals(harden, folder, tmp_path, monkeypatch):
    monkeypatch.setattr(Encoder, "load", lambda self: pytest.fail("the model was loaded"))
    (tmp_path / "empty.txt").write_text("")
    (tmp_path / "binary.txt").write_bytes(bytes(range(128, 256)) * 40)
    (tmp_path / "few.txt").write_text("one\ntwo")
    for texts, message in (
        ("empty", "is empty"),
        ("binary", "not utf-8"),
        ("few", "2 texts are too few"),
        ("no", "does not exist"),
    ):
        with pytest.raises(DataError, match=message):
            harden(texts=tmp_path / f"{texts}.txt")
    assert not (tmp_path / "out").exists()
    with pytest.raises(UsageError, match="casing changes nothing"):
        harden(families="casing")
    with pytest.raises(DataError, match="does not exist"):
        harden(lexicon=tmp_path / "no.txt")
    with pytest.raises(UsageError, match="families: there is no 'typo'"):
        harden(families="typo")
    with pytest.raises(UsageError, match="neighbours_weight=-1"):
        harden(neighbours_weight=-1)
    with pytest.raises(UsageError, match=r"recipe='week' is not known.*overnight"):
        harden(recipe="week")
    with pytest.raises(UsageError, match="no option 'step'"):
        harden(step=3)
    with pytest.raises(UsageError, match=r"no config\.json"):
        harden(model=tmp_path)
    (folder / "model" / "decoder").mkdir(exist_ok=True)
    (folder / "model" / "decoder" / "config.json").write_text(json.dumps({"model_type": "llama"}))
    with pytest.raises(UsageError, match="pooling='last'"):
        harden(model=folder / "model" / "decoder")
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "mine").write_text("")
    with pytest.raises(RunError, match="already exists"):
        harden("full")
    with pytest.raises(RunError, match=r"no harden\.yaml"):
        toughen.harden(resume=tmp_path)


def _process(rank, port, folder, out):
    import os

    os.environ |= {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port), "WORLD_SIZE": "2", "RANK": str(rank)}
    os.environ |= {"LOCAL_RANK": str(rank), "ACCELERATE_USE_CPU": "true"}
    torch.set_num_threads(1)
    student.BANK, old_vectors = 7, HardeningTrainer._old_vectors

    def noted(self):
        torch.save(bank := old_vectors(self), out / f"bank-{rank}")
        return bank

    HardeningTrainer._old_vectors = noted
    options = {"steps": 4, "batch_size": 4, "measured": 20, "families": ("typos",), "trainer": {"use_cpu": True}}
    done = toughen.harden(folder / "model", folder / "texts.txt", output_dir=out, **options)
    (out / f"said-{rank}").write_text(done.sentence)
    torch.distributed.destroy_process_group()


@pytest.mark.distributed
def test_two_processes_make_one_encoder(folder, tmp_path):
    torch.multiprocessing.spawn(_process, args=(free_port(), folder, tmp_path / "out"), nprocs=2)
    said = [(tmp_path / "out" / f"said-{rank}").read_text() for rank in range(2)]
    assert said[0] == said[1] != ""
    first, second = (torch.load(tmp_path / "out" / f"bank-{rank}") for rank in range(2))
    assert first.shape == (7, 32)
    assert torch.equal(first, second)
    assert AutoModel.from_pretrained(tmp_path / "out").config.hidden_size == 32
    assert (tmp_path / "out" / "harden.log").read_text().count("saved") == 1
