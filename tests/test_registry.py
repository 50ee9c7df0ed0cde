"""Names, presets, and methods that print as the call that makes them."""

import math
import warnings
from dataclasses import fields, is_dataclass, replace
from inspect import getdoc, signature
from types import ModuleType
from typing import Any

import pytest

import toughen
import toughen.combine
import toughen.compare
import toughen.compare.ema_teacher
import toughen.method
import toughen.search
import toughen.search.constraint
import toughen.sites
from toughen import registry
from toughen.errors import MethodError, RobustnessWarning
from toughen.registry import get_factory

PRESETS = {
    "smart": ["recommended", "robust", "paper", "smart-pytorch", "mt-dnn"],
    "sift": ["recommended", "robust", "deberta"],
    "freelb": ["recommended", "robust", "plus", "original", "fairseq", "paragen"],
    "fgm": ["recommended", "robust", "matrix"],
    "pgd": ["recommended", "robust", "absolute"],
    "freeat": ["recommended", "robust"],
    "vat": ["recommended", "robust", "paper"],
    "r3f": ["recommended", "paper"],
    "r4f": ["recommended", "paper"],
    "creat": ["recommended", "original"],
    "asa": ["recommended", "original"],
    "typos": ["recommended", "augmentation"],
    "words": ["recommended", "random", "flip", "hull", "safer", "a2t", "ascc", "dne"],
}
EVERY = [(name, preset) for name in toughen.list_methods() for preset in PRESETS.get(name, [None])]


def made(name: str, preset: str | None) -> Any:
    return toughen.create_method(name) if preset is None else toughen.create_method(name, preset=preset)


def names() -> dict[str, Any]:
    """What a person imports to write a method out, and nothing else."""
    modules: list[ModuleType] = [
        toughen.method,
        toughen.combine,
        toughen.compare,
        toughen.compare.ema_teacher,
        toughen.search,
        toughen.search.constraint,
        toughen.sites,
    ]
    found = {k: v for m in modules for k, v in vars(m).items() if isinstance(v, type) and is_dataclass(v)}
    return found | {"inf": math.inf}


@pytest.mark.parametrize(("name", "preset"), EVERY)
def test_a_method_prints_as_the_call_that_makes_it(name: str, preset: str | None) -> None:
    method = made(name, preset)
    again = eval(repr(method), {"__builtins__": {}}, names())
    assert again == method
    assert repr(again) == repr(method)
    assert hash(again) == hash(method)


def test_a_sum_prints_as_the_call_that_makes_it() -> None:
    method = toughen.smart() + toughen.bregman()
    assert eval(repr(method), {"__builtins__": {}}, names()) == method


@pytest.mark.parametrize(("name", "preset"), EVERY)
def test_a_method_is_frozen_and_varied_by_replace(name: str, preset: str | None) -> None:
    method = made(name, preset)
    with pytest.raises(AttributeError):
        method.dropout = "off"
    for part in ("site", "search", "compare", "combine"):
        inside = getattr(method, part)
        for field in fields(inside):
            with pytest.raises(AttributeError):
                setattr(inside, field.name, None)
    assert replace(method, dropout=method.dropout) == method


@pytest.mark.parametrize(("name", "preset"), EVERY)
def test_every_method_and_preset_says_where_it_comes_from(name: str, preset: str | None) -> None:
    doc = getdoc(get_factory(name)) or ""
    assert doc
    if preset is not None and name != "r4f":  # "as for r3f"
        assert f"{preset}:" in doc


def test_the_presets_of_the_sources_are_all_there() -> None:
    for name in toughen.list_methods():
        assert ("preset" in signature(get_factory(name)).parameters) == (name in PRESETS), name
    for name, presets in PRESETS.items():
        for preset in presets:
            assert made(name, preset) == get_factory(name)(preset)


def test_a_preset_keeps_its_numbers_and_takes_single_changes() -> None:
    paper = toughen.smart("paper")
    assert paper.search.step_size == 1e-3
    assert paper.search.project.radius == 1e-5
    changed = toughen.smart("paper", step_size=1e-6, weight=0.0)
    assert changed == replace(paper, search=replace(paper.search, step_size=1e-6), combine=toughen.combine.Add(0.0))


