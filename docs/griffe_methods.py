"""Shows `toughen.smart` and its siblings in the API reference: they are made from dataclasses when asked for."""

import inspect
from typing import Any

import griffe

import toughen


class Methods(griffe.Extension):
    """Puts a function with the docstring of `help` in the place of each method, and fields among the arguments."""

    def on_class(self, *, cls: griffe.Class, **kwargs: Any) -> None:
        """Add the fields of a dataclass that have a text of their own to the arguments in its docstring."""
        if "dataclass" not in cls.labels or cls.docstring is None or "\nExamples:\n" not in cls.docstring.value:
            return
        fields = {
            name: each.docstring
            for name, each in cls.attributes.items()
            if each.docstring and "instance-attribute" in each.labels
        }
        lines = [f"    {name}: {' '.join(doc.value.split())}" for name, doc in fields.items()]
        summary, _, examples = cls.docstring.value.partition("\n\nExamples:\n")
        head = [] if "\nArgs:\n" in summary or not lines else ["", "Args:"]
        cls.docstring.value = "\n".join([summary, *head, *lines, "", "Examples:", examples])

    def on_package(self, *, pkg: griffe.Module, **kwargs: Any) -> None:
        """Add the functions once the package is read."""
        if pkg.name != "toughen":
            return
        for name in toughen.list_methods():
            make = getattr(toughen, name)
            parameters = [
                griffe.Parameter(
                    each.name,
                    annotation=inspect.formatannotation(each.annotation),
                    kind=griffe.ParameterKind(each.kind.description),
                    default=repr(each.default),
                )
                for each in inspect.signature(make).parameters.values()
            ]
            doc = griffe.Docstring(inspect.getdoc(make) or "", parser=griffe.Parser.google)
            function = griffe.Function(name, parameters=griffe.Parameters(*parameters), returns="Method", docstring=doc)
            pkg.set_member(name, function)
