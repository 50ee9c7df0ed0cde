"""A method's options without importing it: read from its source, so that help needs no torch.

The package's methods and a person's own file are parsed; plug-ins, and methods registered by a running program, are
asked by `inspect`.
"""

import ast
import inspect
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from shlex import quote
from typing import Any

from ..errors import MethodError, nearest
from .annotations import type_of
from .presets_source import presets_in

METHODS = Path(__file__).parents[1] / "methods"
NO_DEFAULT: Any = inspect.Parameter.empty

# What an option of this name means in every method; a docstring's own "Args:" section goes before.
MEANINGS: Mapping[str, str] = {
    "preset": "Named settings, those of a paper or its code; single options go over them.",
    "weight": "Weight of the added term in the loss.",
    "step_size": "Length of one ascent step; in the recommended presets a share of the embedding's norm.",
    "init_scale": "Size of the starting noise, in the same units.",
    "max_norm": "Radius of the ball the perturbation stays in, which cuts longer steps; 0 is no ball.",
    "growth": "Factor on all lengths of the search; [start, end] or [start, end, over] if it grows over the training.",
    "steps": "Steps of the search (FreeLB, FreeAT: passes).",
    "norm": "Norm of step and ball.",
    "noise": "Distribution of the noise.",
    "dropout": "One dropout mask for all passes of a batch (shared), one for each (fresh), or none (off).",
    "probe": "Size of the random probe from which the direction is found.",
    "rho": "How far the weights move uphill.",
    "eta": "Added to each weight's size before it is used as a unit.",
    "alpha": "Size of the noise.",
    "layer": "Number of the layer, or the dotted path of a module.",
    "temperature": "Temperature (CreAT: of the features' cosine; ASA: of the drawn masks).",
    "tau": "Price of hiding attention pairs, squared.",
    "visible": "Share of attention pairs visible at the start.",
    "layers": "Numbers of the layers; by default all.",
    "per_head": "A mask of its own for each head.",
    "rank": "Width of the adversary's projections.",
    "adversary_rate": "The adversary's learning rate, as a multiple of the optimizer's.",
    "adversary_weight": "Weight of the adversary's own gradient.",
    "decay": "Decay of the mean weights in the first updates.",
    "later": "Decay after them.",
    "switch": "Share of the updates after which `later` holds.",
}


@dataclass(frozen=True)
class Option:
    """One setting of a method."""

    name: str
    type: Any
    default: Any
    help: str


@dataclass(frozen=True)
class Signature:
    """A method's name, what it is, and its options."""

    name: str
    doc: str
    options: tuple[Option, ...]
    presets: Mapping[str, Mapping[str, Any]] = field(default_factory=dict[str, Mapping[str, Any]])

    @property
    def title(self) -> str:
        return self.doc.strip().partition("\n")[0]


def signature(name: str) -> Signature:
    """The options of one method: a known name, a plug-in's, or `path/to/file.py:name`."""
    path, key = own_file(name)
    if path is not None:
        found = _parsed(path)
        if key not in found:
            raise MethodError(f"{path} has no method {key!r}. {nearest(key, found) if found else _no_method(path)}")
        return found[key]
    if (ours := _ours(key)) is not None:
        return ours
    from ..registry import get_factory  # a plug-in, or registered by a running program: costs the import of torch

    return inspected(key, get_factory(key))


def own_file(name: str) -> tuple[Path | None, str]:
    """`./file.py:name` as file and name; any other name has no file."""
    match = re.fullmatch(r"(.+\.py)(?::(\w[\w-]*))?", name)
    if not match:
        return None, name
    path = Path(match[1])
    if not path.is_file():
        raise MethodError(f"{path} is not there. Write one with: toughen new {quote(str(path))}")
    found = _parsed(path)
    if match[2] is None and len(found) != 1:
        raise MethodError(f"{path} has {len(found)} methods; say which one: {path}:NAME.")
    return path, match[2] or next(iter(found))


@cache
def known() -> dict[str, Signature]:
    """The package's own methods, in order of their names."""
    found: dict[str, Signature] = {}
    for path in METHODS.glob("[!_]*.py"):
        found |= _parsed(path)
    return dict(sorted(found.items()))


