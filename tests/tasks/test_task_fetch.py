"""Sets saved to disk and read back; the zip for GLUE's server."""

import json
import zipfile

import pytest

from toughen import tasks
from toughen.tasks.catalog import GLUE
from toughen.tasks.catalog import GLUE_TEST_ROWS as ROWS
from toughen.tasks.download import file_name


def rows_for(task, split):
    """Six rows that are hard on a table: quotes, other scripts, breaks."""
    texts = ['say "no', '"', "naïve 東京", "a  b ", "x's", "#"]
    for number, text in enumerate(texts):
        row = {column: f"{text} {column}" for column in task.columns}
        if task.head == "regression":
            row["label"] = -1.0 if split == "test" else number / 2
        elif task.head == "tokens":
            row = {"tokens": text.split() or ["x"], "label": [number % 2] * len(text.split() or "x")}
        elif task.head == "choices":
            row["choices"] = [f"{text} {n}" for n in range(len(task.labels))]
            row["label"] = number % len(task.labels)
        else:
            row["label"] = -1 if split == "test" else number % len(task.labels)
        yield row


class Hub:
    """Stands in for the network; can break down."""

    def __init__(self, fail_at=None):
        self.asked, self.fail_at = [], fail_at

    def __call__(self, task, split):
        self.asked.append((task.name, split))
        if len(self.asked) == self.fail_at:
            raise ConnectionError("gone")
        return rows_for(task, split)


@pytest.mark.parametrize("layout", ["jsonl", "glue"])
def test_glue_is_fetched_and_read_back(tmp_path, layout):
    manifest = tasks.fetch(["glue"], tmp_path / "sets", layout, download=Hub())
    assert len(manifest) == 8 * 3 + 3 + 2 + 1
    assert tasks.verify(tmp_path / "sets") == []
    for name in GLUE:
        task = tasks.task(name)
        data = tasks.load(name, dir=tmp_path / "sets", cache_dir=tmp_path / "cache")
        assert set(data.splits) == set(task.splits)
        for split, found in data.splits.items():
            assert list(found) == list(rows_for(task, split)), (name, split)


def test_other_sets_are_fetched_as_json_lines(tmp_path):
    names = ["wnut17", "dream", "advglue-sst2", "advglue-rte", "hans", "imdb"]
    tasks.fetch(names, tmp_path / "sets", download=Hub())
    for name in names:
        task = tasks.task(name)
        data = tasks.load(name, dir=tmp_path / "sets", cache_dir=tmp_path / "cache", validation_share=0.5)
        for split in task.splits:
            if split == "train" and "validation" not in task.splits:
                continue
            found = data.splits[split].select_columns([*task.columns, "label"])
            assert list(found) == list(rows_for(task, split)), (name, split)
    with pytest.raises(tasks.DataError, match="no GLUE set"):
        tasks.fetch(["imdb"], tmp_path, "glue")


def test_fetching_goes_on_where_it_stopped(tmp_path):
    broken = Hub(fail_at=3)
    with pytest.raises(ConnectionError):
        tasks.fetch(["rte"], tmp_path, download=broken)
    assert not list(tmp_path.rglob(".*"))
    whole = Hub()
    told = []
    tasks.fetch(["rte"], tmp_path, download=whole, tell=told.append)
    assert whole.asked == [("rte", "test")]
    assert told == ["rte/test.jsonl.gz: 6 rows"]
    (tmp_path / "rte" / "train.jsonl.gz").write_bytes(b"altered")
    assert tasks.verify(tmp_path) == ["rte/train.jsonl.gz"]
    again = Hub()
    tasks.fetch(["rte"], tmp_path, download=again)
    assert again.asked == [("rte", "train")]
    assert tasks.verify(tmp_path) == []


def test_the_same_rows_have_the_same_checksum(tmp_path):
    one = tasks.fetch(["rte"], tmp_path / "a", download=Hub())
    assert one == tasks.fetch(["rte"], tmp_path / "b", download=Hub())
    assert json.loads((tmp_path / "a" / "manifest.json").read_text()) == one
    (tmp_path / "a" / "manifest.json").write_text("{")
    with pytest.raises(tasks.DataError, match=r"manifest\.json is not JSON; remove it"):
        tasks.fetch(["rte"], tmp_path / "a", download=Hub())


def test_the_original_names():
    names = {file_name(tasks.task(name), split, "glue") for name in GLUE for split in tasks.task(name).splits}
    assert {
        "CoLA/train.tsv",
        "STS-B/dev.tsv",
        "MNLI/dev_mismatched.tsv",
        "MNLI/train.tsv",
        "diagnostic/diagnostic.tsv",
    } <= names


@pytest.fixture(scope="module")
def predictions():
    return {name: [row % 2 for row in range(rows)] for name, rows in ROWS.items()}


def test_a_submission(tmp_path, predictions):
    given = {**predictions, "stsb": [2.34567, *([7.5] * 1378)], "rte": ["entailment"] * 3000}
    done = tasks.submission(given, tmp_path / "out" / "glue.zip")
    assert str(done).endswith("11 of 11 files")
    with zipfile.ZipFile(done.path) as archive:
        tables = {name: archive.read(name).decode().splitlines() for name in archive.namelist()}
    assert set(tables) == {
        *("CoLA.tsv", "SST-2.tsv", "MRPC.tsv", "STS-B.tsv", "QQP.tsv", "MNLI-m.tsv", "MNLI-mm.tsv"),
        *("QNLI.tsv", "RTE.tsv", "WNLI.tsv", "AX.tsv"),
    }
    assert {lines[0] for lines in tables.values()} == {"index\tprediction"}
    assert len(tables["QQP.tsv"]) == 390966
    assert tables["MNLI-m.tsv"][1:3] == ["0\tentailment", "1\tneutral"]
    assert tables["QNLI.tsv"][2] == "1\tnot_entailment"
    assert tables["RTE.tsv"][2] == "1\tentailment"
    assert tables["AX.tsv"][2] == "1\tneutral"
    assert tables["CoLA.tsv"][2] == tables["WNLI.tsv"][2] == tables["QQP.tsv"][2] == "1\t1"
    assert tables["STS-B.tsv"][1:3] == ["0\t2.346", "1\t5.000"]


def test_all_faults_are_named_and_nothing_is_written(tmp_path, predictions):
    given = {name: values for name, values in predictions.items() if name not in ("qqp", "ax")}
    given["cola"] = given["cola"][:-1]
    given["rte"] = [*given["rte"][:-1], 2]
    given["stsb"] = [float("nan"), *given["stsb"][1:]]
    given["imdb"] = [0]
    with pytest.raises(tasks.DataError) as caught:
        tasks.submission(given, tmp_path / "glue.zip")
    for said in (
        "imdb is no GLUE task",
        "missing: QQP.tsv, AX.tsv",
        "CoLA has 1,062 predictions, its test set 1,063 rows",
        "RTE, row 2999: 2 is none of entailment, not_entailment",
        "STS-B, row 0: nan is not a number",
    ):
        assert said in str(caught.value)
    assert not list(tmp_path.iterdir())


def test_a_part_of_a_submission(tmp_path, predictions):
    done = tasks.submission({"RTE": predictions["rte"]}, tmp_path / "glue.zip", partial=True)
    assert done.files == ("RTE.tsv",)
    assert len(done.missing) == 10
    assert "missing: CoLA.tsv" in str(done)
