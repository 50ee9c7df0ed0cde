"""Loading of a sweep and its base: from a file, a recipe, ManyTasks' search.json, or values."""

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from .. import recipes
from ..runs.config_io import merge, normalised, read_yaml
from .definition import Definition, parse
from .errors import SweepError
from .manytasks import is_manytasks, read_manytasks
from .trials import absolute_paths


def load_definition(
    source: Any, base: Any = None, over: Mapping[str, Any] | None = None, seeds: Any = None
) -> tuple[Definition, str]:
    """Load a sweep and its name; `base` and `seeds` replace its own, `over` goes over the base."""
    values, name, near = _values(source)
    base = values.get("base") if base is None else base
    if isinstance(base, (str, os.PathLike)):
        base = _base(os.fspath(base), near)
    if base is not None and not isinstance(base, Mapping):
        raise SweepError(f"base: expected a config, the name of a recipe or a file, not {base!r}.")
    given = normalised({key: value for key, value in dict(base or {}).items() if key != "about"})
    if "recipe" in given:  # the config goes over it, as in `toughen train`
        given = merge(normalised(recipes.config(str(given["recipe"]))), given)
    above = normalised(over or {})
    if "recipe" in above:
        raise SweepError(f"recipe={above['recipe']}: a recipe is below all settings; give it as --base.")
    own = above.pop("seed", None)  # --seed, as of `toughen train`: seeds go before those of the file
    seeds = own if seeds is None else seeds
    merged = absolute_paths(merge(given, above))
    changed = {"base": merged} if seeds is None else {"base": merged, "seeds": seeds}
    return parse({**values, **changed}), str(values.get("name") or name).replace("/", "-")


def _values(source: Any) -> tuple[dict[str, Any], str, Path]:
    if isinstance(source, Mapping):
        return dict(source), "sweep", Path()
    recipe = str(source) in recipes.sweeps()
    # ManyTasks calls its search.json `search`.
    for path in (Path(source), *(Path(f"{source}{suffix}") for suffix in (".json", ".yaml") if not recipe)):
        if path.is_file():
            values = load_values(path)
            sweep = read_manytasks(values, path) if is_manytasks(values) else values
            return {key: value for key, value in sweep.items() if key != "about"}, path.stem, path.parent
    if recipe:
        return recipes.sweep(str(source)), str(source).replace("/", "-"), Path()
    known = f" Recipes: {', '.join(recipes.sweeps())}."
    raise SweepError(f"{source}: there is no such file, folder or recipe of a sweep.{known}")


def _base(name: str, near: Path) -> dict[str, Any]:
    """Load a base: a file beside the sweep's, one in the working directory, or a recipe."""
    paragen = recipes.of_paragen(name)
    for path in (near / name, Path(name)):
        if path.is_file():
            values = load_values(path)
            if isinstance(values.get("task"), Mapping):
                raise SweepError(
                    f"base: {path} is a ParaGen config; name a recipe or config of toughen with --base"
                    f"{f', such as {paragen}' if paragen else ''}."
                )
            return values
    if name.removesuffix(".yaml") in recipes.available():
        return {**recipes.config(name), "recipe": name.removesuffix(".yaml")}
    way = f"ParaGen's settings are --base {paragen}" if paragen else "see toughen recipes"
    raise SweepError(f"base: there is no file and no recipe {name!r}; {way}.")


def load_values(path: Path) -> dict[str, Any]:
    """Read the values of a sweep file or of its base."""
    return read_yaml(path, SweepError, "holds no sweep: expected base:, parameters: and the like.")
