"""One run: a plain torch loop over captured steps, then the tests; a row comes of it."""

import hashlib
import json
import time
from collections.abc import Iterator, Mapping
from contextlib import nullcontext, suppress
from itertools import islice
from typing import Any

import numpy as np
import torch
import transformers
from torch import Tensor

import toughen
from toughen import tasks
from toughen.runs.method_config import cost_of
from toughen.tasks.batching import LengthBucketed

from .journal import packed
from .packed import Table
from .protocol import Protocol, Run, TaskPlan, updates_of
from .rig import Rig, Stock
from .robust import Tested, answers_on, area, attacked, rows_of
from .texts import Texts


class OutOfTime(RuntimeError):
    """The run would end after the limit; nothing of it is kept."""


class Bench:
    """A worker's material, and the rig it used last."""

    def __init__(self, stock: Stock, protocol: Protocol) -> None:
        self.stock, self.protocol = stock, protocol
        self._rig: Rig | None = None  # one alone: memory has no room for graphs that are not in use
        self._rig_of: tuple[str, ...] = ()
        self.texts = Texts.of(stock.material.facts, protocol)
        self._directions: dict[tuple[str, str], dict[int, Tensor]] = {}  # by task and set

    def rig(self, run: Run) -> Rig:
        if self._rig is None or self._rig_of != run.rig:
            self.forget()
            self._rig, self._rig_of = Rig(self.stock, *run.rig, pack=self.protocol.pack), run.rig
        return self._rig

    def forget(self) -> None:
        """Let go of the rig; the next run begins with a new one."""
        rig, self._rig = self._rig, None
        if rig is not None:
            rig.drop()

    def make(self, run: Run, give_up: float = float("inf")) -> dict[str, Any]:
        """Train and test; `give_up` is the moment (time.time) after which the run is abandoned."""
        try:
            return self._make(run, give_up)
        except Exception:
            with suppress(Exception):  # what a broken run leaves behind is not used again
                self.forget()
            raise

    def _make(self, run: Run, give_up: float) -> dict[str, Any]:
        clock = Clock(self.stock.material.device)
        plan, sets = self.protocol.task(run.task), self.stock.material.sets[run.task]
        held = plan.held_rows if run.purpose != "board" else 0
        train = sets["train"].part(held, len(sets["train"]))
        rig = self.rig(run)
        order = Order(train, plan, self.protocol.batch_size, run.seed, tell_padding=self.protocol.pack)
        updates = updates_of(rig.method)
        total = max(1, plan.epochs * run.times * order.steps // updates)
        rig.begin(run.seed, total, self.protocol.weight_decay, self.protocol.clip)
        before = dict(rig.step.steps)
        clock.lap("begin")
        self._train(rig, run, order, total, give_up)
        clock.lap("train")
        memory = rig.memory_gib
        tested = Tested(rig.end(), tasks.task(run.task), self.stock.material)
        told = sets if run.purpose == "board" else {"held": sets["train"].part(0, held)}
        found = self._test(tested, plan, told, run.purpose, clock)
        return {
            "key": run.key,
            **{name: value for name, value in vars(run).items() if name != "settings"},
            "settings": json.loads(run.settings),
            "made": run.made,
            "arm": f"epochs x{run.times}",
            "metric": plan.metric,
            **found,
            "passes": round(cost_of(rig.method) / updates, 3),
            "ms": round(1000 * clock.laps["train"] / total, 3),
            "memory_gib": None if memory is None else round(memory, 3),
            "epochs": round(total / order.steps, 3),
            "steps": total,
            "captured": {kind: count - before[kind] for kind, count in rig.step.steps.items()},
            "packed": rig.step.packing is not None,
            "order": order.digest,
            "protocol": self.protocol.digest(run.task),
            "seconds": {name: round(value, 3) for name, value in clock.laps.items()},
            "versions": versions(self.stock.material.device),
        }

    def _train(self, rig: Rig, run: Run, order: "Order", total: int, give_up: float) -> None:
        half = torch.autocast("cuda", torch.bfloat16) if rig.cuda else nullcontext()
        warm = max(1, round(self.protocol.warm_up * total))
        number = 0
        for epoch in range(-(-total // order.steps)):
            for batch in islice(order.epoch(epoch), total - number):
                rate = run.rate * min((number + 1) / warm, (total - number) / max(1, total - warm))
                with half:
                    rig.update(batch, rate)
                number += 1
                if number % 64 == 0 and time.time() > give_up:
                    raise OutOfTime(run.key)

    def _test(
        self, tested: Tested, plan: TaskPlan, sets: Mapping[str, Table], purpose: str, clock: "Clock"
    ) -> dict[str, Any]:
        protocol = self.protocol
        own = "dev" if "dev" in sets else "held"
        answers = {name: answers_on(tested, table) for name, table in sets.items() if name != "train"}
        scores = {
            name: tested.score(found, sets[name].inputs["labels"], plan.metric) for name, found in answers.items()
        }
        diverged = not np.isfinite(np.asarray(answers[own], dtype=float)).all()
        clock.lap("test")
        robust: dict[str, Any] = {name: round(value, 5) for name, value in scores.items() if name != own}
        if purpose != "rates":
            # After an attack a model is judged by accuracy, where a row is right or wrong; else by the task's metric.
            metric = "accuracy" if tested.task.is_single_label else plan.metric
            table = sets[own].part(0, plan.attacked_rows)
            clean = tested.score(answers[own][: len(table)], table.inputs["labels"], metric)
            directions = self._directions.setdefault((plan.name, own), {})
            curve, worst = attacked(tested, table, protocol.radii, protocol.steps, metric, directions)
            robust["pgd_clean"] = round(clean, 5)
            robust["pgd"] = [round(value, 5) for value in curve["pgd"]]
            robust["noise"] = [round(value, 5) for value in curve["noise"]]
            robust["radii"] = list(protocol.radii)
            robust["pgd_area"] = round(area(clean, protocol.radii, curve["pgd"]), 5)
            place = protocol.radii.index(protocol.reference)
            robust["pgd_reference"], robust["noise_reference"] = robust["pgd"][place], robust["noise"][place]
            clock.lap("attack")
        found: dict[str, Any] = {}
        if purpose == "tune":  # the rule of `toughen tune` pairs rows
            labels, some = sets[own].inputs["labels"], table.inputs["labels"]
            found["answers"] = {
                "clean": packed(rows_of(tested, answers[own], labels)),
                "pgd": packed(rows_of(tested, worst[protocol.radii.index(protocol.reference)], some)),
                "labels": packed(rows_of(tested, labels.cpu().numpy(), labels)),
            }
        if purpose == "board" and self.texts is not None and plan.name in self.texts.rows:
            after, seconds = self.texts.attack(tested.model, tested.task, plan.edges[-1])
            robust |= {name: round(value, 5) for name, value in after.items()}
            budget = {"rows": protocol.text_rows, "queries": protocol.text_queries, "words": protocol.text_words}
            found["texts"] = budget | {"seconds_per_1000_rows": {k: round(v, 3) for k, v in seconds.items()}}
            clock.lap("texts")
        return {"value": round(scores[own], 5), "diverged": diverged, "robust": robust, **found}


class Order:
    """Batches of a seed: a function of rows, seed and epoch alone, so that all methods see the same."""

    def __init__(self, table: Table, plan: TaskPlan, batch_size: int, seed: int, *, tell_padding: bool = False) -> None:
        self.table, self.edges, self.tell_padding = table, np.asarray(sorted(plan.edges)), tell_padding
        # What is left over when all batches are full is dropped, another part of the rows in every epoch.
        self.sampler = LengthBucketed(table.lengths, batch_size, plan.edges, seed=seed, drop_last=True)
        self.steps = len(self.sampler)
        if not self.steps:
            raise ValueError(f"{plan.name}: {len(table)} training rows do not fill a batch of {batch_size}.")
        self._seen = hashlib.sha256()
        self._counted, self._next = plan.epochs, 0

    def epoch(self, number: int) -> Iterator[dict[str, Tensor]]:
        """All batches of an epoch; gathered on the device at once, so that a step only takes its slice."""
        self.sampler.set_epoch(number)
        plan = np.asarray(self.sampler.plan())
        self._count(number, plan)
        buckets = np.searchsorted(self.edges, self.table.lengths[plan].max(1))
        device = self.table.inputs["input_ids"].device
        gathered = {
            int(bucket): self.table.take(torch.from_numpy(plan[buckets == bucket]).to(device), int(self.edges[bucket]))
            for bucket in np.unique(buckets)
        }
        if self.tell_padding:  # a step asks masks on the CPU alone
            for batches in gathered.values():
                mask = batches["attention_mask"].cpu()
                batches["attention_mask"] = mask.pin_memory() if device.type == "cuda" else mask
        places = dict.fromkeys(gathered, 0)
        for bucket in buckets.tolist():
            yield {name: value[places[bucket]] for name, value in gathered[bucket].items()}
            places[bucket] += 1

    def _count(self, number: int, plan: Any) -> None:
        if number == self._next < self._counted:
            self._seen.update(plan.astype(np.int32).tobytes())
            self._next += 1

    @property
    def digest(self) -> str:
        """Of all batches' rows, in order, in the task's own number of epochs: longer and shorter arms begin alike."""
        for number in range(self._next, self._counted):
            self.sampler.set_epoch(number)
            self._count(number, np.asarray(self.sampler.plan()))
        return self._seen.hexdigest()[:12]


class Clock:
    """Seconds of a run's parts; the device finishes its work first."""

    def __init__(self, device: torch.device) -> None:
        self.device, self.laps, self._last = device, dict[str, float](), time.perf_counter()

    def lap(self, name: str) -> None:
        if self.device.type == "cuda":
            torch.cuda.synchronize(self.device)
        now = time.perf_counter()
        self.laps[name], self._last = now - self._last, now


def versions(device: torch.device) -> dict[str, str]:
    name = torch.cuda.get_device_name(device) if device.type == "cuda" else device.type
    return {
        "toughen": toughen.__version__,
        "torch": torch.__version__,
        "transformers": transformers.__version__,
        "device": name,
    }
