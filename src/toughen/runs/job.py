"""One seed of one arm, as a value."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ..tasks import Data
from .config import Config
from .folder import RunFolder
from .method_config import parts_of


@dataclass(frozen=True)
class Material:
    """What all seeds of a run share."""

    data: Data
    also: Mapping[str, Data]
    """Sets to score besides, by the ending of their metrics."""
    tokenizer: Any
    method: Any
    precision: str
    notes: tuple[str, ...] = ()


@dataclass(frozen=True)
class Job:
    """What a seed needs to know."""

    config: Config
    run: RunFolder
    folder: Path
    arm: str
    seed: int
    world: int
    material: Material

    @property
    def data(self) -> Data:
        return self.material.data

    @property
    def title(self) -> str:
        return f"seed {self.seed}" if self.arm == "method" else f"seed {self.seed} plain"

    @property
    def method(self) -> Any:
        """The method itself, or the plain one of the baseline."""
        if self.arm == "method":
            return self.material.method
        from ..registry import create_method

        return create_method("plain")

    @property
    def settings(self) -> Mapping[str, Any]:
        """The `method:` group of this arm."""
        return self.config.method if self.arm == "method" else {"name": "plain"}

    @property
    def names(self) -> list[str]:
        """The method's name, or those of a sum, one for each of its parts."""
        parts = getattr(self.method, "methods", (self.method,))
        names = [key for _, key in parts_of(str(self.settings["name"]))] if "repr" not in self.settings else []
        return names if len(names) == len(parts) else ["term"] * len(parts)
