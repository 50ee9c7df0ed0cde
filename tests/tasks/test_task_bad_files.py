"""Bad files: one line that names the file, the row and the remedy, and nothing half-written."""

import gzip
import pickle

import pytest

from toughen import tasks

GOOD = b"text,label\ngood film,pos\nbad film,neg\n"
CASES = {
    # name: (file name, content, options, what the message must say)
    "missing column": ("x.csv", GOOD, {"text_column": "body"}, ["'body'", "'text', 'label'", "text_column="]),
    "missing label column": ("x.csv", b"text,kind,n\na b,c,1\n", {}, ["'label'", "'kind'", "label_column="]),
    "label outside the set": ("x.csv", GOOD, {"labels": ["neg", "ok"]}, ["row 1 (line 2)", "'pos'", "labels=[...]"]),
    "missing label": ("x.csv", GOOD + b"no label,\n", {}, ["row 3 (line 4)", "no label", "on_bad='skip'"]),
    "nan label": ("x.csv", GOOD + b"no label,NaN\n", {}, ["row 3 (line 4)", "no label"]),
    "nan in json": ("x.jsonl", b'{"text": "a", "label": 1.5}\n{"text": "b", "label": NaN}\n', {}, ["row 2 (line 2)"]),
    "missing text": ("x.jsonl", b'{"text": "a", "label": 1}\n{"text": null, "label": 0}\n', {}, ["row 2", "'text'"]),
    "not a number": ("x.csv", b"text,label\na,0.5\nb,high\n", {"head": "regression"}, ["row 2", "'high'"]),
    "not utf-8": ("x.csv", GOOD + b"caf\xe9 noir,pos\n", {}, ["line 4", "0xe9", "position 4", "encoding="]),
    "a share": ("x.csv", b"text,label\na,50%\nb,7%\n", {"head": "regression"}, ["row 1", "'50%'", "without the sign"]),
    "many shares": (
        "x.csv",
        b"text,label\n" + b"".join(b"t,%d.5%%\n" % n for n in range(1200)),
        {"head": "regression"},
        ["row 1 (line 2)", "'0.5%'", "without the sign"],
    ),
    "a word and its tag": ("x.txt", b"EU\tB-ORG\nrejects\tO\n", {}, ["label_column=, or give head='tokens' if each"]),
    "blank lines": ("x.csv", b"\n\n", {}, ["has no names of columns", "at least one row"]),
    "a mark alone": ("x.csv", b"\xef\xbb\xbf", {}, ["has no names of columns"]),
    "nothing, zipped": ("x.tsv.gz", gzip.compress(b""), {}, ["has no names of columns"]),
    "empty": ("x.csv", b"", {}, ["is empty", "at least one row"]),
    "header only": ("x.csv", b"text,label\n", {}, ["no rows"]),
    "blank json lines": ("x.jsonl", b"\n\n", {}, ["no rows"]),
    "one class": ("x.csv", b"text,label\na b,pos\nc d,pos\n", {}, ["only 'pos'", "two classes"]),
    "ragged, long": ("x.csv", GOOD + b"one, two,three,pos\n", {}, ["row 3 (line 4)", "4 fields", "quoting="]),
    "ragged, short": ("x.tsv", b"text\tlabel\na b\tx\nc d\ne f\ty\n", {}, ["row 2 (line 3)", "1 fields"]),
    "unclosed quote": ("x.csv", GOOD + b'"never closed,pos\nx,neg\n', {}, ["line 5", "quote", "quoting=False"]),
    "1 MB line": ("x.csv", GOOD + b"x" * (1 << 20) + b",pos\n", {}, ["line 4", "1,000,000", "max_line="]),
    "1 MB json line": ("x.jsonl", b'{"text": "' + b"x" * (1 << 20) + b'", "label": 1}\n', {}, ["line 1", "max_line="]),
    "column twice": ("x.csv", b"text,label,text\na,b,c\n", {}, ["'text'", "twice"]),
    "not json": (
        "x.jsonl",
        b'{"text": "a", "label": 0}\nnonsense\n{"text": "b", "label": 1}\n',
        {},
        ["line 2", "is not JSON"],
    ),
    "json rows": ("x.json", b'["a", "b"]', {}, ["row 1", "object"]),
    "not gzip": ("x.csv.gz", GOOD, {}, ["cannot be read", "again"]),
    "not parquet": ("x.parquet", b"PAR0 nonsense", {}, ["is not Parquet"]),
    "unknown ending": ("x.ods", GOOD, {}, [".ods", ".csv"]),
    "unclear text": ("x.csv", b"a,b,c,label\n1,2,3,x\n4,5,6,y\n", {}, ["text_column="]),
    "label looks like text": (
        "x.csv",
        b"text,label\n" + b"".join(b"t,word %d\n" % n for n in range(1200)),
        {},
        ["row 1001", "label_column="],
    ),
    "an object as text": (
        "x.jsonl",
        b'{"text": "a b", "label": 0}\n{"text": {"en": "a b"}, "label": 1}\n',
        {},
        ["row 2 (line 2)", "text is an object", "text_column="],
    ),
    "messages as text": (
        "x.jsonl",
        b'{"text": [{"role": "user", "content": "a b"}], "label": 0}\n' * 2,
        {"labels": ["x", "y"]},
        ["row 1 (line 1)", "text is an object"],
    ),
    "half an emoji": (
        "x.jsonl",
        b'{"text": "a b", "label": 0}\n{"text": "so \\ud83d", "label": 1}\n',
        {},
        ["row 2 (line 2)", "'\\ud83d' at position 3", "on_bad='skip'"],
    ),
    "half an emoji among tokens": (
        "x.jsonl",
        b'{"tokens": ["a", "\\ude00"], "tags": ["O", "O"]}\n' * 2,
        {"labels": ["O", "B-X"]},
        ["row 1 (line 1)", "text is not Unicode"],
    ),
    "an object as label": (
        "x.jsonl",
        b'{"text": "a b", "label": {"x": 1}}\n',
        {},
        ["row 1 (line 1)", "holds an object"],
    ),
    "a list in a list": ("x.jsonl", b'{"text": "a b", "label": [["x"]]}\n', {}, ["row 1 (line 1)", "one flat list"]),
    "an object in a list": ("x.jsonl", b'{"text": "a b", "label": [{"x": 1}]}\n', {}, ["row 1", "one flat list"]),
    "fractions in a list": (
        "x.jsonl",
        b'{"text": "a b", "label": [1, 2]}\n{"text": "a b", "label": [1.5, 2.5]}\n',
        {},
        ["row 2 (line 2)", "1.5", "label_column="],
    ),
    "zeros and ones of two lengths": (
        "x.jsonl",
        b'{"text": "a b", "label": [0, 1, 1]}\n{"text": "a b", "label": [1]}\n',
        {"labels": ["x", "y", "z"]},
        ["row 1 (line 1)", "[0, 1, 1]", "each of the 3 labels"],
    ),
    "text is label": ("x.csv", GOOD, {"text_column": "label"}, ["'label' cannot be text and label"]),
    "long delimiter": ("x.csv", GOOD, {"delimiter": "||"}, ["delimiter='||'", "2 characters"]),
    "unknown encoding": ("x.csv", GOOD, {"encoding": "cp9999"}, ["encoding='cp9999' is not known"]),
    "carriage returns": ("x.csv", GOOD.replace(b"\n", b"\r"), {}, ["line 1", "carriage return alone"]),
    "ragged conll": ("x.conll", b"EU B-ORG\nrejects\n", {}, ["line 2", "1 columns"]),
    "tags and tokens": ("x.jsonl", b'{"tokens": ["a", "b"], "tags": ["O"]}\n' * 2, {"labels": ["O", "B-X"]}, ["row 1"]),
    "ragged choices": (
        "x.jsonl",
        b'{"context": "a", "choices": ["x", "y"], "label": 0}\n{"context": "a", "choices": ["x"], "label": 0}\n',
        {},
        ["row 2 (line 2)", "1 where the task has 2"],
    ),
}


