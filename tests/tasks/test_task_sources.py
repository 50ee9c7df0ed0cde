"""The same rows from the Hub, the original GLUE layout, the authors' files and JSON lines."""

import csv
import json

import pytest

from toughen import tasks

from .task_samples import write_jsonl


@pytest.fixture(scope="module")
def cache(tmp_path_factory):
    return tmp_path_factory.mktemp("cache")


REAL = [
    # name, split, rows, rows of each class
    ("cola", "train", 8551, (2528, 6023)),
    ("cola", "validation", 1043, (322, 721)),
    ("sst2", "train", 67349, (29780, 37569)),
    ("sst2", "validation", 872, (428, 444)),
    ("rte", "train", 2490, (1249, 1241)),
    ("rte", "validation", 277, (146, 131)),
    ("wnli", "train", 635, (323, 312)),
    ("wnli", "validation", 71, (40, 31)),
    ("stsb", "train", 5749, None),
    ("stsb", "validation", 1500, None),
    ("mrpc", "train", 3668, (1194, 2474)),
    ("mrpc", "validation", 408, (129, 279)),
    ("qnli", "validation", 5463, (2702, 2761)),
    ("mnli", "validation", 9815, (3479, 3123, 3213)),
    ("mnli", "train", 9888, (3213, 3326, 3349)),
    ("qqp", "train", 22244, (14130, 8114)),
    ("qqp", "validation", 10000, (5000, 5000)),
    ("qqp", "test", 10000, (5000, 5000)),
    ("snli", "validation", 9842, (3329, 3235, 3278)),
    ("snli", "test", 9824, (3368, 3219, 3237)),
    ("dream", "train", 6116, (1979, 2067, 2070)),
    ("dream", "validation", 2040, (652, 703, 685)),
    ("hellaswag", "validation", 10042, (2515, 2485, 2584, 2458)),
    ("wnut17", "train", 3394, None),
    ("wnut17", "validation", 1009, None),
    ("advglue-sst2", "validation", 148, (72, 76)),
    ("advglue-qqp", "validation", 78, (46, 32)),
    ("advglue-mnli", "validation", 121, (32, 39, 50)),
    ("advglue-mnli-mm", "validation", 162, (60, 45, 57)),
    ("advglue-qnli", "validation", 148, (74, 74)),
    ("advglue-rte", "validation", 81, (35, 46)),
    ("anli-r1", "validation", 1000, (334, 333, 333)),
    ("anli-r2", "validation", 1000, (334, 333, 333)),
    ("anli-r3", "validation", 1198, (402, 400, 396)),
    ("paws-qqp", "validation", 677, (486, 191)),
    ("hans", "validation=regenerated_validation", 30000, (15000, 15000)),
    ("ag_news", "test", 7600, (1900, 1900, 1900, 1900)),
    ("imdb", "test", 3000, (1502, 1498)),
    ("swag", "validation=sample", 11, (3, 1, 7, 0)),
]


@pytest.mark.parametrize(("name", "split", "rows", "classes"), REAL)
def test_real_sets_have_the_rows_of_their_readme(real_data, cache, name, split, rows, classes):
    split, _, file = split.partition("=")
    data = tasks.load(name, dir=real_data, cache_dir=cache, splits={split: file} if file else None)
    found = data.splits[split]
    assert len(found) == rows
    if classes:
        labels = found["label"][:]
        assert tuple(labels.count(number) for number in range(len(classes))) == classes


@pytest.mark.parametrize(("name", "kept"), [("imdb", 6000), ("ag_news", 10001)])
def test_a_made_development_set_loses_no_row(real_data, cache, name, kept):
    data = tasks.load(name, dir=real_data, cache_dir=cache)
    assert len(data.train) + len(data.validation) == kept


@pytest.mark.parametrize(
    ("name", "test_rows"),
    [("CoLA", 1063), ("MRPC", 1725), ("RTE", 3000), ("SST-2", 1821), ("STS-B", 1379), ("WNLI", 146)],
)
def test_glue_tables_equal_json_lines(real_data, cache, name, test_rows):
    tables = tasks.load(name, dir=real_data / "glue_tsv", cache_dir=cache)
    lines = tasks.load(name, dir=real_data, cache_dir=cache)
    for split in ("train", "validation"):
        assert tables.splits[split].features == lines.splits[split].features
        assert tables.splits[split][:] == lines.splits[split][:]
    assert len(tables.test) == test_rows
    assert set(tables.test["label"]) == {-1}


