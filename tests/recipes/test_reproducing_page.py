"""docs/reproducing.md lists every recipe with a published score, and how many updates it makes."""

import math
from pathlib import Path

from toughen import recipes

PAGE = (Path(__file__).resolve().parents[2] / "docs" / "reproducing.md").read_text(encoding="utf-8")
# Training rows of the sets, as their authors publish them.
ROWS = {
    **{"cola": 8551, "sst2": 67349, "mrpc": 3668, "stsb": 5749, "qqp": 363846, "mnli": 392702, "qnli": 104743},
    **{"rte": 2490, "wnli": 635, "dream": 6116},
}


def row(name: str) -> str:
    """One line of the table: the last two cells are of runs made here, and there are none."""
    config, said = recipes.config(name), recipes.about(name)["published"]
    train = config["train"]
    updates = train.get("max_steps")
    if updates is None and config["task"] in ROWS:
        updates = math.ceil(ROWS[config["task"]] / train["batch_size"]) * train["epochs"]
    made = "" if updates is None else f"{updates:,}"
    cells = [f"`{name}`", config["model"], said["task"], recipes.published(name), made, "", ""]
    return "| " + " | ".join(cells) + " |"


def test_every_recipe_with_a_score_is_there_and_no_other():
    wanted = [row(name) for name in recipes.available() if recipes.published(name) != "-"]
    assert [line for line in PAGE.splitlines() if line.startswith("| `")] == wanted
    assert f"{len(wanted)} recipes of {len(recipes.available())}" in PAGE
