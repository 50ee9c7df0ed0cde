"""What a capture and a compilation take, against what they save in the steps that are left."""

CAPTURE_STEPS = 12  # replays that pay for a capture: it takes one eager step in Python, and emptied caches fill again
# Of one H200 (benchmarks/README.md, BERT-base 64 x 512, 2e8 values): compiled layers made plain updates 10 ms shorter,
# SMART's 16 and FreeLB's 29, for 1, 5/3 and 3 counted passes. Cards with less bandwidth save more. Compiling is taken
# at the slow end, with nothing cached; `python -m benchmarks.end_to_end --calibrate bert-base` measures both.
SAVED_PER_VALUE = 4.5e-11  # seconds
FIRST_COMPILE, NEXT_COMPILE = 40.0, 20.0  # seconds for the first shape, and for each other


def capture_pays(seen: int, done: int, left: int) -> bool:
    """Tell whether a shape that came `seen` times in `done` steps will come often enough in the `left` ones."""
    return left * seen >= CAPTURE_STEPS * max(done, 1)


def compile_seconds(values: float, passes: float, left: int, shapes: int) -> tuple[float, float]:
    """Return the seconds that compiled layers save, and those that compiling takes.

    `values` are computed tokens x width x layers of a pass; `passes` are those of a step that are counted, a backward
    pass as two of three parts.
    """
    return SAVED_PER_VALUE * values * passes * left, FIRST_COMPILE + NEXT_COMPILE * (shapes - 1)