def test_qnli_table_equals_json_lines(real_data, cache):
    tables = tasks.load("qnli", dir=real_data / "glue_tsv", cache_dir=cache)
    assert tables.validation[:] == tasks.load("qnli", dir=real_data, cache_dir=cache).validation[:]


def test_every_question_of_a_dialogue(tmp_path):
    dialogues = [
        [["W: Hi.", "M: Hello."], [{"question": "Who?", "choice": ["a", "b", "c"], "answer": "b"}], "1-1"],
        [
            ["M: Bye."],
            [
                {"question": "What?", "choice": ["d", "e", "f"], "answer": "f"},
                {"question": "Why?", "choice": ["g", "h", "i"], "answer": "g"},
            ],
            "1-2",
        ],
    ]
    (tmp_path / "dev.json").write_text(json.dumps(dialogues))
    found = tasks.load("dream", dir=tmp_path, cache_dir=tmp_path / "cache").validation
    assert found["context"][:] == ["W: Hi. M: Hello.", "M: Bye.", "M: Bye."]
    assert found["question"][:] == ["Who?", "What?", "Why?"]
    assert found["label"][:] == [1, 2, 0]
    assert found["dialogue_id"][:] == ["1-1", "1-2", "1-2"]


def test_an_answer_in_digits_is_the_answer_and_not_its_number(tmp_path):
    questions = [
        {"question": "How many?", "choice": ["1", "2", "3"], "answer": "2"},
        {"question": "When?", "choice": ["1945", "1950", "1960"], "answer": "1950"},
    ]
    (tmp_path / "dev.json").write_text(json.dumps([[["W: Hi."], questions, "1-1"]]))
    assert tasks.load("dream", dir=tmp_path, cache_dir=tmp_path / "cache").validation["label"][:] == [1, 1]
    write_jsonl(tmp_path / "dev.jsonl", [{"dialogue": "d", "choice": ["1", "2", "3"], "label": "2"}])
    (tmp_path / "dev.json").unlink()
    assert tasks.load("dream", dir=tmp_path, cache_dir=tmp_path / "cache").validation["label"][:] == [2]


@pytest.mark.parametrize(("column", "gap"), [("gold_label", "-"), ("label", -1)])
def test_rows_nobody_could_label_are_in_no_split(tmp_path, column, gap):
    labels = ["neutral", gap, "entailment"]
    rows = [{"sentence1": "p", "sentence2": f"h{n}", column: label} for n, label in enumerate(labels)]
    for split in ("train", "dev", "test"):
        write_jsonl(tmp_path / f"{split}.jsonl", rows)
    data = tasks.load("snli", dir=tmp_path, cache_dir=tmp_path / "cache")
    assert [split["label"][:] for split in data.splits.values()] == [[1, 0]] * 3
    assert "test: 1 row left out (no label)" in data.notes


def test_the_authors_files_of_swag_and_hellaswag(tmp_path):
    swag = tmp_path / "swag"
    swag.mkdir()
    names = [
        "",
        "video-id",
        "fold-ind",
        "startphrase",
        "sent1",
        "sent2",
        "gold-source",
        *(f"ending{n}" for n in range(4)),
        "label",
    ]
    with (swag / "val.csv").open("w", newline="") as file:
        csv.writer(file).writerows(
            [names, ["0", "v", "1", "A. He", "A.", "He", "gold", "w, x", "y", "z", 'q "r"', "3"]]
        )
    found = tasks.load("swag", dir=tmp_path, cache_dir=tmp_path / "cache").validation
    assert found[0] == {"context": "A.", "question": "He", "choices": ["w, x", "y", "z", 'q "r"'], "label": 3}
    hella = tmp_path / "hellaswag"
    hella.mkdir()
    row = {"ind": 4, "activity_label": "Roof", "ctx_a": "A.", "ctx_b": "he", "ctx": "A. he", "endings": list("wxyz")}
    write_jsonl(hella / "hellaswag_val.jsonl", [{**row, "label": 2}])
    write_jsonl(hella / "hellaswag_test.jsonl", [row])
    data = tasks.load("hellaswag", dir=tmp_path, cache_dir=tmp_path / "cache")
    assert data.validation[0]["context"] == "A. he"
    assert data.validation[0]["label"] == 2
    assert data.test["label"][:] == [-1]


