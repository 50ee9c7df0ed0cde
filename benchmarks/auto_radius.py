"""Can FreeLB's radius fit itself? A radius that grows with what the model has learnt, against three fixed ones.

    python benchmarks/auto_radius.py --model FOLDER --data SETS --out benchmarks/results/auto_radius_cpu.json

The automatic radius is the largest fixed one times 1 - loss / first loss, not below 0: the mean loss of FreeLB's first
pass over about ten updates against that of the first ten. So it begins at 0, grows while the loss falls, and backs off
when the loss rises again. It needs no pass of its own and never waits for the device. Scores are of training rows that
are held out. The goal, written before the runs: on each of three tasks the mean of the clean score and of the score
under PGD is above that of the median fixed radius. `--data` holds folders of sets, as toughen.tasks reads them.
"""

import argparse
import json
import time
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path
from statistics import fmean
from typing import Any

import torch
from torch import Tensor
from transformers import AutoTokenizer, get_linear_schedule_with_warmup

import toughen
from toughen import tasks
from toughen.evaluation import AttackSettings, Target, Victim, make_attacks, run_attack
from toughen.search import Relative
from toughen.tasks.tokenising import tokeniser

PLANS = {  # training rows, held-out rows, epochs, learning rate, longest text
    "cola": (3000, 500, 3, 2e-4, 32),
    "sst2": (1600, 400, 1, 3e-4, 48),
    "rte": (640, 300, 2, 1e-4, 64),
}
FIXED, LARGEST = (0.003, 0.01, 0.03), 0.03
RADIUS = 0.02  # of PGD


@dataclass(frozen=True, eq=False)
class LearntShare:
    """Units that grow from 0 with the share of its first loss that the model has lost."""

    units: Relative = Relative()
    factor: Tensor = field(default_factory=lambda: torch.zeros(()))
    first: Tensor = field(default_factory=lambda: torch.zeros(()))
    recent: Tensor = field(default_factory=lambda: torch.zeros(()))
    seen: Tensor = field(default_factory=lambda: torch.zeros(()))

    def length(self, view: Any, p: float, per: Any) -> Tensor:
        return self.factor * self.units.length(view, p, per)

    def update(self, loss: Tensor) -> None:
        """Learn the loss of an update's first pass; nothing here waits for the device."""
        self.seen.add_(1)
        self.first.add_(torch.where(self.seen <= 10, (loss - self.first) / self.seen, 0.0))
        self.recent.add_((loss - self.recent) / self.seen.clamp(max=10))
        self.factor.copy_((1 - self.recent / self.first).clamp(1e-4, 1.0))


def method_of(name: str) -> tuple[Any, LearntShare | None]:
    """Return plain training, FreeLB with a fixed radius, or with the automatic one."""
    if name == "plain":
        return toughen.create_method("plain"), None
    radius = LARGEST if name == "auto" else float(name)
    method = toughen.freelb(max_norm=radius, step_size=radius / 2, init_scale=radius / 5)
    if name != "auto":
        return method, None
    units = LearntShare()
    return replace(method, search=replace(method.search, units=units)), units


def batches(rows: Any, pad: int, seed: int, size: int = 32) -> Iterator[dict[str, Tensor]]:
    order = torch.randperm(len(rows), generator=torch.Generator().manual_seed(seed)).tolist()
    for start in range(0, len(order) - size + 1, size):
        part = [rows[i] for i in order[start : start + size]]
        width = max(len(ids) for ids, _ in part)
        ids = torch.tensor([[*ids, *[pad] * (width - len(ids))] for ids, _ in part])
        yield {"input_ids": ids, "attention_mask": (ids != pad).long(), "labels": torch.tensor([y for _, y in part])}


