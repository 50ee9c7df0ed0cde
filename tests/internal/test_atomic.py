"""Files are there whole or not at all, and what failed leaves nothing behind."""

from pathlib import Path

import pytest

import toughen
from toughen.heads.card import write_card
from toughen.internal.atomic import atomic_path, write_text
from toughen.trainers import checkpoint as state

from ..tiny import TOKENIZER, bert


def test_a_file_takes_its_place_at_the_end(tmp_path: Path) -> None:
    place = tmp_path / "below" / "file.txt"
    write_text(place, "old\n")
    with atomic_path(place) as unfinished:
        unfinished.write_text("new\n")
        assert place.read_text() == "old\n"
    assert place.read_text() == "new\n"
    assert list(place.parent.iterdir()) == [place]


def test_after_an_error_the_old_file_is_all_there_is(tmp_path: Path) -> None:
    place = tmp_path / "file.txt"
    write_text(place, "old\n")

    def fail(unfinished: Path) -> None:
        unfinished.write_text("ne")
        raise RuntimeError("half way")

    with pytest.raises(RuntimeError, match="half"), atomic_path(place) as unfinished:
        fail(unfinished)
    assert [(each, each.read_text()) for each in tmp_path.iterdir()] == [(place, "old\n")]


def test_an_error_names_the_file_that_was_asked_for(tmp_path: Path) -> None:
    (tmp_path / "folder").mkdir()
    with pytest.raises(OSError, match=r"folder'$") as caught:
        write_text(tmp_path / "folder", "text")
    assert (caught.value.filename, caught.value.filename2) == (str(tmp_path / "folder"), None)
    assert not list(tmp_path.glob(".*"))


def test_a_state_that_cannot_be_saved_leaves_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fails(_: object, file: Path) -> None:
        file.write_bytes(b"half")
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(state, "save_file", fails)
    with toughen.freelb().attach(bert(), TOKENIZER) as attached, pytest.raises(OSError, match="No space"):
        state.save(attached, tmp_path)
    assert not list(tmp_path.iterdir())


def test_a_card_that_cannot_be_written_leaves_nothing(tmp_path: Path) -> None:
    with pytest.raises(StopIteration):
        write_card(bert(), tmp_path)  # a model without a card
    assert not list(tmp_path.iterdir())
