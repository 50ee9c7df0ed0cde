"""WHERE to perturb: the output of any module."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from torch import nn

from .base import Detach, EmbeddedTokens, PerturbationSource
from .locate import get_module, layer_path, token_layout_of
from .token_mask import RECOMMENDED_SKIP, Skip, TokenLayout, check_skip, perturb_output


@dataclass(frozen=True)
class Hidden:
    """The output of a module, by its dotted path or as the number of a transformer layer."""

    at: str | int
    skip: Skip = RECOMMENDED_SKIP

    def __post_init__(self) -> None:
        check_skip(self.skip)

    def attach(self, model: nn.Module, inject: PerturbationSource) -> Detach:
        module = get_module(model, self.at if isinstance(self.at, str) else layer_path(model, self.at))
        return perturb_module(module, inject, self.skip, token_layout_of(model, module))


def perturb_module(
    module: nn.Module,
    inject: PerturbationSource,
    skip: Skip,
    layout: TokenLayout,
    reads_input: Callable[[tuple[Any, ...]], bool] = lambda _: True,
    tokens_of: Callable[[nn.Module, tuple[Any, ...], TokenLayout], EmbeddedTokens | None] = lambda *_: None,  # pyright: ignore[reportUnknownLambdaType]
) -> Detach:
    """Perturb what a module returns, in perturbed passes and where `reads_input` says so of its arguments."""

    def hook(called: nn.Module, args: tuple[Any, ...], output: Any) -> Any:
        if not inject.active or called is not module or not reads_input(args):  # a copy of the model has its hooks, too
            return None
        return perturb_output(inject, output, skip, layout, lambda: tokens_of(called, args, layout))

    return module.register_forward_hook(hook).remove
