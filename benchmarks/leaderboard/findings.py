"""Answers to the questions of the protocol, as sentences made from the numbers of the table alone."""

from collections.abc import Sequence

from toughen.statistics import PairedTestResult

from .protocol import is_tuned
from .summary import MEAN, Board, clean, robust

GAIN, ROBUST_GAIN = 1.0, 10.0  # points
# What tuned rows should reach, written down before their first run.
GOAL_METHODS, GOAL_CLEAN, GOAL_PGD = 2, 1.0, 15.0
ROBUST_TASKS = ("sst2", "mrpc")


def findings(board: Board) -> list[str]:
    """Does a method hurt? Which help, still at equal compute? Which are more robust? Were the runs sound?"""
    tasks = [task for task in board.tasks if task in board.protocol.mean_tasks]
    sentences = [*_goals(board, tasks), _seeds(board, tasks), *_hurt(board, tasks)]
    if set(board.protocol.mean_tasks) <= set(board.tasks):
        sentences.append(_help(board))
    sentences += [_robust(board, task) for task in ROBUST_TASKS if task in board.tasks]
    return [*sentences, *_sound(board)]


def _goals(board: Board, tasks: Sequence[str]) -> list[str]:
    """Which goals the tuned rows reach; nothing before there are such rows on all tasks of the mean."""
    tuned = [method for method in board.methods if is_tuned(method) and board.seeds(method, MEAN, clean)]
    if not tuned or set(board.protocol.mean_tasks) - set(tasks):
        return []
    plain_clean, attacked = board.column(MEAN, clean), board.column(MEAN, robust("pgd_reference"))
    above = [m for m in tuned if plain_clean[m].clear > 0 and difference(plain_clean[m].against) >= GOAL_CLEAN]
    below = [
        f"{m} on {task}" for task in tasks for m, c in board.column(task, clean).items() if m in tuned and c.clear < 0
    ]
    strong = [m for m in tuned if attacked[m].clear > 0 and difference(attacked[m].against) >= GOAL_PGD]
    return [
        _goal(
            len(above) >= GOAL_METHODS, f"{GOAL_METHODS} tuned methods {GOAL_CLEAN:g} above plain, clean mean", above
        ),
        _goal(not below, "no tuned method below plain beyond noise on a task", below),
        _goal(bool(strong), f"a tuned method {GOAL_PGD:g} above plain under PGD, mean", strong),
    ]


def _goal(reached: bool, what: str, rows: Sequence[str]) -> str:
    return f"Goal {'reached' if reached else 'MISSED'}: {what} ({', '.join(rows) or 'none'})."


def _seeds(board: Board, tasks: Sequence[str]) -> str:
    counts = [cell.scores.count for task in tasks for cell in board.column(task, clean).values()]
    if not counts:
        return "There is no run of the tasks of the mean yet."
    fewest, most = min(counts), max(counts)
    whole = len(board.methods) * len(tasks)
    missing = f" {whole - len(counts)} of {whole} cells have no run." if len(counts) < whole else ""
    return f"Seeds per cell: {fewest if fewest == most else f'{fewest} to {most}'}.{missing}"


def _hurt(board: Board, tasks: Sequence[str]) -> list[str]:
    columns = {task: board.column(task, clean) for task in tasks}
    if not any(cell.holm is not None for column in columns.values() for cell in column.values()):
        return ["Whether a method hurts cannot be tested yet: that takes two seeds or more."]
    worse = [(method, task) for task in tasks for method, cell in columns[task].items() if cell.clear < 0]
    defaults: list[str] = []
    others: list[str] = []
    for method, task in worse:
        named = defaults if board.protocol.is_default(method) else others
        named.append(f"{method} on {task} {signed(columns[task][method].against)}")
    text = (
        "Worse than plain beyond noise (paired t over seeds, Holm, 5 %), with its default: "
        f"{'; '.join(defaults) or 'none'}."
    )
    text += f" With other settings: {'; '.join(others)}." if others else ""
    lower: list[str] = []
    for task, column in columns.items():
        pairs = {m: c.against for m, c in column.items() if c.against is not None and not c.clear}
        low = sorted((pair.difference, f"{m} {signed(pair)}") for m, pair in pairs.items() if pair.difference <= -GAIN)
        if low:
            lower.append(f"{task}: {', '.join(name for _, name in low)}")
    return [text, f"Lower by {GAIN:g} point or more, but not beyond noise. {'; '.join(lower)}."] if lower else [text]


def _help(board: Board) -> str:
    column = board.column(MEAN, clean)
    better = [m for m, cell in column.items() if cell.against is not None and cell.against.difference >= GAIN]
    if not better:
        return f"No method is better than plain by {GAIN:g} point or more on the mean at equal epochs."
    parts: list[str] = []
    for method in sorted(better, key=lambda m: -difference(column[m].against)):
        equal = board.equal_compute(method, MEAN, clean)
        more = "no plain run of equal compute" if equal is None else f"{signed(equal[1])} to plain x{equal[0]}"
        doubt = "" if column[method].clear > 0 else ", not beyond noise after Holm"
        parts.append(f"{method} {signed(column[method].against)}{doubt} ({more})")
    return f"Better than plain by {GAIN:g} point or more on the mean at equal epochs: {'; '.join(parts)}."


def _robust(board: Board, task: str) -> str:
    column = board.column(task, robust("pgd_reference"))
    above = {m: c.against for m, c in column.items() if c.against is not None and c.against.difference >= ROBUST_GAIN}
    radius = board.protocol.reference
    if not above:
        best = max((c.against.difference for c in column.values() if c.against is not None), default=None)
        shown = "" if best is None else f" (the best: {best:+.1f})"
        return f"{task}: no method is {ROBUST_GAIN:g} points above plain under PGD at radius {radius:g}{shown}."
    names = "; ".join(
        f"{method} {signed(pair)}" for method, pair in sorted(above.items(), key=lambda e: -e[1].difference)
    )
    return f"{task}: {ROBUST_GAIN:g} points or more above plain under PGD at radius {radius:g}: {names}."


def _sound(board: Board) -> list[str]:
    sentences: list[str] = []
    if unequal := board.unequal_orders():
        names = ", ".join(f"{task} seed {seed}" for task, seed in unequal)
        sentences.append(f"WARNING: runs did not see the same batches: {names}. Their differences are not paired.")
    if diverged := sorted({f"{row['method']} on {row['task']}" for row in board.rows if row["diverged"]}):
        sentences.append(f"Runs that diverged (NaN) count with the score of their answers: {', '.join(diverged)}.")
    return sentences


def signed(pair: PairedTestResult | None) -> str:
    """Return a difference as text, with its interval if there is one."""
    if pair is None:
        return "-"
    if pair.low is None or pair.high is None:
        return f"{pair.difference:+.1f}"
    return f"{pair.difference:+.1f} [{pair.low:+.1f}, {pair.high:+.1f}]"


def difference(pair: PairedTestResult | None) -> float:
    return 0.0 if pair is None else pair.difference
