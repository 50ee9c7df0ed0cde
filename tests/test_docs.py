"""Every Python block of the README and the docs runs, and so does every example."""

import ast
import doctest
import inspect
import json
import re
import runpy
import subprocess
import sys
from dataclasses import is_dataclass
from itertools import pairwise
from pathlib import Path
from statistics import fmean
from textwrap import dedent
from typing import Any

import nbformat
import pytest
import torch
from nbclient import NotebookClient

import toughen
from benchmarks import front_picture, method_table
from toughen.attacks import base as attacks

from .tiny import TOKENIZER, bert, text_batch

ROOT = Path(__file__).resolve().parents[1]
PAGES = sorted([ROOT / "README.md", *(ROOT / "docs").rglob("*.md")])
EXAMPLES = sorted((ROOT / "examples").glob("*.py"))
LONG = {"demo.py"}  # fine-tunes real weights for minutes; `make demo` runs it
PACKAGES = ("tasks", "evaluation", "reports", "sweeps", "cuda_graphs", "heads", "runs")
MAKERS = {  # what other examples take up
    **{"train": "run", "sweep": "swept", "harden": "hardened", "evaluate": "found"},
    **{"evaluation.Victim": "victim", "evaluation.Target": "target"},
}


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
def own_attacks(monkeypatch):
    """Attacks that a page registers are gone after it."""
    attacks.attack_classes()  # all of the library, into the table that stays
    monkeypatch.setattr(attacks, "_CLASSES", dict(attacks._CLASSES))


@pytest.fixture(autouse=True)
def tiny_demo(monkeypatch):
    """The demo with its tiny model, also where the real one is installed: a page shows calls, not scores."""
    monkeypatch.setattr("toughen.demo.run_demo.PACKAGE", "a package that is not there")


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


def public() -> dict[str, Any]:
    """Every public name, and those of the packages, each once."""
    names = {name: getattr(toughen, name) for name in toughen.__all__}
    for package in PACKAGES:
        home = getattr(toughen, package)
        parts = {f"{package}.{name}": getattr(home, name) for name in home.__all__}
        names |= {name: each for name, each in parts.items() if callable(each) and each not in names.values()}
    return names


def parameters(thing: Any) -> set[str]:
    """The arguments of a function or a class; an error without its own takes a message."""
    own = isinstance(thing, type) and issubclass(thing, Exception) and "__init__" not in vars(thing)
    return set() if own else set(inspect.signature(thing).parameters)


def explained_fields(thing: Any) -> set[str]:
    """The fields of a dataclass or a named tuple with a text behind them, which the reference shows as arguments."""
    found: set[str] = set()
    for each in getattr(thing, "__mro__", ()):
        has_fields = is_dataclass(each) or hasattr(each, "_fields")
        body = ast.parse(dedent(inspect.getsource(each))).body[0].body if has_fields else []
        found |= {
            one.target.id
            for one, text in pairwise(body)
            if isinstance(one, ast.AnnAssign) and isinstance(text, ast.Expr) and isinstance(text.value, ast.Constant)
        }
    return found


def test_every_public_name_is_explained():
    """What it does, every argument, what comes back and what is refused, in the form that the reference reads."""
    problems: list[str] = []
    for name, thing in public().items():
        doc = inspect.getdoc(thing) or ""
        arguments = doc.partition("\nArgs:\n")[2].partition("\n\n")[0]
        named = set(re.findall(r"^    \**(\w+):", arguments, flags=re.M))
        wanted = parameters(thing) if thing is not toughen.MethodOptions else set()
        wanted -= explained_fields(thing) - named
        problems += [f"{name}: {each} is not in Args" for each in sorted(wanted ^ named)]
        returns = [] if isinstance(thing, type) or inspect.signature(thing).return_annotation is None else ["Returns"]
        raises = ["Raises"] if "." not in name and not isinstance(thing, type) and wanted else []
        problems += [f"{name} has no {each}" for each in (*returns, *raises, "Examples") if f"\n{each}:\n" not in doc]
    assert problems == []
    assert {*toughen._HOMES, *toughen.list_methods()} == set(toughen.__all__)


def test_the_reference_has_every_public_name():
    pages = "".join(page.read_text() for page in (ROOT / "docs" / "api").glob("*.md"))
    shown = set(re.findall(r"^::: toughen\.([\w.]+)$", pages, flags=re.M))
    assert {*public(), "heads.PRESETS"} - shown == set()