CUT = ["smart", "alum", "sift", "freelb", "freeat", "pgd", "creat"]


@pytest.mark.parametrize("name", CUT)
def test_a_step_beyond_the_ball_is_told_of(name: str) -> None:
    radius = toughen.create_method(name).search.project.radius
    with pytest.warns(RobustnessWarning, match=rf"step_size=0.5 .* max_norm={radius:g}, .*: raise") as told:
        toughen.create_method(name, step_size=0.5)
    assert len(told) == 1
    with pytest.warns(RobustnessWarning, match="above max_norm=0.4"):
        toughen.create_method(name, step_size=0.5, max_norm=0.4)


def test_steps_that_are_not_cut_or_are_as_published_are_not_told_of() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for name, preset in EVERY:
            method = made(name, preset)
            search = method.search
            radius = getattr(getattr(search, "project", None), "radius", None)
            if preset is not None and radius is not None:  # a preset written out is the preset
                assert toughen.create_method(name, preset=preset, step_size=search.step_size, max_norm=radius) == method
        for name in CUT:
            toughen.create_method(name, step_size=0.5, max_norm=0.5)
            toughen.create_method(name, step_size=0.5, max_norm=0.0)
            toughen.create_method(name, max_norm=1e-9)
        toughen.smart("smart-pytorch", step_size=2.0)  # of a raw gradient, whose length is known to nobody
        toughen.fgm(step_size=2.0)
        toughen.awp(step_size=2.0)


def test_own_methods_can_be_named_and_a_taken_name_cannot(monkeypatch: pytest.MonkeyPatch) -> None:
    toughen.list_methods()
    monkeypatch.setattr(registry, "_NAMED", dict(registry._NAMED))

    @toughen.register_method("mine")
    def mine() -> Any:
        return toughen.smart(weight=3.0)

    assert "mine" in toughen.list_methods()
    assert toughen.create_method("mine") == toughen.smart(weight=3.0)
    assert toughen.mine is mine
    with pytest.raises(MethodError, match=r"'smart' already exists \(toughen.methods.smart\). Take another name"):
        toughen.register_method("smart")(mine)


@pytest.mark.parametrize(
    ("name", "settings", "message"),
    [
        ("freelb", {"stepsize": 1}, "method freelb has no option 'stepsize'. Did you mean 'step_size' or 'steps'"),
        ("smart+freelb", {"freelb": {"stepsize": 1}}, "method freelb has no option 'stepsize'. Did you mean"),
        ("rdrop", {"zzzz": 1}, "method rdrop has no option 'zzzz'. Known: weight"),
        ("plain", {"weight": 1}, "method plain has no option 'weight'. It has no options"),
        ("frelb", {"stepsize": 1}, "There is no method 'frelb'. Did you mean 'freelb'"),
    ],
)
def test_an_option_that_is_not_there(name: str, settings: dict[str, Any], message: str) -> None:
    with pytest.raises(MethodError, match=message):
        toughen.create_method(name, **settings)


def test_a_functions_own_errors_and_free_options_are_left_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    toughen.list_methods()
    monkeypatch.setattr(registry, "_NAMED", dict(registry._NAMED))

    @toughen.register_method("broken")
    def broken(weight: float = 1.0) -> Any:
        raise TypeError("from inside")

    @toughen.register_method("free")
    def free(**settings: Any) -> Any:
        return toughen.smart(**settings)

    with pytest.raises(TypeError, match="from inside"):
        toughen.create_method("broken", weight=2.0)
    assert toughen.create_method("free", weight=3.0) == toughen.smart(weight=3.0)


def test_a_sum_is_ordered_and_flat() -> None:
    total = toughen.smart() + toughen.freelb() + (toughen.bregman() + toughen.r3f())
    assert total.methods[0] == toughen.freelb()  # the one with passes of its own leads
    assert set(total.methods) == {toughen.smart(), toughen.freelb(), toughen.bregman(), toughen.r3f()}
