"""The function `harden`: teacher and student, edited texts, and the folder of the hardened encoder."""

import copy
import os
import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from shlex import quote
from typing import TYPE_CHECKING, Any

import yaml

from .._version import __version__
from ..errors import UsageError, count_of, nearest, require
from ..internal.atomic import remove_folder, write_json, write_text
from ..reports.folder import read_json
from ..runs.config_io import read_yaml
from ..runs.errors import RunError
from ..runs.progress import write_line
from ..sweeps.folder import lock_folder
from ..text.views import FAMILIES

if TYPE_CHECKING:
    from .encoder import PoolingName
    from .measure import Measurement, Query

RECIPES: Mapping[str, Mapping[str, Any]] = {
    "10-minutes": {"steps": 10_000, "workers": min(8, os.cpu_count() or 1), "fast": True},
    "overnight": {
        **{"steps": 300_000, "learning_rate": 2.5e-4, "workers": min(8, os.cpu_count() or 1), "fast": True},
        "save_steps": 5_000,
    },
}
PathLike = str | os.PathLike[str]
SPEC, LOG, RESULT = "harden.yaml", "harden.log", "harden.json"


def _is_first() -> bool:
    """Tell whether this process writes, of those that torchrun or Accelerate started."""
    return os.environ.get("RANK", "0") == "0"


@dataclass(frozen=True)
class HardenSpec:
    """Every option of a hardening; harden.yaml holds it."""

    model: str
    texts: Sequence[str]
    recipe: str | None = None
    """10-minutes or overnight: updates, learning rate and workers for one GPU; options beside it count."""
    column: str | None = None
    """Column of the texts, for tables, JSON lines and Parquet."""
    families: Sequence[str] = ("typos", "typos", "typos", "obfuscation", "casing")
    """Kinds of edits: typos, obfuscation, casing, synonyms; what is given three times is drawn three times as often."""
    synonyms: str | None = None
    """JSON file {word: [words]}, or folder of WordNet."""
    rate: float = 0.6
    """Largest share of words that are edited; each text draws its own from 0 to this."""
    clean_share: float = 0.25
    """Share of the texts that stay unedited, so that old vectors stay valid."""
    clean_weight: float = 8.0
    """Weight of an unedited text in the loss; an edited one counts 1."""
    pooling: "PoolingName | None" = None
    """mean, cls or last; by default what a sentence-transformers folder says, else mean."""
    steps: int = 10_000
    """Updates."""
    batch_size: int = 256
    """Texts of an update."""
    learning_rate: float = 5e-4
    """Peak learning rate; it falls to 0."""
    max_length: int = 64
    """Tokens a text is cut at."""
    pooled_weight: float = 8.0
    """Weight of 1 - cosine of the pooled vectors."""
    hidden_weight: float = 0.25
    """Weight of the squared distance of word-aligned hidden states."""
    words_weight: float = 1.0
    """Weight of the divergence of predicted words, for masked language models."""
    neighbours_weight: float = 1.0
    """Weight of the divergence of similarities to the old vectors of the first 8,192 texts."""
    measured: int = 1000
    """Texts that are held out to measure on."""
    lexicon: str | None = None
    """Text file with a word and its misspellings in each line: measured on, never trained with."""
    workers: int = 0
    """Processes that read and edit texts beside the training, for each GPU."""
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
        for name in ("clean_weight", "pooled_weight", "hidden_weight", "words_weight", "neighbours_weight"):
            if not getattr(self, name) >= 0:
                raise UsageError(f"{name}={getattr(self, name)}: it must not be below 0.", (name,))
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
    edited copies and learns the teacher's pooled vectors, their similarities to the old vectors of other texts, hidden
    states and, for masked language models, predictions.

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
        RunError: If the folder already exists, or holds no hardening to resume.

    Examples:
        >>> done = toughen.harden("encoder", "texts.txt", output_dir="hardened")  # doctest: +SKIP
        >>> done.sentence  # doctest: +SKIP
        'an index of the old vectors can stay: ...'

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
            raise RunError(f"{folder} holds no hardening to resume: it has no {SPEC}.")
        if (folder / RESULT).is_file():
            done = _finished(folder)
            if _is_first():
                write_line(f"{folder} is finished: {done.sentence}", None, None)
            return done
        given = read_yaml(folder / SPEC, RunError, "holds no options.")
        return _Hardening(folder, HardenSpec(**given), trainer or {}).run()
    if model is None or output_dir is None:
        missing = "model" if model is None else "output_dir"
        raise UsageError(f"{missing} is missing: harden needs a model, texts and output_dir.", (missing,))
    files = [texts] if isinstance(texts, (str, os.PathLike)) else list(texts)
    known = HardenSpec.__dataclass_fields__
    if unknown := [name for name in options if name not in known]:
        raise UsageError(f"harden has no option {unknown[0]!r}. {nearest(unknown[0], known)}", (unknown[0],))
    if (recipe := options.get("recipe")) is not None:
        if recipe not in RECIPES:
            raise UsageError(f"recipe={recipe!r} is not known. {nearest(recipe, RECIPES)}", ("recipe",))
        options = {**RECIPES[recipe], **options}
    paths: dict[str, Any] = {
        name: _absolute(options[name]) for name in ("lexicon", "synonyms") if options.get(name) is not None
    }
    source = _absolute(model) if Path(model).exists() else os.fspath(model)
    spec = HardenSpec(model=source, texts=[_absolute(file) for file in files], **{**options, **paths})
    folder = Path(output_dir)
    if _is_first() and folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        hint = f"continue with --resume {quote(str(folder))}, or " if (folder / SPEC).is_file() else ""
        raise RunError(f"{folder} already exists; {hint}choose another --output_dir.")
    hardening = _Hardening(folder, spec, trainer or {})  # checks texts and model before a folder is made
    if _is_first():
        try:
            folder.mkdir(parents=True, exist_ok=True)
            write_text(folder / SPEC, yaml.safe_dump(asdict(spec), sort_keys=False))
        except OSError as error:
            raise RunError(f"{folder} cannot be written ({error.strerror}); choose another --output_dir.") from None
    return hardening.run()


