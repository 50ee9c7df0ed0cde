"""Libraries that talk: their bars off, their warnings into a file or nowhere."""

import logging
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path


@contextmanager
def quiet(log: Path | None = None) -> Generator[None]:
    """No progress bars but our own; with `log`, warnings of Python and transformers go there and not on the screen."""
    from datasets import are_progress_bars_disabled, disable_progress_bars, enable_progress_bars
    from transformers.utils import logging as told

    bars, tables = told.is_progress_bar_enabled(), not are_progress_bars_disabled()
    told.disable_progress_bar()
    disable_progress_bars()
    try:
        with _into(log):
            yield
    finally:
        if bars:
            told.enable_progress_bar()
        if tables:
            enable_progress_bars()


@contextmanager
def _into(log: Path | None) -> Generator[None]:
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
    try:
        yield
    finally:
        logging.captureWarnings(False)
        warned.removeHandler(handler)
        told.remove_handler(handler)
        told.enable_default_handler()
        handler.close()