@pytest.mark.parametrize("cut", ["\t", " "])
def test_comments_as_wide_as_the_table_are_no_words(tmp_path, cut):
    rows = [["EU", "NNP", "B-NP", "B-ORG"], ["#", "#", "B-NP", "O"]]
    table = "\n".join(cut.join(row) for row in rows)
    (tmp_path / "dev.conll").write_text(f"# newdoc\n# sent_id = 1\n{table}\n\n# sent_id = 2\n{table}\n")
    found = tasks.load("conll2003", dir=tmp_path, cache_dir=tmp_path / "cache").validation
    assert found["tokens"][:] == [["EU", "#"]] * 2


def test_the_conll_files(tmp_path):
    folder = tmp_path / "conll03"
    folder.mkdir()
    (folder / "eng.testa").write_text("-DOCSTART- -X- O O\n\nEU NNP I-NP I-ORG\nin IN O O\n\nParis NNP I-NP I-LOC\n")
    found = tasks.load("conll2003", dir=tmp_path, cache_dir=tmp_path / "cache")
    assert found.validation["tokens"][:] == [["EU", "in"], ["Paris"]]
    assert found.validation["label"][:] == [[3, 0], [5]]
    assert any("IOB1" in note for note in found.notes)


def test_conll_in_a_text_file(tmp_path):
    folder = tmp_path / "ptb"
    folder.mkdir()
    (folder / "train.txt").write_text("The DT\ndog NN\n( (\n\nbarks VBZ\nloud RB\n")
    found = tasks.load("ptb", dir=tmp_path, cache_dir=tmp_path / "cache", validation_share=0.5)
    tags = [tag for split in (found.train, found.validation) for row in split["label"] for tag in row]
    assert sorted(found.task.labels[tag] for tag in tags) == ["-LRB-", "DT", "NN", "RB", "VBZ"]


def test_known_flaws_of_published_files_are_counted(tmp_path):
    folder = tmp_path / "SNLI"
    folder.mkdir()
    (folder / "dev.tsv").write_text(
        "index\tsentence1\tsentence2\tgold_label\n0\ta\tb\tneutral\n1\tc\td\t-\n2\tbroken\n3\te\tf\tcontradiction\textra\n"
    )
    found = tasks.load("snli", dir=tmp_path, cache_dir=tmp_path / "cache")
    assert found.validation["label"][:] == [1, 2]
    assert "validation: 1 row left out (no label)" in found.notes
    assert "validation: 1 row left out (ragged row)" in found.notes


def hub(monkeypatch, tables):
    """Stand in for the Hub: (id, config, split) -> table."""
    import datasets

    asked = []

    def load_dataset(path, name=None, *, split, streaming=False, data_dir=None, revision=None):
        asked.append((path, name or data_dir, split, revision))
        found = tables[split]
        return found.to_iterable_dataset() if streaming else found

    monkeypatch.setattr(datasets, "load_dataset", load_dataset)
    return asked


def test_a_set_of_the_hub(monkeypatch, real_data, cache):
    import datasets

    names = datasets.ClassLabel(names=["entailment", "not_entailment"])
    columns = datasets.Features(
        {
            "sentence1": datasets.Value("string"),
            "sentence2": datasets.Value("string"),
            "label": names,
            "idx": datasets.Value("int32"),
        }
    )
    local = tasks.load("rte", dir=real_data, cache_dir=cache)
    tables = {
        split: datasets.Dataset.from_list([{**row, "idx": n} for n, row in enumerate(rows)], features=columns)
        for split, rows in {**local.splits, "test": local.validation}.items()
    }
    asked = hub(monkeypatch, tables)
    found = tasks.load("RTE")
    assert asked[0] == ("nyu-mll/glue", "rte", "train", None)
    assert found.train.features == local.train.features
    assert found.train[:] == local.train[:]
    assert found.validation[:] == local.validation[:]


