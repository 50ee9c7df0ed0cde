"""Every model class of transformers, from transformers' own testers, under every method: one backward step each.

    TRANSFORMERS_SOURCE=~/transformers python -m benchmarks.outside.models cells.jsonl
    TRANSFORMERS_SOURCE=~/transformers python -m benchmarks.outside.models cells.jsonl --families gpt2 --methods smart

One JSON line a cell (a class under a method): PASS, REFUSED (one of toughen's errors, in one line), CRASH (anything
else) or LATE. `trouble` says what is wrong with a step that passed: a loss that is not finite, weights that lost their
gradient, a perturbation of 0 or without effect, a plain step that is not the model's own, inputs or model changed. A
perturbation without effect is BLIND, and no trouble, where the tester's own batch lets no word that counts move the
model: all of them are masked (Mamba), are images' tokens (ModernVBERT), or the logits are constant (XLM). NO_IMPORT,
NO_TESTER, NO_INPUTS and NO_BASELINE say where a class could not be tried, and why. A family is a process of its own;
test files that the results have already are left out, so that a run can be continued.
"""

import argparse
import copy
import inspect
import json
import multiprocessing
import random
import signal
import tempfile
import traceback
import unittest
import warnings
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import torch
import transformers
from torch import Tensor, nn
from transformers.models.auto import modeling_auto

import toughen
from toughen.errors import MethodError, RobustnessWarning, SiteError, StepError

from . import find_checkout, import_leniently

HEADS = {
    "seqcls": "SEQUENCE_CLASSIFICATION",
    "tokcls": "TOKEN_CLASSIFICATION",
    "choice": "MULTIPLE_CHOICE",
    "qa": "QUESTION_ANSWERING",
    "image": "IMAGE_CLASSIFICATION",
    "audio": "AUDIO_CLASSIFICATION",
    "clm": "CAUSAL_LM",
    "mlm": "MASKED_LM",
    "seq2seq": "SEQ_TO_SEQ_CAUSAL_LM",
    "video": "VIDEO_CLASSIFICATION",
    "semseg": "SEMANTIC_SEGMENTATION",
    "ctc": "CTC",
    "vlm": "IMAGE_TEXT_TO_TEXT",
    "nsp": "NEXT_SENTENCE_PREDICTION",
    "audioframe": "AUDIO_FRAME_CLASSIFICATION",
    "vqa": "VISUAL_QUESTION_ANSWERING",
    "speech": "SPEECH_SEQ_2_SEQ",
}
SUFFIXES = {  # of classes that no mapping lists
    "ForSequenceClassification": "seqcls",
    "ForTokenClassification": "tokcls",
    "ForMultipleChoice": "choice",
    "ForQuestionAnswering": "qa",
    "ForImageClassification": "image",
    "ForImageClassificationWithTeacher": "image",
    "ForAudioClassification": "audio",
    "ForCausalLM": "clm",
}
SECOND_ORDER = {"seqcls": "sequence-classification", "choice": "multiple-choice", "image": "image-classification"}
METHODS = (
    "plain,smart,sift,freelb,asa,r3f,rdrop,vat,sam,alum,fgm,pgd,freeat,creat,neftune,bregman,r4f,spectral,asam,awp,"
    "words,temperature,second_order"
)
PERTURBS = {"smart", "freelb", "r3f", "vat", "sift", "fgm", "pgd", "neftune", "creat", "alum", "freeat", "r4f"}
CHANGES_WEIGHTS = {"r4f", "spectral", "temperature"}  # a constraint or a scale of the head becomes a part of it
REFUSALS = (MethodError, SiteError, StepError)
SECONDS_A_CELL = 150


@dataclass
class Cell:
    """A model class under a method."""

    family: str
    model: str
    head: str
    method: str
    status: str
    message: str = ""
    where: str = ""
    trouble: list[str] = field(default_factory=list[str])
    warnings: list[str] = field(default_factory=list[str])


@dataclass(frozen=True)
class Case:
    """A model class with the config and the batch of its own tester."""

    family: str
    head: str
    kind: type[nn.Module]
    config: Any
    batch: dict[str, Any]

    def cell(self, method: str, status: str, **more: Any) -> Cell:
        return Cell(self.family, self.kind.__name__, self.head, method, status, **more)

    def build(self) -> nn.Module:
        reseed(0)
        return self.kind(copy.deepcopy(self.config)).float().train()


class TooLate(Exception):
    """A cell took longer than it may."""


