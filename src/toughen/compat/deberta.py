"""DeBERTa's SiFT: a perturbation layer hooked into a model, and the learner that drives it."""

from collections.abc import Callable
from typing import Any, TypeAlias, cast
from weakref import WeakKeyDictionary

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.utils.hooks import RemovableHandle

from ..compare.rowwise import to_float32
from ..engine.perturbation import Perturbation
from ..errors import SiteError, StepError, nearest
from ..search import INF, Absolute, Ascent, CustomInit, Normalized
from ..sites.base import Activation
from .losses import log_probabilities

LossFn: TypeAlias = Callable[[Tensor, Tensor], Tensor]


def _rows(logits: Tensor) -> Tensor:
    return to_float32(logits.reshape(-1, logits.shape[-1]))


def symmetric_kl(logits: Tensor, target: Tensor) -> Tensor:
    """Add two cross-entropies with fixed targets, one value for each row."""
    p, q = log_probabilities(_rows(logits)), log_probabilities(_rows(target))
    return -(q.exp().detach() * p).sum(-1) - (p.exp().detach() * q).sum(-1)


def kl(logits: Tensor, target: Tensor) -> Tensor:
    """Compute the cross-entropy under the fixed target, one value for each row."""
    q = log_probabilities(_rows(target).detach())
    return -(q.exp() * log_probabilities(_rows(logits))).sum(-1)


def mse(logits: Tensor, target: Tensor) -> Tensor:
    return F.mse_loss(_rows(logits), _rows(target))


def squared_error(logits: Tensor, target: Tensor) -> Tensor:
    """Compute the squared error of a regression, one value for each row."""
    return (_rows(logits) - _rows(target)).square().mean(-1)


perturbation_loss_fns: dict[str, LossFn] = {
    "symmetric-kl": symmetric_kl,
    "symmetric_kl": symmetric_kl,
    "kl": kl,
    "mse": mse,
}


class PerturbationLayer(nn.Module):
    """Normalise the input; in the adversarial passes return the cached clean input plus the perturbation."""

    def __init__(
        self,
        hidden_size: int,
        learning_rate: float = 1e-4,
        init_perturbation: float = 1e-2,
        init: Callable[[Tensor], Tensor] | None = None,
    ) -> None:
        super().__init__()
        self.LayerNorm = nn.LayerNorm(hidden_size, 1e-7, elementwise_affine=False)
        limit = 2 * init_perturbation

        def draw(value: Tensor) -> Tensor:
            return torch.empty_like(value).normal_(0, init_perturbation).float().clamp(-limit, limit)

        start = init or draw
        self.search = Ascent(
            step_size=learning_rate,
            init=CustomInit(lambda view: start(view.value)),
            direction=Normalized(p=INF, per="token", eps=1e-6),
            units=Absolute(),
        )
        self.input: Tensor | None = None
        self.perturbation: Perturbation | None = None

    def adversarial_(self, adversarial: bool = True) -> None:
        self.perturbation = Perturbation() if adversarial else None

    def before(self, _module: nn.Module, inputs: tuple[Tensor, ...]) -> tuple[Tensor, ...]:
        """Run the layer as a forward pre-hook."""
        return (self(inputs[0]), *inputs[1:])

    def forward(self, input: Tensor) -> Tensor:
        if self.perturbation is None:
            normalised = self.LayerNorm(input)
            self.input = normalised.detach()  # with its graph it would hold the whole pass until the next one
            return normalised
        if self.input is None:
            raise StepError("SiFT: run the clean pass before adv.loss(): the perturbed one starts from its input.")
        clean = self.input
        if not self.perturbation.at:
            view = Activation(clean)
            self.perturbation.at[0] = self.search.start(view).requires_grad_()
            self.perturbation.views[0] = view
        return (clean + self.perturbation.at[0]).to(clean.dtype)


