"""The files of a sweep beside its trials: leaderboard.csv, .md, .html, and best.yaml."""

import csv
import io
from collections.abc import Sequence
from itertools import combinations
from pathlib import Path
from typing import Any

from ..errors import count_of, require
from ..internal.atomic import write_text
from ..internal.markdown import line
from ..reports.charts import blue_shades
from ..reports.drawing import INK, SOFT, Drawing, figure, plain
from ..reports.formatting import format_score, lower_is_better
from ..reports.render import Card, render
from ..runs.config_io import to_yaml
from ..runs.progress import format_duration
from .controller import Controller
from .definition import format_settings, format_value
from .leaderboard import Row, shown, table
from .trials import trial_config, trial_folder


def write_tables(controller: Controller) -> None:
    """Write the tables and the best config; called after every trial."""
    folder, given = controller.folder.path, controller.definition
    heads, cells = table(controller.rows(), given.keys, given.seeds, controller.metric)
    write_text(folder / "leaderboard.csv", as_csv(heads, cells))
    write_text(folder / "leaderboard.md", as_markdown(heads, cells))
    if best := _best_yaml(controller):
        write_text(folder / "best.yaml", best)


def as_csv(heads: Sequence[str], cells: Sequence[Sequence[Any]]) -> str:
    """Format as CSV, with every digit."""
    out = io.StringIO()
    csv.writer(out, lineterminator="\n").writerows([heads, *([_inert(cell) for cell in row] for row in cells)])
    return out.getvalue()


def _inert(cell: object) -> Any:
    """Quote text that a spreadsheet would read as a formula."""
    return f"'{cell}" if isinstance(cell, str) and cell[:1] in ("=", "+", "-", "@") else cell


def as_markdown(heads: Sequence[str], cells: Sequence[Sequence[Any]]) -> str:
    """Format as Markdown, with four digits."""
    lines = [heads, ["---"] * len(heads), *([shown(cell) for cell in row] for row in cells)]
    return "".join(f"{line(each)}\n" for each in lines)


def _best_yaml(controller: Controller) -> str:
    """Return the config of the best row with all seeds; empty if no row is done."""
    best, given = controller.best, controller.definition
    if best is None:
        return ""
    return to_yaml(trial_config(given.base, best.settings, given.seeds)).replace("config.yaml", "best.yaml", 1)


def write_page(controller: Controller) -> None:
    """Write the page with the figures, in the look of the reports; called at the end."""
    given, rows = controller.definition, controller.rows()
    heads, cells = _scores(rows, *table(rows, given.keys, given.seeds, controller.metric), controller.metric)
    page = render(
        "leaderboard.html",
        Path(__file__).parent,
        kind="sweep",
        title=f"Sweep {controller.folder.path.resolve().name}",
        verdicts=_verdicts(controller),
        cards=_cards(controller),
        heads=heads,
        rows=[(each, _links(controller, row)) for row, each in zip(rows, cells, strict=True)],
        drawings=draw(rows, given.keys, controller.metric, given.sign),
        failures=[(row.number, format_settings(row.settings), row.errors) for row in rows if row.errors],
        best=_best_yaml(controller).partition("\n")[2],
    )
    write_text(controller.folder.path / "leaderboard.html", page)


def _links(controller: Controller, row: Row) -> list[tuple[str, str]]:
    """Return the name and the address of each trial's page that is there, beside the sweep's own page."""
    pages = {seed: trial_folder(row.number, seed) / "report.html" for seed in row.outcomes}
    there = {seed: page for seed, page in pages.items() if (controller.folder.path / page).is_file()}
    return [(f"seed {seed}", page.as_posix()) for seed, page in there.items()]


def _scores(
    rows: Sequence[Row], heads: Sequence[str], cells: Sequence[Sequence[Any]], metric: str
) -> tuple[list[str], list[list[tuple[Any, str]]]]:
    """Return heads, and cells as values to sort by and texts: scores in points, the mean with its deviation."""
    empty = {"sd", *(["error"] if not any(row.errors for row in rows) else [])}  # the mean has its sd beside it
    kept = [(index, head) for index, head in enumerate(heads) if head not in empty]
    seeds = {head for head in heads if head.startswith("seed ")}

    def text(row: Row, head: str, cell: Any) -> str:
        if head == metric:
            return format_score(cell, metric, row.sd)
        return format_score(cell, metric) if head in seeds else shown(cell)

    shown_rows = [
        [(line[index], text(row, head, line[index])) for index, head in kept]
        for row, line in zip(rows, cells, strict=True)
    ]
    return [head if head != metric else f"{metric}, mean ± sd" for _, head in kept], shown_rows