@contextmanager
def within(seconds: int) -> Iterator[None]:
    def ring(*_: Any) -> None:
        raise TooLate

    signal.signal(signal.SIGALRM, ring)
    signal.alarm(seconds)
    try:
        yield
    finally:
        signal.alarm(0)


def reseed(seed: int) -> None:
    torch.manual_seed(seed)
    np.random.seed(seed)
    random.seed(seed)


def cases(name: str) -> Iterator[Case | Cell]:
    """The classes of a test module that have a head, or a cell that says why one cannot be had."""
    family = name.split(".")[2]
    try:
        module = import_leniently(name)
    except BaseException as error:
        yield Cell(family, "-", "-", "-", "NO_IMPORT", message=repr(error)[:300])
        return
    found: list[tuple[Any, Any, str, type[nn.Module]]] = []
    for test_name, test in list(vars(module).items()):
        own = inspect.isclass(test) and issubclass(test, unittest.TestCase) and test.__module__ == module.__name__
        if not own or not hasattr(test, "all_model_classes"):
            continue
        try:
            with within(SECONDS_A_CELL):
                tester: Any = test("setUp")
                tester.setUp()
                reseed(0)
                config, inputs = tester.model_tester.prepare_config_and_inputs_for_common()
        except BaseException as error:
            yield Cell(family, test_name, "-", "-", "NO_TESTER", message=repr(error)[:300])
            continue
        adjust(config)
        tested = tester.all_model_classes or ()
        found += [(tester, (config, inputs), head, kind) for head, kind in classes_of(config, tested)]
    seen = set[type]()
    # A class's own tester first: another one of the family may have a config or a batch that is not for it.
    for tester, given, head, kind in sorted(found, key=lambda one: one[3] not in (one[0].all_model_classes or ())):
        if kind in seen:
            continue
        seen.add(kind)
        try:
            config, inputs = given
            if hasattr(tester.model_tester, "prepare_config_and_inputs_for_model_class"):  # Perceiver's
                config, inputs = tester.model_tester.prepare_config_and_inputs_for_model_class(kind)
            yield Case(family, head, kind, config, labelled(tester, head, kind, config, inputs))
        except BaseException as error:
            yield Cell(family, kind.__name__, head, "-", "NO_INPUTS", message=repr(error)[:300])


def adjust(config: Any) -> None:
    """Set what makes a step's effect depend on chance or vanish in rounding."""
    for name in [name for name in vars(config) if name.endswith("layerdrop")]:
        setattr(config, name, 0.0)  # a layer that is left out gets no gradient
    if getattr(config, "initializer_factor", 1.0) < 0.1:
        config.initializer_factor = 1.0  # MT5's small weights give logits that differ in no digit


def classes_of(config: Any, tested: Any) -> Iterator[tuple[str, type[nn.Module]]]:
    for head, name in HEADS.items():
        try:
            found = getattr(modeling_auto, f"MODEL_FOR_{name}_MAPPING").get(type(config), None)
        except Exception:
            found = None
        yield from ((head, kind) for kind in (found if isinstance(found, (tuple, list)) else [found]) if kind)
    yield from ((head, kind) for kind in tested for end, head in SUFFIXES.items() if kind.__name__.endswith(end))


def labelled(tester: Any, head: str, kind: type[nn.Module], config: Any, inputs: Any) -> dict[str, Any]:
    """The tester's batch with labels that are not all 0."""
    given = tester._prepare_for_class(inputs, kind, return_labels=True)
    batch = {name: value for name, value in given.items() if value is not None}
    reseed(1)
    ids = batch.get("input_ids")
    values = [value for value in batch.values() if isinstance(value, Tensor) and value.dim()]
    rows, classes = values[0].shape[0], max(int(getattr(config, "num_labels", None) or 2), 2)
    if head in ("seqcls", "image", "audio", "video", "nsp"):
        if "labels" not in batch or batch["labels"].dim() == 1:
            batch["labels"] = torch.randint(0, 2 if head == "nsp" else classes, (rows,))
    elif head in ("tokcls", "audioframe") and ids is not None:
        batch["labels"] = torch.randint(0, classes, ids.shape)
    elif head == "audioframe":  # one label of each frame, as 0 and 1
        with torch.no_grad():
            frames = kind(config)(**batch).logits.shape[:2]
        batch["labels"] = nn.functional.one_hot(torch.randint(0, classes, frames), classes).float()
    elif head in ("clm", "mlm") and ids is not None:
        if "labels" not in batch or batch["labels"].shape == ids.shape:  # Musicgen's have their own
            batch["labels"] = ids.long().clone()
    elif head in ("vlm", "speech", "vqa") and "labels" not in batch:
        words = batch.get("decoder_input_ids", ids)
        batch["labels"] = (words if words.dim() == 2 else words[..., 0]).long().clone()  # Kyutai's: text, sounds
    elif head == "qa":
        length = (ids if ids is not None else next(value for value in values if value.dim() > 1)).shape[1]
        batch["start_positions"] = torch.randint(0, length, (rows,))
        batch["end_positions"] = torch.randint(0, length, (rows,))
    return batch


