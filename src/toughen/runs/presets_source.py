"""The table of presets in a method's source, as plain values."""

import ast
from collections.abc import Mapping
from typing import Any


def presets_in(tree: ast.Module) -> dict[str, dict[str, Any]]:
    """`PRESETS = {"paper": Settings(weight=1.0, ...)}` as names and values; what is no plain value is left out."""
    records = {node.name: _fields(node) for node in tree.body if isinstance(node, ast.ClassDef)}
    for node in tree.body:
        if not isinstance(node, ast.Assign) or not isinstance(node.value, ast.Dict):
            continue
        if [getattr(target, "id", None) for target in node.targets] == ["PRESETS"]:
            return {
                str(ast.literal_eval(key)): _row(value, records)
                for key, value in zip(node.value.keys, node.value.values, strict=True)
                if key is not None
            }
    return {}


def _fields(record: ast.ClassDef) -> dict[str, ast.expr | None]:
    lines = [node for node in record.body if isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name)]
    return {line.target.id: line.value for line in lines if isinstance(line.target, ast.Name)}


def _row(call: ast.expr, records: Mapping[str, Mapping[str, ast.expr | None]]) -> dict[str, Any]:
    if not isinstance(call, ast.Call) or not isinstance(call.func, ast.Name):
        return {}
    written = dict(records.get(call.func.id, {}))
    written |= dict(zip(written, call.args, strict=False))
    written |= {keyword.arg: keyword.value for keyword in call.keywords if keyword.arg}
    return {name: ast.literal_eval(node) for name, node in written.items() if node is not None and _is_plain(node)}


def _is_plain(node: ast.expr) -> bool:
    allowed = (ast.Constant, ast.Tuple, ast.List, ast.UnaryOp, ast.USub, ast.Load)
    return all(isinstance(each, allowed) for each in ast.walk(node))
