"""Texts under attack: which words may change, what may stand for them, and the words of a vocabulary."""

import json
from types import SimpleNamespace

import pytest
import torch
from tokenizers import Tokenizer, models, pre_tokenizers
from tokenizers.decoders import ByteLevel
from transformers import CanineConfig, CanineModel, PreTrainedTokenizerFast

from toughen.attacks.attacked_text import AttackedText, Budget
from toughen.attacks.builtin.characters import CharacterAttack
from toughen.attacks.builtin.synonyms import SynonymAttack
from toughen.attacks.perturbed_model import AttackObjective
from toughen.attacks.vocabulary import Vocabulary, VocabularyGradients, one_token_words
from toughen.errors import DataError
from toughen.text.vocabulary import whole_words
from toughen.text.words import word_constraint

from ..tiny import TOKENIZER
from .little_target import TASK, sentences, target


def test_a_passage_changes_words_and_nothing_else():
    row = {"premise": 'He said "Good day,"  twice.', "hypothesis": "no 2 days", "label": 1}
    text = AttackedText.of(row, ("premise", "hypothesis"), word_constraint(("numbers",), TASK.labels))
    assert text.words == 8
    assert [text.word(place) for place in text.positions] == ["He", "said", "Good", "day", "twice", "no", "days"]
    new = text.changed({("premise", 2): "Bad", ("premise", 3): "night", ("hypothesis", 0): "yes"})
    assert new == {"premise": 'He said "Bad night,"  twice.', "hypothesis": "yes 2 days", "label": 1}
    assert text.without(("premise", 2))["premise"] == 'He said day,"  twice.'
    assert row["premise"] == 'He said "Good day,"  twice.'


def test_the_share_of_words_is_rounded_up():
    assert [Budget(words=0.3).changes(words) for words in (0, 1, 3, 10, 11)] == [0, 1, 1, 3, 4]
    assert Budget(words=0.0).changes(20) == 0
    assert Budget(words=1.0).changes(20) == 20


def test_typing_errors_depend_on_the_seed():
    state = type(
        "One",
        (),
        {"text": AttackedText.of({"text": "wonderful"}, ("text",), word_constraint((), TASK.labels)), "index": 3},
    )()
    one, same, other = (
        CharacterAttack(edits=("insert",), seed=seed).variants(state, ("text", 0)) for seed in (0, 0, 1)
    )
    assert one == same != other


def test_substitutes_are_written_as_the_word_is(tmp_path):
    def variants(synonyms, position):
        (tmp_path / "synonyms.json").write_text(json.dumps(synonyms))
        return SynonymAttack(synonyms=tmp_path / "synonyms.json", candidates=2).variants(state, position)

    text = AttackedText.of({"text": "Good food"}, ("text",), word_constraint((), TASK.labels))
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
    assert whole_words(tokenizer, len(tokenizer)) == {"good": 0}


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
    found = one_token_words(row, ("one", "two"), encoded["offset_mapping"], encoded.sequence_ids(0))
    assert {place: tokens[number] for place, number in found.items()} == {
        ("one", 0): "▁good",
        ("one", 1): "▁film",
        ("one", 3): "▁good",
        ("two", 0): "▁film",
    }
    # Three bytes of one letter have one span between them.
    assert one_token_words({"one": "中 x"}, ("one",), [(0, 1), (0, 1), (0, 1), (2, 3)], [0, 0, 0, 0]) == {("one", 1): 3}


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
    objective = AttackObjective(TASK).margin(net(inputs_embeds=embedded).logits, torch.tensor(victims.labels[-1:]))
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
    with pytest.raises(DataError, match=r"CanineModel has no table of word embeddings.*characters"):
        Vocabulary(victim)
