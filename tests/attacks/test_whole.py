"""`evaluate(..., attack=...)` and the command: models on disk, several at once, sets, pairs."""

import json
import shutil
from argparse import ArgumentParser
from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest
import torch
import yaml
from transformers import AutoConfig

from toughen.attacks.base import Outcome, attack_classes, attack_options
from toughen.attacks.builtin.sets import fitting
from toughen.attacks.runner import AttackResult
from toughen.attacks.summary import AttackSummary, Group, Point, Score
from toughen.attacks.target import predict, proportion_ci
from toughen.attacks.victim import Victim
from toughen.cli.attack_tables import print_attacks, reference_of
from toughen.cli.commands import evaluate as command
from toughen.cli.main import main
from toughen.evaluation import (
    AttackSettings,
    Budget,
    Target,
    differences,
    evaluate,
    make_attacks,
    measure,
    outputs_of,
    run_attack,
    seed_scores,
)
from toughen.evaluation.measures import text_slices
from toughen.evaluation.outputs import Outputs
from toughen.internal.atomic import write_json
from toughen.statistics import mcnemar
from toughen.tasks import auto_class, load, metrics, task
from toughen.tasks.spec import DataError, Task

from ..evaluation.test_evaluate import NAMES, save_model
from ..reports.samples import make_run
from ..tiny import NO_DROPOUT, SMALL, TOKENIZER, bert
from .little_target import TASK, sentences

FEW = AttackSettings(budget=Budget(30, 0.5), keep=(), radii=(0.05, 0.2), steps=3, strengths=(0.5, 1.0))


def write_rows(path, rows):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return path


@pytest.fixture
def file(tmp_path):
    """Texts with the labels that one of the models gives them."""
    net = save_model(tmp_path / "labels", seed=0)
    from transformers import BertForSequenceClassification

    model = BertForSequenceClassification.from_pretrained(net).eval()
    rows = []
    for text in sentences(20):
        with torch.no_grad():
            answer = int(model(**TOKENIZER(text, return_tensors="pt", return_token_type_ids=False)).logits.argmax())
        rows.append({"text": text, "label": NAMES[answer]})
    return write_rows(tmp_path / "own.jsonl", rows)


@pytest.fixture
def run(tmp_path, file):
    folder = make_run(tmp_path / "own-smart", scores=(0.5, 0.6))
    save_model(folder / "model", seed=0)
    for seed in (1, 2):
        save_model(folder / "seeds" / str(seed) / "model", seed=seed)
        save_model(folder / "baseline" / str(seed) / "model", seed=seed + 2)
    data = {
        "train_file": str(file),
        "validation_file": str(file),
        "max_length": 16,
        "cache_dir": str(tmp_path / "cache"),
    }
    (folder / "config.yaml").write_text(yaml.safe_dump({"task": None, "data": data}))
    return folder


def test_a_run_under_attack(run):
    (found,) = evaluate(run, attack="characters,embedding,noise", settings=FEW, samples=50)
    assert found.score == 1.0
    assert [each.name for each in found.attacks] == ["characters", "embedding", "noise"]
    names = {path.name for path in (run / "attacks").iterdir()}
    assert names == {
        *("characters.json", "characters.jsonl", "embedding.json", "embedding.rows.jsonl"),
        *("noise.json", "noise.rows.jsonl"),
    }
    for each in found.attacks:
        told = json.loads((run / "attacks" / f"{each.name}.json").read_text())
        assert told["clean"]["value"] == 1.0
        assert (told["task"], told["split"], told["label"], told["rows"]) == ("own", "validation", "", 20)
        assert told["model"].endswith("model")
        fields = "toughen kind attack title task split model label rows seed metric settings seconds clean curve"
        assert set(f"{fields} attacked groups notes".split()) <= set(told)
    evaluation = json.loads((run / "evaluations" / "validation.json").read_text())
    assert "attacks" not in evaluation
    assert found.attacks[0].score < 0.7
    # nothing is left on disk where nothing is to be written
    (other,) = evaluate(run, attack="characters", settings=FEW, samples=50, split="train", write=False)
    assert other.attacks[0].summary.attacked.accuracy == found.attacks[0].summary.attacked.accuracy
    assert {path.name for path in (run / "attacks").iterdir()} == names


