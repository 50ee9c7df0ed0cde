"""Hardening an encoder: its texts, its loss, the folder it leaves, and how it goes on."""

import json
from itertools import islice

import pytest
import torch
from transformers import AutoModel, AutoTokenizer, BertConfig, BertModel

import toughen
from toughen.errors import DataError, UsageError
from toughen.hardening.encoder import Encoder, Weights, loss_parts, pool
from toughen.hardening.measure import compare, sentence
from toughen.hardening.texts import Collator, EditedTexts, check_texts, read_texts
from toughen.runs.errors import RunError
from toughen.text.token_words import TokenWords
from toughen.text.views import TextEditor

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


def test_it_goes_on_where_it_was_killed(harden, tmp_path, monkeypatch):
    from toughen.hardening.student import HardeningTrainer

    whole, steps = harden("whole"), iter(range(5))
    compute = HardeningTrainer.compute_loss

    def killed(*given, **options):
        if next(steps, None) is None:
            raise KeyboardInterrupt
        return compute(*given, **options)

    monkeypatch.setattr(HardeningTrainer, "compute_loss", killed)
    with pytest.raises(KeyboardInterrupt):
        harden("killed")
    monkeypatch.undo()
    assert (tmp_path / "killed/checkpoint-4").is_dir()
    resumed = toughen.harden(resume=tmp_path / "killed")
    assert [row.cosine_after.value for row in resumed.rows] == pytest.approx(
        [row.cosine_after.value for row in whole.rows], abs=1e-6
    )


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


@pytest.mark.parametrize("how", ["mean", "cls", "last"])
def test_padding_changes_no_vector_and_no_loss(how, folder):
    model = AutoModel.from_pretrained(folder / "model").eval()
    other = AutoModel.from_pretrained(folder / "model").eval()
    with torch.no_grad():
        other.embeddings.word_embeddings.weight.mul_(1.1)
    rows = [
        {"ids": [2, 7, 8, 9, 3], "view": [2, 7, 11, 12, 9, 3], "source": [0, 1, 2, 2, 3, 4]},
        {"ids": [2, 9, 3], "view": [2, 9, 3], "source": [0, 1, 2]},
    ]
    short, long = Collator(0)([rows[1]]), Collator(0)(rows)
    hidden = [model(input_ids=b["view"], attention_mask=b["view_mask"]).last_hidden_state for b in (short, long)]
    one, two = (pool(h, b["view_mask"], how)[-1] for h, b in zip(hidden, (short, long), strict=True))
    torch.testing.assert_close(one, two)
    alone = loss_parts(other, model, short, how, Weights())
    twice = loss_parts(other, model, Collator(0)([rows[1], rows[1]]), how, Weights())
    padded = {name: value[..., :].clone() for name, value in short.items()}
    for name in padded:
        padded[name] = torch.nn.functional.pad(padded[name], (0, 4))
    for found in (twice, loss_parts(other, model, padded, how, Weights())):
        for name, part in alone.items():
            torch.testing.assert_close(found[name], part)


def test_the_loss_is_zero_for_the_teacher_itself(folder):
    model = AutoModel.from_pretrained(folder / "model").eval()
    batch = Collator(0)([{"ids": [2, 7, 8, 3], "view": [2, 7, 8, 3], "source": range(4)}])
    assert all(
        float(part.detach()) == pytest.approx(0.0, abs=1e-5)
        for part in loss_parts(model, model, batch, "mean", Weights()).values()
    )


def test_the_sentence_says_whether_an_index_stays():
    index = torch.nn.functional.normalize(torch.randn(40, 8, generator=torch.manual_seed(0)), dim=-1)
    other = torch.nn.functional.normalize(torch.randn(40, 8, generator=torch.manual_seed(1)), dim=-1)
    same, moved = compare("clean", 0.0, index, index, index), compare("clean", 0.0, index, other, index)
    assert "can stay" in sentence([same])
    assert "index the texts again" in sentence([moved])


def test_refusals(harden, folder, tmp_path):
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
    with pytest.raises(UsageError, match="families: there is no 'typo'"):
        harden(families="typo")
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
    with pytest.raises(RunError, match="nothing is overwritten"):
        harden("full")
    with pytest.raises(RunError, match=r"no harden\.yaml"):
        toughen.harden(resume=tmp_path)