def test_the_hubs_class_names_count_and_not_their_order(monkeypatch):
    import datasets

    other = datasets.ClassLabel(names=["contradiction", "entailment", "neutral"])
    columns = datasets.Features(
        {"premise": datasets.Value("string"), "hypothesis": datasets.Value("string"), "label": other}
    )
    rows = [{"premise": "p", "hypothesis": "h", "label": number} for number in (0, 1, 2, -1)]
    table = datasets.Dataset.from_list(rows, features=columns)
    hub(monkeypatch, dict.fromkeys(("train", "validation", "test"), table))
    found = tasks.load("snli")
    assert found.train["label"][:] == [2, 0, 1]
    assert found.test["label"][:] == [2, 0, 1]  # nobody could label the fourth: it cannot be scored
    assert "train: 1 row left out (no label)" in found.notes


def test_multiple_choice_and_tokens_of_the_hub(monkeypatch):
    import datasets

    rows = [{"id": "1", "tokens": ["EU", "in"], "pos_tags": [1, 2], "ner_tags": [3, 0]}]
    columns = datasets.Features(
        {
            "id": datasets.Value("string"),
            "tokens": datasets.List(datasets.Value("string")),
            "pos_tags": datasets.List(datasets.Value("int64")),
            "ner_tags": datasets.List(
                datasets.ClassLabel(
                    names=["O", "B-PER", "I-PER", "B-ORG", "I-ORG", "B-LOC", "I-LOC", "B-MISC", "I-MISC"]
                )
            ),
        }
    )
    table = datasets.Dataset.from_list(rows, features=columns)
    asked = hub(monkeypatch, dict.fromkeys(("train", "validation", "test"), table))
    assert tasks.load("conll2003").validation[:] == {"tokens": [["EU", "in"]], "label": [[3, 0]]}
    assert asked[0] == ("eriktks/conll2003", "conll2003", "train", "refs/convert/parquet")
    table = datasets.Dataset.from_list(
        [
            {
                "id": 0,
                "dialogue_id": "1",
                "dialogue": ["a", "b"],
                "question": "q",
                "choice": ["x", "y", "z"],
                "answer": "z",
            }
        ]
    )
    hub(monkeypatch, dict.fromkeys(("train", "validation", "test"), table))
    expected = {"context": "a b", "question": "q", "choices": ["x", "y", "z"], "label": 2, "dialogue_id": "1"}
    assert tasks.load("dream").validation[0] == expected
    assert next(iter(tasks.load("dream", streaming=True).validation)) == expected


@pytest.mark.parametrize("offline", [False, True])
def test_without_a_network_the_way_out_is_named(offline, monkeypatch, tmp_path):
    def unreachable(*_, **__):
        raise ConnectionError

    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", offline)
    monkeypatch.setattr("datasets.load_dataset", unreachable)
    start = r"^nyu-mll/glue cannot be reached on the Hub \(ConnectionError\); "
    if offline:
        start = r"^nyu-mll/glue cannot be reached on the Hub \(HF_HUB_OFFLINE is set\); unset it, or "
    ways = (
        r"on a machine with network run: toughen tasks fetch sst2 --to FOLDER, .*fetch\(\[\"sst2\"\].*--data.dir FOLDER"
    )
    with pytest.raises(tasks.DataError, match=start + ways):
        tasks.load("sst2")
    with pytest.raises(tasks.DataError, match=f"{start}fetch sst2 on a machine with network and copy"):
        tasks.fetch(["sst2"], tmp_path)  # where it failed, it is no way out
    with pytest.raises(tasks.DataError, match=r"PAWS-QQP is not on the Hub.*dir="):
        tasks.load("paws-qqp")


def test_further_columns_are_kept_where_they_are(tmp_path):
    rows = [{"premise": "p", "hypothesis": "h", "label": 1, "heuristic": "overlap", "other": 3}]
    write_jsonl(tmp_path / "validation.jsonl", rows)
    for streaming in (False, True):
        found = tasks.load("hans", dir=tmp_path, cache_dir=tmp_path / "cache", streaming=streaming).validation
        assert list(found) == [{"premise": "p", "hypothesis": "h", "label": 1, "heuristic": "overlap"}]