def test_the_names_of_files_say_split_and_seed(run, file):
    few = AttackSettings(strengths=(1.0,), noise=("typos",))
    evaluate(run, attack="noise", settings=few, samples=20, split="train")
    evaluate(run, attack="noise", settings=few, samples=20, file=file)
    evaluate(run, attack="noise", settings=few, samples=20, all_seeds=True)
    names = {path.name for path in (run / "attacks").glob("*[a-z0-9].json")}
    seeds = {f"noise-{arm}-{seed}.json" for arm in ("seed", "baseline") for seed in (1, 2)}
    assert names == {"noise-train.json", "noise-own.json", *seeds}


def test_a_look_at_a_few_rows_leaves_whole_results_alone(run):
    few = AttackSettings(strengths=(1.0,), noise=("typos",))
    (whole,) = evaluate(run, attack="noise", settings=few, samples=20, limit=100)  # more than there are
    before = {path: path.read_bytes() for path in run.glob("*/*.json*")}
    (found,) = evaluate(run, attack="noise", settings=few, samples=20, limit=7)
    assert (whole.name, whole.rows, whole.attacks[0].name) == ("validation", 20, "noise")
    assert (found.name, found.rows, found.attacks[0].name) == ("validation-limit-7", 7, "noise-validation-limit-7")
    assert {path: path.read_bytes() for path in before} == before
    assert (run / "evaluations" / "validation-limit-7.json").is_file()
    assert (run / "attacks" / "noise-validation-limit-7.rows.jsonl").is_file()
    seeds = evaluate(run, samples=20, limit=7, all_seeds=True, write=False)
    assert seeds[0].name == "validation-limit-7-seed-1"  # the label stays last: it tells seeds apart


def test_the_victim_says_what_evaluate_says(run, file, tmp_path):
    """Two roads to the same logits: texts one by one through a victim, rows through `outputs_of`."""
    data = load(validation_file=file, labels=NAMES, cache_dir=tmp_path / "cache")
    net = bert(torch.float32).eval()
    theirs = outputs_of(net, TOKENIZER, data.task, data.validation, max_length=16)
    ours = Victim(net, TOKENIZER, data.task, max_length=16, batch_size=3).exact([dict(row) for row in data.validation])
    np.testing.assert_allclose(ours, theirs.logits, atol=1e-5)


def test_the_command(run, file, capsys, monkeypatch, tmp_path):
    monkeypatch.setenv("COLUMNS", "220")
    parser = ArgumentParser()
    command.add(parser)
    other = save_model(tmp_path / "other", seed=5)
    flags = ["--attack", "characters,embedding", "--queries", "20", "--keep", "none", "--radii", "0.1", "--steps", "2"]
    assert command.run(parser.parse_args([str(run), str(other), "--file", str(file), *flags])) == 0
    printed = capsys.readouterr().out
    for word in ("after (95 % interval)", "PGD (95 % interval)", "random noise", "p McNemar", "radius 0.1", "success"):
        assert word in printed, word
    assert f"paired differences: {other} · own less {run} · own\n" in printed
    monkeypatch.setenv("COLUMNS", "80")
    monkeypatch.chdir(run)
    assert command.run(parser.parse_args(["model", str(other), "--file", str(file), *flags])) == 0
    narrow = capsys.readouterr().out
    for word in (
        "model · own",
        " characters ",
        " success ",
        "difference (95 % interval)",
        " bootstrap ",
        " radius 0.1 ",
    ):
        assert word in narrow, narrow  # whole, and not a letter a line
    monkeypatch.setenv("COLUMNS", "220")
    assert command.run(parser.parse_args([str(run), str(other), "--file", str(file), "--json", *flags])) == 0
    one, two = json.loads(capsys.readouterr().out)
    assert [each["attack"] for each in one["attacks"]] == ["characters", "embedding"]
    assert one["attacks"][0]["settings"]["queries"] == 20
    pairs = {(each["attack"], each["point"]): each for each in two["differences"]}
    assert pairs["characters", "after"]["second"] == one["attacks"][0]["attacked"]["accuracy"]["value"]
    assert command.run(parser.parse_args([str(run), "--all_seeds", *flags])) == 0
    printed = capsys.readouterr().out
    assert "means over seeds" in printed
    assert "plain" in printed
    assert "±" in printed