def cells(case: Case, methods: list[str]) -> Iterator[Cell]:
    """A class under every method, each on the same model."""
    try:
        with within(2 * SECONDS_A_CELL):
            subject = Subject(case)
    except BaseException as error:
        yield case.cell("-", "NO_BASELINE", message=repr(error)[:300], where=places(error)[0])
        return
    for method in methods:
        if method == "second_order":
            if case.head in SECOND_ORDER:
                yield result(case, method, lambda _: second_order(case, subject.model))
        else:
            yield result(case, method, lambda cell: subject.step(cell))


def result(case: Case, method: str, run: Any) -> Cell:
    cell = case.cell(method, "PASS")
    try:
        with within(SECONDS_A_CELL), warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            cell.trouble += run(cell)
        said = {str(each.message) for each in caught if issubclass(each.category, RobustnessWarning)}
        cell.warnings = sorted(said)
    except TooLate as error:
        cell.status, cell.where = "LATE", places(error)[0]
    except BaseException as error:
        last, own = places(error)
        refused = isinstance(error, REFUSALS) or (
            method == "second_order" and isinstance(error, (ValueError, TypeError)) and last.startswith("toughen/")
        )
        cell.status = "REFUSED" if refused else "CRASH"
        cell.message = str(error) if refused else f"{type(error).__name__}: {error}"[:400]
        cell.where = own if refused else f"{last} <- {own}"
        if refused and "\n" in cell.message:
            cell.trouble.append("SEVERAL_LINES")
    return cell


def places(error: BaseException) -> tuple[str, str]:
    """Where an error was raised, and where in toughen."""
    frames = [(frame.filename, f"{frame.lineno}:{frame.name}") for frame in traceback.extract_tb(error.__traceback__)]
    short = [f"{file.split('site-packages/')[-1].split('/src/')[-1]}:{rest}" for file, rest in frames]
    return short[-1], next((each for each in reversed(short) if each.startswith("toughen/")), "")


