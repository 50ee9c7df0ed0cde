import pytest
import torch

from toughen import compat
from toughen.compat import deberta

from .cases import error, load, names

FUNCTIONS = {
    "smart.kl_loss": compat.kl_loss,
    "smart.sym_kl_loss": compat.sym_kl_loss,
    "smart.js_loss": compat.js_loss,
    "mtdnn.stable_kl": compat.stable_kl,
    "sift.symmetric_kl": deberta.symmetric_kl,
    "sift.kl": deberta.kl,
    "sift.mse": deberta.mse,
    "asa.divergence": compat.divergence,
}


def call(entry, a, b):
    kwargs = dict(entry["kwargs"])
    if entry["function"] in FUNCTIONS:
        return FUNCTIONS[entry["function"]](a, b, **kwargs)
    criterion = getattr(compat, entry["function"].removeprefix("mtdnn."))(kwargs.pop("alpha", 1.0))
    return criterion(a, b, **kwargs)


def tolerance(case, entry):
    cancelling = case == "extreme_2d" and ("stable_kl" in entry["function"] or "Ns" in entry["function"])
    return 1e-5 if cancelling else 1e-9


@pytest.mark.parametrize("case", names("losses"))
def test_values_and_gradients_are_the_originals(case):
    facts, tensors = load("losses", case)
    for entry in facts["entries"]:
        a, b = (tensors[f"input/{side}"].clone().requires_grad_() for side in "ab")
        value = call(entry, a, b)
        key = f"expect/{entry['id']}/"
        expected = tensors.get(key + "value", entry.get("value"))
        assert error(value.detach(), expected) <= tolerance(case, entry), entry["id"]
        if entry.get("no_grad_graph"):
            continue  # the original detaches both sides; ours sends gradient
        value.sum().backward()
        for side, tensor in (("a", a), ("b", b)):
            if key + f"grad_{side}" not in tensors:
                continue
            theirs = tensors[key + f"grad_{side}"]
            finite = torch.isfinite(theirs)  # where the original's gradient is NaN, ours must be finite all the same
            ours = torch.zeros_like(theirs) if tensor.grad is None else tensor.grad
            assert torch.isfinite(ours).all(), entry["id"]
            assert error(ours[finite], theirs[finite]) <= tolerance(case, entry), (entry["id"], side)


@pytest.mark.parametrize("case", names("losses"))
def test_float32_values(case):
    facts, tensors = load("losses", case)
    for entry in facts["entries"]:
        if case in ("extreme_2d", "small_shift") and ("stable_kl" in entry["function"] or "Ns" in entry["function"]):
            continue  # the original's own float32 saturates there (42.6 becomes 34.2)
        if isinstance(entry["value_f32"], str):
            continue  # the original's is not a number
        value = call(entry, tensors["input/a"].float(), tensors["input/b"].float()).sum()
        states = 1e-6 if case == "small_shift" else 1e-4 * max(1.0, abs(entry["value_f32"]))
        assert abs(float(value) - entry["value_f32"]) <= states, entry["id"]


@pytest.mark.parametrize("loss", [compat.kl_loss, compat.sym_kl_loss, compat.js_loss])
def test_an_unknown_reduction_is_refused_as_it_was(loss):
    """`torch.nn.functional.kl_div`, which the originals call, does not take a typing mistake for a sum."""
    with pytest.raises(ValueError, match="batch_mean is not a reduction"):
        loss(torch.rand(2, 3), torch.rand(2, 3), reduction="batch_mean")
