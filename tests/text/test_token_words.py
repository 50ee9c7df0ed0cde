"""Words found in token ids, for every kind of tokenizer: unedited words keep their ids."""

from functools import cache
from types import SimpleNamespace

import pytest
from tokenizers import Tokenizer, decoders, models, normalizers, pre_tokenizers, processors, trainers
from transformers import PreTrainedTokenizerFast

from toughen.errors import MethodError
from toughen.text.synonyms import load_synonyms
from toughen.text.token_words import TokenWords
from toughen.text.views import TextEditor

from ..tiny import SPECIAL

TEXTS = [
    'The film isn\'t good, but I would watch it (again)! It is 10 times better than "Alien 3".',
    "Überraschend gut – naïve café; the plot, however, never thickens.",
    "one",
    "a story of warm and clever people who were never dull",
    "New York's e-mail address: someone@example.org.\nA second line, and a third.",
    "好看的电影 with 字幕",
]
CORPUS = [*TEXTS, "the people watched the film again and again while the plot of the story thickened"] * 3


def _wordpiece():
    inner = Tokenizer(models.WordPiece(unk_token="[UNK]"))
    inner.normalizer = normalizers.BertNormalizer(lowercase=True)
    inner.pre_tokenizer, inner.decoder = pre_tokenizers.BertPreTokenizer(), decoders.WordPiece()
    return inner, trainers.WordPieceTrainer(vocab_size=180, special_tokens=SPECIAL)


def _byte_bpe(add_prefix_space=False):
    inner = Tokenizer(models.BPE())
    inner.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=add_prefix_space)
    inner.decoder = decoders.ByteLevel()
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    return inner, trainers.BpeTrainer(vocab_size=400, special_tokens=SPECIAL, initial_alphabet=alphabet)


def _unigram():
    inner = Tokenizer(models.Unigram())
    inner.normalizer = normalizers.NFKC()
    inner.pre_tokenizer, inner.decoder = pre_tokenizers.Metaspace(), decoders.Metaspace()
    return inner, trainers.UnigramTrainer(vocab_size=200, special_tokens=SPECIAL, unk_token="[UNK]")


def _suffixes():
    inner = Tokenizer(models.BPE(unk_token="[UNK]", end_of_word_suffix="</w>"))
    inner.normalizer, inner.pre_tokenizer = normalizers.Lowercase(), pre_tokenizers.BertPreTokenizer()
    inner.decoder = decoders.BPEDecoder()
    return inner, trainers.BpeTrainer(vocab_size=200, special_tokens=SPECIAL, end_of_word_suffix="</w>")


KINDS = {
    "wordpiece": _wordpiece,
    "byte-bpe": _byte_bpe,
    "byte-bpe with a space first": lambda: _byte_bpe(add_prefix_space=True),
    "unigram": _unigram,
    "end of word": _suffixes,
}


@cache
def tokenizer(kind):
    inner, trainer = KINDS[kind]()
    inner.train_from_iterator(CORPUS, trainer)
    ends = [(token, inner.token_to_id(token)) for token in ("[CLS]", "[SEP]")]
    inner.post_processor = processors.TemplateProcessing(
        "[CLS] $A [SEP]", "[CLS] $A [SEP] $B:1 [SEP]:1", special_tokens=ends
    )
    names = {f"{token.strip('[]').lower()}_token": token for token in SPECIAL}
    return PreTrainedTokenizerFast(tokenizer_object=inner, **names)


def editor(kind, *families, rate=1.0, **more):
    return TextEditor(TokenWords(tokenizer(kind)), families or ("typos",), rate, **more)


@pytest.mark.parametrize("kind", KINDS)
def test_the_words_of_a_text_are_found_and_give_their_ids_again(kind):
    words = TokenWords(tokenizer(kind))
    for text in TEXTS[:4]:
        ids = tokenizer(kind)(text, add_special_tokens=False)["input_ids"]
        spans = words.spans(ids)
        assert [number for start, end in spans for number in ids[start:end]] == ids
        read = [words.read(tuple(ids[start:end])) for start, end in spans]
        known = [each.word for each in read if each is not None and each.word]
        plain = tokenizer(kind).decode(ids).lower()
        assert len(known) >= 0.7 * len(text.split())
        assert all(word.lower() in plain for word in known)
        for span, each in zip(spans, read, strict=True):
            if each is not None:
                assert words.write(each, each.word) == tuple(ids[slice(*span)])


