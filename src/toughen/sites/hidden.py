"""WHERE to perturb: the output of any module."""

from dataclasses import dataclass
from typing import Any

from torch import Tensor, nn

from ..parts import Detach, Inject
from .embedding import RECOMMENDED_SKIP
from .locate import by_path, layer_path
from .mask import Skip, check_skip, text_view


@dataclass(frozen=True)
class Hidden:
    """The output of a module, by its dotted path or as the number of a transformer layer."""

    at: str | int
    skip: Skip = RECOMMENDED_SKIP

    def __post_init__(self) -> None:
        check_skip(self.skip)

    def attach(self, model: nn.Module, inject: Inject) -> Detach:
        path = self.at if isinstance(self.at, str) else layer_path(model, self.at)

        def hook(_module: nn.Module, _args: Any, output: Any) -> Any:
            if not inject.active:
                return None
            value, *rest = output if isinstance(output, tuple) else (output,)
            bent: Tensor = value + inject(0, lambda: text_view(inject, value, self.skip, 0)).to(value.dtype)
            return (bent, *rest) if isinstance(output, tuple) else bent

        return by_path(model, path).register_forward_hook(hook).remove