def test_errors_are_one_line(run, capsys):
    assert main(["evaluate", str(run), "--attack", "charcters"]) == 2
    told = capsys.readouterr().err
    assert told == "toughen: attack: there is no 'charcters'. Did you mean 'characters'?\n"
    assert main(["evaluate", str(run), "--attack", "sets"]) == 2
    assert "no set is known" in capsys.readouterr().err
    assert main(["evaluate", str(run), "--attack", "characters", "--words", "30"]) == 2
    assert "not a share" in capsys.readouterr().err


def test_all_leaves_out_what_does_not_fit(run, capsys, monkeypatch):
    monkeypatch.setattr("toughen.text.synonyms.installed_wordnet", lambda: None)
    few = AttackSettings(**{**FEW.options, "queries": 5})
    (found,) = evaluate(run, attack="all", settings=few, samples=20, progress=True, limit=6)
    assert [each.summary.attack for each in found.attacks] == [
        *("casing", "characters", "embedding", "flips", "neighbours", "noise", "obfuscation")
    ]
    told = capsys.readouterr().err
    assert "left out: no synonyms" in told
    assert "left out: no set is known" in told


def test_all_fits_multiple_choice(tmp_path, capsys):
    config = AutoConfig.for_model("bert", **{**SMALL, "num_labels": 1})
    auto_class(task("dream")).from_config(config).save_pretrained(tmp_path / "model")
    TOKENIZER.save_pretrained(tmp_path / "model")
    rows = [{"context": a, "choices": [b, c], "label": 0} for a, b, c in zip(*[iter(sentences(12))] * 3, strict=True)]
    file = write_rows(tmp_path / "which.jsonl", rows)
    few = AttackSettings(**{**FEW.options, "queries": 5})
    (found,) = evaluate(tmp_path / "model", file=file, attack="all", settings=few, samples=20, progress=True)
    assert "flips" not in [each.summary.attack for each in found.attacks]
    assert "characters" in [each.summary.attack for each in found.attacks]
    assert "left out: attack 'flips' reads one text or a pair" in capsys.readouterr().err
    with pytest.raises(DataError, match="attack 'flips' reads one text or a pair"):
        evaluate(tmp_path / "model", file=file, attack="flips", settings=few, samples=20)
    assert not (tmp_path / "model" / "attacks" / "flips-which.jsonl.part").exists()


def test_an_interrupt_is_told(run, capsys, monkeypatch):
    import toughen.evaluation

    def interrupted(*args, **named):
        raise KeyboardInterrupt

    monkeypatch.setattr(toughen.evaluation, "evaluate", interrupted, raising=False)
    assert main(["evaluate", str(run), "--attack", "noise"]) == 130
    assert "run the same command to continue" in capsys.readouterr().err


def test_the_defaults_of_the_command_are_those_of_the_settings():
    parser = ArgumentParser()
    command.add(parser)
    given = vars(parser.parse_args(["x"]))
    flags = [each.flag for each in attack_options().values() if each.flag]
    assert {given[flag] for flag in (*flags, "precision")} == {None}
    told = " ".join(parser.format_help().split())
    for name in ("embedding", "noise"):
        (attack,) = make_attacks(name)
        values = attack.radii if name == "embedding" else attack.strengths
        assert f"(default: {','.join(f'{value:g}' for value in values)})" in told
    for name, attack in attack_classes().items():
        assert f" {name} {str(attack.__doc__).partition(chr(10))[0]}" in told


def nli_model(folder, labels):
    return save_model(folder, labels, seed=7)


