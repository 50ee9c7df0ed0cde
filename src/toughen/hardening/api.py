"""The function `harden`: teacher and student, edited texts, and the folder of the hardened encoder."""

import copy
import os
import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from shlex import quote
from typing import TYPE_CHECKING, Any

import yaml

from .._version import __version__
from ..errors import UsageError, nearest, require
from ..internal.atomic import remove_folder, write_json, write_text
from ..runs.config_io import read_yaml
from ..runs.errors import RunError
from ..runs.progress import write_line
from ..sweeps.folder import lock_folder
from ..text.views import FAMILIES

if TYPE_CHECKING:
    from .encoder import PoolingName
    from .measure import Measurement

PathLike = str | os.PathLike[str]
SPEC, LOG = "harden.yaml", "harden.log"


@dataclass(frozen=True)
class HardenSpec:
    """Every option of a hardening; harden.yaml holds it."""

    model: str
    texts: Sequence[str]
    column: str | None = None
    """Column of the texts, for tables, JSON lines and Parquet."""
    families: Sequence[str] = ("typos", "obfuscation", "casing")
    """Kinds of edits: typos, obfuscation, casing, synonyms."""
    synonyms: str | None = None
    """JSON file {word: [words]}, or folder of WordNet."""
    rate: float = 0.6
    """Largest share of words that are edited; each text draws its own from 0 to this."""
    clean_share: float = 0.25
    """Share of the texts that stay unedited, so that old vectors stay valid."""
    pooling: "PoolingName | None" = None
    """mean, cls or last; by default what a sentence-transformers folder says, else mean."""
    steps: int = 10_000
    """Updates."""
    batch_size: int = 256
    """Texts of an update."""
    learning_rate: float = 2e-4
    """Peak learning rate; it falls to 0."""
    max_length: int = 64
    """Tokens a text is cut at."""
    pooled_weight: float = 8.0
    """Weight of 1 - cosine of the pooled vectors."""
    hidden_weight: float = 1.0
    """Weight of the squared distance of word-aligned hidden states."""
    words_weight: float = 1.0
    """Weight of the divergence of predicted words, for masked language models."""
    measured: int = 1000
    """Texts that are held out to measure on."""
    workers: int = 0
    """Processes that read and edit texts beside the training."""
    save_steps: int = 1000
    """Updates between two checkpoints."""
    seed: int = 0
    """Of everything that is drawn."""
    fast: bool = False
    """Compile the models, on a GPU."""

    def __post_init__(self) -> None:
        object.__setattr__(self, "texts", [self.texts] if isinstance(self.texts, str) else list(self.texts))
        families = self.families.split(",") if isinstance(self.families, str) else self.families
        object.__setattr__(self, "families", [name.strip() for name in families])
        for name in self.families:
            if name not in FAMILIES:
                raise UsageError(f"families: there is no {name!r}; there are {', '.join(FAMILIES)}.", ("families",))
        for name in ("steps", "batch_size", "save_steps", "max_length", "measured"):
            if getattr(self, name) < 1:
                raise UsageError(f"{name}={getattr(self, name)}: it must be at least 1.", (name,))
        for name in ("rate", "clean_share"):
            if not 0 <= getattr(self, name) <= 1:
                raise UsageError(f"{name}={getattr(self, name)}: give a share from 0 to 1.", (name,))
        if not self.learning_rate > 0:
            raise UsageError(f"learning_rate={self.learning_rate}: it must be above 0.", ("learning_rate",))


@dataclass(frozen=True)
class Hardened:
    """The folder of a hardened encoder, and what was measured; stands for its path.

    Args:
        path: The folder, which transformers and sentence-transformers load.
        rows: The similarity to clean vectors of each kind of edit, before and after.
        sentence: The result in one sentence.

    Examples:
        >>> from transformers import AutoModel
        >>> student = AutoModel.from_pretrained(hardened)
    """

    path: Path
    rows: "Sequence[Measurement]"
    sentence: str

    def __fspath__(self) -> str:
        return str(self.path)

    def __str__(self) -> str:
        return str(self.path)


def harden(
    model: PathLike | None = None,
    texts: PathLike | Sequence[PathLike] = (),
    *,
    output_dir: PathLike | None = None,
    resume: PathLike | None = None,
    trainer: Mapping[str, Any] | None = None,
    **options: Any,
) -> Hardened:
    """Harden an encoder against misspelt text, without labels; what `toughen harden` does.

    The teacher is the encoder as it is, frozen, and reads the texts; the student starts from the same weights, reads
    edited copies and learns the teacher's pooled vectors, hidden states and, for masked language models, predictions.

    Args:
        model: Folder of a transformer or of sentence-transformers, or its name on the Hub.
        texts: Files: one text a line, or tables, JSON lines or Parquet with `column`.
        output_dir: Folder of the hardened encoder; must be new.
        resume: The folder of an interrupted hardening, which brings all other options.
        trainer: Fields of TrainingArguments.
        **options: The fields of `HardenSpec`, such as steps, rate, families, pooling.

    Returns:
        The folder with the measurements before and after.

    Raises:
        UsageError: If an option is wrong.
        DataError: If a file cannot be used.

    Examples:
        >>> from toughen.demo import sample
        >>> encoder, reviews = sample(folder)
        >>> small = {"steps": 1, "batch_size": 8, "measured": 8}
        >>> hardened = toughen.harden(encoder, reviews, column="text", output_dir=folder + "/hardened", **small)
        >>> [row.name for row in hardened.rows][:1]
        ['clean']
    """
    if resume is not None:
        folder = Path(resume)
        if not (folder / SPEC).is_file():
            raise RunError(f"{folder} holds no hardening to go on with: it has no {SPEC}.")
        given = read_yaml(folder / SPEC, RunError, "holds no options.")
        return _Hardening(folder, HardenSpec(**given), trainer or {}).run()
    if model is None or output_dir is None:
        missing = "model" if model is None else "output_dir"
        raise UsageError(f"{missing} is missing: harden needs a model, texts and output_dir.", (missing,))
    files = [texts] if isinstance(texts, (str, os.PathLike)) else list(texts)
    known = HardenSpec.__dataclass_fields__
    if unknown := [name for name in options if name not in known]:
        raise UsageError(f"harden has no option {unknown[0]!r}. {nearest(unknown[0], known)}", (unknown[0],))
    spec = HardenSpec(model=os.fspath(model), texts=[str(Path(file).absolute()) for file in files], **options)
    folder = Path(output_dir)
    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        hint = f"go on with --resume {quote(str(folder))}, or " if (folder / SPEC).is_file() else ""
        raise RunError(f"{folder} is there already and nothing is overwritten; {hint}choose another --output_dir.")
    hardening = _Hardening(folder, spec, trainer or {})  # checks the texts before a folder is made
    folder.mkdir(parents=True, exist_ok=True)
    write_text(folder / SPEC, yaml.safe_dump(asdict(spec), sort_keys=False))
    return hardening.run()


