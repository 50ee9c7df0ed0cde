"""Two processes, started once: the whole table of methods under DDP and FSDP2, and what they say to each other."""

import os
import socket
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist
from safetensors.torch import load_file, save_file
from torch import Tensor, nn
from torch.distributed.fsdp import fully_shard
from torch.nn.parallel import DistributedDataParallel

from .table import METHODS, parts, updates

WORLD = 2


def mine(whole: dict[str, Tensor]) -> dict[str, Tensor]:
    return parts(whole, WORLD)[dist.get_rank()]


def shard(model: Any) -> nn.Module:
    for layer in model.bert.encoder.layer:
        fully_shard(layer)
    return fully_shard(model)


def look_around(attached: Any) -> None:
    """Passes without a backward, at the worst moment: between the gradients and the optimizer's step."""
    attached.probe()


def _ddp(method: Any, find_unused: bool = False, **settings: Any) -> dict[str, Tensor]:
    seen: list[int] = []

    def count(_state: object, bucket: dist.GradBucket) -> torch.futures.Future[Tensor]:
        seen.append(bucket.index())
        return dist.all_reduce(bucket.buffer().div_(WORLD), async_op=True).get_future().then(lambda f: f.value()[0])

    def wrap(model: nn.Module) -> nn.Module:
        wrapped = DistributedDataParallel(model, find_unused_parameters=find_unused, bucket_cap_mb=100)
        wrapped.register_comm_hook(None, count)
        return wrapped

    found = updates(method, wrap=wrap, mine=mine, **settings)
    return found | {"exchanges": torch.tensor(len(seen) / 2)}  # an update


def _fsdp2(method: Any, **settings: Any) -> dict[str, Tensor]:
    return updates(method, wrap=shard, mine=mine, **settings)


HOW: dict[str, Callable[[Any], dict[str, Tensor]]] = {
    "ddp, two micro-batches": partial(_ddp, accumulate=2, before_gradients=look_around),
    "ddp find_unused": partial(_ddp, find_unused=True),
    "fsdp2, two micro-batches": partial(_fsdp2, accumulate=2),
    "fsdp2 with probes": partial(_fsdp2, before_gradients=look_around),
}


def _main(rank: int, port: int, folder: str) -> None:
    os.environ |= {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port)}
    torch.set_num_threads(1)
    dist.init_process_group("gloo", rank=rank, world_size=WORLD)
    found: dict[str, Tensor] = {}
    for name, make in METHODS.items():
        for how, run in HOW.items():
            try:
                results = run(make())
            except Exception as error:  # one method's failure must not hide the others'
                found[f"{how}/{name}/failed: {type(error).__name__}: {str(error)[:300]}"] = torch.zeros(())
                continue
            found |= {f"{how}/{name}/{key}": value.contiguous() for key, value in results.items()}
    save_file(found, Path(folder) / f"rank{rank}.safetensors")
    dist.destroy_process_group()


def free_port() -> int:
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        return one.getsockname()[1]


def run_all(folder: Path) -> None:
    torch.multiprocessing.spawn(_main, args=(free_port(), str(folder)), nprocs=WORLD)


def read(folder: Path, rank: int) -> dict[str, Tensor]:
    return load_file(folder / f"rank{rank}.safetensors")
