"""The runs as tables: Markdown, JSON, a page, and docs/evidence_tables.md between its markers, with pictures."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from toughen import evaluation
from toughen.internal.atomic import write_json, write_text
from toughen.reports.drawing import Drawing

from .findings import difference
from .journal import Row, read
from .page import drawings, page
from .planning import LINEAR, of_today
from .protocol import Protocol
from .sections import Part, brief, complete_part, parts
from .summary import MEAN, Cell, boards, clean, robust

EVIDENCE = Path(__file__).parents[2] / "docs" / "evidence_tables.md"
ADVICE = Path(evaluation.__file__).parent / "evidence.json"  # what `toughen scan` quotes
MOST = 3  # methods quoted for each score
WORST = 1.0  # clean points that a method which is quoted may lose
BEGIN, END = "<!-- leaderboard: begin -->", "<!-- leaderboard: end -->"
NOTHING = "No results yet: the runs have not been made."


def write(results: Path, protocol: Protocol, evidence: Path | None = EVIDENCE) -> list[Path]:
    """Write all tables beside the results file, and into the documentation's page if it is given and exists."""
    rows = of_today(protocol, read([results])) if results.is_file() else []
    tables = parts(rows, protocol)
    files = [results.with_suffix(ending) for ending in (".md", ".json", ".html")]
    write_text(files[0], f"# Leaderboard\n\n{_joined(tables)}\n")
    write_json(files[1], figures(rows, protocol))
    write_text(files[2], page(tables, boards(rows, protocol)))
    if evidence is not None and evidence.is_file():
        pictures = drawn(rows, protocol)
        for name, drawing in pictures.items():
            write_text(evidence.parent / name, drawing.file())
            files.append(evidence.parent / name)
        write_text(evidence, between(evidence.read_text(encoding="utf-8"), generated(rows, protocol, pictures)))
        files.append(evidence)
    if evidence == EVIDENCE and rows:
        write_json(ADVICE, measured(rows, protocol))
        files.append(ADVICE)
    return files


def measured(rows: Sequence[Row], protocol: Protocol) -> list[dict[str, Any]]:
    """Return for each model with its linear head and each task the methods above plain beyond noise, best first.

    Those that lose more than a point of clean score are left out: nobody is to be advised to take them.
    """
    # Letter case changes nothing for an uncased model, and these are all uncased but one.
    noise = {kind: robust(f"{kind} {strength:g}") for kind, strength in protocol.noise if kind != "casing"}
    typos = {"typos": robust(f"typos {protocol.strengths[-1]:g}")}
    scores = {"pgd": robust("pgd_reference"), **typos, **noise, "characters": robust("characters")}
    shares = dict(protocol.noise) | {"typos": protocol.strengths[-1]}
    found: list[dict[str, Any]] = []
    for (model, head), board in boards(rows, protocol).items():
        for task in board.tasks if head == LINEAR else ():
            unharmed = board.column(task, clean)
            better: dict[str, list[dict[str, Any]]] = {}
            for name, value in scores.items():
                cells = {
                    method: cell
                    for method, cell in board.column(task, value).items()
                    if cell.clear > 0 and difference(unharmed[method].against) >= -WORST
                }
                ranked = sorted(cells, key=lambda method: -difference(cells[method].against))[:MOST]
                better[name] = [_gain(method, cells[method], unharmed.get(method)) for method in ranked]
            about = {"model": model, "task": task, "radius": protocol.reference, "shares": shares}
            found.append({**about, "better": better})
    return found


def _gain(method: str, cell: Cell, unharmed: Cell | None) -> dict[str, Any]:
    """Return differences from plain in points, rounded as the tables are."""
    pair, clean_pair = cell.against, unharmed.against if unharmed else None
    ends = (None, None) if pair is None else (pair.low, pair.high)
    numbers = {"points": difference(pair), "low": ends[0], "high": ends[1], "clean": difference(clean_pair)}
    return {"method": method, "seeds": cell.scores.count} | {
        name: None if n is None else round(n, 1) + 0.0 for name, n in numbers.items()
    }


def generated(rows: Sequence[Row], protocol: Protocol, pictures: Mapping[str, Drawing]) -> str:
    """Return the part of the documentation's page that is made from the runs."""
    shown = "\n".join(f"![{drawing.title}]({name})" for name, drawing in pictures.items())
    return f"{shown}\n\n{_joined(brief(rows, protocol))}" if shown else _joined(brief(rows, protocol))


def drawn(rows: Sequence[Row], protocol: Protocol) -> dict[str, Drawing]:
    """Return the drawings of each model with its linear head, by file name."""
    drawings_by_file: dict[str, Drawing] = {}
    for (model, head), board in boards(rows, protocol).items():
        if head == LINEAR:
            pair = drawings(complete_part(board), model)
            drawings_by_file |= {
                f"evidence-{model}-{kind}.svg": one for kind, one in zip(("clean", "pgd"), pair, strict=False)
            }
    return drawings_by_file


def _joined(tables: Sequence[Part]) -> str:
    return "\n\n".join(map(markdown, tables)) if tables else NOTHING


def between(page: str, text: str) -> str:
    """Return the page with other text between the markers."""
    before, begin, rest = page.partition(BEGIN)
    _, end, after = rest.partition(END)
    if not begin or not end:
        raise ValueError(f"the page has no markers {BEGIN} and {END} to write between.")
    return f"{before}{BEGIN}\n\n{text}\n\n{END}{after}"


def figures(rows: Sequence[Row], protocol: Protocol) -> list[dict[str, Any]]:
    """Return every cell with all its numbers, for programs."""
    cells: list[dict[str, Any]] = []
    for (model, head), board in boards(rows, protocol).items():
        values = {"clean": clean} | {n: robust(n) for n in ("pgd_reference", "pgd_area", "noise_reference")}
        tasks = [*board.tasks, *([MEAN] if set(protocol.mean_tasks) <= set(board.tasks) else [])]
        for name, value in values.items():
            for task in tasks:
                for method, cell in board.column(task, value).items():
                    about = {"model": model, "head": head, "task": task, "method": method, "score": name}
                    pair = cell.against
                    cells.append(
                        {**about, "seeds": cell.scores.count, "mean": cell.scores.mean, "sd": cell.scores.sd}
                        | ({} if pair is None else {"difference": pair.difference, "low": pair.low, "high": pair.high})
                        | ({} if pair is None else {"p": pair.p, "p_holm": cell.holm})
                    )
    return cells


def markdown(part: Part) -> str:
    lines = [f"### {part.title}", ""]
    lines += [line for words in part.words for line in (f"* {words}" if len(part.words) > 1 else words, "")]
    if part.head:
        lines += ["| " + " | ".join(part.head) + " |", "|" + "---|" * len(part.head)]
        lines += ["| " + " | ".join(cell.replace("|", "\\|") for cell in row) + " |" for row in part.rows]
    return "\n".join(lines).rstrip()
