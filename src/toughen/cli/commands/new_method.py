"""Write a one-file method to edit; --method ./FILE.py:NAME runs it."""

import argparse
import re
from pathlib import Path
from shlex import quote

from .. import say
from ..arguments import check_new

TEMPLATE = '''"""A method of your own: toughen train --method ./{file}:{name} --model ... --task ..."""

import toughen
from toughen import Method
from toughen.combine import Add
from toughen.compare import Divergence
from toughen.search import Ascent, Ball, Normal, Normalized
from toughen.sites import WordEmbedding


@toughen.register_method("{name}")
def {function}(weight: float = 1.0, step_size: float = 0.03, steps: int = 1) -> Method:
    """Say in a line what it does.

    Args:
        weight: Weight of the term in the loss.
        step_size: Length of one ascent step, as a share of the embedding's norm.
        steps: Ascent steps.
    """
    return Method(
        site=WordEmbedding(),  # WHERE: also Hidden(layer), NormalizedEmbedding(), Weights()
        search=Ascent(  # HOW
            step_size, steps, Normal(0.1 * step_size), Normalized(p=2, per="example"), Ball(step_size)
        ),
        compare=Divergence("symmetric_kl"),  # WHAT: also TaskLoss(), Divergence("js"), or a function of your own
        combine=Add(weight),  # INTO the update: also PerturbedOnly(), Average(), Accumulate(passes)
    )
'''


def add(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("file", help="my_method.py; must be new.")


def run(arguments: argparse.Namespace) -> int:
    from ...internal.atomic import write_text
    from ...registry import list_methods
    from ...runs.errors import RunError

    path = Path(arguments.file)
    path = path if path.suffix else path.with_suffix(".py")
    if path.suffix != ".py":
        raise RunError(f"{path}: a method is a Python file; end its name with .py.")
    check_new(path)
    name = re.sub(r"\W+", "-", path.stem).strip("-") or "mine"
    name = f"my-{name}" if name in list_methods() or not name[0].isalpha() else name
    write_text(path, TEMPLATE.format(file=path.name, name=name, function=re.sub(r"\W", "_", name)))
    shown = path if path.is_absolute() else f"./{path}"
    say(f"wrote {path}; try: toughen describe {quote(str(shown))}")
    return 0