@pytest.fixture
def sets(tmp_path):
    pair = {"premise": "w5 w6 w7", "hypothesis": "w8 w9"}
    folder = tmp_path / "data"
    rows = [
        {**pair, "premise": f"w{5 + i} w{60 - i}", "label": i % 2, "heuristic": "ab"[i // 4 % 2], "template": f"t{i}"}
        for i in range(16)
    ]  # as many templates as rows: no groups
    write_rows(folder / "hans" / "validation.jsonl", rows)
    rows = [{**pair, "hypothesis": f"w{5 + i} w{60 - i}", "label": i % 3} for i in range(12)]
    write_rows(folder / "anli" / "dev_r1.jsonl", rows)
    write_rows(folder / "mnli_stress" / "m_negation.jsonl", rows)
    write_rows(folder / "mnli" / "validation_matched.jsonl", rows)
    glue = [{"sentence1": row["premise"], "sentence2": row["hypothesis"], "label": i % 2} for i, row in enumerate(rows)]
    write_rows(folder / "rte" / "validation.jsonl", glue)
    return folder


def test_sets_of_a_three_class_model(sets, tmp_path, monkeypatch):
    monkeypatch.setenv("HF_DATASETS_CACHE", str(tmp_path / "cache"))
    model = nli_model(tmp_path / "m", ("entailment", "neutral", "contradiction"))
    (found,) = evaluate(model, task="mnli", dir=sets, attack="sets", samples=20)
    told = found.attacks[0].summary
    groups = {group.name: group.points[0] for group in told.groups}
    assert list(groups) == ["ANLI-R1", "HANS", "HANS, heuristic a", "HANS, heuristic b", "Stress-negation"]
    assert [groups[name].rows for name in groups] == [12, 16, 8, 8, 12]
    (alone,) = evaluate(model, task="hans", dir=sets, samples=20, write=False)
    assert groups["HANS"].score.value == alone.score
    by = {part["name"]: part["accuracy"] for part in alone.slices["heuristic"]}
    assert {"a": groups["HANS, heuristic a"].score.value, "b": groups["HANS, heuristic b"].score.value} == by
    assert told.notes[0].startswith("not found: advglue-mnli (")
    assert told.kind == "set"


def test_sets_of_a_two_class_model(sets, tmp_path):
    model = nli_model(tmp_path / "m", ("entailment", "not_entailment"))
    (found,) = evaluate(model, task="rte", dir=sets, attack="sets", samples=20)
    groups = {group.name: group.points[0] for group in found.attacks[0].summary.groups}
    (three,) = evaluate(nli_model(tmp_path / "n", ("entailment", "neutral", "contradiction")), task="mnli", dir=sets)
    assert three.rows == 12
    rows = [json.loads(line) for line in (sets / "anli" / "dev_r1.jsonl").read_text().splitlines()]
    victim = Victim(*_loaded(model), task("rte"), max_length=16)
    pairs = [{"sentence1": row["premise"], "sentence2": row["hypothesis"]} for row in rows]
    right = victim.exact(pairs).argmax(-1) == [min(row["label"], 1) for row in rows]
    assert groups["ANLI-R1"].score.value == right.mean()


def _loaded(folder):
    from transformers import AutoModelForSequenceClassification, PreTrainedTokenizerFast

    net = AutoModelForSequenceClassification.from_pretrained(folder).eval()
    return net, PreTrainedTokenizerFast.from_pretrained(folder)


def test_a_file_is_a_set_too(run, file, tmp_path):
    own = write_rows(tmp_path / "hard.jsonl", [json.loads(line) for line in file.read_text().splitlines()][:7])
    settings = AttackSettings(sets=(str(own),))
    (found,) = evaluate(run, attack="sets", settings=settings, samples=20)
    (group,) = found.attacks[0].summary.groups
    assert (group.name, group.points[0].rows, group.points[0].score.value) == ("hard.jsonl", 7, 1.0)
    other = write_rows(tmp_path / "b" / "hard.jsonl", [json.loads(line) for line in file.read_text().splitlines()][:3])
    (found,) = evaluate(run, attack="sets", settings=AttackSettings(sets=(str(own), str(other))), samples=20)
    groups = {group.name: group.points[0].rows for group in found.attacks[0].summary.groups}
    assert groups == {str(own): 7, str(other): 3}
    assert found.attacks[0].outcomes.keys() == groups.keys()
    with pytest.raises(DataError, match="'nosuchset' is neither a file nor a set"):
        evaluate(run, attack="sets", settings=AttackSettings(sets=("nosuchset",)))


def test_a_set_is_read_as_the_runs_own_files_are(run, file, tmp_path):
    rows = [json.loads(line) for line in file.read_text().splitlines()]
    config = yaml.safe_load((run / "config.yaml").read_text())
    paths = [tmp_path / name for name in ("own.csv", "hard.csv", "other.csv")]
    for path, count, names in zip(paths, (20, 7, 5), ("body|stars", "body|stars", "words|right"), strict=True):
        lines = [f"{row['text']} é|{row['label']}" for row in rows[:count]]
        path.write_bytes("\n".join([names, *lines, ""]).encode("cp1252"))
    config["data"] |= {"train_file": str(paths[0]), "validation_file": str(paths[0]), "label_column": "stars"}
    config["data"] |= {"delimiter": "|", "encoding": "cp1252", "text_column": "body"}
    (run / "config.yaml").write_text(yaml.safe_dump(config))

    def score(path, **columns):
        settings = AttackSettings(sets=(str(path),))
        (found,) = evaluate(run, attack="sets", settings=settings, samples=20, **columns)
        (alone,) = evaluate(run, file=path, samples=20, write=False, **columns)
        (group,) = found.attacks[0].summary.groups
        assert (group.points[0].rows, group.points[0].score.value) == (alone.rows, alone.score)
        return alone.rows

    assert score(paths[1]) == 7
    paths[0].write_bytes(paths[0].read_bytes().replace(b"stars", b"score"))
    paths[1].write_bytes(paths[1].read_bytes().replace(b"stars", b"score"))
    del config["data"]["label_column"]  # found by its usual name
    (run / "config.yaml").write_text(yaml.safe_dump(config))
    assert score(paths[1]) == 7
    assert score(paths[2], text_column="words", label_column="right") == 5
    with pytest.raises(DataError, match=r"other\.csv, row 1: there is no column 'body'"):
        score(paths[2])


@pytest.mark.parametrize("head", ["tokens", "multilabel"])
def test_a_file_with_several_labels_a_row_is_a_set_too(tmp_path, head):
    tagged = head == "tokens"
    kind, column, metric = ("tokens", "tokens", "token_accuracy") if tagged else ("sentence", "text", "f1_micro")
    own = Task("own", "own", kind, head, (column,), ("O", "B-x", "I-x"), (metric,))
    config = AutoConfig.for_model("bert", **SMALL, **NO_DROPOUT)
    torch.manual_seed(0)
    victim = Victim(auto_class(own).from_config(config).eval(), TOKENIZER, own, max_length=32)
    texts = sentences(8)
    rows = [{"tokens": text.split(), "label": [0] * len(text.split())} if tagged else {"text": text} for text in texts]
    said = predict(victim, rows)
    written = []
    for row, answers in zip(rows, said, strict=True):
        names = [own.labels[a] for a in answers] if tagged else [own.labels[i] for i, on in enumerate(answers) if on]
        written.append({**row, "label": names})
    wrong = written[0]["label"]
    written[0]["label"] = ["I-x" if x == "O" else "O" for x in wrong] if tagged else sorted({*own.labels} - {*wrong})
    path = write_rows(tmp_path / "hard.jsonl", written)
    (attack,) = make_attacks("sets", AttackSettings(sets=(str(path),)))
    (group,) = run_attack(attack, Target(victim, rows, said, said, samples=20)).summary.groups
    told = [[own.labels.index(name) for name in row["label"]] for row in written]
    if not tagged:
        told = [[int(number in each) for number in range(3)] for each in told]
    expected = metrics(own)(said if tagged else np.array(said), told if tagged else np.array(told))[own.primary_metric]
    assert (group.points[0].rows, group.points[0].score.value) == (8, pytest.approx(expected))
    assert expected < 1


def test_a_models_own_rows_are_no_set_that_tests_it(sets, tmp_path):
    model = nli_model(tmp_path / "m", ("entailment", "not_entailment"))
    (found,) = evaluate(model, task="rte", dir=sets / "rte", attack="sets", samples=20)
    told = found.attacks[0].summary
    assert (told.groups, told.rows) == ([], 0)
    assert "validation.jsonl there is of 'rte' itself" in told.notes[0]
    with pytest.raises(DataError, match="has no folder of 'advglue-rte'"):
        evaluate(model, task="rte", dir=sets / "rte", attack="sets", settings=AttackSettings(sets=("advglue-rte",)))
    three = nli_model(tmp_path / "n", ("entailment", "neutral", "contradiction"))
    (found,) = evaluate(three, task="hans", dir=sets / "hans", attack="sets", samples=20)
    assert list(found.attacks[0].outcomes) == ["HANS"]
    # A set of its own, in a folder beside or named outright, is read as before.
    shutil.copytree(sets / "rte", sets / "advglue")
    (found,) = evaluate(model, task="rte", dir=sets, attack="sets", samples=20)
    assert "AdvGLUE-RTE" in found.attacks[0].outcomes
    (found,) = evaluate(model, task="advglue-rte", dir=sets / "advglue", samples=20)
    assert found.rows == 12


def test_a_runs_own_rows_are_not_taken_for_another_set(sets, tmp_path):
    model = nli_model(tmp_path / "run" / "model", ("entailment", "not_entailment"))
    write_json(model.parent / "results.json", {"task": "rte"})
    (model.parent / "config.yaml").write_text(yaml.safe_dump({"task": "rte", "data": {"dir": str(sets / "rte")}}))
    with pytest.raises(DataError, match="has no folder of 'advglue-rte'"):
        evaluate(model.parent, task="advglue-rte", samples=20)
    (found,) = evaluate(model.parent, samples=20)
    assert found.rows == 12


def test_a_set_without_labels_is_not_scored(sets, tmp_path):
    write_rows(sets / "ax" / "test.jsonl", [{"premise": f"w{5 + i}", "hypothesis": "w6"} for i in range(6)])
    model = nli_model(tmp_path / "m", ("entailment", "neutral", "contradiction"))
    with pytest.raises(DataError, match="ax: the labels of its rows are withheld"):
        evaluate(model, task="mnli", dir=sets, attack="sets", settings=AttackSettings(sets=("ax",)), samples=20)


def test_a_set_that_came_later_is_seen(sets, tmp_path):
    model = nli_model(tmp_path / "m", ("entailment", "neutral", "contradiction"))
    (first,) = evaluate(model, task="mnli", dir=sets, attack="sets", samples=20)
    write_rows(sets / "advglue" / "mnli.jsonl", [{"premise": "w5", "hypothesis": "w6", "label": 1}])
    (second,) = evaluate(model, task="mnli", dir=sets, attack="sets", samples=20)
    assert set(second.attacks[0].outcomes) - set(first.attacks[0].outcomes) == {"AdvGLUE-MNLI"}
    (few,) = evaluate(model, task="mnli", dir=sets, attack="sets", samples=20, limit=5)
    assert {len(each.rows) for each in few.attacks[0].outcomes.values()} == {5, 1}


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("sst2", ["advglue-sst2"]),
        ("qqp", ["advglue-qqp", "paws-qqp"]),
        ("cola", []),
    ],
)
def test_sets_that_fit(name, expected):
    assert fitting(task(name)) == expected


