"""Options: typed, nested, from YAML and flags; the chosen method's own; old flags in new words."""

from contextlib import redirect_stderr
from io import StringIO

import pytest
import yaml

from toughen import recipes
from toughen.cli.arguments import DATA_FLAGS, write_flags
from toughen.cli.old_flags import NEW, SWITCHES, predict_commands
from toughen.cli.parser import parse_train, split_arguments, train_parser
from toughen.errors import UsageError
from toughen.runs.config import GROUPS
from toughen.runs.config_io import build, to_yaml, trainer_options
from toughen.runs.errors import RunError
from toughen.runs.folder import RunFolder

BASE = ["--model", "m", "--task", "rte"]


def config(*words: str):
    return parse_train([*BASE, *words])[0]


def test_defaults_and_types():
    made = config("--train.epochs", "2", "--seed", "1,2,3", "--baseline", "--train.learning_rate", "3e-5")
    assert (made.train.epochs, made.seed, made.baseline, made.train.learning_rate) == (2.0, (1, 2, 3), True, 3e-5)
    assert made.method == {
        "name": "smart",
        "preset": "recommended",
        **dict.fromkeys(made.method.keys() - {"name", "preset"}),
    }


def test_flags_go_over_yaml_and_later_files_over_earlier(tmp_path):
    (tmp_path / "a.yaml").write_text(
        "method: {name: freelb, step_size: 0.1, steps: 2}\ntrain: {epochs: 5}\nseed: [4, 5]\n"
    )
    (tmp_path / "b.yaml").write_text("train:\n  epochs: 6\ndata:\n  # nothing but a comment\n")
    files = ["--config", str(tmp_path / "a.yaml"), f"-c={tmp_path}/b.yaml"]
    made = config(*files, "--method.step_size", "1e-3", "--data.limit=7")
    assert (made.method["step_size"], made.method["steps"], made.method_name) == (1e-3, 2, "freelb")
    assert (made.train.epochs, made.seed, made.data.limit) == (6.0, (4, 5), 7)


def test_numbers_without_a_point_are_numbers(tmp_path):
    (tmp_path / "a.yaml").write_text(
        "train: {learning_rate: 1e-5}\nmethod: {name: smart+rdrop, smart: {step_size: 3E-2}}\n"
    )
    made = config("--config", str(tmp_path / "a.yaml"))
    assert (made.train.learning_rate, made.method["smart"]["step_size"]) == (1e-5, 0.03)


def test_another_method_drops_the_settings_of_the_first(tmp_path):
    (tmp_path / "a.yaml").write_text("method: {name: freelb, norm: linf}\n")
    made = config("--config", str(tmp_path / "a.yaml"), "--method", "smart")
    assert "norm" not in made.method


def test_yaml_short_forms(tmp_path):
    (tmp_path / "a.yaml").write_text("method: sam\npeft: true\nhead: second-order\ntrain.epochs: 4\nseed: 7\n")
    made = config("--config", str(tmp_path / "a.yaml"))
    assert (made.method_name, made.peft.name, made.head.name, made.seed) == ("sam", "lora", "second-order", (7,))
    assert made.train.epochs == 4.0


def test_lists_and_open_groups():
    made = config(
        "--data.labels", "neg,pos", "--model_config.classifier_dropout", "0.2", "--train.shard", "--nproc", "2"
    )
    assert made.data.labels == ["neg", "pos"]
    assert made.model_config == {"classifier_dropout": 0.2}
    assert made.train.shard
    assert build(yaml.safe_load(to_yaml(made))).model_config == made.model_config
    assert config("--data.labels=[a b, c]").data.labels == ["a b", "c"]
    for words in ("yes,no", "0,1", "on, off", "007,008", "é,😀", "null,true", "a: b,#c", 'say "x",{y'):
        expected = [word.strip() for word in words.split(",")]
        assert config("--data.labels", words).data.labels == config(f"--data.labels={words}").data.labels == expected
    assert config("--data.labels", "'0', \"1\"").data.labels == ["0", "1"]
    assert config("--peft", "lora", "--peft.targets", "query,value").peft.targets == ["query", "value"]


