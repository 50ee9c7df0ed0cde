"""The order of a search's questions, against an oracle whose answers are known."""

from types import SimpleNamespace

from toughen.attacks.attacked_text import AttackedText, Budget
from toughen.attacks.builtin.flips import hotflip
from toughen.attacks.text_search import Query, SearchState, greedy, pwws, run_all

# What each word gives to the right answer; the margin above 0.02 the model is fooled.
WORTH = {"a": 0.05, "b": 0.2, "c": 0.1, "B1": 0.12, "B2": 0.05, "A1": 0.0, "C1": 0.04, "C2": 0.09, "x": 0.2}
WORTH |= {"d": 0.3, "D1": 0.205, "e": 0.2, "E1": 0.1, "f": 0.1, "F1": 0.1}
VARIANTS = {"a": ["A1"], "b": ["B1", "B2"], "c": ["C1", "C2"], "d": ["D1"], "e": ["E1"], "f": ["F1"]}


def margin(text):
    return 0.19 - sum(WORTH[word] for word in text.split())


def drive(search, gains=None):
    """Answer a search's questions; gives all texts it asked about, wave by wave."""
    asked = []
    try:
        question = search.send(None)
        while True:
            if question.function is not None:
                (row,) = question.rows
                asked.append(f"gradient at {row['text']}")
                question = search.send([gains])
                continue
            texts = [row["text"].strip() for row in question.rows]
            asked.append(texts)
            question = search.send([margin(text) for text in texts])
    except StopIteration:
        return asked


def make_state(queries=100, words=1.0, text="a b c"):
    attacked = AttackedText.of({"text": text}, ("text",), lambda word: False)
    return SearchState(0, attacked, 1, Budget(queries, words), margin(text), tie=0.02)


def variants(one, place):
    return VARIANTS[one.text.word(place)]


def test_greedy_takes_the_most_important_word_first_and_keeps_what_helps():
    one = make_state()
    assert drive(greedy(one, variants)) == [
        ["b c", "a c", "a b"],  # each word left out
        ["a B1 c", "a B2 c"],
        ["a B2 C1", "a B2 C2"],  # on top of the better one
    ]
    assert one.success
    assert one.changes == {("text", 1): "B2", ("text", 2): "C1"}
    assert one.queries == 7


def test_greedy_stops_where_its_budget_ends():
    one = make_state(queries=4)
    assert drive(greedy(one, variants)) == [["b c", "a c", "a b"], ["a B1 c"]]
    assert (one.queries, one.success, one.changes) == (4, False, {("text", 1): "B1"})
    one = make_state(words=0.3)
    assert len(drive(greedy(one, variants))) == 2
    assert len(one.changes) == 1
    assert drive(greedy(make_state(queries=0), variants)) == []
    assert drive(greedy(make_state(queries=2), variants)) == [["b c", "a c"]]


def test_weighted_finds_the_best_of_every_word_and_then_puts_them_together():
    one = make_state()
    assert drive(pwws(one, variants, 1.0)) == [
        ["b c", "a c", "a b"],
        ["a B1 c", "a B2 c"],
        ["a b C1", "a b C2"],
        ["A1 b c"],
        ["a B2 c"],  # gain 0.15, importance 0.2
        ["a B2 C1"],  # gain 0.06, importance 0.1; then fooled
    ]
    assert one.success
    assert one.changes == {("text", 1): "B2", ("text", 2): "C1"}


def test_weighted_goes_by_gain_times_importance_and_leaves_what_gains_nothing():
    asked = drive(pwws(make_state(text="d e f"), variants, 0.25))
    # At this temperature E1 gains 0.0620 and D1 0.0585; but d has the importance 0.229 and e 0.139, and
    # exp(0.229) * 0.0585 is more than exp(0.139) * 0.0620.
    assert asked[-2:] == [["D1 e f"], ["D1 E1 f"]]
    assert len(asked) == 1 + 3 + 2


def test_flips_follow_the_promise_and_ask_again_after_each():
    gains = {("text", 0): [(0.1, "x")], ("text", 1): [(0.9, "B2"), (0.2, "b")], ("text", 2): [(0.5, "C1")]}
    one = make_state()
    # "b" for "b" is no change; what was changed stays as it is.
    assert drive(hotflip(one, lambda rows, labels: [], 2), gains) == [
        *("gradient at a b c", ["a B2 c", "a b C1"]),
        *("gradient at a B2 c", ["a B2 C1", "x B2 c"]),
    ]
    assert one.success
    assert one.queries == 6


def test_a_kill_loses_no_more_searches_than_keep_the_device_busy():
    def waves(rows):
        def scores(texts):
            sizes.append(len(texts))
            return [0] * len(texts)

        sizes = []
        scorer = SimpleNamespace(margin=lambda logits, label: -1.0)
        victim = SimpleNamespace(rows=rows, half=False, scorer=scorer, scores=scores)
        ended = list(run_all(victim, ((make_state(), iter_once()) for _ in range(150))))
        return sizes, [len(states) for states in ended if states]

    def iter_once():
        yield Query([{"text": "a"}])

    assert waves(64) == ([64, 64, 22], [64, 64, 22])  # rows of a pass on a CPU
    assert waves(2048) == ([150], [150])
