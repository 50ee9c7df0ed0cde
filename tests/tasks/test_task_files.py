"""Own files: what is found out about them, and what is said about bad ones."""

import gzip
import json
import sys
from types import SimpleNamespace

import pytest

from toughen import tasks
from toughen.tasks import DataError

from .task_samples import LABELS, TEXTS, rows_of, write_jsonl


def load(path, **options):
    return tasks.load(train_file=path, cache_dir=path.parent / "cache", **options)


def write_csv(path, rows, sep=","):
    path.write_text("\n".join(sep.join(row) for row in rows) + "\n")
    return path


@pytest.mark.parametrize("ending", ["csv", "tsv", "jsonl", "jsonl.gz", "json", "parquet"])
def test_every_format_gives_the_same_rows(tmp_path, ending):
    rows = rows_of("classes")
    path = tmp_path / f"own.{ending}"
    if ending in ("csv", "tsv"):
        sep = "," if ending == "csv" else "\t"
        write_csv(path, [("text", "label"), *((row["text"], row["label"]) for row in rows)], sep)
    elif ending == "jsonl":
        write_jsonl(path, rows)
    elif ending == "jsonl.gz":
        path.write_bytes(gzip.compress("".join(json.dumps(row) + "\n" for row in rows).encode()))
    elif ending == "json":
        path.write_text(json.dumps({"version": 1, "data": rows}))
    else:
        import pyarrow as pa
        import pyarrow.parquet as pq

        pq.write_table(pa.Table.from_pylist(rows), path)
    data = load(path, validation_file=path)
    assert data.task.labels == ("bad", "good")
    assert data.task.head == "classes"
    assert data.train["text"][:] == TEXTS
    assert data.train["label"][:] == [int(label == "good") for label in LABELS]


HEAD_METRIC = {
    "classes": ("classes", "sentence", "accuracy"),
    "pair": ("classes", "pair", "accuracy"),
    "regression": ("regression", "sentence", "pearson"),
    "multilabel": ("multilabel", "sentence", "f1_micro"),
    "tokens": ("tokens", "tokens", "entity_f1"),
    "choices": ("choices", "choices", "accuracy"),
}


@pytest.mark.parametrize("head", HEAD_METRIC)
def test_the_head_is_found_out(tiny_data, head):
    task = tiny_data(head).task
    assert (task.head, task.kind, task.primary_metric) == HEAD_METRIC[head]


def test_semicolons_marks_and_wide_characters(tmp_path):
    path = tmp_path / "own.csv"
    text = 'review;stars\n"schön; sehr";5\nnein danke;1\n'
    for encoding, said in (("utf-8-sig", "UTF-8 with a mark"), ("utf-16", "UTF-16")):
        path.write_bytes(text.encode(encoding))
        data = load(path, label_column="stars", validation_file=path)
        assert data.train["review"][:] == ["schön; sehr", "nein danke"]
        assert data.task.labels == ("1", "5")
        assert any(said in note and "semicolons" in note for note in data.notes), data.notes
    path.write_bytes(text.encode("cp1252"))
    assert load(path, label_column="stars", encoding="cp1252").notes


def test_quotes_and_tabs_do_not_merge_or_drop_rows(tmp_path):
    tsv = tmp_path / "own.tsv"
    tsv.write_text('text\tlabel\n"unbalanced\ta\nhe said "no\tb\n"whole"\ta\nline\u2028break\x85\x0b\tb\n')
    assert load(tsv, validation_file=tsv).train["text"][:] == [
        '"unbalanced',
        'he said "no',
        '"whole"',
        "line\u2028break\x85\x0b",
    ]
    csv = tmp_path / "own.csv"
    csv.write_text('text,label\n"two\nlines, and ""quotes""",a\nplain,b\n')
    assert load(csv, validation_file=csv).train["text"][:] == ['two\nlines, and "quotes"', "plain"]


def test_choices_in_columns_and_answers_in_words(tmp_path):
    path = write_csv(
        tmp_path / "own.csv", [("context", "choice0", "choice1", "answer"), ("c", "x", "y", "y"), ("d", "p", "q", "p")]
    )
    data = load(path, validation_file=path)
    assert data.train["choices"][:] == [["x", "y"], ["p", "q"]]
    assert data.train["label"][:] == [1, 0]
    assert data.train["question"][:] == ["", ""]


