"""The tables, part by part, as text cells; how they are written down is no matter here."""

from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from statistics import fmean, median

from toughen.statistics import paired_t

from .findings import findings, signed
from .journal import Row
from .planning import LINEAR, SECOND_ORDER, NotTuned, chosen_rate, chosen_settings, tried
from .protocol import Protocol, written
from .summary import MEAN, Board, Cell, Value, boards, clean, robust

LEGEND = (
    "Points are hundredths. Mean ± standard deviation over seeds, then the difference from plain at equal epochs, "
    "paired over seeds. * and ! mark differences for the better and for the worse that are beyond noise: two-sided "
    "paired t, 5 %, corrected over the methods of the column (Holm)."
)


@dataclass(frozen=True)
class Part:
    """One table with its words."""

    title: str
    words: Sequence[str] = ()
    head: Sequence[str] = ()
    rows: Sequence[Sequence[str]] = ()


def parts(rows: Sequence[Row], protocol: Protocol, *, whole: bool = False) -> list[Part]:
    """All tables; with `whole` none of a model whose final runs have not reached every method."""
    found: list[Part] = []
    for (model, head), board in boards(rows, protocol).items():
        name = f"{model}, {head.replace('_', '-')} head"
        found += [_under_way(board, name)] if whole and _missing(board, head) else _board(board, name, head)
    found += _heads(rows, protocol)
    return [*found, *_choices(rows, protocol)] if rows else []


def _missing(board: Board, head: str) -> bool:
    methods = board.protocol.methods if head == LINEAR else board.protocol.second_order_methods
    there = {(row["method"], row["task"]) for row in board.rows}
    tasks = [task.name for task in board.protocol.tasks if task.name in board.protocol.mean_tasks]
    return any((method, task) not in there for method in methods for task in tasks)


def _under_way(board: Board, name: str) -> Part:
    made = len(board.rows)
    return Part(
        f"{name}: under way", (f"{made} final runs are made. They are shown when every method has some on every task.",)
    )


def _board(board: Board, name: str, head: str) -> Iterator[Part]:
    tasks = [*board.tasks, *([MEAN] if set(board.protocol.mean_tasks) <= set(board.tasks) else [])]
    yield Part(f"{name}: what the runs say", findings(board))
    yield _scores(board, f"{name}: clean scores at equal epochs", tasks, clean, (LEGEND,))
    yield _differences(board, f"{name}: differences from plain, clean", tasks, clean)
    protocol = board.protocol
    about = (
        f"PGD, {protocol.steps} steps inside an l2 ball of {protocol.reference:g} of the embedding's norm, on a fixed "
        "part of the development rows; accuracy, or the task's metric where no row is right or wrong.",
    )
    yield _scores(board, f"{name}: under PGD at the reference radius", tasks, robust("pgd_reference"), about)
    area = (f"The mean height of the PGD curve from radius 0 to {protocol.radii[-1]:g}.",)
    yield _scores(board, f"{name}: area under the PGD curve", tasks, robust("pgd_area"), area)
    noise = ("Random noise of exactly the reference radius: where it costs as much as PGD, a model is only noisy.",)
    yield _scores(board, f"{name}: under random noise", tasks, robust("noise_reference"), noise)
    for strength in protocol.strengths:
        value = robust(f"typos {strength:g}")
        yield _scores(board, f"{name}: typos in {strength:.0%} of the words", tasks, value, ())
    others = [(task.name, other) for task in protocol.tasks if task.name in board.tasks for other in task.sets]
    if others:
        yield _sets(board, f"{name}: other sets", others)
    if head == LINEAR:
        yield _equal(board, f"{name}: against plain of equal compute", tasks)
    yield _cost(board, f"{name}: cost")


def _scores(board: Board, title: str, tasks: Sequence[str], value: Value, words: Sequence[str]) -> Part:
    columns = {task: board.column(task, value) for task in tasks}
    rows = [[method, *(_cell(columns[task].get(method)) for task in tasks)] for method in board.methods]
    return Part(title, words, ["method", *tasks], rows)


def _differences(board: Board, title: str, tasks: Sequence[str], value: Value) -> Part:
    columns = {task: board.column(task, value) for task in tasks}
    words = ("With 95 % intervals; p is of the paired t test, then corrected over the methods (Holm).",)
    rows = [
        [method, *(_tested(columns[task].get(method)) for task in tasks)]
        for method in board.methods
        if method != "plain"
    ]
    return Part(title, words, ["method", *tasks], rows)


def _sets(board: Board, title: str, others: Sequence[tuple[str, str]]) -> Part:
    columns = [board.column(task, robust(other)) for task, other in others]
    rows = [[method, *(_cell(column.get(method)) for column in columns)] for method in board.methods]
    return Part(title, ("Trained on the task named first.",), ["method", *(f"{t}: {o}" for t, o in others)], rows)


