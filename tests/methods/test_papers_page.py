"""The tables of docs/papers.md that say what tests and code say: references, and defaults that differ from a paper."""

from pathlib import Path

import pytest

import toughen
from toughen.registry import get_factory, options_class

from ..golden.cases import names
from ..tiny import LIKE_TYPOS
from .test_naive_loops import OURS

ROOT = Path(__file__).resolve().parents[2]
PAGE = (ROOT / "docs" / "papers.md").read_text(encoding="utf-8")
GOLDEN = {  # folders of tests/golden, and the test that reads them
    "smart": (("smart", "mtdnn_smart"), "golden/test_smart.py"),
    "sift": (("sift",), "golden/test_sift.py"),
    "freelb": (("freelb", "freelb_paragen"), "golden/test_freelb.py"),
    "asa": (("asa",), "golden/test_asa.py"),
}
LOOPS = {"asa": "asa/test_method.py"}  # elsewhere than the others
OURS_ALONE = ("recommended", "robust", "random", "flip", "hull")


def registered(name: str):
    kind = options_class(get_factory(name))
    assert kind is not None
    return kind


def reference(name: str) -> str:
    folders, golden = GOLDEN.get(name, ((), ""))
    cases = f"{sum(len(names(folder)) for folder in folders)} cases, `{golden}`" if folders else ""
    return f"| `{name}` | {cases} | `{LOOPS.get(name, 'methods/test_naive_loops.py')}` |"


def differing(name: str, preset: str) -> str:
    kind = registered(name)
    ours, theirs = kind.preset_values(), kind.PRESETS[preset]
    options = [option for option, value in theirs.items() if value != ours[option]]
    cells = [", ".join(f"`{option}` {values[option]}" for option in options) for values in (theirs, ours)]
    return f"| `{name}` | `{preset}` | {cells[0]} | {cells[1]} |"


def test_each_method_is_held_to_what_the_page_says():
    rows = [reference(name) for name in toughen.list_methods()]
    head = f"| second-order head | {len(names('mgcrp'))} cases, `heads/test_golden.py` | |"
    assert [row for row in [*rows, head] if row not in PAGE] == []
    elsewhere = {"freeat", "asa", "typos", *LIKE_TYPOS}  # tests of their own; one edit of texts stands for all
    assert {name.split()[0] for name in OURS} | elsewhere >= set(toughen.list_methods())
    assert f"{len(toughen.list_methods())} methods, {len(GOLDEN)} of them" in PAGE
    readme = " ".join((ROOT / "README.md").read_text(encoding="utf-8").split())
    named = ", ".join(f"`{name}`" for name in GOLDEN).replace(", `asa`", ", `asa` and the second-order head")
    assert f"{named} also equal numbers made with their authors' code" in readme


@pytest.mark.parametrize("name", toughen.list_methods())
def test_presets_and_defaults_are_those_of_the_page(name):
    presets = [preset for preset in registered(name).PRESETS if preset not in OURS_ALONE]
    assert [row for row in (differing(name, preset) for preset in presets) if row not in PAGE] == []


@pytest.mark.parametrize(
    ("name", "option"),
    [
        *(("bregman", "weight"), ("rdrop", "weight"), ("neftune", "alpha"), ("sam", "rho"), ("asam", "rho")),
        *(("awp", "max_norm"), ("freeat", "max_norm"), ("alum", "step_size")),
    ],
)
def test_defaults_of_methods_without_an_original_preset(name, option):
    row = next(row for row in PAGE.splitlines() if row.startswith(f"| `{name}` | |"))
    assert row.endswith(f"`{option}` {registered(name).preset_values()[option]} |")
