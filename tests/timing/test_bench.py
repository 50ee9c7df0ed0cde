"""`toughen bench` on a CPU."""

import json

import pytest
import torch

from toughen.cli.main import main
from toughen.heads import second_order
from toughen.timing import bench, markdown
from toughen.timing.step_time import Shape, load_model, make_batch


def test_rows_and_table():
    seen = []
    rows = bench("tiny", ["smart", "sam"], ["2x8", "3x12/3"], repeats=1, device="cpu", on_row=seen.append)
    assert seen == rows
    assert [(row.method, row.batch, row.length) for row in rows] == [
        *[(name, 2, 8) for name in ("plain", "smart", "sam")],
        *[(name, 3, 12) for name in ("plain", "smart", "sam")],
    ]
    assert all(row.ms > 0 and row.mode == "eager" and row.memory_gib is None for row in rows)
    wanted = {"model", "method", "batch", "length", "dtype", "mode", "ms", "memory_gib", "device"}
    assert wanted <= rows[0].to_dict().keys()
    table = markdown(rows)
    assert table.count("| plain |") == 2
    assert f"{rows[1].ms / rows[0].ms:.2f}" in table


def test_views_of_texts_are_made_before_the_clock_starts(monkeypatch):
    from toughen.engine.text_views import ViewMaker

    make, edited = ViewMaker.__call__, []

    def watched(maker, *given):
        views = make(maker, *given)
        edited.append(int(views["toughen_view0_counts"][:, 1].sum()))
        return views

    monkeypatch.setattr(ViewMaker, "__call__", watched)
    rows = bench("tiny", ["typos"], ["4x16"], repeats=2, device="cpu")
    assert [row.method for row in rows] == ["plain", "typos"]
    assert len(edited) == 1
    assert edited[0] > 0


def test_command_writes_both_files(tmp_path, capsys):
    out = tmp_path / "figures"
    options = ["--model", "tiny", "--methods", "r3f", "--shapes", "2x8", "--repeats", "1", "--device", "cpu"]
    assert main(["bench", *options, "--out", str(out)]) == 0
    rows = json.loads((tmp_path / "figures.json").read_text())
    assert [row["method"] for row in rows] == ["plain", "r3f"]
    assert "| r3f |" in (tmp_path / "figures.md").read_text()
    assert "r3f" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (["--shapes", "16by64"], "no shape"),
        (["--shapes", "0x64"], "no shape"),
        (["--model", "nothing"], "neither a model folder nor one of the sizes"),
        (["--modes", "slow"], "no mode"),
        (["--methods", "smrt"], "smart"),
        (["--modes", "fast"], "needs a CUDA device"),
        (["--repeats", "0"], "at least one step"),
    ],
)
def test_bad_input_is_one_line(options, words, capsys):
    assert main(["bench", "--model", "tiny", "--device", "cpu", *options]) == 2
    error = capsys.readouterr().err
    assert words in error
    assert error.count("\n") == 1


def test_batches_have_the_lengths_they_say():
    batch = make_batch(Shape.parse("4x12/3"), 100, 2)
    assert batch["attention_mask"].sum(1).tolist() == [4, 7, 9, 12]
    assert (batch["input_ids"][:, 0] == 1).all()
    assert ((batch["input_ids"] == 0) == (batch["attention_mask"] == 0)).all()


def test_a_model_folder(tmp_path):
    load_model("tiny").save_pretrained(tmp_path)
    assert isinstance(load_model(tmp_path), torch.nn.Module)
    assert len(bench(tmp_path, ["fgm"], ["2x8"], repeats=1, device="cpu")) == 2


def test_a_folder_of_a_second_order_model(tmp_path):
    """Its vocabulary is the backbone's."""
    second_order(load_model("tiny"), 2, q=6, k=4).save_pretrained(tmp_path)
    assert len(bench(tmp_path, ["fgm"], ["2x8"], repeats=1, device="cpu")) == 2