def _equal(board: Board, title: str, tasks: Sequence[str]) -> Part:
    words = (
        "Plain training for the least whole number of times its epochs that costs no less than the method; differences "
        "with 95 % intervals, not corrected.",
    )
    rows: list[list[str]] = []
    for method in board.methods:
        pairs = [board.equal_compute(method, task, clean) for task in tasks]
        times = next((str(pair[0]) for pair in pairs if pair), None)
        if times is not None:
            rows.append([method, f"x{times}", *(signed(pair[1]) if pair else "-" for pair in pairs)])
    for many in board.protocol.more_epochs:
        own = [board.seeds("plain", task, clean, many) for task in tasks]
        scores = [f"{fmean(seeds.values()):.1f}" if seeds else "-" for seeds in own]
        rows.append([f"plain x{many}, its scores", "", *scores])
    return Part(title, words, ["method", "plain", *tasks], rows)


def _cost(board: Board, title: str) -> Part:
    words = (
        "Passes: a step in units of a plain one, a backward pass counted as two forward ones. Milliseconds were taken "
        "while several runs shared the device: only their ratio says something. Memory is what one run took.",
    )
    rows: list[list[str]] = []
    for method in board.methods:
        own = [row for row in board.rows if row["method"] == method and row["times"] == 1]
        ratios = [row["ms"] / plain["ms"] for row in own for plain in _beside(board, row)]
        memory = [row["memory_gib"] for row in own if row["memory_gib"] is not None]
        captured = sum(row["captured"]["captured"] for row in own) / max(1, sum(row["steps"] for row in own))
        time = f"{median(ratios):.2f}" if ratios else "-"
        space = f"{fmean(memory):.2f} GiB" if memory else "-"
        rows.append([method, f"{board.cost(method):.2f}", time, space, f"{captured:.0%}"])
    return Part(title, words, ["method", "passes", "time of plain", "memory", "steps captured"], rows)


def _beside(board: Board, row: Row) -> list[Row]:
    return [
        plain
        for plain in board.rows
        if (plain["method"], plain["task"], plain["seed"], plain["times"]) == ("plain", row["task"], row["seed"], 1)
    ]


def _heads(rows: Sequence[Row], protocol: Protocol) -> Iterator[Part]:
    """Plain training with the second-order head against plain training with the linear one."""
    found = boards(rows, protocol)
    for model in dict.fromkeys(model for model, _ in found):
        linear, second = found.get((model, LINEAR)), found.get((model, SECOND_ORDER))
        if linear is None or second is None:
            continue
        tasks = [task for task in second.tasks if task in linear.tasks]
        pairs = [paired_t(second.seeds("plain", task, clean), linear.seeds("plain", task, clean)) for task in tasks]
        yield Part(
            f"{model}: second-order head less linear head, plain training", (), tasks, [[signed(p) for p in pairs]]
        )


def _choices(rows: Sequence[Row], protocol: Protocol) -> Iterator[Part]:
    """What was tuned, and how it came out."""
    lines: list[list[str]] = []
    for model in dict.fromkeys(row["model"] for row in rows if row["purpose"] == "rates"):
        for task in protocol.tasks:
            with suppress(NotTuned):
                lines.append([model, task.name, f"{chosen_rate(protocol, model, task.name, rows):g}"])
    yield Part("Learning rates chosen on plain training", (), ["model", "task", "rate"], lines)
    candidates: list[list[str]] = []
    for method in protocol.methods:
        with suppress(NotTuned):
            candidates += _tried(protocol, method, rows)
    words = (
        "Means over the tuning tasks and seeds on held-out training rows; {} is the library's default today. Of a "
        f"method's candidates within {100 * protocol.slack:g} points of its best clean mean the one with the largest "
        "area under the PGD curve is chosen (+), for all tasks and models.",
    )
    head = ["method", "settings", *protocol.tuning_tasks, "mean", "PGD area", ""]
    yield Part("Settings: every candidate", words, head, candidates)


def _tried(protocol: Protocol, method: str, rows: Sequence[Row]) -> list[list[str]]:
    if len(protocol.methods[method]) == 1:
        return []
    chosen = chosen_settings(protocol, method, rows)
    return [
        [
            method,
            written(one.settings),
            *(f"{100 * one.scores[task]:.1f}" for task in protocol.tuning_tasks),
            f"{100 * one.clean:.1f}",
            f"{100 * one.area:.1f}",
            "+" if one.settings is chosen else "",
        ]
        for one in tried(protocol, method, rows)
    ]


def _cell(cell: Cell | None) -> str:
    if cell is None:
        return "-"
    spread = "" if cell.scores.sd is None else f" ± {cell.scores.sd:.1f}"
    more = "" if cell.against is None else f" ({cell.against.difference:+.1f}{_mark(cell)})"
    return f"{cell.scores.mean:.1f}{spread}{more}"


def _tested(cell: Cell | None) -> str:
    if cell is None or cell.against is None:
        return "-"
    if cell.against.p is None:
        return signed(cell.against)
    return f"{signed(cell.against)}{_mark(cell)} p {cell.against.p:.3f}, {cell.holm:.3f}"


def _mark(cell: Cell) -> str:
    return {1: "*", -1: "!", 0: ""}[cell.clear]