def test_several_labels_in_one_cell(tmp_path):
    path = write_csv(tmp_path / "own.csv", [("text", "label"), ("a b", "x;y"), ("b c", "y"), ("c d", "")])
    data = load(path, label_separator=";", delimiter=",", validation_file=path)
    assert data.task.head == "multilabel"
    assert data.train["label"][:] == [[0, 1], [1], []]


@pytest.mark.parametrize(
    ("written", "read"),
    [
        ([[0], [0, 1], [1], []], [[0], [0, 1], [1], []]),  # class numbers: the first row says so for all
        ([[0, 1], [1, 0], [1]], [[0, 1], [1, 0], [1]]),  # and so does the last
        ([[0, 1], [1, 0], [1, 1], [0, 0]], [[1], [0], [0, 1], []]),
        ([["a"], ["b", "a"], []], [[0], [1, 0], []]),
        ([[0, 1], [0, 1], 1], [[0, 1], [0, 1], [1]]),  # a number alone is a list of one
    ],
)
def test_lists_of_numbers_are_read_one_way_in_all_files(tmp_path, written, read):
    rows = [{"text": f"film {place}", "label": label} for place, label in enumerate(written)]
    path = write_jsonl(tmp_path / "own.jsonl", rows)
    one = write_jsonl(tmp_path / "one.jsonl", rows[1:2])
    data = load(path, validation_file=one, labels=["a", "b"])
    assert data.task.head == "multilabel"
    assert (data.train["label"][:], data.validation["label"][:]) == (read, read[1:2])


@pytest.mark.parametrize(
    ("lines", "expected"),
    [
        ("EU I-ORG\nrejects O\n\nGerman I-MISC\nBritish B-MISC\n", [["B-ORG", "O"], ["B-MISC", "B-MISC"]]),
        ("EU S-ORG\nNew B-LOC\nYork E-LOC\n\nx O\n", [["B-ORG", "B-LOC", "I-LOC"], ["O"]]),
        ("-DOCSTART- -X- O\n\nEU NNP B-ORG\nBank NNP I-ORG\n\n#tag NN O\n", [["B-ORG", "I-ORG"], ["O"]]),
    ],
)
def test_conll_tags_become_iob2(tmp_path, lines, expected):
    path = tmp_path / "own.conll"
    path.write_text(lines)
    data = load(path, validation_file=path)
    names = data.task.labels
    assert names[0] == "O"
    assert [[names[tag] for tag in row] for row in data.train["label"][:]] == expected


def test_true_among_numbers_is_1(tmp_path):
    rows = [{"text": f"row {number}", "label": (1, True, False, 0)[number % 4]} for number in range(20)]
    data = load(write_jsonl(tmp_path / "own.jsonl", rows), validation_file=tmp_path / "own.jsonl")
    assert data.task.labels == ("0", "1")
    assert data.validation["label"][:4] == [1, 1, 0, 0]


def test_parts_of_speech_are_left_as_they_are(tmp_path):
    path = tmp_path / "own.conll"
    path.write_text("the\tDT\ndog\tNN\n\n# \tSYM\nI\tPRP\n")
    data = load(path, validation_file=path)
    assert data.task.metrics == ("token_accuracy",)
    assert [[data.task.labels[tag] for tag in row] for row in data.train["label"][:]] == [["DT", "NN"], ["SYM", "PRP"]]


def test_a_development_set_is_made_in_proportion(tmp_path):
    rows = [(f"text {row}", "rare" if row % 10 == 0 else "usual") for row in range(200)]
    path = write_csv(tmp_path / "own.csv", [("text", "label"), *rows])
    one, two, other = load(path), load(path), load(path, seed=1)
    assert (len(one.train), len(one.validation)) == (180, 20)
    assert one.validation["label"][:].count(0) == 2
    assert one.validation["text"][:] == two.validation["text"][:] != other.validation["text"][:]
    assert not set(one.train["text"]) & set(one.validation["text"])
    assert "made from 20 of 200" in str(one.report())