def _absolute(path: PathLike) -> str:
    return str(Path(path).absolute())


def _finished(folder: Path) -> Hardened:
    """Return what a folder says of its hardening."""
    from .measure import Mean, Measurement

    stored = read_json(folder / RESULT)
    means = ("cosine_before", "cosine_after", "overlap_before", "overlap_after")
    rows: list[dict[str, Any]] = [{**row, **{name: Mean(**row[name]) for name in means}} for row in stored["rows"]]
    return Hardened(folder, [Measurement(**row) for row in rows], stored["sentence"])


class _Hardening:
    """One hardening in its folder: all that can be checked without the model is checked when it is made."""

    def __init__(self, folder: Path, spec: HardenSpec, trainer: Mapping[str, Any]) -> None:
        from ..text.synonyms import load_misspellings, load_synonyms
        from ..text.token_words import TokenWords
        from ..text.views import TextEditor
        from .encoder import Encoder
        from .texts import check_texts

        self.folder, self.spec, self.trainer = folder, spec, trainer
        self.notes: list[str] = []
        files = [Path(file) for file in spec.texts]
        held_out = check_texts(files, spec.column, spec.measured, spec.seed)
        self.held_out = list(held_out.values())
        if spec.lexicon is not None:
            load_misspellings(spec.lexicon)
        self.encoder = Encoder.find(spec.model, spec.pooling)
        self.tokenizer = self.encoder.load_tokenizer()
        words = TokenWords(self.tokenizer)
        self.max_length = self._check_length()
        synonyms = load_synonyms(spec.synonyms)[0] if "synonyms" in spec.families else None
        self.editor = TextEditor(words, self._families(words), spec.rate, synonyms)
        self.texts = (files, spec.column, self.tokenizer, self.editor, frozenset(held_out), self.max_length)

    def _check_length(self) -> int:
        """Return the length that texts are cut at, and note how many are longer."""
        asked, limit = self.spec.max_length, self.encoder.longest(self.tokenizer)
        length = min(asked, limit) if limit else asked
        if length < asked:
            self.notes.append(f"texts are cut at {length} tokens, not at max_length={asked}: the model reads no more")
        cut = sum(len(ids) > length for ids in self.tokenizer(self.held_out)["input_ids"])
        if cut:
            more = "" if limit and length >= limit else "; give more with max_length (--max_length)"
            share = f"{cut / len(self.held_out):.0%} of the texts"
            self.notes.append(f"{share} are longer than {length} tokens, and are cut there{more}")
        return length

    def _families(self, words: Any) -> Sequence[str]:
        """Return the kinds of edits that the tokenizer can see."""
        if "casing" not in self.spec.families or any(words.tells_case(text) for text in self.held_out[:20]):
            return self.spec.families
        families = [each for each in self.spec.families if each != "casing"]
        if not families:
            raise UsageError(
                "families=casing changes nothing: the tokenizer makes all letters small. Give others, such as typos.",
                ("families",),
            )
        self.notes.append("casing is left out: the tokenizer makes all letters small")
        return families

    def say(self, text: str) -> None:
        if _is_first():
            write_line(text, self.folder / LOG, None)

    def run(self) -> Hardened:
        lock = lock_folder(self.folder) if _is_first() else None
        try:
            return self._run()
        finally:
            if lock is not None:
                lock.close()

    def _run(self) -> Hardened:
        from ..internal.distributed import wait_for_all
        from .encoder import Weights
        from .student import EditedTexts, arguments, train_student

        began, spec = time.perf_counter(), self.spec
        edits = ", ".join(dict.fromkeys(self.editor.families))
        self.say(
            f"harden {Path(spec.model).name} · {self.encoder.pooling} pooling · {edits} · "
            f"{spec.steps} updates of {spec.batch_size} texts · {count_of(len(self.held_out), 'text')} held out"
        )
        for note in self.notes:
            self.say(note)
        settings = arguments(spec, self.folder, self.trainer)  # starts what processes talk by
        wait_for_all()  # until the folder is there
        teacher = self.encoder.load()
        student = copy.deepcopy(teacher)
        teacher.eval().requires_grad_(False)
        weights = Weights(
            spec.pooled_weight, spec.hidden_weight, spec.words_weight, spec.neighbours_weight, spec.clean_weight
        )
        texts = EditedTexts(*self.texts, spec.clean_share, spec.seed)
        student = train_student(student, teacher, self.encoder, weights, texts, settings)
        if _is_first():
            self._report(teacher, student, time.perf_counter() - began)
        wait_for_all()
        return _finished(self.folder)

    def _report(self, teacher: Any, student: Any, seconds: float) -> None:
        """Measure, and save the model with all that says how it was made."""
        from ..reports.harden_page import write_page
        from .encoder import vectors
        from .measure import compare, examples, noisy_texts, sentence

        rows, queries = list["Measurement"](), list["Query"]()
        index: Any = None
        for noise, strength, texts in noisy_texts(self.held_out, self.spec.seed, self.spec.lexicon):
            before, after = (
                vectors(each, self.tokenizer, texts, self.encoder.pooling, self.max_length)
                for each in (teacher, student)
            )
            index = before if index is None else index
            rows.append(row := compare(noise, strength, before, after, index))
            self.say(
                f"{row.name}: cosine {row.cosine_before.value:.3f} -> {row.cosine_after.value:.3f} · "
                f"nearest ten kept {row.overlap_before.value:.2f} -> {row.overlap_after.value:.2f}"
            )
            if (noise, strength) == ("typos", 0.3):
                queries = examples(row.name, self.held_out, texts, before, after, index)
        verdict, name = sentence(rows), Path(self.spec.model).name
        self.encoder.save(student, self.tokenizer, self.folder)
        write_text(self.folder / "README.md", self._card(rows, verdict))
        misspellings = "misspellings are not measured: they take a lexicon (--lexicon)"
        notes = [*self.notes, *([] if self.spec.lexicon else [misspellings])]
        title, texts = f"Hardening of {name}", len(self.held_out)
        write_page(self.folder / "harden.html", title, verdict, rows, queries, texts=texts, notes=notes)
        result = {
            "sentence": verdict,
            "seconds": round(seconds, 1),
            "notes": notes,
            "rows": [asdict(row) for row in rows],
        }
        write_json(self.folder / RESULT, result)
        for checkpoint in self.folder.glob("checkpoint-*"):
            remove_folder(checkpoint)
        self.say(verdict)
        self.say(f"saved {self.folder}, in the format of {name}; page: {self.folder}/harden.html")

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
            families=self.editor.families,
            sentence=verdict,
            rows=rows,
            texts=len(self.held_out),
            pooling=self.encoder.pooling,
        )
