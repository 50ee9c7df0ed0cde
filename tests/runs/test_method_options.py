"""What a config and the command line say of a method is what its options are."""

import importlib
import inspect
import subprocess
import sys
import warnings
from dataclasses import fields, replace

import pytest

import toughen
from toughen import errors, registry
from toughen.cli.main import main
from toughen.errors import MethodError
from toughen.options import attribute_docs
from toughen.registry import get_factory, options_class
from toughen.runs.config import GROUPS, docs_of
from toughen.runs.method_config import (
    CUSTOM,
    check_method,
    cost_of,
    describe_method,
    describe_methods,
    is_method_of,
    make_method,
    method_to_config,
)

METHODS = describe_methods()


def test_all_methods_are_found():
    assert list(METHODS) == registry.list_methods()


@pytest.mark.parametrize("name", list(METHODS))
def test_options_and_presets_are_those_of_the_class(name):
    kind = options_class(get_factory(name))
    described = {option.name: option for option in METHODS[name].options}
    python_only = ("init", "candidates", "site")
    assert set(described) == {each.name for each in fields(kind) if each.name not in python_only}
    assert METHODS[name].doc == inspect.getdoc(kind)
    assert all(option.help for option in described.values()), "every option is explained"
    assert list(METHODS[name].presets) == list(kind.PRESETS)
    for preset, values in METHODS[name].presets.items():
        made = get_factory(name)(preset).options
        assert {key: getattr(made, key) for key in values if key != "preset"} == {
            key: value for key, value in values.items() if key != "preset"
        }
        for key, option in described.items():
            if option.default is None and values[key] is not None:
                usual = METHODS[name].presets["recommended"][key]
                shown = f"By default {usual}" if values[key] == usual else f"{preset} {values[key]}"
                assert shown in option.help


def test_every_option_of_a_config_is_explained():
    for kind in GROUPS.values():
        assert set(docs_of(kind)) == {"", *(each.name for each in fields(kind))}
        assert all(docs_of(kind).values())


def test_methods_are_described_without_torch():
    program = (
        "import sys; from toughen.runs.method_config import describe_methods; describe_methods(); "
        "assert 'torch' not in sys.modules; assert 'transformers' not in sys.modules"
    )
    subprocess.run([sys.executable, "-c", program], check=True)


def test_functions_are_described_by_their_signature():
    @toughen.register_method("mine")
    def mine(weight: float = 1.0, *, steps: "int | None" = None, size: int, start: object = None, **more):
        """Mine.

        Args:
            weight: How much.
        """

    options = {option.name: option for option in describe_method("mine").options}
    assert {name: option.type for name, option in options.items()} == {
        "weight": float,
        "steps": int | None,
        "size": int,
    }
    assert options["weight"].help == "How much."
    assert options["weight"].default == 1.0


def test_files_and_mistakes(tmp_path):
    with pytest.raises(MethodError, match="Did you mean 'smart'"):
        describe_method("smrt")
    with pytest.raises(MethodError, match=r"does not exist\. Write one with: toughen new-method"):
        describe_method(str(tmp_path / "none.py:x"))
    file = tmp_path / "two.py"
    methods = "@toughen.register_method('a')\ndef a(x: int = 1): ...\n@toughen.register_method('b')\ndef b(): ...\n"
    file.write_text(f"import toughen\n{methods}")
    assert [option.name for option in describe_method(f"{file}:a").options] == ["x"]
    with pytest.raises(MethodError, match="2 methods; say which one"):
        describe_method(str(file))
    with pytest.raises(MethodError, match="has no method 'c'"):
        describe_method(f"{file}:c")
    file.write_text("def broken(:\n")
    with pytest.raises(MethodError, match="line 1"):
        describe_method(f"{file}:a")


OWN_METHOD = '''
from dataclasses import dataclass

from toughen.options import AscentOptions
from toughen.registry import register_method


@register_method("newest")
@dataclass(frozen=True)
class Newest(AscentOptions):
    """A method in one file (Nobody, 2030).

    Presets:
        recommended: as SMART's.
        far: with ten times the radius.
    """

    preset: str = "recommended"
    """Named settings."""
    strength: float = 2.0
    """Weight of its term."""

    PRESETS = {"recommended": {}, "far": {"max_norm": 0.1, "strength": 3.0}}

    def build(self):
        from toughen.methods.smart import Smart

        return Smart(weight=self.strength, max_norm=self.max_norm).build()
'''


def test_a_method_is_one_file(tmp_path, monkeypatch, capsys):
    """Put into the folder of methods, it is in every list, in the help and in Python; nothing else is edited."""
    (tmp_path / "newest.py").write_text(OWN_METHOD)
    package = importlib.import_module("toughen.methods")
    monkeypatch.setattr(package, "__path__", [*package.__path__, str(tmp_path)])
    registry._load_own.cache_clear()
    try:
        assert "newest" in toughen.list_methods()  # families, laws and the table of the docs are made from this
        assert toughen.newest("far") == toughen.smart(weight=3.0, max_norm=0.1)
        assert toughen.create_method("newest", strength=1.0) == toughen.smart()
        assert method_to_config(toughen.newest("far", max_norm=0.2)) == {
            "name": "newest",
            "preset": "far",
            "max_norm": 0.2,
        }
        assert main(["methods"]) == 0
        listed = " ".join(capsys.readouterr().out.split())
        assert "newest 2.7 A method in one file (Nobody, 2030) [far]" in listed
        with pytest.raises(SystemExit):
            main(["train", "--method", "newest", "--help"])
        told = " ".join(capsys.readouterr().out.split())
        assert "--method.strength STRENGTH Weight of its term. By default 2.0; by preset: far 3.0." in told
        assert "--method.max_norm" in told
        assert main(["show", "newest", "--preset", "far"]) == 0
        assert "Ball(radius=0.1" in capsys.readouterr().out
    finally:
        sys.modules.pop("toughen.methods.newest", None)
        registry._load_own.cache_clear()


