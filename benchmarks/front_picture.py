"""The pictures of the README: `python -m benchmarks.front_picture` writes docs/front.svg and docs/requests.svg.

The bars are of the board's runs. The requests are those that the demo's rule chose; `demo-report/demo.json` of a run of
`make demo` is kept as benchmarks/results/demo.json.
"""

import json
from pathlib import Path
from statistics import fmean

from benchmarks.leaderboard.journal import read
from benchmarks.leaderboard.planning import LINEAR, of_today
from benchmarks.leaderboard.protocol import Protocol
from benchmarks.leaderboard.sections import complete_part
from benchmarks.leaderboard.summary import boards, clean, robust
from toughen.internal.atomic import write_text
from toughen.reports.drawing import INK, SERIES, SOFT, Drawing, figure, plain

ROOT = Path(__file__).parents[1]
PICTURE = ROOT / "docs" / "front.svg"
RESULTS = ROOT / "benchmarks" / "results" / "leaderboard.jsonl"
TASK, PLAIN, TOUGHENED = "sst2", "plain", "vat robust"
KINDS = {
    "unchanged": clean,
    "word vectors attacked": robust("pgd_reference"),
    "typos in 3 of 10 words": robust("typos 0.3"),
}
Scores = dict[str, dict[str, list[float]]]
REQUESTS, DEMO = ROOT / "docs" / "requests.svg", ROOT / "benchmarks" / "results" / "demo.json"


def scores() -> Scores:
    """Return the correct answers of each model on 100 reviews, by kind and method, one number for each encoder."""
    protocol = Protocol()
    made = boards(of_today(protocol, read([RESULTS])), protocol)
    of_encoder = [complete_part(board) for (_, head), board in made.items() if head == LINEAR]
    return {
        name: {
            method: [board.column(TASK, kind)[method].scores.mean for board in of_encoder]
            for method in (PLAIN, TOUGHENED)
        }
        for name, kind in KINDS.items()
    }


def draw(found: Scores) -> Drawing:
    """Draw two bars for each kind: plain and toughened, with a mark for each encoder."""
    title = "Correct answers on 100 film reviews"
    with figure(title, x=title, wide=6.4, high=2.7) as (axes, drawn):
        for number, (method, label, colour) in enumerate(
            ((PLAIN, "plain fine-tuning", SERIES[6]), (TOUGHENED, "toughened", SERIES[0]))
        ):
            places = [kind + (number - 0.5) * 0.36 for kind in range(len(found))]
            values = [each[method] for each in found.values()]
            axes.barh(places, list(map(fmean, values)), height=0.32, color=colour, label=label)
            for place, each in zip(places, values, strict=True):
                axes.plot(each, [place] * len(each), "|", color=INK, markersize=7, markeredgewidth=1)
                axes.text(max(each) + 1.5, place, f"{fmean(each):.0f}", va="center", color=INK, fontsize=10)
        axes.set_yticks(range(len(found)), list(found), color=SOFT)
        axes.tick_params(axis="y", length=0)
        axes.set(xlim=(0, 100))
        axes.invert_yaxis()
        axes.grid(visible=False, axis="y")
    return drawn[0]


def draw_requests(examples: list[list[str]]) -> Drawing:
    """Draw each request as people wrote it and as it was edited, with the answer of both models."""
    rows = examples[1:]
    columns = {"what people ask": 0.0, "plain fine-tuning": 0.62, "toughened": 0.82}
    with figure("What two models take requests for", wide=8.4, high=0.5 + 0.34 * len(rows)) as (axes, drawn):
        axes.set(xlim=(0, 1), ylim=(len(rows) - 0.4, -1.1))
        axes.axis("off")
        for name, place in columns.items():
            axes.text(place, -0.75, name, color=SOFT, va="center")
        for number, (_, text, label, *answers) in enumerate(rows):
            axes.text(0, number, plain(text, 62), color=INK, va="center", alpha=1 if number % 2 else 0.65)
            for place, answer in zip(list(columns.values())[1:], answers, strict=True):
                right = answer == label
                axes.text(
                    place, number, f"{'✓' if right else '✗'} {answer}", color=SERIES[2 if right else 1], va="center"
                )
    return drawn[0]


if __name__ == "__main__":
    write_text(PICTURE, draw(scores()).file())
    write_text(REQUESTS, draw_requests(json.loads(DEMO.read_text(encoding="utf-8"))["examples"]).file())