class _Hardening:
    """One hardening in its folder."""

    def __init__(self, folder: Path, spec: HardenSpec, trainer: Mapping[str, Any]) -> None:
        from .encoder import Encoder
        from .texts import check_texts

        self.folder, self.spec, self.trainer = folder, spec, trainer
        self.files = [Path(file) for file in spec.texts]
        self.held_out = check_texts(self.files, spec.column, spec.measured, spec.seed)
        self.encoder = Encoder.find(spec.model, spec.pooling)

    def say(self, text: str) -> None:
        write_line(text, self.folder / LOG, None)

    def run(self) -> Hardened:
        lock = lock_folder(self.folder)
        try:
            return self._run()
        finally:
            lock.close()

    def _run(self) -> Hardened:
        from ..evaluation.outputs import effective_max_length
        from .student import train_student

        began = time.perf_counter()
        teacher, tokenizer = self.encoder.load()
        student = copy.deepcopy(teacher)
        teacher.eval().requires_grad_(False)
        length = effective_max_length(self.spec.max_length, teacher, tokenizer)
        spec = replace(self.spec, max_length=length or self.spec.max_length)
        self.say(
            f"harden {Path(spec.model).name} · {self.encoder.pooling} pooling · {', '.join(spec.families)} · "
            f"{spec.steps} updates of {spec.batch_size} texts · {len(self.held_out)} texts held out"
        )
        student = train_student(
            student,
            teacher,
            tokenizer,
            self.encoder,
            spec,
            self.files,
            frozenset(self.held_out),
            self.folder,
            self.trainer,
        )
        rows = self._measure(teacher, student, tokenizer, spec)
        return self._save(student, tokenizer, rows, time.perf_counter() - began)

    def _measure(self, teacher: Any, student: Any, tokenizer: Any, spec: HardenSpec) -> "list[Measurement]":
        from .encoder import vectors
        from .measure import compare, noisy_texts

        rows: list[Measurement] = []
        index: Any = None
        for noise, strength, texts in noisy_texts(list(self.held_out.values()), spec.seed):
            before, after = (
                vectors(each, tokenizer, texts, self.encoder.pooling, spec.max_length) for each in (teacher, student)
            )
            index = before if index is None else index
            rows.append(compare(noise, strength, before, after, index))
            row = rows[-1]
            self.say(
                f"{row.name}: cosine {row.cosine_before:.3f} -> {row.cosine_after:.3f} · "
                f"nearest ten kept {row.overlap_before:.2f} -> {row.overlap_after:.2f}"
            )
        return rows

    def _save(self, student: Any, tokenizer: Any, rows: "Sequence[Measurement]", seconds: float) -> Hardened:
        from .measure import sentence

        verdict = sentence(rows)
        self.encoder.save(student, tokenizer, self.folder)
        write_text(self.folder / "README.md", self._card(rows, verdict))
        write_json(
            self.folder / "harden.json",
            {"sentence": verdict, "seconds": round(seconds, 1), "rows": [asdict(row) for row in rows]},
        )
        for checkpoint in self.folder.glob("checkpoint-*"):
            remove_folder(checkpoint)
        self.say(verdict)
        self.say(f"saved {self.folder}, a folder as that of {Path(self.spec.model).name}")
        return Hardened(self.folder, list(rows), verdict)

    def _card(self, rows: "Sequence[Measurement]", verdict: str) -> str:
        published = not Path(self.spec.model).exists()
        front: dict[str, Any] = {"library_name": "transformers", "tags": ["toughen", "typo-robust"]}
        front |= {"base_model": self.spec.model} if published else {}
        template = require("jinja2", "cli").Template(
            Path(__file__).with_name("card.md").read_text(encoding="utf-8"), trim_blocks=True
        )
        return template.render(
            front=yaml.safe_dump(front, sort_keys=False).strip(),
            name=f"{Path(self.spec.model).name}-hardened",
            base=f"`{self.spec.model}`" if published else f"A local model (`{Path(self.spec.model).name}`)",
            version=__version__,
            spec=self.spec,
            sentence=verdict,
            rows=rows,
            texts=len(self.held_out),
            pooling=self.encoder.pooling,
        )
