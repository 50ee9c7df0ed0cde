"""The weights of a learnt search on a model: in the optimizer and under its wrappers, and in nothing that is saved."""

import warnings
from collections.abc import Iterable, Mapping
from typing import Any

import torch
from torch import Tensor, nn

from ..errors import MethodError, RobustnessWarning
from ..internal.foreach import local_shard
from ..search.base import LearnedAdversary, Search
from ..sites.base import Detach
from .perturbation import Injector, Perturbation

NAME = "toughen_adversary"
UPDATES_BEFORE_CHECK = 20  # by then every optimizer has made a step, after warm-up and skipped half-precision ones


class Adversary:
    """A learnt search's weights as a submodule of the model, left out of its state dict.

    `model.state_dict()`, `save_pretrained` and the Trainer's checkpoints hold the model alone; the adversary travels
    with `attached.state_dict()`.
    """

    def __init__(self, model: nn.Module, injector: Injector, module: nn.Module) -> None:
        like = next((p for p in model.parameters() if p.requires_grad and p.is_floating_point()), None)
        if like is None:
            raise MethodError(f"{type(model).__name__} has no trainable weight: there is nothing to train against.")
        self.model, self.injector, self.module = model, injector, module.to(like.device, like.dtype)
        injector.module = self.module
        self._first = next(module.parameters())
        self._before: Tensor | None = self._first.detach().clone()

    def install(self) -> Detach:
        """Put the weights on the model; again after a detach, as they were."""
        # In a Sequential they would be one more stage.
        holder = next(m for m in self.model.modules() if not isinstance(m, nn.Sequential))
        holder.add_module(NAME, self.module)
        hooks = [
            holder.register_state_dict_post_hook(_drop_from_state_dict),
            holder.register_load_state_dict_post_hook(_ignore_missing_keys),
        ]

        def remove() -> None:
            for hook in hooks:
                hook.remove()
            delattr(holder, NAME)

        return remove

    def warn_if_not_training(self, updates: int) -> None:
        """Warn once if the optimizer does not move the adversary, as one that was made before `attach`."""
        if self._before is None or updates < UPDATES_BEFORE_CHECK:
            return
        now = self._first.detach()  # perhaps on another device than at first
        if not hasattr(now, "to_local") and torch.equal(self._before.to(now.device), now):
            warnings.warn(
                f"The adversary has not moved in {updates} updates: the optimizer does not have its weights. Make the "
                "optimizer after method.attach(model), from model.parameters().",
                RobustnessWarning,
                stacklevel=4,
            )
        self._before = None

    def propose(self, batch: Mapping[str, Any], sample: bool) -> tuple[Any, dict[int, Tensor]]:
        """Run one perturbed pass without gradients; return its output and masks, True where a pair is visible."""
        injector, answers = self.injector, dict[int, Tensor]()
        injector.set_batch(batch)
        injector.stochastic = sample
        injector.on_sample = lambda index, bias: answers.update({index: bias == 0})
        try:
            with torch.no_grad(), injector.perturbing(Perturbation()):
                output = self.model(**batch)
        finally:
            injector.stochastic, injector.on_sample = True, None
        return output, {index: mask.squeeze(1) if mask.shape[1] == 1 else mask for index, mask in answers.items()}

    def state_dict(self) -> dict[str, Tensor]:
        return {name: local_shard(value).contiguous() for name, value in self.module.state_dict().items()}

    @torch.no_grad()
    def load_state_dict(self, state: Mapping[str, Tensor]) -> None:
        own = {name: local_shard(value) for name, value in self.module.state_dict().items()}
        saved, ours = ({name: tuple(value.shape) for name, value in one.items()} for one in (state, own))
        if saved != ours:
            raise MethodError(
                f"The saved adversary has the weights {saved}, and this one has {ours}. Resume with the settings the "
                "run was started with (layers, per_head, rank)."
            )
        for name, value in own.items():
            value.copy_(state[name])
        self._before = None


def build(model: nn.Module, injector: Injector, site: Any, seed: int) -> Adversary | None:
    """Make the weights of a learnt search, from a seed that all processes share; None for every other search."""
    if not isinstance(injector.search, LearnedAdversary):
        return None
    random = torch.Generator().manual_seed(seed)
    return Adversary(model, injector, injector.search.build(site.layer_specs(model), random))


def get_adversary(adversaries: Iterable[Adversary | None]) -> Adversary:
    """Return the one learnt adversary of a sum of methods."""
    for adversary in adversaries:
        if adversary is not None:
            return adversary
    raise MethodError("No attached method has a learnt adversary. toughen.asa() has one.")


def refuse_wrapped(model: nn.Module, search: Search) -> None:
    """Refuse a wrapped model: a wrapper knows only the weights that were there when it was made."""
    if isinstance(search, LearnedAdversary) and isinstance(model, nn.parallel.DistributedDataParallel):
        raise MethodError(
            "The adversary's weights must be there when the model is wrapped, or their gradients are not "
            "exchanged. Attach first, then wrap in DistributedDataParallel."
        )


def _drop_from_state_dict(module: nn.Module, state: dict[str, Any], prefix: str, _metadata: Any) -> None:
    for key in [key for key in state if key.startswith(f"{prefix}{NAME}.")]:
        del state[key]


def _ignore_missing_keys(_module: nn.Module, keys: Any) -> None:
    keys.missing_keys[:] = [key for key in keys.missing_keys if f"{NAME}." not in key]
