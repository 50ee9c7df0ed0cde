"""`toughen recipes [NAME]`"""

from typing import Any

HELP = "Published experiments as configs: all of them, or one with its source and differences."


def add(parser: Any) -> None:
    parser.add_argument("name", nargs="?", help="a recipe such as sift/mnli-deberta-base, or the start of some: sift")
    parser.add_argument("--yaml", action="store_true", help="the recipe's configuration alone, to save and edit")


def run(arguments: Any) -> int:
    import yaml

    from ... import recipes
    from ..tables import console, table

    out, name = console(), arguments.name
    known = recipes.available()
    chosen = [] if name in known else [each for each in known if each.startswith(name or "")]
    if chosen and arguments.yaml:
        raise ValueError(f"--yaml writes one recipe; give its whole name, such as {chosen[0]}.")
    if chosen:
        rows = [
            [each, recipes.config(each)["task"], recipes.config(each)["model"], recipes.published(each)]
            for each in chosen
        ]
        out.print(table(["recipe", "task", "model", "published"], rows, folds=(2, 3)))
        out.print("toughen recipes NAME tells more; toughen train --recipe NAME runs it.", markup=False)
        out.print(f"Published grids, for toughen sweep NAME: {', '.join(recipes.sweeps())}.", markup=False)
        return 0
    config = yaml.safe_dump(recipes.config(name), sort_keys=False, width=100)
    if arguments.yaml:
        out.print(config, markup=False, highlight=False, soft_wrap=True, end="")
        return 0
    about = recipes.about(name)
    lines = [about["title"], "", f"source     {about['source']}", f"published  {recipes.published(name)}"]
    lines += [f"           {about['published']['note']}"] if "note" in about["published"] else []
    lines += ["", "differences", *(f"  - {line}" for line in about["differences"])]
    if "grid" in about:
        lines += [
            "",
            "published grid",
            yaml.safe_dump(about["grid"], sort_keys=False, default_flow_style=None, width=100),
        ]
    out.print("\n".join(lines), markup=False, highlight=False)
    out.print("", config, sep="\n", markup=False, highlight=False)
    return 0