def _verdicts(controller: Controller) -> list[str]:
    """Return in a sentence which setting to take, and whether the next one differs."""
    best = controller.best
    if best is None or best.mean is None:
        return []
    metric, sd = controller.metric, best.sd
    text = f"Take {format_settings(best.settings)}: {metric} {format_score(best.mean, metric, sd)}."
    others = [
        row for row in controller.rows() if row.state == "done" and row.number != best.number and row.mean is not None
    ]
    if sd is None:
        return [f"{text} One seed says nothing about chance: give several seeds."]
    near = [row for row in others if abs((row.mean or 0.0) - best.mean) <= sd]
    if not near:
        return [text]
    number = "another setting is" if len(near) == 1 else f"{len(near)} other settings are"
    return [f"{text} {number[0].upper()}{number[1:]} within one standard deviation of it."]


def _cards(controller: Controller) -> list[Card]:
    """Return the headline numbers."""
    status, given, best = controller.status(), controller.definition, controller.best
    goal = "highest" if given.sign > 0 else "lowest"
    spent = sum(row.seconds for row in controller.rows())
    seeds = count_of(len(given.seeds), "seed")
    score, note = "-", "no row is done"
    if best is not None:
        score, note = format_score(best.mean, controller.metric, best.sd), format_settings(best.settings)
    if ties := sum(row.rank == 1 for row in controller.rows()) - 1:
        note += f"; {count_of(ties, 'other row')} with the same score"
    return [
        Card(f"{goal} {controller.metric}", score, note),
        Card("trials", f"{status.ended} of {status.total}", f"{given.search}, {seeds} a row"),
        Card("failed", str(status.failed), f"{status.stopped} stopped early"),
        Card("training time", format_duration(spent), "of all finished trials together"),
    ]


SHADES = "cividis"  # legible for colour-blind readers
MAX_HEAT_MAPS = 12


def draw(rows: Sequence[Row], keys: Sequence[str], metric: str, sign: int) -> list[Drawing]:
    """Draw the rows that have a score, best first, by the settings that vary."""
    scored = [row for row in rows if row.mean is not None]
    varied = [key for key in keys if len({repr(row.settings[key]) for row in rows}) > 1]
    return [_parallel(scored, varied, metric, sign), *_heat_maps(scored, varied, metric)] if scored else []


def _parallel(rows: Sequence[Row], keys: Sequence[str], metric: str, sign: int) -> Drawing:
    """Draw each row as a line through its settings and its score; better rows are brighter, the best is thick."""
    names, scale = [*keys, metric], 1 if lower_is_better(metric) else 100  # scores in points, as in the table
    means = [round(scale * (row.mean or 0.0), 6) for row in rows]
    columns = [_scale([row.settings[key] for row in rows]) for key in keys]
    columns.append(_scale(means, max_ticks=1))
    shades = require("matplotlib", "plot").colormaps[SHADES]
    title, wide = f"Parallel coordinates: {metric} by setting", min(12.0, max(5.5, 1.5 * len(names)))
    with figure(title, wide=wide, high=3.4) as (axes, drawn):
        for index in reversed(range(len(rows))):  # the best last, on top
            share = 0.5 if len(rows) == 1 else columns[-1][0][index]
            line = [heights[index] for heights, _ in columns]
            # Not the ends of the scale: the one cannot be seen on a dark page, the other on a light one.
            colour = shades(0.3 + 0.55 * (share if sign > 0 else 1 - share))
            axes.plot(range(len(names)), line, color=colour, linewidth=3 if index == 0 else 1.3, alpha=0.9)
        for index, (_, ticks) in enumerate(columns):
            axes.axvline(index, color=SOFT, linewidth=0.8)
            for height, text in ticks:
                axes.text(index + 0.03, height + 0.01, plain(text), va="bottom", fontsize=8)
        axes.set_xticks(range(len(names)), [plain(name) for name in names])
        axes.set_xlim(-0.15, len(names) - 0.6)
        axes.set_yticks([])
        axes.grid(visible=False)
        axes.spines[:].set_visible(False)
    return drawn[0]


