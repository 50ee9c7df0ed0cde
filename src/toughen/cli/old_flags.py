"""Flags of run_glue.py, FreeLB, DeBERTa's SiFT, mt-dnn, adversarialSA and ParaGen, in today's words."""

from collections.abc import Mapping, Sequence

# Without dashes in front and with "_" for "-": --adv-lr and --adv_lr are one.
NEW: Mapping[str, str] = {
    "model_name_or_path": "--model",
    "init_model": "--model",
    "bert_model_type": "--model",
    "load_model_path": "--model",
    "pretrained_model": "--model",
    "task_name": "--task",
    "train_datasets": "--task",
    "data_dir": "--data.dir",
    "train_file": "--data.train_file",
    "validation_file": "--data.validation_file",
    "test_file": "--data.test_file",
    "max_seq_length": "--data.max_length",
    "max_seq_len": "--data.max_length",
    "max_train_samples": "--data.limit",
    "limit": "--data.limit",
    "learning_rate": "--train.learning_rate",
    "lr": "--train.learning_rate",
    "num_train_epochs": "--train.epochs",
    "epochs": "--train.epochs",
    "max_steps": "--train.max_steps",
    "max_train_steps": "--train.max_steps",
    "max_rate": "--train.learning_rate",
    "train_batch_size": "--train.batch_size",
    "per_device_train_batch_size": "--train.batch_size",
    "per_gpu_train_batch_size": "--train.batch_size",
    "batch_size": "--train.batch_size",
    "max_samples": "--train.batch_size",
    "eval_on": "--data.eval_split",
    "eval_batch_size": "--train.eval_batch_size",
    "per_device_eval_batch_size": "--train.eval_batch_size",
    "per_gpu_eval_batch_size": "--train.eval_batch_size",
    "warmup_steps": "--train.warmup",
    "warmup_proportion": "--train.warmup",
    "warmup_ratio": "--train.warmup",
    "warmup": "--train.warmup",
    "weight_decay": "--train.weight_decay",
    "cls_drop_out": "--model_config.cls_dropout",
    "hidden_dropout_prob": "--model_config.hidden_dropout_prob",
    "attention_probs_dropout_prob": "--model_config.attention_probs_dropout_prob",
    "max_grad_norm": "--train.max_grad_norm",
    "adv_lr": "--method.step_size",
    "vat_learning_rate": "--method.step_size",
    "adv_step_size": "--method.step_size",
    "adv_init_mag": "--method.init_scale",
    "init_mag": "--method.init_scale",
    "vat_init_perturbation": "--method.init_scale",
    "adv_noise_var": "--method.init_scale",
    "adv_max_norm": "--method.max_norm",
    "max_norm": "--method.max_norm",
    "adv_steps": "--method.steps",
    "adv_k": "--method.steps",
    "vat_lambda": "--method.weight",
    "adv_alpha": "--method.weight",
    "adv_norm_type": "--method.norm",
    "norm_type": "--method.norm",
    "tau": "--method.tau",
}
# Flags whose meaning is now something else: a person must choose.
ASK: Mapping[str, str] = {
    "adv_epsilon": "only guarded a division in mt-dnn; the radius is --method.max_norm",
    "test_model_file": "names a trained model; score it by: toughen evaluate RUN, or RUN/seeds/1/checkpoint-N",
    "gradient_accumulation_steps": "the update's size is --train.batch_size, one pass's rows are --train.micro_batch",
}
# Flags that say what the sub-command or the model's own files say already.
DROPPED = (
    "do_train",
    "do_eval",
    "do_predict",
    "do_test",
    "do_lower_case",
    "overwrite_output_dir",
    "eval_all_checkpoints",
)
DROPPED_WITH_VALUE = ("model_type",)
SWITCHES: Mapping[str, tuple[str, str]] = {
    "fp16": ("--train.precision", "fp16"),
    "bf16": ("--train.precision", "bf16"),
}
TRUTH = {"true": True, "false": False}  # DeBERTa's scripts write --fp16 True
LENGTHS = ("--method.step_size", "--method.init_scale", "--method.max_norm")
SAYS_UNITS = ("--method.preset", "--recipe", "--config", "-c")
PARAGEN = "--task."  # --task.model.init_mag: the path in ParaGen's config


def translate(arguments: Sequence[str]) -> tuple[list[str], list[str]]:
    """The arguments in today's words, and a notice for each that changed."""
    out: list[str] = []
    notices: list[str] = []
    left = list(arguments)
    relative = not any(word.partition("=")[0] in SAYS_UNITS for word in left)
    _check_trains({_key(argument) for argument in left})
    while left:
        argument = left.pop(0)
        flag, equals, value = argument.partition("=")
        key = _key(argument)
        if not flag.startswith("--") or ("." in flag and not flag.startswith(PARAGEN)):
            out.append(argument)
        elif key in ASK:
            raise ValueError(f"{flag} {ASK[key]}.")
        elif key in DROPPED or key in SWITCHES:
            truth = _truth(value, left)
            if key in DROPPED:
                notices.append(f"{flag} is not needed")
                continue
            new, word = SWITCHES[key] if truth else (SWITCHES[key][0], "fp32")
            out += [new, word]
            notices.append(f"{flag} is now {new} {word}")
        elif key in DROPPED_WITH_VALUE:
            if not equals and left and not left[0].startswith("-"):
                left.pop(0)
            notices.append(f"{flag} is not needed: the model says it")
        elif key == "eval_on" and (value if equals else left[0] if left else "") == "dev":
            left = left[not equals :]
            out += [NEW[key], "validation"]
            notices.append(f"{flag} is now {NEW[key]} (dev is validation)")
        elif key in NEW:
            out.append(NEW[key] + equals + value)
            note = " (of the whole update, over all processes)" if NEW[key] == "--train.batch_size" else ""
            if relative and NEW[key] in LENGTHS:
                note = " (in shares of the embedding's norm; a --method.preset of the original has its units)"
            notices.append(f"{flag} is now {NEW[key]}{note}")
        elif flag.startswith(PARAGEN):
            raise ValueError(f"{flag} is a place in ParaGen's config that has no equal here. See: toughen train --help")
        else:
            out.append(argument)
    return out, list(dict.fromkeys(notices))


def _key(argument: str) -> str:
    """A flag as the tables above have it; of ParaGen's path the last part."""
    flag = argument.partition("=")[0]
    last = flag.rpartition(".")[2] if flag.startswith(PARAGEN) else flag.removeprefix("--")
    return last.replace("-", "_") if flag.startswith("--") else ""


def _check_trains(keys: set[str]) -> None:
    """Scripts that were asked to score, and not to train, did not train."""
    scores = sorted(keys & {"do_eval", "do_test", "do_predict"})
    if scores and "do_train" not in keys:
        raise ValueError(
            f"--{scores[0]} without --do_train trains nothing. Score a run by: toughen evaluate RUN (--split test "
            "where labels are known, --all_checkpoints for kept epochs); test predictions: RUN/seeds/1/predictions."
        )


def _truth(value: str, left: list[str]) -> bool:
    """The word behind a switch, taken off `left`; without one a switch is on."""
    if not value and left and left[0].lower() in TRUTH:
        value = left.pop(0)
    return TRUTH.get(value.lower(), True)