@pytest.mark.parametrize(
    ("method", "config"),
    [
        (toughen.smart(), {"name": "smart"}),
        (toughen.smart("paper", weight=2.0), {"name": "smart", "preset": "paper", "weight": 2.0}),
        (toughen.smart(weight=1.0), {"name": "smart"}),
        (toughen.alum("encoder.layer.0"), {"name": "alum", "layer": "encoder.layer.0"}),
        (toughen.asa(layers=[0, -1]), {"name": "asa", "layers": [0, -1]}),
        (
            toughen.freelb(radius_schedule=(0.1, 1)),
            {"name": "freelb", "radius_schedule": [0.1, 1.0, 1.0]},
        ),
        (
            toughen.smart(steps=2) + toughen.bregman(1.0) + toughen.rdrop(),
            {"name": "smart+bregman+rdrop", "smart": {"steps": 2}, "bregman": {"weight": 1.0}},
        ),
    ],
)
def test_a_method_remembers_its_options(method, config):
    assert method_to_config(method) == config
    check_method(config)
    assert make_method(config) == method
    assert is_method_of(config, method)
    assert not is_method_of(config, toughen.sam())


@pytest.mark.parametrize("name", list(METHODS))
def test_every_preset_is_made_again_from_its_config(name):
    for preset in METHODS[name].presets or [None]:
        method = get_factory(name)() if preset is None else get_factory(name)(preset)
        assert make_method(method_to_config(method)) == method
        assert repr(method) == repr(method.options.build())


def test_a_method_changed_by_hand_is_its_own():
    changed = replace(toughen.smart(), dropout="off")
    for method in (changed, toughen.smart(init=lambda view: 0.0), toughen.smart() + toughen.smart(weight=2.0)):
        assert method_to_config(method) == {"name": CUSTOM, "repr": repr(method)}
        assert is_method_of(method_to_config(method), method)
    assert method_to_config(replace(changed, dropout="shared")) == {"name": "smart"}


def test_the_old_name_of_an_option_still_works():
    for old, new in {"make": "create_method", "available": "list_methods", "named": "register_method"}.items():
        assert getattr(toughen, old) is getattr(toughen, new)
    errors.warn_renamed.cache_clear()
    with pytest.warns(FutureWarning, match="growth is now radius_schedule"):
        assert toughen.freelb(growth=(0.1, 1)) == toughen.freelb(radius_schedule=(0.1, 1))
    with pytest.warns(FutureWarning, match="over is now duration"):
        assert toughen.Ramp(0.1, 1.0, over=0.5) == toughen.LinearSchedule(0.1, 1.0, duration=0.5)
    with pytest.warns(FutureWarning, match="later is now final_decay"):
        assert toughen.bregman(later=0.5) == toughen.bregman(final_decay=0.5)
    with warnings.catch_warnings():
        warnings.simplefilter("error")  # once is enough
        assert toughen.create_method("freelb", growth=0.5) == toughen.freelb(radius_schedule=0.5)
    assert make_method({"name": "smart+rdrop", "smart": {"growth": [0.1, 1]}}).methods[0].options.radius_schedule
    check_method({"name": "smart", "growth": 0.5})
    with pytest.raises(MethodError, match="old name of radius_schedule"):
        toughen.freelb(growth=0.5, radius_schedule=0.5)
    with pytest.raises(MethodError, match="no option 'growth'"):
        check_method({"name": "sam", "growth": 0.5})
    with pytest.raises(TypeError, match="unexpected keyword argument 'growth'"):
        toughen.sam(growth=0.5)


def test_docs_are_inherited_and_overridden():
    docs = attribute_docs(options_class(get_factory("freeat")))
    assert docs["steps"].startswith("Forward and backward passes")
    assert docs["init_scale"].startswith("Size of the starting noise")


def test_cost_follows_from_the_composition():
    costs = {"plain": 1, "r3f": 2, "smart": 2.67, "freelb": 3, "sam": 2, "bregman": 1.33}
    assert {name: round(cost_of(registry.create_method(name)), 2) for name in costs} == costs
    assert round(cost_of(registry.create_method("smart+bregman")), 2) == 3.0


@pytest.mark.parametrize(
    ("method", "cost"),
    [
        (lambda: toughen.typos(), 2),
        (lambda: toughen.typos(worst_of=3), 3),  # three forward passes to choose
        (lambda: toughen.typos() + toughen.r3f(), 3),
        (lambda: toughen.typos(on="view") + toughen.r3f(), 3),
        (lambda: toughen.typos(on="both") + toughen.r3f(), 4),  # a pass over twice the texts
        (lambda: toughen.typos(on="both") + toughen.freelb(), 8),  # three such passes, a clean one, one over the view
        (lambda: toughen.freelb() + toughen.r3f(), 5),  # FreeLB makes no clean pass that could be shared
        (lambda: toughen.plain() + toughen.typos(), 2),
    ],
)
def test_cost_of_passes_over_views_of_texts(method, cost):
    assert cost_of(method()) == pytest.approx(cost)