def _heat_maps(rows: Sequence[Row], keys: Sequence[str], metric: str) -> list[Drawing]:
    """Draw a heat map for each pair of settings with few values: the mean of all rows that have both."""
    alike: dict[tuple[int, ...], str] = {}  # tied settings make one map, not two
    for key in keys:
        values = _distinct([row.settings[key] for row in rows])
        if 2 <= len(values) <= 20:
            alike.setdefault(tuple(values.index(row.settings[key]) for row in rows), key)
    drawn = [_heat_map(rows, down, across, metric) for down, across in combinations(alike.values(), 2)]
    return [each for each in drawn if each is not None][:MAX_HEAT_MAPS]


def _heat_map(rows: Sequence[Row], down: str, across: str, metric: str) -> Drawing | None:
    """Draw the means by two settings; None if most cells are empty, as for values drawn from a range."""
    downs, acrosses = (_distinct([row.settings[key] for row in rows]) for key in (down, across))
    scores: dict[tuple[int, int], list[float]] = {}
    for row in rows:
        cell = (downs.index(row.settings[down]), acrosses.index(row.settings[across]))
        scores.setdefault(cell, []).append(row.mean or 0.0)
    if len(scores) * 2 < len(downs) * len(acrosses):
        return None
    means = {cell: sum(each) / len(each) for cell, each in scores.items()}
    low, high = min(means.values()), max(means.values())
    # From a tenth, so that the lowest is no empty cell.
    shares = {cell: 0.1 + 0.9 * (mean - low) / ((high - low) or 1.0) for cell, mean in means.items()}
    title = f"Heat map: {metric} by {down} and {across}"
    wide, tall = min(12.0, max(3.4, 0.8 * len(acrosses) + 1.8)), max(2.0, 0.42 * len(downs) + 1.2)
    with figure(title, across, down, wide=wide, high=tall) as (axes, drawn):
        grid = [[shares.get((y, x), 0.0) for x in range(len(acrosses))] for y in range(len(downs))]
        axes.pcolormesh(blue_shades(grid))  # vector shapes, not a bitmap in the SVG
        axes.invert_yaxis()
        for (y, x), mean in means.items():
            ink = "#ffffff" if shares[y, x] > 0.5 else INK
            axes.text(x + 0.5, y + 0.5, format_score(mean, metric), ha="center", va="center", color=ink)
        axes.set_xticks([x + 0.5 for x in range(len(acrosses))], [plain(format_value(each)) for each in acrosses])
        axes.set_yticks([y + 0.5 for y in range(len(downs))], [plain(format_value(each)) for each in downs])
        axes.grid(visible=False)
    return drawn[0]


def _distinct(values: Sequence[Any]) -> list[Any]:
    """List each value once: numbers sorted, others in order of appearance."""
    distinct: list[Any] = []
    for value in values:
        if value not in distinct:
            distinct.append(value)
    return sorted(distinct) if _are_numbers(distinct) else distinct


def _are_numbers(values: Sequence[Any]) -> bool:
    return all(isinstance(value, (int, float)) for value in values)


def _scale(values: Sequence[Any], max_ticks: int = 8) -> tuple[list[float], list[tuple[float, str]]]:
    """Scale values to 0..1, with ticks: a few values in even steps, many numbers by size."""
    distinct = _distinct(values)
    if len(distinct) > max_ticks and _are_numbers(distinct):
        low, high = distinct[0], distinct[-1]
        return [(value - low) / (high - low) for value in values], [(0.0, format_value(low)), (1.0, format_value(high))]
    step = 1 / max(len(distinct) - 1, 1)
    ticks = [(index * step, format_value(value)) for index, value in enumerate(distinct)]
    return [distinct.index(value) * step for value in values], ticks if len(ticks) <= max_ticks else []
