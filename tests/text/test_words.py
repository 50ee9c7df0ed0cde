"""Texts as words, and which must stay."""

from hypothesis import given
from hypothesis import strategies as st

from toughen.text.words import SplitText, match_case, split_punctuation, word_constraint


@given(st.text(max_size=60))
def test_a_text_is_its_pieces_and_gaps(text):
    words = SplitText.of(text)
    assert words.joined(words.tokens) == text
    assert list(words.tokens) == text.split()
    for piece in words.tokens:
        before, word, after = split_punctuation(piece)
        assert before + word + after == piece


def test_words_that_stay():
    labels = ("not_entailment", "very positive")
    keep = word_constraint(("labels", "stopwords", "numbers"), labels)
    assert [word for word in ("Entailment", "POSITIVE", "the", "3rd", "not", "good") if keep(word)] == [
        "Entailment",
        "POSITIVE",
        "the",
        "3rd",
        "not",  # a word of a label here
    ]
    assert not any(word_constraint((), labels)(word) for word in ("positive", "the", "3"))
    assert not word_constraint(("stopwords",), labels)("not")  # negations carry meaning
    assert all(map(word_constraint(("labels",), ("négatif", "très_positif")), ("Négatif", "très", "positif")))


def test_case_follows():
    assert [match_case("fine", word) for word in ("good", "Good", "GOOD", "I")] == ["fine", "Fine", "FINE", "Fine"]
