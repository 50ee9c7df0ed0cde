"""The clean pass beside the first perturbed one, on a CPU: branches are marked, and all runs one after the other."""

from contextlib import contextmanager
from dataclasses import replace

import pytest
import torch
from torch import nn
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

import toughen
from tests.tiny import LETTERS, LIKE_TYPOS, assert_same_gradients, bert, gradients, make, text_batch
from toughen.combine import Average
from toughen.engine import attached as attaching
from toughen.engine.side_stream import MOST_TOKENS, SideStream, can_overlap

ALIASES = {torch.ops.aten.detach.default, torch.ops.aten.alias.default, torch.ops.aten.view.default}


class Watch(TorchDispatchMode):
    """Sees that no operation outside the branch reads what was made in it before it is joined."""

    def __init__(self):
        super().__init__()
        self.inside, self.made, self.forks, self.beside, self.kept = False, set(), 0, 0, []

    def __torch_dispatch__(self, function, types, args=(), kwargs=None):
        found = function(*args, **(kwargs or {}))
        tensors = [one for one in tree_leaves(found) if isinstance(one, torch.Tensor)]
        if self.inside:
            known = {one.untyped_storage().data_ptr() for one in tree_leaves(args) if isinstance(one, torch.Tensor)}
            new = [one for one in tensors if one.untyped_storage().data_ptr() not in known]
            self.kept += new  # so that no other tensor gets its memory
            self.made |= {one.untyped_storage().data_ptr() for one in new}
        elif self.made and function not in ALIASES:
            self.beside += 1
            read = [one for one in tree_leaves((args, kwargs)) if isinstance(one, torch.Tensor)]
            assert not any(one.untyped_storage().data_ptr() in self.made for one in read), function
        return found

    def branch(self, model, methods, inputs):
        return Branch(self) if can_overlap(model, methods, inputs) else None


class Branch(SideStream):
    def __init__(self, watch):
        self.watch = watch

    @contextmanager
    def fork(self):
        self.watch.forks += 1
        self.watch.inside = True
        yield
        self.watch.inside = False

    def join(self):
        self.watch.made.clear()

    close = join


METHODS = {name: lambda name=name: make(name) for name in toughen.available() if name not in LIKE_TYPOS | {"bregman"}}
METHODS |= {
    "bregman": lambda: toughen.bregman(switch_at=3),
    "smart, 3 steps": lambda: toughen.smart(steps=3),
    "smart + rdrop": lambda: toughen.smart() + toughen.rdrop(),
    "plain + smart": lambda: toughen.plain() + toughen.smart(),
    "average": lambda: replace(toughen.smart(), combine=Average(0.5)),
}
OVERLAPPED = {"smart", "alum", "sift", "vat", "creat", "asa", "rdrop", "r3f", "r4f", "smart, 3 steps", "smart + rdrop"}
OVERLAPPED |= {"average", "words"}


@pytest.mark.parametrize("name", METHODS)
@pytest.mark.filterwarnings("ignore::toughen.errors.RobustnessWarning")
def test_nobody_reads_the_clean_pass_before_it_is_joined(name, monkeypatch):
    watch, found = Watch(), []
    for branches in (True, False):
        monkeypatch.setattr(attaching, "side_stream_of", watch.branch if branches else lambda *_: None)
        model = bert(torch.float32, hidden_dropout_prob=0.1, attention_probs_dropout_prob=0.1)
        torch.manual_seed(1)
        with METHODS[name]().attach(model, LETTERS, seed=3) as attached, watch:
            attached.backward(model, text_batch(), step=model.zero_grad)
        found.append(gradients(model))
    assert watch.forks == (name in OVERLAPPED), watch.forks
    assert (watch.beside > 100) is (name in OVERLAPPED)
    assert_same_gradients(*found, tolerance=0)


def test_what_may_not_overlap():
    method, batch = [toughen.smart()], text_batch()
    assert can_overlap(bert(), method, batch)
    assert not can_overlap(bert(), [toughen.freelb()], batch)
    assert not can_overlap(bert(), [toughen.smart(), toughen.typos()], batch)
    assert not can_overlap(bert(), method, {"input_ids": torch.zeros(2, MOST_TOKENS, dtype=torch.long)})
    model = bert()
    model.norm = nn.BatchNorm1d(3)
    assert not can_overlap(model, method, batch)


def test_a_copy_that_autocast_keeps_is_made_on_the_way_of_those_who_read_it(monkeypatch):
    seen = []
    monkeypatch.setattr("toughen.engine.side_stream._stream_of", lambda _device: Stream(seen))
    monkeypatch.setattr(torch.cuda, "current_stream", lambda _device: Stream(seen))
    monkeypatch.setattr(torch.cuda, "stream", lambda stream: stream)
    branch = SideStream(torch.device("cpu"))
    branch.join()
    assert not seen
    with branch.fork():
        assert not torch.is_autocast_cache_enabled()
    assert torch.is_autocast_cache_enabled()
    branch.join()
    assert len(seen) == 2  # the branch for what came before, and what follows for the branch


class Stream:
    def __init__(self, waits):
        self.waits = waits

    def wait_stream(self, other):
        self.waits.append(other)

    def __enter__(self):
        pass

    def __exit__(self, *_):
        pass
