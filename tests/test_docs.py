"""Every Python block of the README and the docs runs, and so does every example."""

import re
import runpy
import sys
from pathlib import Path

import pytest
import torch

from .tiny import TOKENIZER, bert, text_batch

ROOT = Path(__file__).resolve().parents[1]
PAGES = sorted([ROOT / "README.md", *(ROOT / "docs").rglob("*.md")])
EXAMPLES = sorted((ROOT / "examples").glob("*.py"))
LONG = {"demo.py"}  # fine-tunes real weights for minutes; `make demo` runs it


def blocks(page: Path) -> list[tuple[int, str]]:
    text = page.read_text()
    found = re.finditer(r"^```python\n(.*?)^```", text, flags=re.M | re.S)
    return [(text[: match.start(1)].count("\n"), match.group(1)) for match in found]


class Rows(torch.utils.data.Dataset):
    def __init__(self) -> None:
        batch = text_batch(rows=8)
        self.rows = [{key: value[i] for key, value in batch.items()} for i in range(8)]

    def __len__(self) -> int:
        return len(self.rows)

    def __getitem__(self, i: int) -> dict[str, torch.Tensor]:
        return self.rows[i]


@pytest.fixture(autouse=True)
def tiny_demo(monkeypatch):
    """The demo with its tiny model, also where the real one is installed: a page shows calls, not scores."""
    monkeypatch.setattr("toughen.demo.encoder.PACKAGE", "a package that is not there")


def namespace(folder: Path) -> dict[str, object]:
    """What the pages take for granted: a model, its tokenizer, batches, an optimizer, a data set, a folder."""
    model = bert(torch.float32, hidden_dropout_prob=0.1)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    batches = [text_batch(rows=4, seed=seed) for seed in range(2)]
    return {
        "model": model,
        "tokenizer": TOKENIZER,
        "batches": batches,
        "batch": batches[0],
        "optimizer": optimizer,
        "data": Rows(),
        "folder": str(folder),
        "__name__": "__main__",
    }


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_blocks_run(page, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    names = namespace(tmp_path)
    for line, source in blocks(page):
        # Compiled with the page's own line numbers, so that a failure points into it.
        exec(compile("\n" * line + source, str(page), "exec"), names)


@pytest.mark.parametrize("example", [e for e in EXAMPLES if e.name not in LONG], ids=lambda example: example.name)
def test_examples_run(example, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "argv", [example.name])
    runpy.run_path(str(example), run_name="__main__")
    assert capsys.readouterr().out.strip(), f"{example.name} prints nothing"