def test_bad_rows_can_be_left_out_and_are_counted(tmp_path):
    path = write_csv(
        tmp_path / "own.csv", [("text", "label"), ("a b", "x"), ("b c", ""), ("c", "y", "z"), ("d e", "y")]
    )
    for _ in range(2):  # the second time from the cache
        data = load(path, validation_file=path, on_bad="skip")
        assert data.train["text"][:] == ["a b", "d e"]
        assert "train: 1 row left out (no label)" in data.notes
        assert "train: 1 row left out (ragged row)" in data.notes


def test_a_changed_file_is_read_again(tmp_path):
    path = write_csv(tmp_path / "own.csv", [("text", "label"), ("a b", "x"), ("b c", "y")])
    assert len(load(path, validation_file=path).train) == 2
    write_csv(path, [("text", "label"), ("a b", "x"), ("b c", "y"), ("c d", "y")])
    assert len(load(path, validation_file=path).train) == 3


def test_streams(tmp_path, tokenizer):
    path = write_jsonl(tmp_path / "own.jsonl", rows_of("classes"))
    data = load(path, streaming=True)
    assert next(iter(data.train)) == {"text": TEXTS[0], "label": 1}
    ready = tasks.prepare(data, tokenizer, 16)
    first = next(iter(ready.train))
    assert first["labels"] == 1
    assert first["input_ids"] == tokenizer(TEXTS[0])["input_ids"]
    assert list(data.train)[3]["text"] == "bad"
    assert not (tmp_path / "cache").exists()


@pytest.mark.parametrize(
    ("written", "labels", "numbers"),
    [
        (["1.0", "0.0", "1.0", "0.0"], ("0", "1"), [1, 0, 1, 0]),  # as pandas writes whole numbers beside a gap
        (["007", "010", "007", "010"], ("007", "010"), [0, 1, 0, 1]),  # names made of digits
        (["1000000000000000001", "7", "7", "7"], ("7", "1000000000000000001"), [1, 0, 0, 0]),
        ([1, "1", "x", "x"], ("1", "x"), [0, 0, 1, 1]),
        ([1.0, 0.0, 1.0, 0.0], ("0", "1"), [1, 0, 1, 0]),
        (["²", "³", "³", "²"], ("²", "³"), [0, 1, 1, 0]),  # digits that are no number
        (["--1", "--2", "--2", "--1"], ("--1", "--2"), [0, 1, 1, 0]),
        (["1", "NA", "0", "none", "NAN", None], ("0", "1"), [1, 0]),
    ],
)
def test_numbers_that_are_classes(tmp_path, written, labels, numbers):
    rows = [{"text": f"film {place}", "label": label} for place, label in enumerate(written)]
    data = load(write_jsonl(tmp_path / "own.jsonl", rows), validation_file=tmp_path / "own.jsonl", on_bad="skip")
    assert (data.task.head, data.task.labels) == ("classes", labels)
    assert data.train["label"][:] == numbers


def test_what_r_and_python_write_for_a_gap(tmp_path):
    """Among numbers it is no label; among words a class, and that is told."""
    path = write_csv(tmp_path / "own.csv", [("text", "score"), ("a b", "1.5"), ("b c", "NA"), ("c d", "2")])
    with pytest.raises(tasks.DataError, match=r"row 2 \(line 3\): no label"):
        load(path, validation_file=path)
    data = load(path, validation_file=path, on_bad="skip")
    assert (data.task.head, data.train["label"][:]) == ("regression", [1.5, 2.0])
    assert "train: 1 row left out (no label)" in data.notes
    rows = [{"text": f"film {place}", "label": label} for place, label in enumerate(["None", "sexism", "None", None])]
    path = write_jsonl(tmp_path / "words.jsonl", rows)
    data = load(path, validation_file=path, on_bad="skip")
    assert (data.task.labels, data.train["label"][:]) == (("None", "sexism"), [0, 1, 0])
    assert "'None' is a class; if it means that there is no label, give labels=[...] (--data.labels)" in data.notes


