"""Gates that the methods on texts must pass. Written before their first run; `judge` only reads the runs."""

from collections.abc import Mapping
from dataclasses import dataclass

from toughen.statistics import PairedTestResult, paired_t

from .findings import signed
from .planning import LINEAR
from .protocol import ATTACKED_WITH, PLAIN_TEXTS
from .summary import MEAN, Board, clean, robust

PROPOSED, REFERENCE = "freelb+views robust", PLAIN_TEXTS
"""The row that is judged, named before the runs, so that it is not the best of many; and what it must beat."""
SECOND = "vat+views robust"
"""Judged as well. It was named after the first one's runs on xtremedistil, where a ball of 3 % learns neither CoLA nor
RTE, and before its own first run and any run of the other encoders."""


@dataclass(frozen=True)
class Gate:
    """A least gain over plain, in points, beyond noise; with `points` 0: not below plain."""

    what: str
    column: str
    task: str
    points: float
    models: int = 1
    """On how many encoders."""

    def passed(self, test: PairedTestResult) -> bool:
        if test.low is None or test.high is None:
            return False
        if self.points:
            return test.difference >= self.points and test.low > 0
        return test.high >= 0 if self.column == "clean" else test.difference >= 0


GATES = (
    Gate("typos in 30 % of the words", "typos 0.3", MEAN, 5.0, models=2),
    Gate("misspellings from a lexicon that no training has seen", "misspellings 0.5", MEAN, 3.0, models=2),
    Gate("character attack", "characters", "sst2", 10.0),
    Gate("synonyms of the source not trained on, SST-2", f"synonyms {ATTACKED_WITH}", "sst2", 5.0),
    Gate("synonyms of the source not trained on, AG News", f"synonyms {ATTACKED_WITH}", "ag_news", 8.0),
    Gate("PGD at the reference radius", "pgd_reference", MEAN, 0.0, models=2),
    Gate("clean", "clean", MEAN, 0.0, models=2),
)


def judge(boards: Mapping[tuple[str, str], Board], proposed: str) -> list[str]:
    """Say of each gate whether a row passes it, and with which differences; what is missed comes first."""
    lines: list[tuple[int, str]] = []
    for gate in GATES:
        value = clean if gate.column == "clean" else robust(gate.column)
        found: dict[str, PairedTestResult] = {}
        for (model, head), board in boards.items():
            own, plain = (board.seeds(method, gate.task, value) for method in (proposed, REFERENCE))
            if head == LINEAR and own and plain:
                found[model] = paired_t(own, plain)
        count = sum(gate.passed(test) for test in found.values())
        judged = sum(test.low is not None for test in found.values())  # one seed decides nothing
        want = f"+{gate.points:g}" if gate.points else "not below plain"
        told = "; ".join(f"{model} {signed(test)}" for model, test in found.items()) or "no runs yet"
        state = "open" if judged < gate.models else "passed" if count >= gate.models else "MISSED"
        lines.append((("MISSED", "open", "passed").index(state), f"{gate.what} ({want}): {state}. {told}."))
    return [line for _, line in sorted(lines, key=lambda each: each[0])]