def test_sets_that_fit_entailment():
    common = {"anli-r1", "anli-r2", "anli-r3", "hans", "stress-negation", "stress-spelling-swap"}
    assert common | {"advglue-mnli", "advglue-mnli-mm"} <= set(fitting(task("mnli")))
    assert common | {"advglue-rte"} <= set(fitting(task("rte")))
    assert not {"advglue-mnli", "mnli-mm", "ax"} & set(fitting(task("rte")))


def attacked(rights, name="characters"):
    summary = AttackSummary(name, name, name, "accuracy", len(rights), Score(0.9, 0.8, 1.0))
    return AttackResult(name, summary, TASK, {"after": Outcome(rights)})


def test_differences_are_paired():
    rng = np.random.default_rng(0)
    one = (rng.random(200) < 0.8).tolist()
    two = [right and bool(rng.random() < 0.8) for right in one]
    (found,) = differences([attacked(one)], [attacked(two)])
    assert found.difference == pytest.approx(np.mean(one) - np.mean(two))
    assert found.low < found.difference < found.high
    assert found.low > 0
    assert found.mcnemar == mcnemar(one, two, [True] * 200).p
    assert found.p < 0.01
    (same,) = differences([attacked(one)], [attacked(one)])
    assert (same.difference, same.mcnemar) == (0.0, None)
    with pytest.raises(ValueError, match="evaluate both on the same"):
        differences([attacked(one)], [attacked(two[:5])])
    table = seed_scores({1: [attacked(one)], 2: [attacked(two)]})
    assert table["characters", "after"] == {1: np.mean(one), 2: np.mean(two)}


