"""The tables, part by part, as text cells, independent of their file format."""

import math
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from statistics import fmean, median

from toughen.statistics import paired_t

from .findings import difference, findings, signed
from .gates import PROPOSED, SECOND, judge
from .journal import Row
from .planning import LINEAR, OWN_HEAD, SECOND_ORDER, NotTuned, chosen_rate, chosen_settings, tried, tuned_settings
from .protocol import PLAIN_TEXTS, Protocol, is_tuned, written
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
    detail: bool = False
    """For the full table alone, not for the documentation's page."""


def parts(rows: Sequence[Row], protocol: Protocol) -> list[Part]:
    """Return all tables of all runs."""
    every = boards(rows, protocol)
    tables = [part for key, board in every.items() for part in _board(board, *key)]
    return [*_on_texts(every), *tables, *_heads(every), *_choices(rows, protocol)] if rows else []


def brief(rows: Sequence[Row], protocol: Protocol) -> list[Part]:
    """Return the tables for the documentation's page: without details, and of every model what is complete."""
    # The head with its authors' settings is of two tasks, so its boards are never complete; it has a line of its own.
    every = boards(rows, protocol)
    complete = {key: complete_part(board) for key, board in every.items()}
    tables: list[Part] = []
    for key, board in complete.items():
        tables += [part for part in _board(board, *key) if not part.detail] if board.rows else []
    left = sum(row["purpose"] == "board" for row in rows) - sum(len(board.rows) for board in complete.values())
    words = f"{left} more final runs exist, of methods and tasks that are not complete yet; they are not shown here."
    tables += [Part("Under way", (words,))] if left else []
    heads = complete | {key: board for key, board in every.items() if key[1] == OWN_HEAD}
    return [*_on_texts(every), *tables, *_heads(heads), *_choices(rows, protocol)] if rows else []


def _on_texts(every: Mapping[tuple[str, str], Board]) -> Iterator[Part]:
    """Yield the gates of the methods on texts, and for each model a line a method, on the mean of the tasks."""
    found = {
        model: board
        for (model, head), board in every.items()
        if head == LINEAR and any(row["method"] in board.protocol.text_methods for row in board.rows)
    }
    for proposed in (PROPOSED, SECOND) if found else ():
        yield Part(f"Gates of `{proposed}`", judge(every, proposed))
    for model, board in found.items():
        typos = f"typos {board.protocol.strengths[-1]:g}"
        columns = {"clean": clean} | {name: robust(name) for name in (typos, *_texts(board), "pgd_reference")}
        plain = {name: board.seeds(PLAIN_TEXTS, MEAN, value) for name, value in columns.items()}
        columns = {n: value for n, value in columns.items() if n == "clean" or plain[n] != plain["clean"]}  # uncased
        lines: list[list[str]] = []
        for method in board.protocol.text_methods:
            own = {name: board.seeds(method, MEAN, value) for name, value in columns.items()}
            if not own["clean"] or not plain["clean"]:
                continue
            cells = [
                f"{fmean(own[name].values()):.1f}"
                if method == PLAIN_TEXTS
                else signed(paired_t(own[name], plain[name]))
                for name in columns
            ]
            lines.append([method, *cells, f"{board.cost(method):.1f}", str(len(own["clean"]))])
        words = (
            f"Means of {', '.join(board.protocol.mean_tasks)} in points, of those that have the score: plain's, then "
            "differences from it with 95 % intervals, paired over seeds and not corrected. A column names the share of "
            "words.",
        )
        yield Part(f"{model}: methods on texts", words, ["method", *columns, "cost", "seeds"], lines)


def complete_part(board: Board) -> Board:
    """Keep the methods with all seeds on all tasks of the mean, and of the other tasks those that all these have."""
    done = {(row["method"], row["task"], row["seed"]) for row in board.rows if row["times"] == 1}
    seeds = board.protocol.seeds

    def has(method: str, task: str) -> bool:
        return all((method, task, seed) in done for seed in seeds)

    methods = [method for method in board.methods if all(has(method, task) for task in board.protocol.mean_tasks)]
    if "plain" not in methods:
        return replace(board, rows=[])
    others = (*board.protocol.authors, *board.protocol.text_methods)
    everywhere = [method for method in methods if method not in others]
    tasks = [task for task in board.tasks if all(has(method, task) for method in everywhere)]
    return replace(board, rows=[row for row in board.rows if row["method"] in methods and row["task"] in tasks])