def test_sums_have_the_options_of_their_parts():
    made = config("--method", "smart+bregman", "--method.smart.preset", "paper", "--method.bregman.weight=2")
    assert made.method["smart"]["preset"] == "paper"
    assert made.method["bregman"]["weight"] == 2.0


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (
            ["--method.stepsize", "1"],
            r"unrecognized arguments: --method\.stepsize 1\. Did you mean --method\.step_size",
        ),
        (["--method", "rdrop", "--method.step_size", "1"], "unrecognized arguments"),
        (["--train.learning_rat", "1"], r"Did you mean --train\.learning_rate"),
        (["--method.weight", "much"], r"method\.weight=much: expected a number or null\."),
        (["--train.epochs", "many"], r"train\.epochs=many: expected a number\."),
        (["--train.precision", "fp8"], r"train\.precision=fp8: expected auto, fp32, bf16, fp16\."),
        (["--trainer.learning_rat", "1"], "has no 'learning_rat'. Did you mean 'learning_rate'"),
        (["--trainer.adam_beta1", "x"], r"trainer\.adam_beta1=x: expected a number"),
        (["--seed", "1,x"], "give a whole number"),
        (["--method", "smrt"], "Did you mean 'smart'"),
        (["--data.labels", "3"], r"data\.labels=3: expected a list of text such as \[a, b\] or null\."),
        (["--nproc", "two"], r"nproc=two: expected a whole number\."),
        (["--model_config.num_labels", "3"], "model_config.num_labels cannot be changed"),
        (["--config", "/nowhere/x.yaml"], "/nowhere/x.yaml: No such file"),
        (["--config"], "argument --config/-c: expected one argument"),
        (["--recipe", "nobody/knows"], "nobody/knows"),
    ],
)
def test_mistakes_are_named_with_the_nearest_right_word(words, message):
    with pytest.raises(ValueError, match=message):
        config(*words)


@pytest.mark.parametrize(
    "text",
    [
        "- 1\n",
        "a: [\n",
        "nonsense: 3\n",
        "data: rte\n",
        "data: {labels: 3}\n",
        "train: {epoch: 3}\n",
        "method: {name: smart, wieght: 1}\n",
    ],
)
def test_bad_yaml(tmp_path, text):
    (tmp_path / "a.yaml").write_text(text)
    with pytest.raises(ValueError) as told:
        config("--config", str(tmp_path / "a.yaml"))
    assert "\n" not in str(told.value)


def test_print_config_runs_again(capsys):
    words = ["--method", "freelb", "--method.steps", "2", "--trainer.lr_scheduler_type", "cosine", "--peft"]
    with pytest.raises(SystemExit):
        parse_train([*BASE, *words, "--print_config"])
    printed = capsys.readouterr().out
    made = build(yaml.safe_load(printed))
    assert made.trainer == {"lr_scheduler_type": "cosine"}
    assert to_yaml(made) == printed


@pytest.mark.parametrize(
    "words",
    [
        "--recipe sift/rte-deberta-v2-xxlarge --model_config.cls_dropout null --method.weight null",
        "--recipe freelb/rte-roberta-large --train.max_steps null",
    ],
)
def test_what_was_taken_out_of_a_recipe_stays_out_when_run_again(words, tmp_path):
    def parsed(*given):
        return parse_train(given)[0]

    made = parsed(*words.split())
    assert (made.model_config.get("cls_dropout"), made.train.max_steps) == (None, None)
    (tmp_path / "config.yaml").write_text(to_yaml(made))
    assert parsed("--config", str(tmp_path / "config.yaml")) == made


def test_epochs_drop_the_updates_of_the_layers_below(tmp_path):
    def length(*words):
        train = parse_train([*BASE, *words])[0].train
        return train.epochs, train.max_steps, train.warmup

    recipe, file = ["--recipe", "freelb/rte-roberta-base"], tmp_path / "a.yaml"
    warmup = recipes.config(recipe[1])["train"]["warmup"]
    assert length(*recipe, "--train.epochs", "1") == length(*recipe, "--train.epochs=1") == (1, None, warmup)
    assert length(*recipe, "--train.epochs", "1", "--train.max_steps", "7") == (1, 7, warmup)
    assert length(*recipe, "--train.max_steps", "7")[1] == 7
    file.write_text("train: {epochs: 2}\n")
    assert length(*recipe, "--config", str(file)) == (2, None, warmup)
    file.write_text("train.max_steps: 9\ntrain.epochs: 2\n")  # one layer, in whatever order
    assert length(*recipe, "--config", str(file)) == (2, 9, warmup)
    assert length("--config", str(file), "--train.epochs", "3")[:2] == (3, None)


