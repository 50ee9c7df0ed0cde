"""Every method in one table, from tests and leaderboard: `python -m benchmarks.method_table` writes the page."""

import warnings
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

import toughen
from benchmarks.leaderboard.journal import read
from benchmarks.leaderboard.planning import LINEAR, of_today
from benchmarks.leaderboard.protocol import Protocol
from benchmarks.leaderboard.sections import complete_part
from benchmarks.leaderboard.summary import MEAN, Cell, boards, clean, robust
from tests.families.test_heads import HEADS, refusal
from tests.invariant import processes
from tests.invariant.table import METHODS as IN_TWO_PROCESSES
from tests.invariant.table import tiny
from tests.invariant.test_two_processes import EXCHANGES
from tests.tiny import LETTERS, LIKE_TYPOS, other_tokens
from tests.trainers.driving import ALL as UNDER_ADAPTERS
from toughen.cuda_graphs.eligibility import can_pack, method_reason
from toughen.internal.atomic import write_text
from toughen.method import Method
from toughen.needs import declared
from toughen.runs.method_config import cost_of

ROOT = Path(__file__).parents[1]
PAGE = ROOT / "docs" / "method_table.md"
RESULTS = ROOT / "benchmarks" / "results" / "leaderboard.jsonl"
HEAD = ("method", "threat", "clean", "under PGD", "cost", "heads", "DDP", "FSDP2", "LoRA", "captured", "packed")
TEXT = """# All methods in one table

Made by `python -m benchmarks.method_table` from the tests and the [leaderboard](evidence.md); a test fails if it is out
of date. What each method does is in [methods](methods.md).

* **threat**: what is perturbed. *Worst case* is searched by gradient, *random* is drawn.
* **clean, under PGD**: points above plain training on the mean of five GLUE tasks, five seeds, equal epochs; one number
  for each encoder: {models}. \\* and ! are beyond noise, for the better and for the worse. A dash: no run.
* **cost**: passes of a step, as a multiple of a plain step's. FreeAT ran on half the batches.
* **heads**: of the {heads} heads and families that the tests train (classes, choices, spans, tokens, several labels,
  regression, language models), how many take the method; the others are refused with a reason.
* **DDP, FSDP2**: two processes give the update of one. Once or twice: how often gradients are exchanged.
* **LoRA**: the adapters alone are trained.
* **captured**: the step runs as a CUDA graph. *One micro-batch*: not with gradient accumulation. *With optimizer*: the
  optimizer's step has to be captured, too.
* **packed**: padding can be left out of the layers of a captured step.

[Which one](methods.md#which-one) says what to take; [`toughen tune`](tune.md) chooses on your own data.

"""
THREATS = {
    "weights": "weights, worst case",
    "attention": "attention, learned",
    "dropout": "dropout, random",
    "text": "text, random",
}


def text() -> str:
    """Return the page."""
    protocol = Protocol()
    rows = of_today(protocol, read([RESULTS]))
    of_model = {
        model: complete_part(board) for (model, head), board in boards(rows, protocol).items() if head == LINEAR
    }
    kinds = (clean, robust("pgd_reference"))
    columns = [[board.column(MEAN, kind) for board in of_model.values()] for kind in kinds]
    costs = {method: board.cost(method) for board in of_model.values() for method in board.methods}
    lines: list[Sequence[str]] = [HEAD, ["---"] * len(HEAD)]
    for title, name, method in variants(costs):
        scores = [measured([cells.get(title) for cells in column]) for column in columns]
        cost = costs.get(title) or cost_of(method)
        lines.append((f"`{title}`", threat(method), *scores, f"{cost:.1f}", *works(name, method)))
    intro = TEXT.format(models=", ".join(of_model), heads=len(HEADS))
    return intro + "".join(f"| {' | '.join(line)} |\n" for line in lines)


def variants(known: Mapping[str, object]) -> Iterator[tuple[str, str, Method]]:
    """Yield every method by its title and name, and its preset `robust` if the board has it."""
    for name in toughen.list_methods():
        yield name, name, toughen.create_method(name)
        if f"{name} robust" in known:
            yield f"{name} robust", name, toughen.create_method(name, preset="robust")


def measured(cells: Sequence[Cell | None]) -> str:
    """Return the points on every encoder, or that there are no runs."""
    return ", ".join(map(points, cells)) if any(cells) else "no run"


def points(cell: Cell | None) -> str:
    """Return the difference from plain with its mark; the score itself for plain."""
    if cell is None:
        return "-"
    if cell.against is None:
        return f"{cell.scores.mean:.1f}"
    return f"{round(cell.against.difference, 1) + 0.0:+.1f}" + ("", r"\*", "!")[cell.clear]


def threat(method: Method) -> str:
    """Return what is perturbed, and how it is found."""
    target = declared(method.site, "target")
    if target == "activations":
        place = "layer" if declared(method.site, "inside_layers") else "embedding"
        if declared(method.search, "candidates") is not None:
            place = "words"
        sought = method.search.steps or declared(method.combine, "ascends_between_passes")
        return f"{place}, {'worst case' if sought else 'random'}"
    return THREATS.get(target, "none")


def works(name: str, method: Method) -> list[str]:
    """Return what the tests hold for the method, and what the engine says of its captured steps."""
    if name in LIKE_TYPOS:  # one of them stands for all in the tests
        name, method = "typos", toughen.typos()
    if name == "words":  # the tests bring synonyms of their own
        method = toughen.words(candidates=other_tokens)
    heads = sum(refusal(head, name) is None for head in HEADS)
    exchanges = "twice" if EXCHANGES.get(name, 1) == 2 else "once"
    several = [
        {"ddp": exchanges, "fsdp2": "yes"}[way]
        if name in IN_TWO_PROCESSES and any(how.startswith(way) for how in processes.HOW)
        else "-"
        for way in ("ddp", "fsdp2")
    ]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        attached = method.attach(tiny(), LETTERS, total_steps=10)
    states, alone, first = attached.states, attached.backward_passes(True), attached.backward_passes(False)
    attached.detach()
    captured = "yes"
    if method_reason(states, alone, True):
        captured = "with optimizer"
    elif method_reason(states, first, False):
        captured = "one micro-batch"
    lora = "yes" if name in UNDER_ADAPTERS else "-"
    return [f"{heads} of {len(HEADS)}", *several, lora, captured, "yes" if can_pack(states) else "no"]


if __name__ == "__main__":
    write_text(PAGE, text())
