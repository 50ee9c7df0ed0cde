"""`toughen.scan`: how robust a model is, without any training; one page."""

import os
import time
from collections.abc import Callable, Generator, Iterable, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from ..errors import UsageError
from ..internal.atomic import write_json
from ..runs.progress import format_duration
from ..tasks.spec import Task
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
    delimiter: str | None = None,
    encoding: str | None = None,
    on_bad: Literal["error", "skip"] | None = None,
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

    An interrupted scan goes on when it is called again.

    Args:
        model: A run, the folder of a model, a name on the Hugging Face Hub, or a function from a list of texts (or of
            pairs of texts) to probabilities: a row for each text, a column for each label.
        file: Rows with labels; a run has its own.
        task: A published set, such as "sst2".
        dir: The folder of named tasks on this machine.
        split: Which part of the data.
        text_column: The column of texts in the file.
        label_column: The column of labels.
        delimiter: Of a table; inferred if omitted.
        encoding: Of a file that is not UTF-8.
        on_bad: Rows that cannot be used: "error" stops, "skip" leaves them out.
        labels: What the columns of a function stand for; by default the labels of the file, sorted.
        limit: The number of rows at most, drawn by seed; None takes all.
        max_length: Tokens at which texts are cut.
        batch_size: Rows that go through the model at once.
        samples: Bootstrap samples over rows, for the 95 % intervals.
        synonyms: A JSON file {word: [words]} or a folder of WordNet; without it an installed one is used, or none.
        lexicon: A text file with a word and its misspellings in each line.
        out: The folder of page and results; by default scan/ in that of the model.
        progress: Say how far the checks are.

    Returns:
        Scores and paired losses; `decision` is the sentence to read first.

    Raises:
        DataError: No model in the folder, rows without labels or of one class, empty texts, a function that returns no
            probabilities or two answers to one text.

    Examples:
        >>> scanned = toughen.scan(run, limit=8)
        >>> scanned.checks[0].check.name
        'typos'
    """
    from .evaluate_model import check_counts

    began = time.perf_counter()
    check_counts(batch_size=batch_size, samples=samples, max_length=max_length, limit=limit)
    made, left_out = make_checks({"synonyms": synonyms, "lexicon": lexicon})
    from ..attacks.runner import read_records, run_attack, say
    from ..reports.scan_page import write_page
    from .advice import advice
    from .scan_results import Scan, check_result, slices
    from .scan_subject import Source, function_subject, saved_subject

    reading = {"text_column": text_column, "label_column": label_column, "delimiter": delimiter, "encoding": encoding}
    source = Source(file, task, dir, split, reading | {"on_bad": on_bad}, limit, batch_size, samples)
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
        raise UsageError(f"{home} cannot be created ({error.strerror}); give out= (--out).", ["out"]) from None
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
