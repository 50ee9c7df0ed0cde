"""Two processes under the Trainer, started once."""

import os
import tempfile
import warnings
from pathlib import Path
from typing import Any

import pytest
import torch
import torch.distributed as dist
from safetensors.torch import load_file, save_file
from transformers import Trainer

import toughen

from ..cuda_graphs.rerun import rerun_graphs
from ..invariant.processes import free_port
from ..tiny import LETTERS, text_batch
from ..tiny import small_bert as bert
from .driving import Gradients, made, settings, texts

WORLD = 2
FAST_CASES = [("smart", 2), ("freelb", 1)]
CASES = [(name, steps) for name in ("plain", "smart", "freelb", "sam", "freeat") for steps in (1, 4)]


def _main(rank: int, port: int, folder: str, device: str) -> None:
    os.environ |= {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port), "RANK": str(rank), "LOCAL_RANK": str(rank)}
    os.environ["WORLD_SIZE"] = str(WORLD)
    torch.set_num_threads(1)
    warnings.simplefilter("ignore")
    found: dict[str, torch.Tensor] = {}
    for name, steps in CASES if device == "cpu" else []:
        rows, gradients = texts(4 * steps * WORLD), Gradients()
        with tempfile.TemporaryDirectory() as output:
            arguments = settings(
                Path(output),
                gradient_accumulation_steps=steps,
                max_steps=1,
                max_grad_norm=0.0,
                ddp_find_unused_parameters=False,
                optim="sgd",
                lr_scheduler_type="constant",
            )
            trainer = toughen.robust(Trainer)(
                bert(0.0),
                arguments,
                train_dataset=rows,
                eval_dataset=rows,
                method=made(name),
                callbacks=[gradients],
            )
            trainer.train()
            found[f"{name}/{steps}/eval"] = torch.tensor(trainer.evaluate()["eval_loss"])
        found[f"{name}/{steps}/loss"] = torch.tensor(trainer.state.log_history[0]["loss"])
        found |= {f"{name}/{steps}/gradient/{key}": value for key, value in gradients.seen[0].items()}
    if device == "cpu":
        found |= _fast()
        with rerun_graphs():
            found |= _loop(device, rank)
    else:
        dist.init_process_group("gloo")
        found |= _loop(device, rank)
    save_file(found, Path(folder) / f"rank{rank}.safetensors")
    if dist.is_initialized():
        dist.destroy_process_group()


def _fast() -> dict[str, torch.Tensor]:
    """Weights after updates whose gradients are exchanged after the step, and within it; graphs are stand-ins."""
    found: dict[str, torch.Tensor] = {}
    for name, steps in FAST_CASES:
        for fast in (True, False):
            with tempfile.TemporaryDirectory() as output, rerun_graphs():
                arguments = settings(
                    Path(output), gradient_accumulation_steps=steps, max_steps=6, optim="sgd", max_grad_norm=0.5
                )
                rows = texts(4 * steps * WORLD * 6)
                trainer = toughen.robust(Trainer)(
                    bert(), arguments, train_dataset=rows, method=toughen.make(name), fast=fast
                )
                with pytest.MonkeyPatch.context() as patch:
                    patch.setattr("toughen.trainers.cuda_graph_step.capture_pays", lambda *_: True)
                    patch.setattr(dist, "all_reduce", counted := Counted())
                    trainer.train()
            key = f"{name}/{steps}/{fast}"
            found |= {f"{key}/{weight}": value for weight, value in trainer.model.state_dict().items()}
            captured = trainer.fast_steps.partition(" ")[0] or 0
            found[f"{key}/counts"] = torch.tensor([int(captured), counted.of_gradients])
    return found


class Counted:
    """Counts exchanges of all gradients."""

    def __init__(self) -> None:
        self.of_gradients, self._own = 0, dist.all_reduce

    def __call__(self, tensor: torch.Tensor, *args: object, **kwargs: object) -> object:
        self.of_gradients += tensor.numel() > 1000
        return self._own(tensor, *args, **kwargs)


def _loop(device: str, rank: int) -> dict[str, torch.Tensor]:
    """Weights after a plain loop under DistributedDataParallel, captured and eager."""
    found: dict[str, torch.Tensor] = {}
    for captured in (True, False):
        model = bert(0.0, vocab_size=100).to(device)
        parallel: Any = torch.nn.parallel.DistributedDataParallel(model)
        optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3, eps=1e-4, fused=True)
        with toughen.smart().attach(model, LETTERS, seed=3) as attached:
            step = attached.capture(parallel, optimizer=optimizer, max_norm=0.5)
            for number in range(8):
                batch = {name: value.to(device) for name, value in text_batch(4, 10, seed=2 * number + rank).items()}
                if captured:
                    step(batch)
                    continue
                attached.backward(parallel, batch)
                torch.nn.utils.clip_grad_norm_(model.parameters(), 0.5)
                optimizer.step()
                optimizer.zero_grad()
        key = "captured" if captured else "eager"
        found[f"loop/{key}"] = torch.cat([weight.detach().cpu().flatten() for weight in model.parameters()])
        found[f"loop/{key}/steps"] = torch.tensor(step.steps["captured"])
    return found


def check_loop(ranks: list[dict[str, torch.Tensor]]) -> None:
    assert all(int(rank["loop/captured/steps"]) == 7 for rank in ranks)
    assert torch.equal(ranks[0]["loop/captured"], ranks[1]["loop/captured"])
    torch.testing.assert_close(ranks[0]["loop/captured"], ranks[0]["loop/eager"], rtol=1e-4, atol=1e-5)


def run_all(folder: Path, device: str = "cpu") -> list[dict[str, torch.Tensor]]:
    """Return what each process found."""
    torch.multiprocessing.spawn(_main, args=(free_port(), str(folder), device), nprocs=WORLD)
    return [load_file(folder / f"rank{rank}.safetensors") for rank in range(WORLD)]
