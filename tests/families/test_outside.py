"""The sweep over transformers' own model classes (`benchmarks/outside`), on two of them."""

import dataclasses
from typing import Any

import pytest
import transformers as hf

import toughen
from benchmarks.outside import models
from toughen.sites import WordEmbedding

from .zoo import FAMILIES, batch_for


def case(name: str) -> models.Case:
    family = FAMILIES[name]
    config = family.config(**family.settings, num_labels=3)
    kind: Any = hf.AutoModelForSequenceClassification.from_config(config)
    return models.Case(name, "seqcls", type(kind), config, batch_for(family))


def test_cells_pass_or_are_refused() -> None:
    found = list(models.cells(case("albert"), ["plain", "smart", "asa", "temperature", "sam"]))
    assert [cell.status for cell in found] == ["PASS", "PASS", "REFUSED", "PASS", "PASS"]
    assert not any(cell.trouble for cell in found)
    assert "toughen.smart()" in found[2].message


def test_a_batch_without_words_is_named_and_no_trouble() -> None:
    """As Mamba's tester has, whose mask is 0 everywhere."""
    given = case("bert")
    masked = dataclasses.replace(given, batch=given.batch | {"attention_mask": given.batch["attention_mask"] * 0})
    (cell,) = models.cells(masked, ["smart"])
    assert (cell.status, cell.trouble) == ("BLIND", [])


@dataclasses.dataclass(frozen=True)
class Broken(WordEmbedding):
    """Leaves a hook on the model, or fails."""

    fails: bool = False

    def attach(self, model: Any, inject: Any) -> Any:
        if self.fails:
            raise IndexError("list index out of range")
        model.register_forward_pre_hook(lambda *_: None)
        return super().attach(model, inject)


@pytest.mark.parametrize("fails", [False, True])
def test_what_is_wrong_is_found(fails: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(toughen, "make", lambda _: toughen.freelb(site=Broken(fails=fails)))
    (cell,) = models.cells(case("bert"), ["freelb"])
    assert cell.status == ("CRASH" if fails else "PASS")
    assert cell.trouble == ([] if fails else ["LEFT_ON_MODULES"])
    assert cell.message.startswith("IndexError") == fails
