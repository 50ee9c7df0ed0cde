"""Weights cast once a step: the gradients of autocast, and fewer casts and products."""

from collections import Counter

import pytest
import torch
from torch._dynamo.backends.common import aot_autograd
from torch.utils._python_dispatch import TorchDispatchMode

import toughen
from tests.tiny import TOKENIZER, assert_same_gradients, bert, gradients, make, text_batch
from toughen.cuda_graphs.half_weights import half_weights_of

HALF = torch.bfloat16
WEIGHTS = {(32, 32), (64, 32), (32, 64)}  # the shapes of those in the layers


def in_half(model):
    """Autocast entered anew in every pass, as Accelerate does it."""
    model.forward = torch.autocast("cpu", HALF)(model.forward)
    return model


class CountCasts(TorchDispatchMode):
    number = 0

    def __torch_dispatch__(self, function, types, args=(), kwargs=None):
        cast = function is torch.ops.aten._to_copy.default and (kwargs or {}).get("dtype") == HALF
        self.number += cast and tuple(args[0].shape) in WEIGHTS
        return function(*args, **(kwargs or {}))


@pytest.mark.parametrize(("name", "passes"), [("plain", 1), ("smart", 3), ("freelb", 3), ("asa", 2)])
def test_gradients_are_those_of_autocast(name, passes):
    found = []
    for once in (True, False):
        model = in_half(bert(torch.float32))
        method = make(
            name, **({"rank": 8} if name == "asa" else {})
        )  # the adversary's own weights are cast once anyway
        with method.attach(model, TOKENIZER, seed=3) as attached, CountCasts() as casts:
            copies = half_weights_of(model, HALF)
            before = dict(model.named_parameters())
            for _ in range(2):
                model.zero_grad()
                if once:
                    with copies.of_step():
                        attached.backward(model, text_batch())
                else:
                    attached.backward(model, text_batch())
            assert all(weight is before[name] for name, weight in model.named_parameters())
        assert casts.number == (0 if once else 2 * passes * 13)
        found.append(gradients(model))
    assert_same_gradients(*found, tolerance=0)


def test_frozen_weights_and_passes_without_gradients():
    model = in_half(bert(torch.float32))
    model.bert.encoder.layer[0].requires_grad_(False)
    with half_weights_of(model, HALF).of_step():
        model(**text_batch()).loss.backward()
        with torch.no_grad():
            assert not model(**text_batch()).loss.requires_grad
    assert all(weight.grad is None for weight in model.bert.encoder.layer[0].parameters())
    assert all(weight.grad is not None for weight in model.bert.encoder.layer[1].parameters())


def test_who_keeps_weights_in_place_is_left_alone():
    assert half_weights_of(bert(torch.float64), HALF) is None
    assert half_weights_of(bert(torch.float32), torch.float32) is None
    model = bert(torch.float32)
    model.config.model_type = "unknown"
    assert half_weights_of(model, HALF) is None
    model = bert(torch.float32)
    with toughen.smart().attach(model, TOKENIZER) as attached:
        for compiled in (False, True):  # as a whole, hooks included
            if compiled:
                model.compile(backend="eager")
            step = attached.capture(model)
            step.set_precision(HALF)
            assert (step.half_weights is None) is compiled


def test_compiled_layers_cast_nothing_and_search_without_gradients_of_weights():
    counts = Counter()

    def counting(way):
        def compiler(graph, _inputs):
            nodes = [node for node in graph.graph.nodes if node.op == "call_function"]
            products = sum("mm" in str(node.target) for node in nodes)
            casts = sum(
                node.target is torch.ops.prims.convert_element_type.default
                and node.args[0].op == "placeholder"
                and tuple(node.args[0].meta["val"].shape) in WEIGHTS
                for node in nodes
            )

            def run(given):
                counts.update({f"{way} products": products, f"{way} casts": casts})
                return graph(*given)

            run._boxed_call = True
            return run

        return compiler

    from torch._inductor.decomposition import select_decomp_table

    tables = {"decompositions": select_decomp_table()}
    model = in_half(bert(torch.float32))
    backend = aot_autograd(fw_compiler=counting("forward"), bw_compiler=counting("backward"), **tables)
    toughen.cuda_graphs.compile_layers(model, backend=backend)
    with toughen.smart().attach(model, TOKENIZER, seed=3) as attached, half_weights_of(model, HALF).of_step():
        attached.backward(model, text_batch())
    found = gradients(model)
    assert all(weight.requires_grad for weight in model.parameters())
    # Two layers of six products: three passes forward, backward twice both gradients and once that of the input.
    assert counts == {"forward products": 36, "forward casts": 0, "backward products": 60, "backward casts": 0}
    toughen.cuda_graphs.uncompile_layers(model)
    model.zero_grad()
    with toughen.smart().attach(model, TOKENIZER, seed=3) as attached:
        attached.backward(model, text_batch())
    ours, theirs = (torch.cat([grad.flatten() for grad in each.values()]) for each in (found, gradients(model)))
    assert (ours - theirs).norm() < 0.02 * theirs.norm()
