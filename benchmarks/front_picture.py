"""The picture of the README, from the board's runs: `python -m benchmarks.front_picture` writes docs/front.svg."""

from pathlib import Path
from statistics import fmean

from benchmarks.leaderboard.journal import read
from benchmarks.leaderboard.planning import LINEAR, of_today
from benchmarks.leaderboard.protocol import Protocol
from benchmarks.leaderboard.sections import complete_part
from benchmarks.leaderboard.summary import boards, clean, robust
from toughen.internal.atomic import write_text
from toughen.reports.drawing import INK, SERIES, SOFT, Drawing, figure

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


if __name__ == "__main__":
    write_text(PICTURE, draw(scores()).file())
