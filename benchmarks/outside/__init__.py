"""toughen under code that nobody here wrote: transformers' own model classes and its Trainer tests.

Both need a checkout of transformers (its `tests` folder), near the installed version, in `TRANSFORMERS_SOURCE`, and the
packages that its tests import (`parameterized`, `httpx`).
"""

import importlib
import os
import re
import sys
from pathlib import Path
from types import ModuleType
from unittest.mock import MagicMock


def find_checkout() -> Path:
    """Return the checkout of transformers, whose folders can be imported from now on."""
    given = os.environ.get("TRANSFORMERS_SOURCE", "")
    if not (Path(given) / "tests" / "models").is_dir():
        raise SystemExit(f"TRANSFORMERS_SOURCE={given!r} holds no checkout of transformers (its tests/models).")
    root = Path(given).resolve()
    sys.path[:0] = [str(root), str(root / "utils")]
    os.chdir(root)  # its tests read files by relative paths
    return root


def import_leniently(name: str) -> ModuleType:
    """Import a test module; what the installed transformers does not have is stood in for, as no model needs it.

    So is a package that tests read sounds with.
    """
    try:
        return importlib.import_module(name)
    except ImportError as error:
        if error.name in ("librosa", "soundfile"):
            sys.modules[error.name] = MagicMock(name=error.name)
            return import_leniently(name)
        missing = re.match(r"cannot import name '(\w+)' from '(transformers[\w.]*)'", str(error))
        if missing is None:
            raise
    setattr(importlib.import_module(missing[2]), missing[1], MagicMock(name=missing[1]))
    return import_leniently(name)
