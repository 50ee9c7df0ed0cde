"""A plain training executes few modules of the platform."""

import json

from .conftest import python

CODE = """
import json
from toughen.cli.main import main
assert main(sys.argv[1:]) == 0
print(json.dumps([name for name in sys.modules if name.startswith(("toughen.runs", "toughen.cli"))]))
"""


def test_a_plain_training_loads_few_modules(little, tmp_path):
    words = [f"--data.{key}={value}" for key, value in little.data.items()]
    words += [f"--model={little.model}", "--train.max_steps=2", f"--output_dir={tmp_path}/run"]
    ended = python(CODE, "train", "--method=smart", *words)
    modules = json.loads(ended.stdout.splitlines()[-1])
    assert "toughen.runs.trainer" in modules
    assert len(modules) <= 21, sorted(modules)
