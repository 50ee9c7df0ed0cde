"""`toughen cite` and CITATION.cff name the papers of docs/papers.md."""

from pathlib import Path

import pytest
import yaml

import toughen
from toughen.cli.commands.cite import read_papers
from toughen.cli.main import main

ROOT = Path(__file__).resolve().parents[2]


def test_every_method_has_its_paper_and_the_page_has_it_too():
    papers = read_papers()
    methods = [name for paper in papers for name in paper["methods"]]
    assert set(methods) == {*toughen.list_methods(), "second-order"} - {"plain"}
    assert methods.count("words") == 5
    page = (ROOT / "docs" / "papers.md").read_text(encoding="utf-8")
    assert [paper["arxiv"] for paper in papers if f"https://arxiv.org/abs/{paper['arxiv']}" not in page] == []


def test_the_citation_file_lists_the_same_papers():
    references = yaml.safe_load((ROOT / "CITATION.cff").read_text(encoding="utf-8"))["references"]
    papers = read_papers()
    assert [each["title"] for each in references] == [paper["title"] for paper in papers]
    for each, paper in zip(references, papers, strict=True):
        names = [f"{author['family-names']}, {author['given-names']}" for author in each["authors"]]
        assert (names, each["year"]) == (paper["authors"], paper["year"])
        assert each["url"] == f"https://arxiv.org/abs/{paper['arxiv']}"


def test_the_command(capsys):
    assert main(["cite", "smart+bregman", "asa"]) == 0
    printed = capsys.readouterr().out
    assert printed.count("@") == 2
    assert "title = {{Adversarial Self-Attention for Language Understanding}}" in printed
    assert "author = {Jiang, Haoming and He, Pengcheng and" in printed
    assert main(["cite"]) == 0
    assert capsys.readouterr().out.count("\n@") + 1 == len(read_papers())
    assert main(["cite", "smat"]) == 2
    assert "there is no paper of 'smat'. Did you mean 'smart'" in capsys.readouterr().err


@pytest.mark.parametrize("paper", read_papers(), ids=lambda paper: paper["key"])
def test_an_entry_has_what_bibtex_needs(paper):
    assert set(paper) - {"venue"} == {"key", "methods", "title", "authors", "year", "arxiv"}
    assert paper["key"].endswith(tuple("abcdefghijklmnopqrstuvwxyz"))
    assert all(", " in author for author in paper["authors"])