def test_help_explains_every_option_and_only_the_chosen_methods(capsys):
    with pytest.raises(SystemExit):
        parse_train(["--method", "freelb", "--help"])
    text = " ".join(capsys.readouterr().out.split())
    assert "--method.norm" in text
    assert "--method.weight" not in text
    assert "--train.learning_rate" in text
    actions = [a for a in train_parser("smart")._actions if a.dest not in ("help", "print_config")]
    assert [a.dest for a in actions if not a.help] == []
    assert {f"{name}.{field}" for name in GROUPS for field in GROUPS[name].__dataclass_fields__} <= {
        a.dest for a in actions
    }


def translate(words: list[str]) -> tuple[list[str], list[str]]:
    """Today's options, and what is said about each old one."""
    said = StringIO()
    with redirect_stderr(said):
        given = split_arguments(words)
    return given.words, [line.removeprefix("toughen: ") for line in said.getvalue().splitlines()]


def test_old_flags():
    old = (
        "--model_name_or_path m --task_name RTE --num_train_epochs 3 --adv-lr 0.1 --adv_init_mag=0.2 --do_train --fp16"
    )
    words, notices = translate(old.split())
    new = "--model=m --task=RTE --train.epochs=3 --method.step_size=0.1 --method.init_scale=0.2 --train.precision=fp16"
    assert words == new.split()
    assert any(notice.startswith("--adv-lr is now --method.step_size (in shares of") for notice in notices)
    assert "--adv-lr is now --method.step_size" in translate([*old.split(), "--method.preset=original"])[1]
    assert len(notices) == 7
    assert translate(new.split()) == (new.split(), [])
    with pytest.raises(ValueError, match="only guarded a division"):
        translate(["--adv_epsilon", "1e-6"])


def test_a_batch_for_each_device_is_said_to_be_the_whole_one() -> None:
    arguments, notices = translate(["--per_device_train_batch_size", "8"])
    assert arguments == ["--train.batch_size=8"]
    assert "whole update" in notices[0]


# The commands of the original projects' READMEs, behind what says which method they are.
RUN_SENT_CLAS = (
    "--do_train --do_eval --task_name SST-2 --learning_rate 2e-5 --train_batch_size 32 --do_lower_case "
    "--model_type bert --load_model_path bert-base-uncased --output_dir sst_bert --fp16"
)
RUN_MULTI_CHO = (
    "--do_train --do_eval --task_name DREAM --eval_on test --num_train_epochs 6 --learning_rate 2e-5 "
    "--train_batch_size 16 --model_type roberta --load_model_path roberta-base --output_dir dream_roberta --fp16"
)
RUN_GLUE = (
    "--model_type bert --model_name_or_path bert-base-cased --task_name RTE --do_lower_case --do_train --do_eval "
    "--data_dir glue_data/RTE --max_seq_length 128 --per_gpu_train_batch_size 32 --learning_rate 2e-5 "
    "--num_train_epochs 10 --output_dir OUTPUT/ --eval_all_checkpoints"
)


def translated(words: str):
    return parse_train(words.split())[0]


def test_the_commands_of_the_original_readmes_are_understood():
    made = translated(f"--method asa --method.preset original {RUN_SENT_CLAS}")
    assert (made.model, made.task, made.train.precision) == ("bert-base-uncased", "SST-2", "fp16")
    assert (made.train.learning_rate, made.train.batch_size, str(made.output_dir)) == (2e-5, 32, "sst_bert")
    made = translated(f"--method asa --method.preset original {RUN_MULTI_CHO}")
    assert (made.task, made.data.eval_split, made.train.epochs) == ("DREAM", "test", 6.0)
    made = translated(f"--recipe mgcrp/rte-bert-base {RUN_GLUE}")
    assert (made.head.q, made.train.batch_size, made.data.dir) == (56, 32, "glue_data/RTE")
    made = translated("--recipe freelb/rte-roberta-base --task.model.init_mag 0.03 --task.model.adv-lr=0.05")
    assert (made.method["init_scale"], made.method["step_size"]) == (0.03, 0.05)
    with pytest.raises(ValueError, match=r"--task\.model\.class belongs to ParaGen's config"):
        translate(["--task.model.class", "x"])


