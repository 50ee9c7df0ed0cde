"""adversarialSA's divergence on logits."""

from torch import Tensor

from .losses import kl_loss


def divergence(p: Tensor, q: Tensor) -> Tensor:
    """Return half of both KLs, divided by the first dimension, gradient to both.

    Kept: one column is taken as one distribution over the batch, so a shift of all predictions costs nothing. For a
    regression that is right use `toughen.asa()`.
    """
    if p.shape[-1] == 1:
        p, q = p.flatten(), q.flatten()
    return 0.5 * (kl_loss(p, q) + kl_loss(q, p))