def _board(board: Board, model: str, head: str) -> Iterator[Part]:
    name = f"{model}, {head.replace('_', '-')} head"
    all_there = set(board.protocol.mean_tasks) <= set(board.tasks)
    tasks = [*board.tasks, *([MEAN] if all_there else [])]
    yield Part(f"{name}: what the runs say", findings(board))
    if all_there:
        yield _glance(board, f"{name}: at a glance", head)
    yield _scores(board, f"{name}: clean scores at equal epochs", tasks, clean, (LEGEND,))
    yield _differences(board, f"{name}: differences from plain, clean", tasks, clean)
    protocol = board.protocol
    about = (
        f"PGD, {protocol.steps} steps inside an l2 ball of {protocol.reference:g} of the embedding's norm, on a fixed "
        "part of the development rows; accuracy, or the task's metric where no row is right or wrong.",
    )
    yield _scores(board, f"{name}: under PGD at the reference radius", tasks, robust("pgd_reference"), about)
    area = (f"The mean height of the PGD curve from radius 0 to {protocol.radii[-1]:g}.",)
    yield _scores(board, f"{name}: area under the PGD curve", tasks, robust("pgd_area"), area, detail=True)
    noise = (
        "Random noise of exactly the reference radius: if it costs as much as PGD, PGD finds no adversarial direction.",
    )
    yield _scores(board, f"{name}: under random noise", tasks, robust("noise_reference"), noise, detail=True)
    for strength in protocol.strengths:
        value = robust(f"typos {strength:g}")
        yield _scores(board, f"{name}: typos in {strength:.0%} of the words", tasks, value, (), detail=True)
    if texts := _texts(board):
        words = (
            f"Means of {', '.join(protocol.mean_tasks)}, of those that have the score: accuracy after attacks on "
            f"{protocol.text_rows} texts with {protocol.text_queries} queries and {protocol.text_words:.0%} of the "
            "words, and under noise in the share of words that a column names.",
        )
        columns = [board.column(MEAN, robust(text)) for text in texts]
        rows = [[method, *(_cell(column.get(method)) for column in columns)] for method in board.methods]
        yield Part(f"{name}: changed texts", words, ["method", *texts], rows)
    for text in texts:
        yield _scores(board, f"{name}: {text}", tasks, robust(text), (), detail=True)
    others = [(task.name, other) for task in protocol.tasks if task.name in board.tasks for other in task.sets]
    if others:
        yield _sets(board, f"{name}: other sets", others)
    if head == LINEAR:
        yield _equal(board, f"{name}: against plain of equal compute", tasks)
    yield _cost(board, f"{name}: cost")


def _texts(board: Board) -> list[str]:
    """Return the scores on changed texts that runs have; older ones have none beside typos."""
    known = {key for row in board.rows for key in row["robust"]}
    sources = sorted(key for key in known if key.startswith("synonyms "))
    noise = [f"{kind} {strength:g}" for kind, strength in board.protocol.noise]
    return [key for key in ("characters", *sources, *noise) if key in known]


def _glance(board: Board, title: str, head: str) -> Part:
    """Return a line for each method, on the mean of the tasks: what it gains, and what it costs."""
    typos = f"typos {board.protocol.strengths[0]:g}"
    kinds = {"clean": clean, "PGD": robust("pgd_reference"), "typos": robust(typos)}
    columns = {name: board.column(MEAN, value) for name, value in kinds.items()}
    rows: list[list[str]] = []
    gains = {method: difference(cell.against) for method, cell in columns["clean"].items()}
    for method in sorted(board.methods, key=lambda name: -gains.get(name, -math.inf)):
        line = [method]
        for name, value in kinds.items():
            cell = columns[name].get(method)
            line.append("-" if cell is None else f"{signed(cell.against)}{_mark(cell)}" if cell.against else _own(cell))
            if head == LINEAR and name != "typos":
                pair = board.equal_compute(method, MEAN, value)
                line.append(f"{signed(pair[1])} (x{pair[0]})" if pair else "-")
        cost = board.cost(method)
        rows.append([*line, "-" if cost is None else f"{cost:.1f}"])
    words = (
        f"Means of {', '.join(board.protocol.mean_tasks)} in points: plain's own, then differences from it with 95 % "
        "intervals; * and ! are beyond noise after correction. Equal compute: against plain training for so many "
        f"times the epochs. PGD at radius {board.protocol.reference:g}, typos in {board.protocol.strengths[0]:.0%} of "
        "the words; cost in steps of plain training.",
    )
    equal = ["at equal compute"] if head == LINEAR else []
    return Part(title, words, ["method", "clean", *equal, "under PGD", *equal, "with typos", "cost"], rows)


