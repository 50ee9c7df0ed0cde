"""What is read from the source of a method is what the method has."""

import importlib
import inspect
from dataclasses import asdict

import pytest

from toughen import registry
from toughen.errors import MethodError
from toughen.runs.cost import cost_of
from toughen.runs.signatures import inspected, known, signature


def test_all_methods_are_found():
    own = [name for name in registry.list_methods() if registry.get_factory(name).__module__.startswith("toughen.")]
    assert sorted(known()) == own


@pytest.mark.parametrize("name", list(known()))
def test_options_and_presets_are_the_functions_own(name):
    function = registry.get_factory(name)
    parameters = inspect.signature(function).parameters
    read = {option.name: option.default for option in known()[name].options}
    assert read == {key: each.default for key, each in parameters.items() if key != "init"}
    assert known()[name].doc == inspect.getdoc(function)
    assert all(option.help for option in known()[name].options), "every option is explained"
    if known()[name].presets:
        presets = importlib.import_module(function.__module__).PRESETS
        assert list(presets) == list(known()[name].presets)
        for preset, values in known()[name].presets.items():
            settings = asdict(presets[preset])
            assert values.items() <= settings.items()
            assert settings.keys() - values.keys() <= {"skip"}  # names of the module, not plain values


def test_a_loaded_function_reads_the_same():
    for name, described in known().items():
        options = inspected(name, registry.get_factory(name)).options
        assert [(each.name, each.default) for each in options if each.name in {o.name for o in described.options}] == [
            (each.name, each.default) for each in described.options
        ]


def test_files_and_mistakes(tmp_path):
    with pytest.raises(MethodError, match="Did you mean 'smart'"):
        signature("smrt")
    with pytest.raises(MethodError, match=r"is not there\. Write one with: toughen new"):
        signature(str(tmp_path / "none.py:x"))
    file = tmp_path / "two.py"
    file.write_text("import toughen\n@toughen.named('a')\ndef a(x: int = 1): ...\n@toughen.named('b')\ndef b(): ...\n")
    assert [option.name for option in signature(f"{file}:a").options] == ["x"]
    with pytest.raises(MethodError, match="2 methods; say which one"):
        signature(str(file))
    file.write_text("def broken(:\n")
    with pytest.raises(MethodError, match="line 1"):
        signature(f"{file}:a")


def test_cost_follows_from_the_composition():
    costs = {"plain": 1, "r3f": 2, "smart": 2.67, "freelb": 3, "sam": 2, "bregman": 1.33}
    assert {name: round(cost_of(registry.create_method(name)), 2) for name in costs} == costs
    assert round(cost_of(registry.create_method("smart+bregman")), 2) == 3.0