def test_as_many_other_rows_make_no_pairs(file, tmp_path):
    """Runs that held out rows of their own, by their own seed, have as many of them and not the same."""
    net = save_model(tmp_path / "m", seed=1)
    lines = file.read_text().splitlines(keepends=True)
    names = ("first", "second", "again")
    for name, part in zip(names, (lines[:10], lines[10:], lines[:10]), strict=True):
        (tmp_path / f"{name}.jsonl").write_text("".join(part))
    one, two, same = (
        evaluate(net, file=tmp_path / f"{name}.jsonl", attack="noise", settings=FEW, samples=20, write=False)[0].attacks
        for name in names
    )
    with pytest.raises(ValueError, match="attacked on different rows"):
        differences(one, two)
    assert {each.difference for each in differences(one, same)} == {0.0}


def test_an_interval_of_yes_and_no_is_the_bootstrap_s():
    right = [True] * 30 + [False] * 70
    found = proportion_ci(right, 4000)
    drawn = np.random.default_rng(1).choice(right, (4000, 100)).mean(1)
    assert found.value == 0.3
    assert [found.low, found.high] == pytest.approx(np.quantile(drawn, [0.025, 0.975]).tolist(), abs=0.015)
    assert proportion_ci([], 10) is None


def test_negation_and_overlap_are_slices():
    rows = [
        {"premise": "the cat sat", "hypothesis": "the cat sat"},
        {"premise": "the cat sat", "hypothesis": "the dog did n't"},
        {"premise": "nothing here", "hypothesis": "far away"},
    ]
    found = text_slices(task("mnli"), rows)
    assert found["negation"] == ["without", "with", "with"]
    assert found["words of the second text in the first"] == ["over two thirds", "under a third", "under a third"]
    outputs = Outputs(np.eye(3), np.array([0, 1, 0]), np.array([3, 3, 3]))
    told = measure(task("mnli"), outputs, name="x", columns=found, samples=10)
    assert {part["name"]: part["accuracy"] for part in told.slices["negation"]} == {"without": 1.0, "with": 0.5}
    assert text_slices(task("conll2003"), [{"tokens": ["a"], "label": [0]}]) == {}


