"""List published experiments, or show the config of one with its source and differences.

Examples:
  toughen recipes
  toughen recipes sift/mnli-deberta-base
  toughen recipes freelb/rte-roberta-large --yaml > run.yaml
"""

import argparse

import yaml

from ... import recipes
from .. import say
from ..tables import print_table


def add(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "name", nargs="?", metavar="RECIPE", help="A recipe such as sift/mnli-deberta-base, or the start of some: sift."
    )
    parser.add_argument("--yaml", action="store_true", help="The recipe's configuration alone, to save and edit.")


def run(arguments: argparse.Namespace) -> int:
    name, known = arguments.name, recipes.available()
    chosen = [] if name in known else [each for each in known if each.startswith(name or "")]
    if chosen and arguments.yaml:
        raise ValueError(f"--yaml writes one recipe; give its whole name, such as {chosen[0]}.")
    if chosen:
        configs = {each: recipes.config(each) for each in chosen}
        rows = [[each, config["task"], config["model"], recipes.published(each)] for each, config in configs.items()]
        print_table(["recipe", "task", "model", "published"], rows, folds=(2, 3))
        say("More: toughen recipes NAME. Run one: toughen train --recipe NAME.")
        say(f"Published grids, for toughen sweep NAME: {', '.join(recipes.sweeps())}.")
        return 0
    config = yaml.safe_dump(recipes.config(name), sort_keys=False, width=100)
    if arguments.yaml:
        say(config.rstrip("\n"))
        return 0
    about = recipes.about(name)
    lines = [about["title"], "", f"source     {about['source']}", f"published  {recipes.published(name)}"]
    lines += [f"           {about['published']['note']}"] if "note" in about["published"] else []
    lines += ["", "differences", *(f"  - {line}" for line in about["differences"])]
    if "grid" in about:
        grid = yaml.safe_dump(about["grid"], sort_keys=False, default_flow_style=None, width=100)
        lines += ["", "published grid", grid]
    say("\n".join([*lines, "", config]))
    return 0
