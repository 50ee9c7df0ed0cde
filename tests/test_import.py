"""`import toughen` costs nothing and brings nothing that was not asked for."""

import subprocess
import sys

HEAVY = ("datasets", "sklearn", "peft", "accelerate", "matplotlib", "scipy", "trl")


def run(code: str) -> str:
    return subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True).stdout.strip()


def test_import_adds_well_under_half_a_second_and_methods_no_optional_package() -> None:
    code = (
        "import sys, time, torch, transformers; before = set(sys.modules); start = time.perf_counter(); "
        "import toughen; print(time.perf_counter() - start); "
        "[toughen.create_method(name) for name in toughen.list_methods()]; "
        f"print(*[name for name in {HEAVY!r} if name in set(sys.modules) - before])"
    )
    seconds, *heavy = run(code).splitlines()
    assert not heavy
    assert float(seconds) < 0.5 or float(run(code).splitlines()[0]) < 0.5  # once more, should the machine be busy


def test_import_alone_loads_neither_torch_nor_transformers_and_every_public_name_is_there() -> None:
    packages = (
        "compat",
        "evaluation",
        "cuda_graphs",
        "heads",
        "kernels",
        "recipes",
        "reports",
        "sweeps",
        "tasks",
        "timing",
    )
    code = (
        "import sys, toughen; print('torch' in sys.modules, 'transformers' in sys.modules, end=';'); "
        "listed = dir(toughen); print(*[name for name in listed if not hasattr(toughen, name)], sep=',', end=';'); "
        f"print(*[name for name in {packages!r} if name not in listed], end='')"
    )
    assert run(code) == "False False;;"