def test_tables_of_a_single_model(capsys, monkeypatch):
    monkeypatch.setenv("COLUMNS", "200")
    score = Score(0.5, 0.4, 0.6)
    groups = [Group("typos", [Point(0.0, score), Point(0.5, score)])]
    noise = attacked([True], "noise")
    summary = replace(noise.summary, groups=groups, clean=score, notes=["[b]as it is[/b]"])
    noise = replace(noise, summary=summary)
    evaluation = type("One", (), {"name": "validation", "attacks": (noise,)})()
    print_attacks([("runs/x", evaluation)])
    printed = capsys.readouterr().out
    assert "typos" in printed
    assert "[b]as it is[/b]" in printed
    assert printed.count("0.5000 (0.400 to 0.600)") == 1  # the clean point is a column, not a line


def test_each_run_is_held_against_its_own_plain_baseline(capsys, monkeypatch):
    monkeypatch.setenv("COLUMNS", "200")

    def of(path, name, right):
        return path, SimpleNamespace(name=name, attacks=(attacked([True] * right + [False] * (10 - right)),))

    evaluations = [
        *(of("a", f"seed-{seed}", 7 + seed) for seed in (1, 2)),
        *(of("a", f"baseline-{seed}", 4 + seed) for seed in (1, 2)),
        *(of("b", f"seed-{seed}", 3) for seed in (1, 2)),
        *(of("b", f"baseline-{seed}", seed) for seed in (1, 2)),
    ]
    print_attacks(evaluations)
    printed = capsys.readouterr().out
    assert "+0.3000" in printed  # robust less plain, as train and compare say it
    assert "+0.1500" in printed
    assert "own plain baseline" in printed
    found = [reference_of(path, each, evaluations) for path, each in evaluations]
    plain = [each for _, each in evaluations]
    assert found == [plain[2], plain[3], None, None, plain[6], plain[7], None, None]
    assert [reference_of(path, each, evaluations[:2]) for path, each in evaluations[:2]] == [None, plain[0]]


def test_weights_that_changed_are_another_model(run):
    few = AttackSettings(strengths=(1.0,), noise=("typos",))
    (first,) = evaluate(run, attack="noise", settings=few, samples=20)
    save_model(run / "model", seed=9)
    (second,) = evaluate(run, attack="noise", settings=few, samples=20)
    assert first.attacks[0].summary.key != second.attacks[0].summary.key
    assert first.attacks[0].outcomes != second.attacks[0].outcomes
    write_json(run / "attacks" / "noise.json", {"key": "other"})
    (third,) = evaluate(run, attack="noise", settings=few, samples=20)
    assert third.attacks[0].outcomes == second.attacks[0].outcomes
