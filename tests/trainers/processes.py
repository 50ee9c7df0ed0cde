"""Two processes under the Trainer, started once."""

import os
import tempfile
import warnings
from pathlib import Path

import torch
import torch.distributed as dist
from safetensors.torch import save_file
from transformers import Trainer

import toughen

from ..tiny import small_bert as bert
from .driving import Gradients, made, settings, texts

WORLD = 2
CASES = [(name, steps) for name in ("plain", "smart", "freelb", "sam", "freeat") for steps in (1, 4)]


def _main(rank: int, port: int, folder: str) -> None:
    os.environ |= {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port), "RANK": str(rank), "LOCAL_RANK": str(rank)}
    os.environ["WORLD_SIZE"] = str(WORLD)
    torch.set_num_threads(1)
    warnings.simplefilter("ignore")
    found: dict[str, torch.Tensor] = {}
    for name, steps in CASES:
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
    save_file(found, Path(folder) / f"rank{rank}.safetensors")
    if dist.is_initialized():
        dist.destroy_process_group()


def run_all(folder: Path, port: int) -> None:
    torch.multiprocessing.spawn(_main, args=(port, str(folder)), nprocs=WORLD)
