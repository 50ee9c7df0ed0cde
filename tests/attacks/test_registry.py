"""An attack is one file: in the folder of attacks it is in every list, in the help and in Python."""

import sys

import pytest

from toughen.attacks import base, builtin
from toughen.cli.main import main
from toughen.evaluation import AttackSettings, make_attacks, run_attack
from toughen.tasks.spec import DataError

from .little_target import target

OWN_ATTACK = '''
from dataclasses import dataclass

from toughen.attacks.base import register_attack
from toughen.attacks.text_attack import TextAttack


@register_attack("shouts")
@dataclass(frozen=True)
class ShoutAttack(TextAttack):
    """Words with marks after them, the most important word first (Nobody, 2030)."""

    title = "Shouts"

    marks: int = 3
    """Marks after a word."""

    def variants(self, state, position):
        return [state.text.word(position) + "!" * self.marks]
'''


@pytest.fixture
def shouts(tmp_path, monkeypatch):
    (tmp_path / "shouts.py").write_text(OWN_ATTACK)
    base.attack_classes()  # into the table that stays, whichever test comes first
    monkeypatch.setattr(builtin, "__path__", [*builtin.__path__, str(tmp_path)])
    monkeypatch.setattr(base, "_CLASSES", dict(base._CLASSES))
    base._load_builtin.cache_clear()
    yield
    sys.modules.pop("toughen.attacks.builtin.shouts", None)


def test_an_attack_is_one_file(shouts, tmp_path, capsys):
    assert "shouts" in base.attack_classes()  # the laws of attacks on texts are made from this
    with pytest.raises(SystemExit):
        main(["evaluate", "--help"])
    told = " ".join(capsys.readouterr().out.split())
    assert "shouts Words with marks after them, the most important word first (Nobody, 2030)" in told
    assert "--marks MARKS Marks after a word. [shouts] (default: 3)" in told
    (attack,) = make_attacks("shouts", AttackSettings(marks=2, queries=9, keep=()))
    found = run_attack(attack, target(), home=tmp_path)
    assert (found.summary.attack, found.summary.title, found.summary.kind) == ("shouts", "Shouts", "shouts")
    assert found.summary.settings["marks"] == 2
    assert found.summary.settings["queries"] == 9
    assert found.score <= found.summary.clean.value
    assert (tmp_path / "attacks" / "shouts.jsonl").is_file()


def test_a_name_is_taken_once():
    base.attack_classes()
    with pytest.raises(DataError, match="'noise'"):
        base.register_attack("noise")(type("Other", (base.Attack,), {}))


def test_an_attack_without_a_file_is_in_the_help(monkeypatch, capsys):
    """A notebook's class has no source to read the words about its options from."""
    base.attack_classes()
    monkeypatch.setattr(base, "_CLASSES", dict(base._CLASSES))
    exec(OWN_ATTACK, {"__name__": "notebook"})
    with pytest.raises(SystemExit):
        main(["evaluate", "--help"])
    assert "--marks" in capsys.readouterr().out
