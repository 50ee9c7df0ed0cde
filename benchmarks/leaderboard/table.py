"""The runs as tables: Markdown, JSON, a page, and the part of docs/evidence.md between its markers, with pictures."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from toughen.internal.atomic import write_json, write_text
from toughen.reports.drawing import Drawing

from .journal import Row, read
from .page import drawings, page
from .planning import LINEAR, of_today
from .protocol import Protocol
from .sections import Part, brief, parts, whole_part
from .summary import MEAN, boards, clean, robust

EVIDENCE = Path(__file__).parents[2] / "docs" / "evidence.md"
BEGIN, END = "<!-- leaderboard: begin -->", "<!-- leaderboard: end -->"
NOTHING = "No results yet: the runs have not been made."


def write(results: Path, protocol: Protocol, evidence: Path | None = EVIDENCE) -> list[Path]:
    """Everything beside the results file; and into the documentation's page, where it is given and there."""
    rows = of_today(protocol, read([results])) if results.is_file() else []
    found = parts(rows, protocol)
    places = [results.with_suffix(ending) for ending in (".md", ".json", ".html")]
    write_text(places[0], f"# Leaderboard\n\n{_joined(found)}\n")
    write_json(places[1], figures(rows, protocol))
    write_text(places[2], page(found, boards(rows, protocol)))
    if evidence is not None and evidence.is_file():
        pictures = drawn(rows, protocol)
        for name, drawing in pictures.items():
            write_text(evidence.parent / name, drawing.file())
            places.append(evidence.parent / name)
        write_text(evidence, between(evidence.read_text(encoding="utf-8"), told(rows, protocol, pictures)))
        places.append(evidence)
    return places


def told(rows: Sequence[Row], protocol: Protocol, pictures: Mapping[str, Drawing]) -> str:
    """The part of the documentation's page that is made from the runs."""
    shown = "\n".join(f"![{drawing.title}]({name})" for name, drawing in pictures.items())
    return f"{shown}\n\n{_joined(brief(rows, protocol))}" if shown else _joined(brief(rows, protocol))


def drawn(rows: Sequence[Row], protocol: Protocol) -> dict[str, Drawing]:
    """Of each model with its linear head, by the file's name."""
    found: dict[str, Drawing] = {}
    for (model, head), board in boards(rows, protocol).items():
        if head == LINEAR:
            pair = drawings(whole_part(board), model)
            found |= {f"evidence-{model}-{kind}.svg": one for kind, one in zip(("clean", "pgd"), pair, strict=False)}
    return found


def _joined(found: Sequence[Part]) -> str:
    return "\n\n".join(map(markdown, found)) if found else NOTHING


def between(whole: str, text: str) -> str:
    """The page with other text between the markers."""
    before, begin, rest = whole.partition(BEGIN)
    _, end, after = rest.partition(END)
    if not begin or not end:
        raise ValueError(f"the page has no markers {BEGIN} and {END} to write between.")
    return f"{before}{BEGIN}\n\n{text}\n\n{END}{after}"


def figures(rows: Sequence[Row], protocol: Protocol) -> list[dict[str, Any]]:
    """Every cell with all its numbers, for programs."""
    told: list[dict[str, Any]] = []
    for (model, head), board in boards(rows, protocol).items():
        values = {"clean": clean} | {n: robust(n) for n in ("pgd_reference", "pgd_area", "noise_reference")}
        tasks = [*board.tasks, *([MEAN] if set(protocol.mean_tasks) <= set(board.tasks) else [])]
        for name, value in values.items():
            for task in tasks:
                for method, cell in board.column(task, value).items():
                    about = {"model": model, "head": head, "task": task, "method": method, "score": name}
                    pair = cell.against
                    told.append(
                        {**about, "seeds": cell.scores.count, "mean": cell.scores.mean, "sd": cell.scores.sd}
                        | ({} if pair is None else {"difference": pair.difference, "low": pair.low, "high": pair.high})
                        | ({} if pair is None else {"p": pair.p, "p_holm": cell.holm})
                    )
    return told


def markdown(part: Part) -> str:
    lines = [f"### {part.title}", ""]
    lines += [line for words in part.words for line in (f"* {words}" if len(part.words) > 1 else words, "")]
    if part.head:
        lines += ["| " + " | ".join(part.head) + " |", "|" + "---|" * len(part.head)]
        lines += ["| " + " | ".join(cell.replace("|", "\\|") for cell in row) + " |" for row in part.rows]
    return "\n".join(lines).rstrip()