@pytest.mark.parametrize("kind", ["wordpiece", "unigram", "byte-bpe with a space first"])
def test_a_word_that_was_cut_off_stays(kind):
    """Tokenised alone it would begin a word, or broken bytes would become other letters."""
    words, own = TokenWords(tokenizer(kind)), tokenizer(kind)
    ids = own(" ".join([*TEXTS, "👍🏽"]), add_special_tokens=False)["input_ids"]
    tails = [tuple(ids[start + 1 : end]) for start, end in words.spans(ids) if end - start > 1]
    read = [(tail, words.read(tail)) for tail in tails]
    assert any(each is None for _, each in read)
    assert all(each is None or words.write(each, each.word) == tail for tail, each in read)


@pytest.mark.parametrize("kind", KINDS)
def test_unedited_words_keep_their_ids_and_special_tokens_stay(kind):
    own, special = tokenizer(kind), set(tokenizer(kind).all_special_ids)
    total = 0
    for number in range(6):
        for first, second in zip(TEXTS, reversed(TEXTS), strict=True):
            ids = own(first, second)["input_ids"]
            view = editor(kind, "typos", "obfuscation").view(ids, f"key {number}")
            assert len(view.ids) == len(view.source) == len(view.label_source)
            assert sorted(view.source) == view.source
            total += view.edited
            ends = own.cls_token_id, own.sep_token_id
            assert [i for i in view.ids if i in ends] == [i for i in ids if i in ends]
            starts = {source for source in view.source if view.source.count(source) > 1}
            alone = [(new, source) for new, source in zip(view.ids, view.source, strict=True) if source not in starts]
            kept = sum(new == ids[source] for new, source in alone)
            assert len(alone) - kept <= view.edited  # what one edited word became that is one token
            assert all(new == ids[source] for new, source in alone if ids[source] in special)
    assert total > 40


@pytest.mark.parametrize("kind", KINDS)
def test_without_an_edit_a_view_is_the_text(kind):
    ids = tokenizer(kind)(*TEXTS[:2])["input_ids"]
    view = editor(kind, rate=1e-9).view(ids, "key")
    assert (view.ids, view.source, view.edited) == (ids, list(range(len(ids))), 0)
    assert view.label_source == view.source


def written(kind, text, **settings):
    """The words of some views of a text, as they are written."""
    ids = tokenizer(kind)(text)["input_ids"]
    made = (editor(kind, **settings).view(ids, str(key)).ids for key in range(40))
    return {word for view in made for word in tokenizer(kind).decode(view, skip_special_tokens=True).split()}


def test_numbers_negations_labels_and_single_letters_stay():
    text = "never 1999 plot a isn't story"
    found = written("byte-bpe", text, kept=frozenset({"plot"}))
    assert {"never", "1999", "plot", "a", "isn't"} <= found
    others = found - {"never", "1999", "plot", "a", "isn't"}
    assert len(others) > 10
    assert all(set(word.lower()) & set("story") for word in others)


def test_the_first_letter_is_mostly_spared():
    found = written("byte-bpe", "thickened " * 4)
    assert sum(word.startswith("t") for word in found) > 0.9 * len(found)


def test_the_share_of_edited_words_is_drawn_from_nothing_to_the_rate():
    ids = tokenizer("byte-bpe")("people watched clever stories again " * 20)["input_ids"]
    shares = [view.edited / view.words for view in (editor("byte-bpe", rate=0.4).view(ids, str(k)) for k in range(60))]
    assert min(shares) < 0.05
    assert 0.3 < max(shares) < 0.5
    assert sum(shares) / 60 == pytest.approx(0.2, abs=0.05)


