"""Published experiments as configurations: `toughen train --recipe sift/mnli-deberta-base`.

A recipe is a YAML file: the configuration itself, and under `about` its source, the published score and every known
difference from what was published.
"""

from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any

from ..errors import nearest
from ..tasks.registry import plain

_FOLDER = Path(__file__).parent


class RecipeError(ValueError):
    """A recipe that is not there or cannot be read."""


def available() -> list[str]:
    """The names of all recipes, such as `sift/mnli-deberta-base`."""
    return list(_files())


def read(name: str) -> dict[str, Any]:
    """The whole recipe of this name: the configuration, and `about`."""
    import yaml

    files = _files()
    short = name.removesuffix(".yaml")
    if short not in files:
        raise RecipeError(f"There is no recipe {name!r}. {nearest(short, files)} All: toughen recipes.")
    return yaml.safe_load(files[short].read_text(encoding="utf-8"))


def config(name: str) -> dict[str, Any]:
    """The configuration alone, as `toughen train` takes it."""
    return {key: value for key, value in read(name).items() if key != "about"}


def about(name: str) -> dict[str, Any]:
    """Title, source, published score, differences, and the published grid where there is one."""
    return read(name)["about"]


def published(name: str) -> str:
    """The published scores in a few words; a dash where none is."""
    said = about(name)["published"]
    scores = [each for each in (said, said.get("also")) if each and each["score"] is not None]
    return ", ".join(map(_in_words, scores)) or "-"


def _in_words(score: Mapping[str, Any]) -> str:
    plain = f", plain {score['plain']:g}" if "plain" in score else ""
    return f"{score['score']:g} ({score['metric']}{plain})"


def of_paragen(path: str | Path) -> str | None:
    """The recipe with the settings of one of ParaGen's files, which are named after their task: SST-2.yaml."""
    task = plain(Path(path).stem)
    names = (f"freelb/{task}-{model}" for model in ("roberta-base", "bert-base"))
    return next((name for name in names if name in available()), None)


def sweeps() -> list[str]:
    """The names of all published searches, such as `freelb/rte-roberta-base`, as `toughen sweep` takes them."""
    return list(_files("sweeps"))


def sweep(name: str) -> dict[str, Any]:
    """The search of this name without `about`: base, parameters and the like."""
    import yaml

    values = yaml.safe_load(_files("sweeps")[name].read_text(encoding="utf-8"))
    return {key: value for key, value in values.items() if key != "about"}


@cache
def _files(kind: str = "") -> dict[str, Path]:
    folder = _FOLDER / kind
    found = sorted(path.relative_to(folder) for path in folder.rglob("*.yaml"))
    return {path.with_suffix("").as_posix(): folder / path for path in found if kind or path.parts[0] != "sweeps"}
