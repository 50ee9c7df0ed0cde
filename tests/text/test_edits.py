"""What may become of a word."""

import random

from hypothesis import given
from hypothesis import strategies as st

from toughen.text.edits import EDITS, HOMOGLYPHS, NEIGHBOURS, case_forms, edit_variants, random_case

LONGER = {"delete": -1, "insert": 1, "zero_width": 1, "double": 1}


@given(st.text("abcdefghijklmnopqrstuvwxyzABCXYZ'-", min_size=1, max_size=12), st.integers(0, 99))
def test_edits_change_a_word_a_little(word, seed):
    for edit in EDITS:
        for new in edit_variants(word, (edit,), 2, random.Random(seed)):
            assert new != word
            assert new
            assert len(new) - len(word) == LONGER.get(edit, len(word) - 1 if edit == "spaced" else 0)
            assert new.split() == ([*word] if edit == "spaced" else [new])
    many = edit_variants(word, tuple(EDITS), 2, random.Random(seed))
    assert len(many) == len(set(many)) <= 2 * len(EDITS)
    assert many == edit_variants(word, tuple(EDITS), 2, random.Random(seed))


def test_edits_take_turns_and_depend_on_the_seed():
    first = edit_variants("wonderful", tuple(LONGER), 2, random.Random(0))[: len(LONGER)]
    assert [len(new) - 9 for new in first] == list(LONGER.values())
    assert edit_variants("XGX", ("keyboard",), 1, random.Random(0))[0].isupper()


def test_letters_beside_and_letters_alike():
    assert set(NEIGHBOURS["g"]) == set("fhtyvb")
    assert set(NEIGHBOURS["q"]) == set("wa")
    assert all(letter != other and other.isalpha() for letter, other in HOMOGLYPHS.items())
    assert all("g" not in each[1:-1] for each in edit_variants("xgx", ("keyboard",), 1, random.Random(0)))


def test_forms_of_case():
    assert case_forms("good") == ["GOOD", "Good"]
    assert case_forms("McDonald") == ["MCDONALD", "Mcdonald", "mcdonald", "mCdONALD"]
    assert case_forms("3") == []
    assert random_case("3", random.Random(0)) == "3"
