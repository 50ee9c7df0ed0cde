"""Every robust method on a model with a second-order head, its several forwards included."""

import pytest
import torch

from toughen.heads import second_order

from ..tiny import LETTERS, LIKE_TYPOS, make
from .conftest import batch_for, tiny

registry = pytest.importorskip("toughen.registry", reason="the engine is not part of this build")
# FreeAT needs the optimizer's step; it is no loss to back-propagate.
METHODS = [name for name in registry.list_methods() if name not in {"freeat", *LIKE_TYPOS}]


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", METHODS)
def test_every_method_trains_backbone_and_head(name):
    torch.manual_seed(0)
    model = second_order(tiny("bert"), 2, q=6, k=4, dropout=0.1).train()
    for module in model.modules():
        if isinstance(module, torch.nn.Dropout):
            module.p = 0.1  # R-Drop has nothing to compare without
    batch = {**batch_for("bert"), "labels": torch.tensor([0, 1, 0, 1])}
    parameters = [name for name, _ in model.named_parameters()]
    attached = make(name).attach(model, LETTERS)
    try:
        loss = attached.backward(model, batch)
    finally:
        attached.detach()
    assert torch.isfinite(torch.as_tensor(loss))
    for parameter in (model.get_input_embeddings().weight, *model.classifier.parameters()):
        assert parameter.grad is not None
        assert parameter.grad.isfinite().all()
    assert [name for name, _ in model.named_parameters()] == parameters