@pytest.mark.parametrize("case", CASES)
def test_one_line_says_what_is_wrong(tmp_path, case):
    name, content, options, said = CASES[case]
    path = tmp_path / name
    path.write_bytes(content)
    with pytest.raises(tasks.DataError) as caught:
        tasks.load(train_file=path, validation_file=path, cache_dir=tmp_path / "cache", **options)
    message = str(caught.value)
    assert "\n" not in message
    assert str(path) in message
    for part in said:
        assert part in message, message
    assert not list((tmp_path / "cache").glob("*")) if (tmp_path / "cache").exists() else True


def test_a_folder_instead_of_a_file(tmp_path):
    with pytest.raises(tasks.DataError, match=r"is a folder, not a file.*dir="):
        tasks.load(train_file=tmp_path)
    with pytest.raises(tasks.DataError, match="does not exist"):
        tasks.load(train_file=tmp_path / "absent.csv")
    (tmp_path / "file.csv").write_bytes(GOOD)
    with pytest.raises(tasks.DataError, match="is not a folder"):
        tasks.load("sst2", dir=tmp_path / "file.csv")
    with pytest.raises(tasks.DataError, match=r"none of the splits.*file\.csv"):
        tasks.load("sst2", dir=tmp_path)


def test_an_unseen_label_in_the_development_file(tmp_path):
    train, dev = tmp_path / "train.csv", tmp_path / "dev.csv"
    train.write_bytes(GOOD)
    dev.write_bytes(GOOD + b"odd one,mixed\n")
    with pytest.raises(tasks.DataError, match=r"dev\.csv, row 3 \(line 4\).*'mixed' is none of neg, pos"):
        tasks.load(train_file=train, validation_file=dev, cache_dir=tmp_path / "cache")
    found = sorted(path.suffix for path in (tmp_path / "cache").iterdir())
    assert found == [".arrow", ".json"], "only the whole training file may be there"