class Subject:
    """A model with what it does alone: its gradients, its outputs in evaluation, and all that it consists of."""

    def __init__(self, case: Case) -> None:
        self.case, self.model = case, case.build()
        reseed(3)
        loss = self.model(**case.batch).get("loss")  # of some classes, which are for inference, none
        if loss is None:
            raise ValueError("no loss")
        loss.backward()
        self.finite, self.gradients = bool(loss.isfinite()), self.take_gradients()
        reseed(3)
        again = self.model(**case.batch).loss
        again.backward()
        self.repeatable = torch.equal(loss, again)
        self.take_gradients()
        self.outputs = self.evaluate()
        self.steady = same(self.outputs, self.evaluate())
        self.blind = self.steady and self.is_blind()
        self.state = {name: value.clone() for name, value in self.model.state_dict().items()}
        self.buffers = {name: value.clone() for name, value in self.model.named_buffers()}
        self.shape = anatomy(self.model)

    def take_gradients(self) -> dict[str, Tensor]:
        named = self.model.named_parameters()
        found = {n: w.grad.clone() for n, w in named if w.grad is not None and "toughen_adversary" not in n}
        self.model.zero_grad(set_to_none=True)
        return found

    def is_blind(self) -> bool:
        """Whether not even noise as large as the words themselves moves an output."""
        batch, heard = self.case.batch, list[bool]()

        def shake(_module: Any, _args: Any, output: Any) -> Any:
            if not isinstance(output, Tensor):
                return None
            heard.append(True)
            noise = torch.randn_like(output) * output.square().mean().sqrt().clamp(min=0.1)
            mask = batch.get("attention_mask")
            masked = mask is not None and mask.shape == output.shape[:2]
            return output + (noise * mask[..., None] if masked else noise)

        try:
            hook = self.model.get_input_embeddings().register_forward_hook(shake)
        except (AttributeError, NotImplementedError):
            return False
        try:
            return same(self.outputs, self.evaluate()) and bool(heard)
        finally:
            hook.remove()

    def evaluate(self) -> list[Tensor]:
        self.model.eval()
        reseed(5)
        with torch.no_grad():
            out = self.model(**self.case.batch)
        self.model.train()
        return scores(out)

    def step(self, cell: Cell) -> list[str]:
        """One backward step under a method; returns what is wrong with it."""
        method, batch = cell.method, self.case.batch
        self.model.train()  # Flaubert's copies share their activations, which a copy in evaluation switches over
        given = {name: value.clone() for name, value in batch.items() if isinstance(value, Tensor)}
        logits: list[list[Tensor]] = []
        attached = None

        def look(_module: Any, _args: Any, output: Any) -> None:
            logits.append([t.detach().clone() for t in scores(output)])  # of XLNet's question answering the loss alone

        hook = None
        try:
            attached = toughen.make(method).attach(self.model, seed=3, total_steps=10)
            hook = self.model.register_forward_hook(look)
            reseed(3)
            loss = attached.backward(self.model, batch, step=lambda: None)
            trouble = self.judge(method, loss, attached.report(), logits)
        finally:
            if hook is not None:
                hook.remove()
            if attached is not None:
                attached.detach()
            self.take_gradients()
        if self.blind and {"NO_PERTURBATION", "NO_EFFECT"} & {*trouble}:
            cell.status, trouble = "BLIND", [each for each in trouble if each not in ("NO_PERTURBATION", "NO_EFFECT")]
        trouble += [f"INPUT_CHANGED {name}" for name, value in given.items() if not torch.equal(value, batch[name])]
        return trouble + self.leaks(method)

    def judge(self, method: str, loss: Tensor, report: Any, logits: list[list[Tensor]]) -> list[str]:
        gradients, trouble = self.take_gradients(), list[str]()
        if self.finite and not loss.isfinite():
            trouble.append("LOSS_NOT_FINITE")
        broken = [name for name, grad in gradients.items() if not grad.isfinite().all()]
        if broken and all(grad.isfinite().all() for grad in self.gradients.values()):
            trouble.append(f"GRADIENT_NOT_FINITE {broken[0]}")
        felt = [name for name, grad in self.gradients.items() if grad.abs().max() > 1e-6]
        lost = [name for name in felt if name not in gradients or gradients[name].abs().max() == 0]
        if lost:
            trouble.append(f"GRADIENT_LOST {len(lost)} of {len(felt)}, {lost[0]}")
        if method == "plain" and self.repeatable:
            other = [n for n, g in self.gradients.items() if n not in gradients or not torch.equal(g, gradients[n])]
            if other and self.finite:
                trouble.append(f"PLAIN_DIFFERS {other[0]}")
        if self.finite and method in PERTURBS:  # Tapas's tester has a loss that is no number
            if not float(report.get("delta_norm", 0)) > 0:
                trouble.append("NO_PERTURBATION")
            pairs = ((x, y) for one in logits[1:] for x, y in zip(one, logits[0], strict=False) if x.shape == y.shape)
            if len(logits) > 1 and not any(bool((x != y).any()) for x, y in pairs):
                trouble.append("NO_EFFECT")
        return trouble

    def leaks(self, method: str) -> list[str]:
        """What a method left behind after its detach; and put the model back."""
        found: list[str] = []
        if anatomy(self.model) != self.shape:
            found.append("LEFT_ON_MODULES")
        now = self.model.state_dict()
        changed = [n for n in now if n not in self.buffers and n in self.state and not same([now[n]], [self.state[n]])]
        if (changed and method not in CHANGES_WEIGHTS) or now.keys() != self.state.keys():
            found.append(f"WEIGHTS_CHANGED {changed[:1]}")
        with torch.no_grad():
            for name, weight in self.model.named_parameters():
                weight.copy_(self.state[name]) if name in changed else None
            for name, buffer in self.model.named_buffers():
                if name in self.buffers and buffer.shape == self.buffers[name].shape:
                    buffer.copy_(self.buffers[name])
        if self.steady and not same(self.outputs, self.evaluate()):
            found.append("OUTPUTS_CHANGED")
        return found


def anatomy(model: nn.Module) -> list[Any]:
    """All that hangs on a model's modules."""
    hooks = ("_forward_hooks", "_forward_pre_hooks", "_backward_hooks", "_state_dict_hooks")
    return [getattr(getattr(model, "config", None), "_attn_implementation", None)] + [
        (name, module.training, sorted(vars(module)), *(len(getattr(module, hook)) for hook in hooks))
        for name, module in model.named_modules()
    ]