def test_switches_with_a_word_behind_them():
    words, _ = translate(["--fp16", "True", "--do_train", "true", "--warmup", "1000"])
    assert words == ["--train.precision=fp16", "--train.warmup=1000"]
    assert translate(["--fp16=False"])[0] == ["--train.precision=fp32"]
    assert translate(["--no_cuda", "--do_lower_case"])[0] == ["--trainer.use_cpu=true", "--data.lower_case=true"]
    assert translate(["--no_cuda", "False"])[0] == []


def test_the_command_line_of_debertas_scripts():
    """All of experiments/glue/mnli.sh base-sift, with the names of its models."""
    words = (
        "--model_config config.json --tag base-sift --do_train --max_seq_len 256 --eval_batch_size 256 "
        "--dump_interval 1000 --task_name MNLI --data_dir glue_tasks/MNLI --init_model base --output_dir out "
        "--num_train_epochs 6 --vat_lambda 5 --vat_learning_rate 1e-4 --vat_init_perturbation 1e-2 --fp16 True "
        "--warmup 1000 --learning_rate 1.5e-5 --train_batch_size 64 --cls_drop_out 0.1 --vat_loss_fn symmetric-kl"
    )
    made = translated(f"--method sift --method.preset deberta {words}")
    assert made.model == "microsoft/deberta-base"
    assert (made.train.save_steps, made.train.eval_batch_size, made.model_config) == (1000, 256, {"cls_dropout": 0.1})
    recipe = translated("--recipe sift/mnli-deberta-base")
    assert {key: made.method[key] for key in ("weight", "step_size", "init_scale")} == {
        key: recipe.method[key] for key in ("weight", "step_size", "init_scale")
    }
    assert (made.train.learning_rate, made.train.warmup) == (recipe.train.learning_rate, recipe.train.warmup)
    with pytest.raises(ValueError, match="--vat_loss_fn steered the step of the search alone"):
        translate(["--vat_loss_fn", "mse"])


def test_flags_of_adversarial_self_attention():
    words, notices = translate(["--lr_scheduler_type", "cosine", "--cache_dir", "../cache", "--use_slow_tokenizer"])
    assert words == ["--trainer.lr_scheduler_type=cosine"]
    assert [notice.partition(":")[0] for notice in notices[1:]] == [
        "--cache_dir is not needed",
        "--use_slow_tokenizer is not needed",
    ]
    assert translate(["--gradient_accumulation_steps", "1"])[0] == []
    with pytest.raises(ValueError, match=r"the update's size is --train\.batch_size"):
        translate(["--gradient_accumulation_steps", "2"])


