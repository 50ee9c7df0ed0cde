"""Loading of a sweep and its base: from a file, a recipe, ManyTasks' search.json, or values."""

import os
from collections.abc import Mapping, Sequence
from contextlib import suppress
from itertools import product
from pathlib import Path
from typing import Any

from .. import recipes
from ..runs.config_io import merge, normalised, read_yaml
from .definition import Definition, parse
from .errors import SweepError
from .trials import absolute_paths


def load_definition(
    source: object, base: object = None, over: Mapping[str, Any] | None = None, seeds: object = None
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


# Last part of a flag there -> option here. Any other flag must be an option of `toughen train`.
NAMES: Mapping[str, str] = {
    "adv_lr": "method.step_size",
    "init_mag": "method.init_scale",
    "max_norm": "method.max_norm",
    "adv_steps": "method.steps",
    "max_rate": "train.learning_rate",
    "lr": "train.learning_rate",
    "learning_rate": "train.learning_rate",
    "max_steps": "train.max_steps",
    "max_samples": "train.batch_size",
    "batch_size": "train.batch_size",
    "weight_decay": "train.weight_decay",
    "warmup_steps": "train.warmup",
    "pretrained_model": "model",
}


def is_manytasks(values: object) -> bool:
    """Whether these values are those of a search.json."""
    configs = values.get("configs") if isinstance(values, Mapping) else None
    return isinstance(configs, Mapping) and "==base==" in configs


def read_manytasks(values: Mapping[str, Any], path: Path) -> dict[str, Any]:
    """Translate to the keys of a sweep file: lists are a grid, the rows of `==more==` are tied."""
    configs = values["configs"]
    more = configs.get("==more==") or []
    lists = [configs["==base=="], more, *(more if isinstance(more, list) else ())]
    if not all(isinstance(each, list) for each in lists):
        raise SweepError(f'{path}: expected "==base==": [flags and values] and "==more==": [[...], ...].')
    fixed = _pairs(configs["==base=="], path)
    sweep: dict[str, Any] = {"search": "grid", "parameters": {}}
    for flag, options in fixed.items():
        if flag == "--config":
            if len(options) > 1:
                raise SweepError(f"{path}: --config: a sweep has one base; give each config a sweep of its own.")
            sweep["base"] = options[0]
        elif flag == "--seed":
            sweep["seeds"] = options
        else:
            sweep["parameters"][_name(flag)] = {"values": options}
    tied = [row for each in more for row in _rows(_pairs(each, path))]
    if tied:
        sweep["tied"] = tied
    return {**sweep, "resources": _resources(values)}


def _pairs(arguments: Sequence[Any], path: Path) -> dict[str, list[Any]]:
    """Map each flag to its values; a flag without values is a switch."""
    flags: dict[str, list[Any]] = {}
    flag = ""
    for each in arguments:
        if isinstance(each, str) and each.startswith("-") and _value(each) == each:
            if each in flags:
                raise SweepError(f"{path}: {each} is given twice; put its values into one list.")
            flag, flags[each] = each, []
        elif not flag or flags[flag]:
            raise SweepError(f"{path}: {each!r} follows no flag; toughen takes --key value.")
        else:
            flags[flag] = [_value(value) for value in _listed(each)]
            for value in flags[flag]:
                if isinstance(value, str) and value[:1] + value[-1:] in ("{}", "<>", "$>", "$}"):
                    raise SweepError(f"{path}: {flag} {value}: expressions are not run; write the values as a list.")
    return {flag: options or [True] for flag, options in flags.items()}


def _rows(pairs: Mapping[str, list[Any]]) -> list[dict[str, Any]]:
    return [dict(zip(map(_name, pairs), values, strict=True)) for values in product(*pairs.values())]


def _name(flag: str) -> str:
    short = flag.lstrip("-")
    return NAMES.get(short.rpartition(".")[2].replace("-", "_"), short)


def _value(text: Any) -> Any:
    """Convert text that is a number: search.json holds both."""
    for kind in (int, float) if isinstance(text, str) else ():
        with suppress(ValueError):
            return kind(text)
    return text


def _resources(values: Mapping[str, Any]) -> dict[str, Any]:
    """Ask for one GPU a task if `cuda` names any, and for `concurrency` if it is a number."""
    cuda = values.get("cuda", [])
    has_gpu = any(card != -1 for card in _listed(cuda))
    concurrent = values.get("concurrency")
    resources: dict[str, Any] = {"gpu": values.get("cuda_per_task", 1) if has_gpu else 0}
    return resources | ({"concurrent": concurrent} if isinstance(concurrent, int) else {})


def _listed(value: object) -> list[Any]:
    return value if isinstance(value, list) else [value]
