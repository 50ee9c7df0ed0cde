"""Libraries that talk: their bars off, their warnings into a file or nowhere."""

import logging
import warnings
from collections.abc import Callable, Generator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from ..errors import RobustnessWarning


@contextmanager
def quiet(log: Path | None = None, tell: Callable[[str], None] | None = None) -> Generator[None]:
    """No progress bars but our own; with `log`, warnings of Python and transformers go there and not on the screen.

    Those of ours say that a step does less than its name promises: they go to `tell`.
    """
    from datasets import are_progress_bars_disabled, disable_progress_bars, enable_progress_bars
    from transformers.utils import logging as told

    bars, tables = told.is_progress_bar_enabled(), not are_progress_bars_disabled()
    told.disable_progress_bar()
    disable_progress_bars()
    try:
        with _into(log, tell):
            yield
    finally:
        if bars:
            told.enable_progress_bar()
        if tables:
            enable_progress_bars()


@contextmanager
def _into(log: Path | None, tell: Callable[[str], None] | None) -> Generator[None]:
    from transformers.utils import logging as told

    if log is None:
        yield
        return
    handler = logging.FileHandler(log, encoding="utf-8", delay=True)
    handler.setFormatter(logging.Formatter("%(asctime)s %(name)s: %(message)s", "%Y-%m-%d %H:%M:%S"))
    warned = logging.getLogger("py.warnings")
    told.disable_default_handler()
    told.add_handler(handler)
    warned.addHandler(handler)
    logging.captureWarnings(True)
    logged = warnings.showwarning

    def show(message: Any, category: type[Warning], *rest: Any, **named: Any) -> None:
        if tell is not None and issubclass(category, RobustnessWarning):
            tell(f"! {message}")
        else:
            logged(message, category, *rest, **named)

    warnings.showwarning = show
    try:
        yield
    finally:
        logging.captureWarnings(False)
        warned.removeHandler(handler)
        told.remove_handler(handler)
        told.enable_default_handler()
        handler.close()