def hook_sift_layer(
    model: nn.Module,
    hidden_size: int,
    learning_rate: float = 1e-4,
    init_perturbation: float = 1e-2,
    target_module: str | nn.Module = "embeddings.LayerNorm",
    init: Callable[[Tensor], Tensor] | None = None,
) -> list[PerturbationLayer]:
    """Put a perturbation layer before each matching module, as DeBERTa/sift/sift.py does.

    Mended: with several matching modules each has its own layer; no match is an error; other pre-hooks stay.
    `init`, a function of the normalised input, gives the starting perturbation in place of a random draw.
    """
    named = dict(model.named_modules())
    found = (
        [target_module]
        if isinstance(target_module, nn.Module)
        else [module for name, module in named.items() if target_module in name]
    )
    if not found:
        hint = nearest(str(target_module), filter(None, named))
        raise SiteError(f"hook_sift_layer: {type(model).__name__} has no module {target_module!r}. {hint}")
    layers: list[PerturbationLayer] = []
    for module in found:
        _check_width(module, hidden_size)
        if module in _HOOKED:  # the new layer takes the old one's place
            _HOOKED[module][0].remove()
        layer = PerturbationLayer(hidden_size, learning_rate, init_perturbation, init)
        _HOOKED[module] = (module.register_forward_pre_hook(layer.before), layer)
        layers.append(layer)
    return layers


def _check_width(module: nn.Module, hidden_size: int) -> None:
    weight = getattr(module, "weight", None)
    if isinstance(weight, Tensor) and weight.ndim == 1 and weight.shape[0] != hidden_size:  # a norm's
        raise SiteError(
            f"hook_sift_layer: hidden_size is {hidden_size}, but the {type(module).__name__} it goes to is "
            f"{weight.shape[0]} wide. Give hidden_size={weight.shape[0]}."
        )


_HOOKED: "WeakKeyDictionary[nn.Module, tuple[RemovableHandle, PerturbationLayer]]" = WeakKeyDictionary()


class AdversarialLearner:
    """Compute SiFT's term for one batch: `AdversarialLearner(model, adv_modules).loss(logits, logits_fn, **data)`.

    Kept: one step; the returned loss is the symmetric one whatever `loss_fn` says, which steers the step alone; the
    perturbed pass sends no gradient to the embedding tables. Mended: a positional model input is no longer taken for
    `loss_fn`; regression has a loss; the step's gradient reaches no weight and no weight is frozen for it.
    """

    def __init__(self, model: nn.Module, adv_modules: list[PerturbationLayer] | None = None) -> None:
        hooked = [_HOOKED[module][1] for module in model.modules() if module in _HOOKED]
        self.adv_modules = hooked if adv_modules is None else adv_modules
        if not self.adv_modules:
            raise SiteError("AdversarialLearner: no perturbation layer in the model. Call hook_sift_layer() first.")
        self.model = model

    def loss(
        self,
        target: Tensor,
        logits_fn: Callable[..., Tensor],
        *args: Any,
        loss_fn: str | LossFn = "symmetric-kl",
        **kwargs: Any,
    ) -> Tensor:
        _check_logits("the first argument of loss()", target)
        if args and (isinstance(args[0], str) or callable(args[0])):  # where the original has it
            loss_fn, args = cast("str | LossFn", args[0]), args[1:]
        if isinstance(loss_fn, str):
            if loss_fn not in perturbation_loss_fns:
                raise StepError(f"SiFT: there is no loss {loss_fn!r}. {nearest(loss_fn, perturbation_loss_fns)}")
            # One column is a regression: its softmax is always 1 and the divergences always 0. The goal of the climb
            # is a sum over rows, as theirs, also for squared errors: its length matters beside the step's guard.
            loss_fn = squared_error if target.shape[-1] == 1 else perturbation_loss_fns[loss_fn]
        for layer in self.adv_modules:
            layer.adversarial_(True)
        try:
            with torch.enable_grad():
                logits = logits_fn(self.model, *args, **kwargs)
                _check_logits("what logits_fn gives", logits)
                height = loss_fn(logits, target.detach()).sum()
                self._ascend(height)
            final = squared_error if target.shape[-1] == 1 else symmetric_kl
            return final(logits_fn(self.model, *args, **kwargs), target).mean()
        finally:
            for layer in self.adv_modules:
                layer.adversarial_(False)

    def _ascend(self, height: Tensor) -> None:
        perturbations = [layer.perturbation for layer in self.adv_modules if layer.perturbation is not None]
        grads = torch.autograd.grad(height, [p.at[0] for p in perturbations])
        for layer, perturbation, grad in zip(self.adv_modules, perturbations, grads, strict=True):
            perturbation.ascend(layer.search, [grad])


def _check_logits(what: str, value: object) -> None:
    # `logits, loss = model(**data)` of DeBERTa's own models unpacks the names of a transformers output.
    if not isinstance(value, Tensor):
        raise StepError(
            f"SiFT: {what} is of type {type(value).__name__}, not a tensor of logits. "
            "A model of transformers gives an output object: use model(**data).logits."
        )