def tensors(value: Any) -> list[Tensor]:
    if isinstance(value, Tensor):
        return [value]
    if isinstance(value, (tuple, list)):
        return [each for part in value for each in tensors(part)]
    return tensors(list(value.values())) if hasattr(value, "values") else []


def scores(output: Any) -> list[Tensor]:
    return tensors({name: value for name, value in output.items() if "logits" in name or name == "loss"})


def same(a: list[Tensor], b: list[Tensor]) -> bool:
    return len(a) == len(b) and all(
        x.shape == y.shape and torch.equal(x.nan_to_num(), y.nan_to_num()) for x, y in zip(a, b, strict=True)
    )


def second_order(case: Case, model: nn.Module) -> list[str]:
    """The second-order head on the class's backbone: a step, a step of SMART, and the way to disk and back."""
    reseed(0)
    labels = None if case.head == "choice" else 3
    head = toughen.second_order(copy.deepcopy(model), num_labels=labels, q=8, k=4, task=SECOND_ORDER[case.head]).train()
    batch = dict(case.batch)
    if labels:
        batch["labels"] = torch.randint(0, labels, (len(batch["labels"]),))
    reseed(3)
    loss = head(**batch).loss
    loss.backward()
    trouble = [] if loss.isfinite() else ["LOSS_NOT_FINITE"]
    with toughen.smart().attach(head, seed=3) as attached:
        attached.backward(head, batch)
    head.eval()
    auto = {
        "seqcls": transformers.AutoModelForSequenceClassification,
        "choice": transformers.AutoModelForMultipleChoice,
        "image": transformers.AutoModelForImageClassification,
    }[case.head]
    with tempfile.TemporaryDirectory() as folder, torch.no_grad():
        head.save_pretrained(folder)
        reseed(5)
        expected = head(**batch).logits
        loaded = auto.from_pretrained(folder).eval()
        reseed(5)
        if not torch.allclose(expected, loaded(**batch).logits, rtol=1e-4, atol=1e-5):
            trouble.append("RELOAD_DIFFERS")
    return trouble


def run_family(name: str, methods: list[str], out: Path) -> None:
    with out.open("a") as file:
        for case in cases(name):
            for cell in [case] if isinstance(case, Cell) else cells(case, methods):
                file.write(json.dumps(asdict(cell)) + "\n")
                file.flush()


def summary(rows: list[dict[str, Any]]) -> str:
    """Counts, and each crash and trouble in a line."""
    lines = [", ".join(f"{status} {count}" for status, count in Counter(row["status"] for row in rows).most_common())]
    lines += [f"{row['model']} {row['method']}: {row['message']} ({row['where']})" for row in rows if is_crash(row)]
    lines += [f"{row['model']} {row['method']}: {', '.join(row['trouble'])}" for row in rows if row["trouble"]]
    return "\n".join(lines)


def is_crash(row: dict[str, Any]) -> bool:
    return row["status"] in ("CRASH", "LATE", "DIED")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("out", type=Path, help="JSON lines; what it has already is not run again")
    parser.add_argument("--families", default="", help="folders of tests/models, between commas; default: all")
    parser.add_argument("--methods", default=METHODS, help="between commas (default: %(default)s)")
    given = parser.parse_args()
    out, methods = given.out.resolve(), given.methods.split(",")
    root = find_checkout()
    transformers.logging.set_verbosity_error()
    transformers.logging.disable_progress_bar()
    torch.set_num_threads(1)
    import_leniently("tests.test_modeling_common")  # once, before the fork
    wanted = set(filter(None, given.families.split(",")))
    files = sorted((root / "tests" / "models").glob("*/test_modeling_*.py"))
    done = {row["family"] for row in read(out) if row["status"] == "DONE"}
    for file in files:
        family = file.parent.name
        if (wanted and family not in wanted) or f"{family}/{file.stem}" in done:
            continue
        name = f"tests.models.{family}.{file.stem}"
        process = multiprocessing.get_context("fork").Process(target=run_family, args=(name, methods, out))
        process.start()
        process.join()
        ended = Cell(f"{family}/{file.stem}", "-", "-", "-", "DONE" if process.exitcode == 0 else "DIED")
        with out.open("a") as lines:
            lines.write(json.dumps(asdict(ended)) + "\n")
    rows = [row for row in read(out) if not wanted or row["family"].split("/")[0] in wanted]
    print(summary(rows))
    raise SystemExit(any(is_crash(row) for row in rows))


def read(out: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in out.read_text().splitlines()] if out.exists() else []


if __name__ == "__main__":
    main()
