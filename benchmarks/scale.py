"""Large models on one GPU: SiFT on the shape of DeBERTa-v2-xxlarge, SMART with LoRA on a Llama of a billion weights.

    python benchmarks/scale.py --out FILE.json

Random weights; a step is forward, search, backward, clipping and AdamW under bf16 autocast.
"""

import argparse
import gc
import json
import statistics
import time
import warnings
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import torch
import transformers
from transformers import (
    DebertaV2Config,
    DebertaV2ForSequenceClassification,
    LlamaConfig,
    LlamaForSequenceClassification,
)

import toughen

SPECIAL = SimpleNamespace(all_special_ids=[0, 1, 2])


def xxlarge() -> Any:
    """48 layers, 1536 wide, 1.5 billion weights, with gradient checkpointing."""
    config = DebertaV2Config(
        vocab_size=128100,
        hidden_size=1536,
        num_hidden_layers=48,
        num_attention_heads=24,
        intermediate_size=6144,
        relative_attention=True,
        position_buckets=256,
        norm_rel_ebd="layer_norm",
        share_att_key=True,
        pos_att_type=["p2c", "c2p"],
        conv_kernel_size=3,
        conv_act="gelu",
        max_relative_positions=-1,
        position_biased_input=False,
        type_vocab_size=0,
        num_labels=3,
    )
    model = DebertaV2ForSequenceClassification(config)
    model.gradient_checkpointing_enable(gradient_checkpointing_kwargs={"use_reentrant": False})
    return model


def llama() -> Any:
    """16 layers, 2048 wide, about 1.2 billion weights, LoRA of rank 16 on the attention."""
    from peft import LoraConfig, get_peft_model

    config = LlamaConfig(
        hidden_size=2048,
        num_hidden_layers=16,
        num_attention_heads=32,
        num_key_value_heads=8,
        intermediate_size=8192,
        vocab_size=128256,
        num_labels=3,
        pad_token_id=0,
    )
    model = LlamaForSequenceClassification(config)
    return get_peft_model(model, LoraConfig(task_type="SEQ_CLS", r=16, target_modules=["q_proj", "k_proj", "v_proj"]))


def measured(name: str, build: Any, method: str, batch: int, length: int, steps: int) -> dict[str, Any]:
    gc.collect()
    torch.cuda.empty_cache()
    torch.cuda.reset_peak_memory_stats()
    torch.manual_seed(0)
    with torch.device("cuda"):
        model = build().train()
    weights = [p for p in model.parameters() if p.requires_grad]
    ids = torch.randint(3, 30000, (batch, length), device="cuda")
    inputs = {"input_ids": ids, "attention_mask": torch.ones_like(ids), "labels": torch.zeros_like(ids[:, 0])}
    attached = toughen.create_method(method).attach(model, SPECIAL)
    optimizer = torch.optim.AdamW(weights, lr=1e-6, fused=True)
    times, losses = [], []
    for _ in range(steps + 2):
        torch.cuda.synchronize()
        begin = time.perf_counter()
        with torch.autocast("cuda", torch.bfloat16):
            loss = attached.backward(model, inputs)
        torch.nn.utils.clip_grad_norm_(weights, 1.0)
        optimizer.step()
        optimizer.zero_grad()
        losses.append(float(loss))
        torch.cuda.synchronize()
        times.append(1000 * (time.perf_counter() - begin))
    attached.detach()
    return {
        "model": name,
        "method": method,
        "batch": batch,
        "length": length,
        "dtype": "bfloat16",
        "mode": "eager",
        "ms": round(statistics.median(times[2:]), 1),
        "memory_gib": round(torch.cuda.max_memory_allocated() / 2**30, 2),
        "device": torch.cuda.get_device_name(),
        "weights": sum(p.numel() for p in model.parameters()),
        "trained": sum(p.numel() for p in weights),
        "losses": [round(one, 4) for one in losses],
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--steps", type=int, default=5)
    parser.add_argument("--out", type=Path)
    arguments = parser.parse_args()
    warnings.simplefilter("ignore")
    rows = [measured("deberta-v2-xxlarge shape", xxlarge, "sift", 16, 256, arguments.steps)]
    print(rows[-1], flush=True)
    try:
        rows.append(measured("llama 1b shape, LoRA", llama, "smart", 8, 512, arguments.steps))
        print(rows[-1], flush=True)
    except ImportError as error:
        print(f"left out: {error}")
    if arguments.out:
        facts = {"torch": torch.__version__, "transformers": transformers.__version__}
        arguments.out.write_text(json.dumps({**facts, "rows": rows}, indent=1) + "\n")


if __name__ == "__main__":
    main()