def test_names_that_are_there_twice(tmp_path):
    (tmp_path / "x.csv").write_bytes(GOOD)
    with pytest.raises(tasks.DataError, match=r"labels=.* a name is given twice"):
        tasks.load(train_file=tmp_path / "x.csv", labels=["pos", "neg", "pos"], cache_dir=tmp_path)


def test_a_test_file_has_all_labels_or_none(tmp_path):
    """A missing amount is -1 in the table; beside real ones it would be scored as if it were meant."""
    train, test = tmp_path / "train.csv", tmp_path / "test.csv"
    train.write_text("text,label\n" + "".join(f"film {n},{n / 4}\n" for n in range(8)))
    for rows in ("a,0.5\nb,\n", "a,\nb,0.5\n"):
        test.write_text(f"text,label\n{rows}")
        with pytest.raises(tasks.DataError, match=r"test\.csv, row 2 \(line 3\): label in some rows only"):
            tasks.load(train_file=train, test_file=test, cache_dir=tmp_path / "cache")
    test.write_text("text,label\na,\nb,\n")
    assert len(tasks.load(train_file=train, test_file=test, cache_dir=tmp_path / "cache").test) == 2
    test.write_text("text,label\na,0.5\nb,\nc,0.75\nd,0.25\n")
    found = tasks.load(train_file=train, test_file=test, on_bad="skip", cache_dir=tmp_path / "cache").test
    assert found["text"][:] == ["a", "c", "d"]


def test_few_shot_of_nothing(tmp_path):
    (tmp_path / "x.csv").write_bytes(GOOD)
    for rows in (0, -1):
        with pytest.raises(tasks.DataError, match=f"few_shot={rows} leaves no rows"):
            tasks.load(train_file=tmp_path / "x.csv", few_shot=rows, cache_dir=tmp_path)


def test_a_longer_line_can_be_allowed(tmp_path):
    path = tmp_path / "x.csv"
    path.write_bytes(GOOD + b"x" * (1 << 20) + b",pos\n")
    data = tasks.load(train_file=path, validation_file=path, cache_dir=tmp_path, max_line=2_000_000)
    assert len(data.train["text"][2]) == 1 << 20


def test_nothing_to_load():
    with pytest.raises(tasks.DataError, match="train_file="):
        tasks.load()


def test_a_label_that_says_there_is_none_is_not_called_empty(tmp_path):
    files = {"train_file": tmp_path / "train.csv", "validation_file": tmp_path / "dev.csv"}
    files["train_file"].write_text("text,label\na b,0\nc d,1\n")
    files["validation_file"].write_text("text,label\na b,0\nc d,-1\n")
    with pytest.raises(ValueError, match=r"dev.csv, row 2 .*'label' holds '-1' there, which says that there is none"):
        tasks.load(**files, cache_dir=tmp_path / "cache")


def test_a_caller_without_an_option_gets_another_remedy(tmp_path):
    """The options of `load` are data of the error, so that no caller has to rewrite its text."""
    (tmp_path / "x.csv").write_bytes(GOOD + b"no label,\n")
    with pytest.raises(tasks.DataError) as caught:
        tasks.load(train_file=tmp_path / "x.csv", cache_dir=tmp_path / "cache")
    error = pickle.loads(pickle.dumps(caught.value))
    assert [option.name for option in error.message.options] == ["on_bad"]
    assert str(error.for_caller(["on_bad"])) == str(error) == str(caught.value)
    assert str(error.for_caller([])).endswith("fill it in or leave the row out.")


@pytest.mark.parametrize("encoding", ["utf-16", "utf-16-le", "utf-32"])
def test_long_lines_and_broken_bytes_of_wide_encodings(tmp_path, encoding):
    path = tmp_path / "x.csv"
    path.write_bytes("text,label\nä\u2028ö,pos\nü,neg\n".encode(encoding))
    options = {"encoding": encoding, "cache_dir": tmp_path / "cache", "validation_file": path}
    assert tasks.load(train_file=path, **options).train["text"][:] == ["ä\u2028ö", "ü"]
    with pytest.raises(tasks.DataError, match=r"line 1: longer than 9 .*max_line="):
        tasks.load(train_file=path, max_line=9, **options)
    path.write_bytes(path.read_bytes()[:-3])
    with pytest.raises(tasks.DataError, match=f"is not {encoding}"):
        tasks.load(train_file=path, **options)
