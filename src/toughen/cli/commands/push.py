"""Put a run's model on the Hugging Face Hub; without --yes it only shows what it would do.

Examples:
  toughen push runs/rte-vat me/rte-vat
  toughen push runs/rte-vat me/rte-vat --private --yes
  toughen push runs/rte-vat/seeds/2 me/rte-vat-seed-2
"""

import argparse
import re
from pathlib import Path

from ...runs.errors import RunError
from .. import say


def add(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("run", help="Run folder, or one of its seeds.")
    parser.add_argument("repo", metavar="OWNER/NAME", help="The repository on the Hub.")
    parser.add_argument("--private", action="store_true", help="Make the repository private.")
    parser.add_argument("--yes", action="store_true", help="Really upload, with the token of `hf auth login`.")


def run(arguments: argparse.Namespace) -> int:
    model = Path(arguments.run) / "model"
    if not (model / "config.json").is_file():
        raise RunError(f"{arguments.run} holds no trained model.")
    if not re.fullmatch(r"[\w.-]+/[\w.-]+", arguments.repo, re.ASCII):
        raise RunError(f"{arguments.repo!r} is no repository; write owner/name.")
    files = sorted(path for path in model.rglob("*") if path.is_file())
    size = sum(path.stat().st_size for path in files)
    kind = "private" if arguments.private else "public"
    for path in files:
        say(f"{path.relative_to(model)}  {path.stat().st_size:,} bytes")
    say(f"{len(files)} files, {size:,} bytes -> {arguments.repo} ({kind})")
    if not arguments.yes:
        say("dry run: nothing was uploaded; add --yes to do it")
        return 0
    from huggingface_hub import HfApi
    from huggingface_hub.errors import HfHubHTTPError, OfflineModeIsEnabled

    api = HfApi()
    try:
        api.create_repo(arguments.repo, private=arguments.private, exist_ok=True)
        done = api.upload_folder(repo_id=arguments.repo, folder_path=model, commit_message="Model trained with toughen")
    except (OfflineModeIsEnabled, HfHubHTTPError, OSError) as error:
        raise RunError(f"the Hub refused: {str(error).strip().partition(chr(10))[0]}") from error
    say(done)
    return 0
