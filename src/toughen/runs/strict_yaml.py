"""YAML as `yaml.safe_load` reads it, but a key that is there twice is an error: the first would be lost in silence."""

from collections.abc import Hashable
from typing import Any

import yaml


class _Strict(yaml.SafeLoader):
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
