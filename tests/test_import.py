"""`import toughen` costs nothing and brings nothing that was not asked for."""

import subprocess
import sys

HEAVY = ("datasets", "sklearn", "peft", "accelerate", "matplotlib", "scipy", "trl")


def run(code: str) -> str:
    return subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True).stdout.strip()


def test_import_adds_well_under_half_a_second() -> None:
    code = (
        "import time, torch, transformers; start = time.perf_counter(); import toughen; "
        "print(time.perf_counter() - start)"
    )
    assert float(run(code)) < 0.5 or float(run(code)) < 0.5  # once more, should the machine be busy


def test_making_a_method_imports_no_optional_package() -> None:
    code = (
        "import sys, torch, transformers; before = set(sys.modules); import toughen; "
        "[toughen.make(name) for name in toughen.available()]; "
        f"print(*[name for name in {HEAVY!r} if name in set(sys.modules) - before])"
    )
    assert run(code) == ""


def test_import_alone_loads_neither_torch_nor_transformers() -> None:
    assert run("import sys, toughen; print('torch' in sys.modules, 'transformers' in sys.modules)") == "False False"


def test_every_public_name_is_there() -> None:
    code = "import toughen; print(*[name for name in dir(toughen) if not hasattr(toughen, name)])"
    assert run(code) == ""


def test_packages_that_the_docs_name_are_attributes() -> None:
    names = ("compat", "evaluation", "fast", "heads", "kernels", "recipes", "reports", "sweeps", "tasks", "timing")
    code = (
        f"import toughen; listed = dir(toughen); "
        f"print(*[name for name in {names!r} if name not in listed or not hasattr(toughen, name)])"
    )
    assert run(code) == ""
