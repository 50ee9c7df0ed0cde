"""YAML as `yaml.safe_load` reads it, but a key that is there twice is an error: the first would be lost in silence."""

import json
from collections.abc import Hashable
from contextlib import suppress
from pathlib import Path
from typing import Any, cast

import yaml
from yaml.scanner import ScannerError


class _Strict(yaml.SafeLoader):
    def construct_document(self, node: yaml.Node) -> Any:
        # Inner values first: what is merged into (<<) another mapping is looked at before it is, and an alias of what
        # it stands in is refused by the loader.
        self.deep_construct = True
        return super().construct_document(node)

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Hashable, Any]:
        keys: set[str] = set()
        for key, _ in node.value:
            if isinstance(key, yaml.ScalarNode) and key.value != "<<" and key.value in keys:
                problem = f"the key {key.value!r} is there twice; put its values together"
                raise yaml.constructor.ConstructorError(None, None, problem, key.start_mark)
            keys.add(str(key.value))
        return super().construct_mapping(node, deep)


def load_yaml(text: str) -> Any:
    """The values of a text; `yaml.YAMLError` where it is no YAML or says a thing twice."""
    return yaml.load(text, _Strict)  # a SafeLoader


def read_yaml(path: Path, refusal: type[ValueError], otherwise: str) -> dict[str, Any]:
    """The values of a YAML or JSON file, or a refusal in one line: what is wrong with it, or what it is not."""
    try:
        values = _yaml_or_json(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise refusal(f"{path}: {error.strerror or error}.") from None
    except (yaml.YAMLError, UnicodeDecodeError) as error:
        raise refusal(f"{path} is not YAML: {' '.join(str(error).split())}") from None
    if not isinstance(values, dict):
        raise refusal(f"{path} {otherwise}")
    return cast("dict[str, Any]", values)


def _yaml_or_json(text: str) -> Any:
    try:
        return load_yaml(text)
    except ScannerError:
        with suppress(ValueError):
            return json.loads(text)  # JSON may be indented by tabs, YAML not
        raise
