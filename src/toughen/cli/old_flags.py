"""Flags of run_glue.py, FreeLB, DeBERTa's SiFT, mt-dnn, adversarialSA and ParaGen, translated to today's."""

from argparse import SUPPRESS, Action, ArgumentParser, Namespace
from collections.abc import Mapping, Sequence
from pathlib import Path

from ..errors import UsageError
from ..runs.config_io import load_yaml
from ..runs.folder import RunFolder
from ..tasks.glue_zip import file_name
from ..tasks.registry import task
from .arguments import CommandParser

_TABLES = load_yaml(Path(__file__).with_suffix(".yaml").read_text(encoding="utf-8"))
NEW: Mapping[str, str] = {old: new for new, names in _TABLES["renamed"].items() for old in names}
VALUES: Mapping[str, Mapping[str, str]] = _TABLES["values"]
SWITCHES: Mapping[str, Sequence[str]] = _TABLES["switches"]
ASK: Mapping[str, str] = _TABLES["ask"]
AS_BEFORE: Mapping[str, str] = _TABLES["as_before"]
NOT_NEEDED: Mapping[str, str] = _TABLES["not_needed"]
TESTING = ("do_test", "do_predict")
LENGTHS = ("--method.step_size", "--method.init_scale", "--method.max_norm")


class _OldFlag(Action):
    """Collects the flag as it was typed, its name in the tables and its value."""

    def __call__(
        self, parser: ArgumentParser, namespace: Namespace, values: object, option_string: str | None = None
    ) -> None:
        namespace.old.append((option_string, self.dest, values))


def add_old_flags(parser: ArgumentParser) -> None:
    """Let `parser` collect the flags of the tables in `old`, each with its value."""
    parser.set_defaults(old=[])
    for name in (*NEW, *SWITCHES, *ASK, *NOT_NEEDED):
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


def predict_commands(arguments: Sequence[str]) -> list[list[str]]:
    """Return the words of each `toughen predict` for --do_test without --do_train; nothing for other commands.

    run_sent_clas.py predicts so with the file of an epoch; of MNLI both halves. Here the model is a run, or a
    checkpoint of one.
    """
    parser = CommandParser("toughen train", add_help=False)
    parser.add_argument("--output_dir")
    add_old_flags(parser)
    given, _ = parser.parse_known_args([strip_paragen_path(word) for word in arguments])
    old = {name: value for _, name, value in given.old}
    model = old.get("test_model_file") or given.output_dir
    if "do_train" in old or not old.keys() & set(TESTING) or model is None:
        return []
    folder = Path(given.output_dir or model)
    name = task(old["task_name"]).name if "task_name" in old else None
    tables = {"test": file_name(name) if name else "test.tsv"}
    tables |= {"test_mm": file_name("mnli-mm")} if name == "mnli" else {}
    flags = {"data_dir": "--dir", "eval_batch_size": "--batch_size"}
    shared = [word for name, flag in flags.items() if name in old for word in (flag, old[name])]
    checkpoint = str(_checkpoint_of_epoch(Path(model)))
    return [[checkpoint, "--split", split, "--out", str(folder / out), *shared] for split, out in tables.items()]


def _checkpoint_of_epoch(model: Path) -> Path:
    """Return the checkpoint for what adversarialSA calls `sst_bert/2_pytorch_model.bin`; another path as it is."""
    epoch = model.name.removesuffix("_pytorch_model.bin")
    if model.exists() or not epoch.isdigit():
        return model
    seeds = sorted(int(path.name) for path in (model.parent / "seeds").glob("*") if path.name.isdigit())
    kept = RunFolder(model.parent).checkpoints("method", seeds[0]) if seeds else []
    if int(epoch) >= len(kept):
        raise UsageError(
            f"--test_model_file {model}: {model.parent} keeps {len(kept)} checkpoints. Keep that of every epoch by "
            f"--train.keep_checkpoints, or give the run, {model.parent}, for its best epoch."
        )
    return kept[int(epoch)]


def translate(old: Sequence[tuple[str, str, str | None]], has_units: bool) -> tuple[list[str], list[str]]:
    """Return today's words for old flags, and a notice for each; `has_units` if something names the lengths' units."""
    names = {name for _, name, _ in old}
    if "do_train" not in names and (scores := sorted(names & {"do_eval", *TESTING})):
        raise UsageError(
            f"--{scores[0]} without --do_train trains nothing. Score a run by: toughen evaluate RUN (--split test "
            "where labels are known, --all_checkpoints for kept epochs); predict its test set by: toughen predict RUN "
            "--split test, or give --test_model_file or --output_dir."
        )
    words: list[str] = []
    notices: list[str] = []
    for flag, name, value in old:
        if name in ASK and value != AS_BEFORE.get(name, ""):
            raise UsageError(f"{flag} {ASK[name]}.")
        if name in SWITCHES:  # DeBERTa's scripts write --fp16 True
            meanings = SWITCHES[name][value is not None and value.lower() == "false" :][:1]
            words += meanings
            notices += [f"{flag} is now {meaning.replace('=', ' ')}" for meaning in meanings]
        elif name not in NEW:
            notices.append(f"{flag} is not needed{NOT_NEEDED.get(name, f': {value} is what is done')}")
        else:
            new, today = NEW[name], VALUES.get(name, {}).get(value or "")
            note = f" ({value} is {today})" if today else ""
            if new == "--train.batch_size":
                note = " (of the whole update, over all processes)"
            elif new in LENGTHS and not has_units:
                note = " (in shares of the embedding's norm; a --method.preset of the original has its units)"
            words.append(f"{new}={today or value}")
            notices.append(f"{flag} is now {new}{note}")
    return words, list(dict.fromkeys(notices))