def trained(folder: str, name: str, task: Any, train: Any, plan: Any, seed: int) -> tuple[Any, Any, list[float]]:
    """Return the model, its tokenizer, and the automatic factor after each epoch."""
    *_, epochs, rate, longest = plan
    torch.manual_seed(seed)
    tokenizer = AutoTokenizer.from_pretrained(folder)
    model = tasks.auto_class(task).from_pretrained(folder, dtype=torch.float32, **tasks.model_kwargs(task)).train()
    encoded = tokeniser(task, tokenizer, longest).encode({c: [row[c] for row in train] for c in task.columns})
    rows = list(zip(encoded["input_ids"], [row["label"] for row in train], strict=True))
    total = epochs * (len(rows) // 32)
    optimizer = torch.optim.AdamW(model.parameters(), lr=rate, weight_decay=0.01)
    schedule = get_linear_schedule_with_warmup(optimizer, total // 10, total)
    method, units = method_of(name)
    factors: list[float] = []
    with method.attach(model, tokenizer, seed=seed, total_steps=total) as attached:
        for epoch in range(epochs):
            for batch in batches(rows, tokenizer.pad_token_id, 1000 * seed + epoch):
                for number, loss in enumerate(attached.losses(lambda inputs, model=model: model(**inputs), batch)):
                    loss.backward()
                    if units is not None and number == 0:
                        units.update(3 * loss.detach())  # a third of each pass
                torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
                optimizer.step()
                schedule.step()
                optimizer.zero_grad()
            if units is not None:
                factors.append(round(float(units.factor), 3))
    return model.eval(), tokenizer, factors


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", required=True)
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--tasks", nargs="+", choices=PLANS, default=list(PLANS))
    parser.add_argument("--arms", nargs="+", default=["plain", *map(str, FIXED), "auto"])
    parser.add_argument("--seeds", type=int, nargs="+", default=[1, 2])
    parser.add_argument("--out", type=Path)
    args = parser.parse_args()
    (attack,) = make_attacks("embedding", AttackSettings(radii=(RADIUS,), steps=5))
    found: list[dict[str, Any]] = []
    for name in args.tasks:
        plan = PLANS[name]
        loaded = tasks.load(name, dir=args.data)
        rows = [dict(row) for row in loaded.train.shuffle(seed=0).select(range(plan[0] + plan[1]))]
        train, held = rows[: plan[0]], rows[plan[0] :]
        for seed in args.seeds:
            for arm in args.arms:
                began = time.process_time()
                model, tokenizer, factors = trained(args.model, arm, loaded.task, train, plan, seed)
                seconds = time.process_time() - began
                victim = Victim(model, tokenizer, loaded.task, max_length=plan[-1])
                logits = victim.exact(held)
                labels = [row["label"] for row in held]
                clean = tasks.metrics(loaded.task)(logits.argmax(-1), labels)[loaded.task.primary_metric]
                curve = run_attack(attack, Target(victim, held[:150], logits[:150], labels[:150])).summary.curve
                attacked = next(point.score.value for point in curve.points if point.x == RADIUS)
                row = {"task": name, "arm": arm, "seed": seed, "clean": clean, "pgd": attacked, "factors": factors}
                found.append({**row, "cpu_seconds": round(seconds)})
                print(json.dumps(found[-1]), flush=True)
                if args.out:
                    args.out.write_text("[\n" + ",\n".join(map(json.dumps, found)) + "\n]\n")
    print(table(found))


def table(found: list[dict[str, Any]]) -> str:
    """Return means over seeds, and the automatic radius against the median of the fixed ones."""
    lines = ["| task | arm | clean | PGD |", "|---|---|---|---|"]
    for name in dict.fromkeys(row["task"] for row in found):
        means: dict[str, tuple[float, float]] = {}
        for arm in dict.fromkeys(row["arm"] for row in found):
            own = [row for row in found if (row["task"], row["arm"]) == (name, arm)]
            means[arm] = (100 * fmean(row["clean"] for row in own), 100 * fmean(row["pgd"] for row in own))
        fixed = [means[str(radius)] for radius in FIXED if str(radius) in means]
        if fixed:
            means["median of the fixed"] = sorted(fixed, key=sum)[(len(fixed) - 1) // 2]
        lines += [f"| {name} | {arm} | {clean:.1f} | {pgd:.1f} |" for arm, (clean, pgd) in means.items()]
    return "\n".join(lines)


if __name__ == "__main__":
    main()