def test_the_layout_of_glue_fetch(tmp_path):
    """ParaGen's and fairseq's script writes a file for each column; test rows have no labels."""
    folder = tmp_path / "data" / "RTE"
    folder.mkdir(parents=True)
    columns = {"input0": ['A "dog" runs.', "It rains."], "input1": ["A dog moves.", "It is dry."]}
    columns |= {"label": ["entailment", "not_entailment"]}
    for split in ("train", "dev", "test"):
        for name, lines in columns.items():
            if (split, name) != ("test", "label"):
                (folder / f"{split}.{name}").write_text("".join(f"{line}\n" for line in lines))
    data = tasks.load("rte", dir=tmp_path / "data", cache_dir=tmp_path / "cache")
    assert data.train[0] == {"sentence1": 'A "dog" runs.', "sentence2": "A dog moves.", "label": 0}
    assert (data.validation["label"], data.test["label"]) == ([0, 1], [-1, -1])
    (folder / "train.label").write_text("not_entailment\nentailment\n")  # the text has not changed
    assert tasks.load("rte", dir=tmp_path / "data", cache_dir=tmp_path / "cache").train["label"] == [1, 0]
    (folder / "dev.input1").write_text("one line\n")
    with pytest.raises(tasks.DataError, match=r"differ in their number of lines: dev\.input0 2, dev\.input1 1"):
        tasks.load("rte", dir=tmp_path / "data", cache_dir=tmp_path / "cache")


@pytest.mark.parametrize("written", ["3,5", "-0,125", "12,25"])
def test_decimal_commas_are_numbers(tmp_path, written):
    file = tmp_path / "a.csv"
    file.write_text(f"text;score\nA b;{written}\nC d;1,0\nE f;2\n")
    data = load(file, validation_file=file)
    assert (data.task.head, data.train["label"][:]) == ("regression", [float(written.replace(",", ".")), 1.0, 2.0])


def test_a_comma_that_may_separate_thousands_is_refused(tmp_path):
    file = tmp_path / "a.csv"
    file.write_text("text;score\nA b;1,234\nC d;5,5\nE f;2\n")
    with pytest.raises(DataError, match="'1,234'"):
        load(file, validation_file=file)
    with pytest.raises(DataError, match="'1,234'"):
        load(file, validation_file=file, head="regression")
    assert load(file, validation_file=file, head="classes").task.labels == ("1,234", "2", "5,5")


@pytest.mark.parametrize(
    "given",
    [{"text_column": "nosuch"}, {"label_column": "y"}, {"labels": ["a", "b"]}, {"head": "tokens"}, {"delimiter": ";"}],
)
def test_what_a_named_task_would_ignore_is_refused(given):
    with pytest.raises(DataError, match=next(iter(given))):
        tasks.load("rte", **given)


def test_two_columns_need_no_names(tmp_path):
    file = tmp_path / "a.csv"
    lines = "".join(f"the film number {n} is {word},{word}\n" for n in range(8) for word in ("good", "bad"))
    file.write_text(f"Message,Mood\n{lines}")
    task = load(file).task
    assert (task.columns, task.labels) == (("Message",), ("bad", "good"))
    file.write_text(f"the first film,good\n{lines}")  # no header: its first row would be lost
    with pytest.raises(DataError, match="no names of columns"):
        load(file)
    file.write_text("Text,n\nok,1\nbad,0\n")
    assert load(file, validation_file=file).train["Text"][:] == ["ok", "bad"]
    rated = tmp_path / "a.jsonl"  # a number there is no text, as in Excel
    rated.write_text('{"body": "a b", "Rating": 1}\n{"body": "c d", "Rating": 0}\n')
    assert load(rated, validation_file=rated).task.columns == ("body",)


def test_columns_are_found_whatever_their_case(tmp_path):
    file, other = tmp_path / "a.csv", tmp_path / "b.csv"
    file.write_text("ID,Premise,HYPOTHESIS,Label\n1,a b,c,x\n2,d e,f,y\n")
    other.write_text("id,premise,hypothesis,LABEL\n1,a b,c,x\n2,d e,f,y\n")
    data = load(file, validation_file=other)
    assert data.task.columns == ("Premise", "HYPOTHESIS")
    assert data.validation[:] == data.train[:]
    assert load(file, validation_file=other, text_column="premise", label_column="label").task.columns == ("Premise",)


@pytest.mark.parametrize("quoted", [True, False])
def test_tables_as_programs_for_tables_write_them(tmp_path, quoted):
    file = tmp_path / "a.csv"
    file.write_text("sep=;\ntext;label;;\na, b;x;;\n;;\nc;y;\n  ;;\n;;\n")
    data = load(file, validation_file=file, quoting=quoted)
    assert data.train["text"][:] == ["a, b", "c"]
    assert any("semicolons" in note for note in data.notes)
    file.write_text("sep=;\ntext;label\na, b;x\nc\nd;y\n")
    with pytest.raises(DataError, match=r"row 2 \(line 4\)"):
        load(file, validation_file=file, quoting=quoted)