def test_the_same_text_and_key_give_the_same_view_wherever_it_stands():
    made, own = editor("wordpiece"), tokenizer("wordpiece")
    alone, pair = own(TEXTS[3])["input_ids"], own(TEXTS[3], TEXTS[1])["input_ids"]
    assert made.view(alone, "key").ids[:-1] == made.view(pair, "key").ids[: len(made.view(alone, "key").ids) - 1]
    assert made.view(alone, "key") == made.view(alone, "key")
    # A share near 0 edits no word, and the trainer of the tokenizer gives its pieces other numbers in each run.
    assert len({tuple(made.view(alone, f"key {number}").ids) for number in range(10)}) > 5


def test_a_longer_view_is_cut_at_the_end_of_its_longest_text():
    own = tokenizer("wordpiece")
    ids = own(TEXTS[2], TEXTS[3])["input_ids"]
    longest = next(v for v in (editor("wordpiece").view(ids, str(k)) for k in range(50)) if len(v.ids) > len(ids) + 2)
    keys = [str(k) for k in range(50) if editor("wordpiece").view(ids, str(k)) == longest]
    cut = editor("wordpiece").view(ids, keys[0], len(ids))
    assert len(cut.ids) == len(cut.source) == len(cut.label_source) == len(ids)
    assert cut.ids[-1] == own.sep_token_id
    assert cut.ids[:-1] == longest.ids[: len(ids) - 1]


def test_labels_follow_their_words():
    """An edited word of one token gives its later pieces no label; one of several keeps that of its second."""
    own = tokenizer("wordpiece")
    for key in range(10):
        ids = own(TEXTS[3], add_special_tokens=False)["input_ids"]
        view, spans = editor("wordpiece").view(ids, str(key)), TokenWords(own).spans(ids)
        first = [source for source, label in zip(view.source, view.label_source, strict=True) if source == label]
        assert sorted({start for start, _ in spans}) == sorted(set(first) & {start for start, _ in spans})
        for start, end in spans:
            later = [label for source, label in zip(view.source, view.label_source, strict=True) if source == start]
            assert set(later[1:]) <= {start + 1 if end - start > 1 else -1}


def test_casing_and_synonyms(tmp_path):
    ids = tokenizer("byte-bpe")("Plot story")["input_ids"]
    views = {tokenizer("byte-bpe").decode(editor("byte-bpe", "casing").view(ids, str(k)).ids[1:-1]) for k in range(30)}
    assert len(views) > 2
    assert {view.lower() for view in views} == {"plot story"}
    small = tokenizer("wordpiece")("Plot story")["input_ids"]
    assert all(editor("wordpiece", "casing").view(small, str(k)).edited == 0 for k in range(10))
    file = tmp_path / "synonyms.json"
    file.write_text('{"plot": ["storyline"], "story": ["tale", "yarn"]}')
    table = load_synonyms(file)[0]
    views = {
        tokenizer("byte-bpe").decode(editor("byte-bpe", "synonyms", synonyms=table).view(ids, str(k)).ids[1:-1])
        for k in range(60)
    }
    assert {"Storyline tale", "Storyline yarn", "Plot story"} <= views


def test_a_space_at_the_end_is_no_word():
    alone, spaced = (tokenizer("byte-bpe")(text)["input_ids"] for text in ("people watched", "people watched "))
    assert len(spaced) > len(alone)
    assert editor("byte-bpe").view(spaced, "key").words == editor("byte-bpe").view(alone, "key").words == 2


def test_no_word_in_a_text_without_spaces():
    ids = tokenizer("wordpiece")("好 字 幕")["input_ids"]
    assert editor("wordpiece").view(ids, "key").edited == 0


def test_tokenizers_that_know_no_words():
    inner = Tokenizer(models.BPE())
    inner.train_from_iterator(CORPUS, trainers.BpeTrainer(vocab_size=100))
    with pytest.raises(MethodError, match="do not show where a word starts"):
        TokenWords(PreTrainedTokenizerFast(tokenizer_object=inner))
    with pytest.raises(MethodError, match=r"SimpleNamespace is no fast tokenizer.*use_fast=True"):
        TokenWords(SimpleNamespace(all_special_ids=[0]))
