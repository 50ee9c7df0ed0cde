"""`toughen.scan`: how robust a model is, without any training; one page."""

import os
import time
from collections.abc import Callable, Generator, Iterable, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..errors import UsageError
from ..internal.atomic import write_json
from ..runs.progress import format_duration
from ..tasks.spec import DataError, Task
from .checks import Check, make_checks, misfit

if TYPE_CHECKING:
    from ..attacks.base import Attack
    from .scan_results import Scan

ROWS = 200


def scan(
    model: "str | os.PathLike[str] | Callable[[list[Any]], Any]",
    *,
    file: "str | os.PathLike[str] | None" = None,
    task: str | Task | None = None,
    dir: "str | os.PathLike[str] | None" = None,
    split: str = "validation",
    text_column: str | None = None,
    label_column: str | None = None,
    labels: Sequence[str] | None = None,
    limit: int | None = ROWS,
    max_length: int | None = None,
    batch_size: int | None = None,
    samples: int = 1000,
    synonyms: "str | os.PathLike[str] | None" = None,
    lexicon: "str | os.PathLike[str] | None" = None,
    out: "str | os.PathLike[str] | None" = None,
    progress: bool = False,
) -> "Scan":
    """Measure how robust a model is, without training it; write one page and return what is on it.

    `model` is a run, the folder of a model, a name on the Hugging Face Hub, or a function from a list of texts (or of
    pairs of texts) to probabilities: a row for each text, a column for each of `labels` (by default those of the file,
    sorted). `file` holds rows with labels; a run has its own, and `task` with `dir` name a published set. `limit` rows
    are drawn by seed; None takes all. `synonyms` is a JSON file {word: [words]} or a folder of WordNet; without it an
    installed one is used, or none. `lexicon` is a text file with a word and its misspellings in each line. `out` is the
    folder of page and results, by default scan/ in that of the model.

    `decision` of the result is the sentence to read first. An interrupted scan goes on when it is called again.
    """
    if samples < 1:
        raise DataError(f"samples={samples}: an interval needs at least 1, and 1000 for two digits.")
    if batch_size is not None and batch_size < 1:
        raise DataError(f"batch_size={batch_size}: it must be at least 1.")
    began = time.perf_counter()
    made, left_out = make_checks({"synonyms": synonyms, "lexicon": lexicon})
    from ..attacks.runner import read_records, run_attack, say
    from ..reports.scan_page import write_page
    from .advice import advice
    from .scan_results import Scan, check_result, slices
    from .scan_subject import Source, function_subject, saved_subject

    source = Source(file, task, dir, split, text_column, label_column, limit, batch_size, samples)
    if callable(model):
        subject = function_subject(model, source, labels)
    elif labels is not None:
        raise UsageError(
            "labels= names the columns of a function; those of a model are in its config.json.", ["labels"]
        )
    else:
        subject = saved_subject(model, source, max_length)
    home, target = Path(out) if out is not None else subject.home, subject.target
    try:
        home.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise UsageError(f"{home} cannot be made ({error.strerror}); give out= (--out).", ["out"]) from None
    fitting: list[tuple[Check, Attack]] = []
    for check, attack in made:
        if reason := misfit(attack, target):
            left_out[check.name] = reason
        else:
            fitting.append((check, attack))
    pace = _Pace(subject.seconds)
    results = []
    for number, (check, attack) in enumerate(fitting):
        left = format_duration(pace.seconds(each.passes for each, _ in fitting[number:]))
        say(f"scan {number + 1}/{len(fitting)}: {check.title} · about {left} left", progress)
        with pace.measured(check.passes):
            found = run_attack(attack, target, home=home, model=subject.folder, where=check.name, progress=progress)
        records = read_records(home / "attacks" / f"{found.name}{attack.records_ending}")
        changed = attack.changed_rows(target, records)
        results.append(check_result(check, target, changed, found.summary.seconds, found.summary.notes))
    result = Scan(
        model=subject.name,
        task=target.task,
        metric=target.metric,
        rows=len(target.rows),
        clean=target.score(target.answers()),
        evaluation=subject.evaluation,
        checks=results,
        left_out=left_out,
        slices=slices(target, results),
        advice=advice(target.task),
        page=home / "scan.html",
        seconds=round(time.perf_counter() - began, 1),
        notes=[*subject.evaluation.notes, *(f"{each.check.name}: {note}" for each in results for note in each.notes)],
    )
    write_json(home / "scan.json", result.to_dict())
    write_page(result)
    return result


class _Pace:
    """Seconds of a pass over the rows, as far as they are known."""

    def __init__(self, clean: float) -> None:
        self.spent, self.passes = clean, 1.0

    def seconds(self, passes: Iterable[float]) -> float:
        return sum(passes) * self.spent / self.passes

    @contextmanager
    def measured(self, passes: float) -> Generator[None]:
        began = time.perf_counter()
        yield
        if (seconds := time.perf_counter() - began) > 0.1:  # else its results were there already
            self.spent, self.passes = self.spent + seconds, self.passes + passes