def test_the_site_builds_without_a_warning(tmp_path):
    """Links, anchors, the navigation and every name of the reference; without network."""
    command = [sys.executable, "-m", "mkdocs", "build", "--strict", "--site-dir", str(tmp_path / "site")]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    fetched = re.findall(
        r'<(?:script|link|img)[^>]+(?:src|href)="(https?://[^"]+)', (tmp_path / "site" / "index.html").read_text()
    )
    assert fetched == []


def test_the_method_table_is_current():
    assert method_table.PAGE.read_text() == method_table.text(), "run: python -m benchmarks.method_table"


def test_the_readme_says_what_was_measured():
    means = [[round(fmean(each)) for each in found.values()] for found in front_picture.scores().values()]
    (clean, toughened), (attacked, held), typos = means
    text = " ".join((ROOT / "README.md").read_text().split())
    assert f"right on {held} of 100 instead of {attacked}." in text
    assert f"unchanged {clean} plain and {toughened} toughened" in text
    assert f"attacked {attacked} and {held}, typos in 3 of 10 words {typos[0]} and {typos[1]}]" in text
    shown = re.findall(r">(\d+)</text>", front_picture.PICTURE.read_text())
    assert {str(each) for pair in means for each in pair} <= set(shown)


def test_the_readme_says_what_the_demo_found():
    found = json.loads(front_picture.DEMO.read_text())
    clean, typos = ({key: 100 * value for key, value in each.items() if key != "name"} for each in found["columns"][:2])
    text = " ".join((ROOT / "README.md").read_text().split())
    assert f"understands {typos['plain']:.0f} and the toughened model {typos['robust']:.0f} (95 %" in text
    assert f"630 requests: {typos['low']:+.1f} to {typos['high']:+.1f}). Of unchanged" in text
    assert f"they understand {clean['plain']:.0f} and {clean['robust']:.0f}." in text
    drawn = front_picture.REQUESTS.read_text()
    assert all(row[1] in drawn for row in found["examples"][1:])


class LastLines(doctest.OutputChecker):
    """Compares the end of what is printed: before it a training prints its progress."""

    def check_output(self, want: str, got: str, optionflags: int) -> bool:
        end = "".join(got.splitlines(keepends=True)[-want.count("\n") :])
        return not want or super().check_output(want, end, optionflags)


def test_every_example_of_a_public_name_runs(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    runner = doctest.DocTestRunner(LastLines(), optionflags=doctest.ELLIPSIS)
    said: list[str] = []
    made: dict[str, object] = {"toughen": toughen}
    for name, thing in sorted(public().items(), key=lambda named: [*MAKERS, named[0]].index(named[0])):
        doc = inspect.getdoc(thing) or ""
        names = namespace(tmp_path / name) | made
        test = doctest.DocTestParser().get_doctest(doc, names, name, None, None)
        test.globs = names  # not the copy of it that the parser made
        assert test.examples, name
        runner.run(test, out=said.append, clear_globs=False)
        made |= {key: names[key] for key in MAKERS.values() if key in names}
    assert runner.failures == 0, "".join(said)


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


def test_the_notebook_runs_from_top_to_bottom(tmp_path):
    """In a kernel of its own, as in a fresh environment, with the tiny model."""
    notebook = nbformat.read(ROOT / "examples" / "get_started.ipynb", as_version=4)
    assert all(not cell.get("outputs") for cell in notebook.cells)  # nothing of a machine is kept in the file
    tiny = "from toughen.demo import run_demo; run_demo.PACKAGE = 'a package that is not there'"
    for cell in notebook.cells:
        cell.source = cell.source.replace("seeds=[1, 2]", "seeds=[1]")  # half the time, the same calls
    notebook.cells.insert(0, nbformat.v4.new_code_cell(tiny))
    NotebookClient(
        notebook, timeout=300, kernel_name="python3", resources={"metadata": {"path": str(tmp_path)}}
    ).execute()
    printed = "".join(each.get("text", "") for cell in notebook.cells for each in cell.get("outputs", ()))
    assert "embeddings moved by 5 %" in printed
    assert (tmp_path / "notebook-files" / "reviews.csv").is_file()