@cache
def _ours(name: str) -> Signature | None:
    """One method of the package; only the files that hold its name are parsed, which is most of the time of help."""
    for path in METHODS.glob("[!_]*.py"):
        if f'"{name}"' in path.read_text(encoding="utf-8") and name in (found := _parsed(path)):
            return found[name]
    return None


def _no_method(path: Path) -> str:
    return f"Write one with @toughen.named('...') in {path.name}."


def _parsed(path: Path) -> dict[str, Signature]:
    try:
        tree = ast.parse(path.read_text(encoding="utf-8"))
    except SyntaxError as error:
        raise MethodError(f"{path}, line {error.lineno}: {error.msg}.") from None
    presets = presets_in(tree)
    found: dict[str, Signature] = {}
    for node in tree.body:
        name = _name_of(node)
        if name is not None and isinstance(node, ast.FunctionDef):
            doc = inspect.cleandoc(ast.get_docstring(node) or "")
            options = tuple(_option(*each, doc, presets) for each in _parameters(node))
            # A function without a preset option uses the file's table for itself; its names mean nothing outside.
            own = presets if any(option.name == "preset" for option in options) else {}
            found[name] = Signature(name, doc, tuple(option for option in options if option.type is not None), own)
    return found


def _name_of(node: ast.stmt) -> str | None:
    for decorator in getattr(node, "decorator_list", ()):
        if isinstance(decorator, ast.Call) and decorator.args and isinstance(decorator.args[0], ast.Constant):
            called = decorator.func
            if "named" in (getattr(called, "id", None), getattr(called, "attr", None)):
                return str(decorator.args[0].value)
    return None


def _parameters(node: ast.FunctionDef) -> Iterator[tuple[str, str | None, Any]]:
    positional = [*node.args.posonlyargs, *node.args.args]
    missing: list[ast.expr | None] = [None] * (len(positional) - len(node.args.defaults))
    defaults: list[ast.expr | None] = [*missing, *node.args.defaults, *node.args.kw_defaults]
    for argument, default in zip([*positional, *node.args.kwonlyargs], defaults, strict=True):
        written = ast.unparse(argument.annotation) if argument.annotation else None
        yield argument.arg, written, NO_DEFAULT if default is None else _literal(default)


def _literal(node: ast.expr) -> Any:
    try:
        return ast.literal_eval(node)
    except ValueError:
        return None


def _option(name: str, annotation: str | None, default: Any, doc: str, presets: Mapping[str, Any]) -> Option:
    kind = _type(annotation, default)
    text = _meaning(name, doc)
    if name == "preset" and presets:
        text += f" One of {', '.join(presets)}."
    elif default is None and kind is not None:
        values = [f"{preset} {row[name]!r}" for preset, row in presets.items() if name in row]
        text += f" By preset: {', '.join(values)}." if values else ""
    return Option(name, kind, default, text.strip())


def _type(annotation: str | None, default: Any) -> Any:
    """The type behind an annotation, for those a command line can write; None for the others."""
    if annotation is None:
        return type(default) if isinstance(default, (bool, int, float, str)) else None
    return type_of(annotation)


def _meaning(name: str, doc: str) -> str:
    own = re.search(rf"^\s*(?:Args:\n(?:.*\n)*?)?\s+{name}(?: \(.*?\))?: (.+)$", doc.partition("Args:")[2], flags=re.M)
    return own[1].strip() if own else MEANINGS.get(name, "")


def inspected(name: str, function: Any) -> Signature:
    """The options of a function that is loaded already."""
    doc = inspect.getdoc(function) or ""
    options = []
    for parameter in inspect.signature(function).parameters.values():
        written = parameter.annotation
        text = (
            None
            if written is NO_DEFAULT
            else written
            if isinstance(written, str)
            else inspect.formatannotation(written)
        )
        options.append(_option(parameter.name, text, parameter.default, doc, {}))
    return Signature(name, doc, tuple(option for option in options if option.type is not None))