def _scores(
    board: Board, title: str, tasks: Sequence[str], value: Value, words: Sequence[str], *, detail: bool = False
) -> Part:
    columns = {task: board.column(task, value) for task in tasks}
    rows = [[method, *(_cell(columns[task].get(method)) for task in tasks)] for method in board.methods]
    return Part(title, words, ["method", *tasks], rows, detail)


def _differences(board: Board, title: str, tasks: Sequence[str], value: Value) -> Part:
    columns = {task: board.column(task, value) for task in tasks}
    words = ("With 95 % intervals; p is of the paired t test, then corrected over the methods (Holm).",)
    rows = [
        [method, *(_tested(columns[task].get(method)) for task in tasks)]
        for method in board.methods
        if method != "plain"
    ]
    return Part(title, words, ["method", *tasks], rows, detail=True)


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
    return Part(title, words, ["method", "plain", *tasks], rows, detail=True)


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
    return Part(title, words, ["method", "passes", "time of plain", "memory", "steps captured"], rows, detail=True)


def _beside(board: Board, row: Row) -> list[Row]:
    return [
        plain
        for plain in board.rows
        if (plain["method"], plain["task"], plain["seed"], plain["times"]) == ("plain", row["task"], row["seed"], 1)
        and plain.get("packed", False) == row.get("packed", False)
    ]


def _heads(boards_by_key: Mapping[tuple[str, str], Board]) -> Iterator[Part]:
    """Yield plain training with the second-order head against the linear one, and with its authors' settings."""
    kinds = {SECOND_ORDER: "second-order head", OWN_HEAD: "second-order head with its authors' q, k and dropout"}
    for model in dict.fromkeys(model for model, _ in boards_by_key):
        for head, name in kinds.items():
            linear, second = boards_by_key.get((model, LINEAR)), boards_by_key.get((model, head))
            if linear is None or second is None or not second.tasks:
                continue
            tasks = [task for task in second.tasks if task in linear.tasks]
            pairs = [paired_t(second.seeds("plain", task, clean), linear.seeds("plain", task, clean)) for task in tasks]
            yield Part(f"{model}: {name} less linear head, plain training", (), tasks, [[signed(p) for p in pairs]])


def _choices(rows: Sequence[Row], protocol: Protocol) -> Iterator[Part]:
    """Yield what was tuned, and the results."""
    lines: list[list[str]] = []
    for model in dict.fromkeys(row["model"] for row in rows if row["purpose"] == "rates"):
        for task in protocol.tasks:
            with suppress(NotTuned):
                lines.append([model, task.name, f"{chosen_rate(protocol, model, task.name, rows):g}"])
    yield Part("Learning rates chosen on plain training", (), ["model", "task", "rate"], lines)
    chosen = [
        [model, method, *(_chosen(protocol, model, task.name, method, rows) for task in protocol.tasks)]
        for model in dict.fromkeys(row["model"] for row in rows if row["purpose"] == "tune")
        for method in protocol.methods
        if is_tuned(method)
    ]
    if chosen:
        words = ("By the rule of `toughen tune` for PGD at the reference radius, on held-out training rows.",)
        yield Part("Settings of tuned rows", words, ["model", "row", *(task.name for task in protocol.tasks)], chosen)
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


def _chosen(protocol: Protocol, model: str, task: str, method: str, rows: Sequence[Row]) -> str:
    with suppress(NotTuned):
        settings = tuned_settings(protocol, model, task, method, rows)
        return "plain" if settings is None else written(settings)
    return "-"


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


def _own(cell: Cell) -> str:
    return f"{cell.scores.mean:.1f}"


def _tested(cell: Cell | None) -> str:
    if cell is None or cell.against is None:
        return "-"
    if cell.against.p is None:
        return signed(cell.against)
    return f"{signed(cell.against)}{_mark(cell)} p {cell.against.p:.3f}, {cell.holm:.3f}"


def _mark(cell: Cell) -> str:
    return {1: "*", -1: "!", 0: ""}[cell.clear]
