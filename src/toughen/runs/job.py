"""One seed of one arm, as a value."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ..tasks import Data
from .config import Config


@dataclass(frozen=True)
class Job:
    """What a seed needs to know."""

    config: Config
    run: Path
    folder: Path
    arm: str
    seed: int
    data: Data
    tokenizer: Any
    precision: str
    world: int

    @property
    def method(self) -> Mapping[str, Any]:
        return self.config.method if self.arm == "method" else {"name": "plain"}