def test_testing_alone_predicts(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    words = "--do_test --task_name SST-2 --data_dir glue --eval_batch_size 128 --output_dir sst_bert --test_model_file"
    wanted = ["--split", "test", "--out", "sst_bert/SST-2.tsv", "--dir", "glue", "--batch_size", "128"]
    assert predict_commands([*words.split(), "sst_bert"]) == [["sst_bert", *wanted]]
    for step in (5, 10, 15):
        checkpoint = tmp_path / f"sst_bert/seeds/42/checkpoint-{step}"
        checkpoint.mkdir(parents=True)
        (checkpoint / "trainer_state.json").write_text("{}")
        (checkpoint / "toughen_state_0.safetensors").touch()
    found = predict_commands([*words.split(), "sst_bert/2_pytorch_model.bin"])
    assert found == [["sst_bert/seeds/42/checkpoint-15", *wanted]]
    with pytest.raises(ValueError, match=r"keeps 3 checkpoints\. Keep that of every epoch"):
        predict_commands([*words.split(), "sst_bert/3_pytorch_model.bin"])
    assert predict_commands(["--do_train", *words.split(), "sst_bert"]) == []
    checkpoint = "sst_bert/seeds/42/checkpoint-5"
    alone = predict_commands(["--do_test", "--test_model_file", checkpoint])
    assert alone == [[checkpoint, "--split", "test", "--out", f"{checkpoint}/test.tsv"]]
    one, other = predict_commands(["--do_test", "--task_name", "MNLI", "--output_dir", "out"])
    assert one == ["out", "--split", "test", "--out", "out/MNLI-m.tsv"]
    assert other == ["out", "--split", "test_mm", "--out", "out/MNLI-mm.tsv"]


@pytest.mark.parametrize("words", ["--do_test --task_name SST-2", "--do_eval --task_name RTE"])
def test_scoring_alone_does_not_train(words):
    with pytest.raises(ValueError, match=r"without --do_train trains nothing\. Score a run by: toughen evaluate RUN"):
        translate(words.split())


def test_a_config_may_be_json_indented_by_tabs(tmp_path):
    (tmp_path / "a.json").write_text('{\n\t"train": {"epochs": 5}\n}\n')  # as a sweep's file may be
    assert config("--config", str(tmp_path / "a.json")).train.epochs == 5


@pytest.mark.parametrize("text", ["- fgm\n", "train\n", ""])
def test_a_file_without_options_is_told_in_one_line(text, tmp_path):
    (tmp_path / "config.yaml").write_text(text)
    with pytest.raises(RunError, match="holds no options; a config to edit is written by"):
        config("--config", str(tmp_path / "config.yaml"))
    with pytest.raises(RunError, match="holds no config of a run"):
        RunFolder(tmp_path).config()


@pytest.mark.parametrize(
    ("file", "recipe"),
    [
        *(("RTE", "freelb/rte-roberta-base"), ("STS-B", "freelb/stsb-roberta-base")),
        *(("SST-2", "freelb/sst2-bert-base"), ("QQP", "freelb/qqp-roberta-base")),
    ],
)
def test_a_config_of_paragen_is_answered_with_its_recipe(file, recipe, tmp_path):
    path = tmp_path / f"{file}.yaml"
    path.write_text("task: {class: SequenceClassificationTask, model: {init_mag: 0.05}}\n")
    with pytest.raises(ValueError, match=rf"is a ParaGen config.*--recipe {recipe};"):
        config("--config", str(path))
    assert recipe in recipes.available()
    with pytest.raises(ValueError, match=r"is a ParaGen config\. See: toughen recipes freelb"):
        config("--config", str(path.rename(tmp_path / "mine.yaml")))


def test_every_old_flag_becomes_an_option_that_is_there():
    flags = {
        flag
        for method in ("smart", "freelb", "asa")
        for a in train_parser(method)._actions
        for flag in a.option_strings
    }
    flags |= {f"--trainer.{name}" for name in trainer_options()}
    switched = {meaning.partition("=")[0] for meanings in SWITCHES.values() for meaning in meanings}
    assert {flag for flag in {*NEW.values(), *switched} if not flag.startswith("--model_config.")} <= flags


@pytest.mark.parametrize("words", [["--eval_on", "dev"], ["--eval_on=dev"]])
def test_the_development_set_of_older_scripts(words):
    """ASA's scripts call it dev, which is their default."""
    given = ["--model", "x", "--task", "dream", *words, "--learning_rate", "1e-5"]
    _, notices = translate(given)
    assert parse_train(given)[0].data.eval_split == "validation"
    assert "--eval_on is now --data.eval_split (dev is validation)" in notices


def test_arguments_of_python_are_written_as_flags():
    message = "row 3: give head='classes', labels=[...] or on_bad='skip'; data.head= is a key."
    written = "row 3: give --data.head classes, --data.labels A,B or --data.on_bad skip; data.head= is a key."
    assert write_flags(ValueError(message), DATA_FLAGS) == written
    only = write_flags(UsageError("give on_bad='skip' or head='classes'", options=("on_bad",)), DATA_FLAGS)
    assert only == "give --data.on_bad skip or head='classes'"
    flags = {name: f"--{name}" for name in ("file", "sets", "partial", "dir")}
    message = "give file= (--file), sets= (--sets FILE,...), partial=True or dir=x."
    assert write_flags(ValueError(message), flags) == "give --file, --sets FILE,..., --partial or --dir x."