def test_excel(tmp_path, monkeypatch):
    sheet = [(None, None), ("Text", "label", None), ("a b", 1, None), (None, None), (12, 0, "x")]
    book = SimpleNamespace(worksheets=[SimpleNamespace(iter_rows=lambda values_only: iter(sheet))])
    monkeypatch.setitem(sys.modules, "openpyxl", SimpleNamespace(load_workbook=lambda *_, **__: book))
    file = tmp_path / "a.xlsx"
    file.write_bytes(b"PK")
    data = load(file, validation_file=file)
    assert (data.train["Text"][:], data.train["label"][:]) == (["a b", "12"], [1, 0])
    monkeypatch.setitem(sys.modules, "openpyxl", None)
    with pytest.raises(ImportError, match=r"toughen\[xlsx\]"):
        load(tmp_path / "a.xlsx", label_column="label", text_column="Text", validation_file=file, labels=["0", "1"])


def test_excel_as_it_is(tmp_path):
    excel = pytest.importorskip("openpyxl")
    book = excel.Workbook()
    for row in (("text", "label"), ("a b", "x"), ("c d", "y")):
        book.active.append(row)
    book.save(tmp_path / "a.xlsx")
    assert load(tmp_path / "a.xlsx", validation_file=tmp_path / "a.xlsx").train["text"][:] == ["a b", "c d"]
    (tmp_path / "b.xlsx").write_bytes(b"no book")
    with pytest.raises(DataError, match="is not Excel"):
        load(tmp_path / "b.xlsx")


def test_what_deserves_a_second_look(tmp_path):
    file = tmp_path / "a.csv"
    file.write_text("text,label\na b,Pos\na b,neg\nc,pos\nd,pos\ne,neg\nf,Pos\ng,neutral\n")
    found = "; ".join(load(file, validation_file=file).report().warnings)
    assert "train: 1 text comes with several labels" in found
    assert "'Pos' and 'pos'" in found
    assert "one row alone of neutral" in found
    assert "validation: 7 rows: a score on them is known to about 37 points" in found
    file.write_text("text,label\na,0.5\nb,1\nc,2\nd,3\n")
    found = "; ".join(load(file, validation_file=file).report().warnings)
    assert "validation: 4 rows: a correlation on them is known to about 0.98" in found


def test_all_bad_rows_are_counted_at_once(tmp_path):
    file = tmp_path / "a.csv"
    file.write_text("text,label\na,x\nb,\nc,y\nd,\ne,x,1\n")
    with pytest.raises(DataError, match=r"row 2 .*on_bad='skip'.*Of 5 rows 3 cannot be used: 2 no label, 1 ragged"):
        load(file, validation_file=file)
    file.write_text("text,label\na\nb,x,y\nc,x\nd,y\n")  # neither columns nor classes come from a broken row
    assert load(file, validation_file=file, on_bad="skip").task.labels == ("x", "y")
    rows = '{"text": "a", "label": "x"}', '{"text": "b", "label": "y"}', "{", '{"text": "c"', "[]"
    lines = tmp_path / "a.jsonl"
    lines.write_text("\n".join(rows))
    with pytest.raises(
        DataError, match=r"row 3 .*is not JSON.*on_bad='skip'. Of 5 rows 3 .*: 2 not JSON, 1 not an obj"
    ):
        load(lines, validation_file=lines)
    assert load(lines, validation_file=lines, on_bad="skip").train["text"][:] == ["a", "b"]
    lines.write_text("{")
    with pytest.raises(DataError, match=r"row 1 \(line 1\): is not JSON"):
        load(lines, validation_file=lines)


def test_equal_texts_stay_on_one_side(tmp_path):
    file = tmp_path / "a.csv"
    file.write_text("text,label\n" + "".join(f"film {n % 10},{'xy'[n % 2]}\n" for n in range(60)))
    data = load(file, validation_share=0.3)
    assert not set(data.train["text"][:]) & set(data.validation["text"][:])
    assert 12 <= len(data.validation) <= 24
