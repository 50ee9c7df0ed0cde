"""Flags of run_glue.py, FreeLB, DeBERTa's SiFT, mt-dnn, adversarialSA and ParaGen, translated to today's."""

from argparse import SUPPRESS, Action, ArgumentParser, Namespace
from collections.abc import Mapping, Sequence
from typing import Any

from ..errors import UsageError

# Today's option and its old names, with "_" for "-": --adv-lr and --adv_lr are one flag.
OLD_FLAGS: Mapping[str, tuple[str, ...]] = {
    "--model": ("model_name_or_path", "init_model", "bert_model_type", "load_model_path", "pretrained_model"),
    "--task": ("task_name", "train_datasets"),
    "--data.dir": ("data_dir",),
    "--data.train_file": ("train_file",),
    "--data.validation_file": ("validation_file",),
    "--data.test_file": ("test_file",),
    "--data.max_length": ("max_seq_length", "max_seq_len"),
    "--data.limit": ("max_train_samples", "limit"),
    "--train.learning_rate": ("learning_rate", "lr", "max_rate"),
    "--train.epochs": ("num_train_epochs", "epochs"),
    "--train.max_steps": ("max_steps", "max_train_steps"),
    "--train.batch_size": (
        "train_batch_size",
        "per_device_train_batch_size",
        "per_gpu_train_batch_size",
        "batch_size",
        "max_samples",
    ),
    "--data.eval_split": ("eval_on",),
    "--train.eval_batch_size": ("eval_batch_size", "per_device_eval_batch_size", "per_gpu_eval_batch_size"),
    "--train.warmup": ("warmup_steps", "warmup_proportion", "warmup_ratio", "warmup"),
    "--train.weight_decay": ("weight_decay",),
    "--model_config.cls_dropout": ("cls_drop_out",),
    "--model_config.hidden_dropout_prob": ("hidden_dropout_prob",),
    "--model_config.attention_probs_dropout_prob": ("attention_probs_dropout_prob",),
    "--train.max_grad_norm": ("max_grad_norm",),
    "--method.step_size": ("adv_lr", "vat_learning_rate", "adv_step_size"),
    "--method.init_scale": ("adv_init_mag", "init_mag", "vat_init_perturbation", "adv_noise_var"),
    "--method.max_norm": ("adv_max_norm", "max_norm"),
    "--method.steps": ("adv_steps", "adv_k"),
    "--method.weight": ("vat_lambda", "adv_alpha"),
    "--method.norm": ("adv_norm_type", "norm_type"),
    "--method.tau": ("tau",),
}
NEW: Mapping[str, str] = {old: new for new, names in OLD_FLAGS.items() for old in names}
# Flags whose meaning is now something else: the user must choose.
ASK: Mapping[str, str] = {
    "adv_epsilon": "only guarded a division in mt-dnn; the radius is --method.max_norm",
    "test_model_file": "names a trained model; score it by: toughen evaluate RUN, or RUN/seeds/1/checkpoint-N",
    "gradient_accumulation_steps": "the update's size is --train.batch_size, one pass's rows are --train.micro_batch",
}
# Flags that are not needed, and why.
NOT_NEEDED: Mapping[str, str] = {
    **dict.fromkeys(("do_train", "do_eval", "do_predict", "do_test", "do_lower_case", "overwrite_output_dir"), ""),
    "eval_all_checkpoints": "",
    "model_type": ": the model says it",
}
PRECISIONS = ("fp16", "bf16")  # switches; DeBERTa's scripts write --fp16 True
LENGTHS = ("--method.step_size", "--method.init_scale", "--method.max_norm")


class _OldFlag(Action):
    """Collects the flag as it was typed, its name in the tables and its value."""

    def __call__(
        self, parser: ArgumentParser, namespace: Namespace, values: Any, option_string: str | None = None
    ) -> None:
        namespace.old.append((option_string, self.dest, values))


def add_old_flags(parser: ArgumentParser) -> None:
    """Let `parser` collect the flags of the tables in `old`, each with its value."""
    parser.set_defaults(old=[])
    for name in (*NEW, *ASK, *NOT_NEEDED, *PRECISIONS):
        spellings = dict.fromkeys((f"--{name}", f"--{name.replace('_', '-')}"))
        parser.add_argument(
            *spellings, dest=name, action=_OldFlag, nargs=None if name in NEW else "?", default=SUPPRESS
        )


def strip_paragen_path(word: str) -> str:
    """Return `--init_mag` for `--task.model.init_mag`, which is the path in ParaGen's config; another word as it is."""
    flag, equals, value = word.partition("=")
    if not flag.startswith("--task."):
        return word
    name = flag.rpartition(".")[2]
    if name.replace("-", "_") not in NEW:
        raise UsageError(f"{flag} belongs to ParaGen's config and has no equal here. See: toughen train --help")
    return f"--{name}{equals}{value}"


def translate(old: Sequence[tuple[str, str, str | None]], has_units: bool) -> tuple[list[str], list[str]]:
    """Return today's words for old flags, and a notice for each; `has_units` if something names the lengths' units."""
    names = {name for _, name, _ in old}
    if "do_train" not in names and (scores := sorted(names & {"do_eval", "do_test", "do_predict"})):
        raise UsageError(
            f"--{scores[0]} without --do_train trains nothing. Score a run by: toughen evaluate RUN (--split test "
            "where labels are known, --all_checkpoints for kept epochs); test predictions: RUN/seeds/1/predictions."
        )
    words: list[str] = []
    notices: list[str] = []
    for flag, name, value in old:
        if name in ASK:
            raise UsageError(f"{flag} {ASK[name]}.")
        if name in NOT_NEEDED:
            notices.append(f"{flag} is not needed{NOT_NEEDED[name]}")
            continue
        new, note = NEW.get(name, "--train.precision"), ""
        if name in PRECISIONS:
            value = "fp32" if value is not None and value.lower() == "false" else name
            note = f" {value}"
        elif name == "eval_on" and value == "dev":
            value, note = "validation", " (dev is validation)"
        elif new == "--train.batch_size":
            note = " (of the whole update, over all processes)"
        elif new in LENGTHS and not has_units:
            note = " (in shares of the embedding's norm; a --method.preset of the original has its units)"
        words.append(f"{new}={value}")
        notices.append(f"{flag} is now {new}{note}")
    return words, list(dict.fromkeys(notices))
