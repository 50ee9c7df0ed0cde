from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, Literal

from ..errors import MethodError
from ..options import PresetOptions, RegularizerOptions, TokenTable
from ..registry import register_method

if TYPE_CHECKING:
    from ..method import Method
    from ..search import FlipWords, HullWords, RandomWords

_OWN = {  # the options that a search alone reads
    "random": (),
    "flip": ("steps", "noise"),
    "hull": ("steps", "noise", "step_size", "entropy"),
}
_PERTURBED_ALONE = ("safer", "dne")  # their loss has no term with a weight


@register_method("words")
@dataclass(frozen=True, kw_only=True)
class Words(PresetOptions, RegularizerOptions):
    """Substitution of words: the perturbed pass reads other words in a word's place, as embeddings of the same length.

    Every word of one token has up to eight candidates of one token. Special tokens, numbers, stop-words, negations and
    the names of labels are left alone. The prediction must not change (symmetric KL), unless a preset says otherwise.

    Presets:
        recommended: as `flip`.
        random: up to 30 % of the words take a random candidate (the search of SAFER). Ours.
        flip: the 30 % of the words whose change raises the task loss most, to first order (the search of HotFlip and
            A2T), with Gumbel noise, so that the words vary. Ours.
        hull: mixtures of each word and its candidates, one step up the divergence from a random mixture (the search of
            DNE). Ours.
        safer: SAFER (Ye et al., ACL 2020; lushleaf/Structure-free-certified-NLP f4a5558): every word draws from its
            candidates and itself; training is on the result alone.
        a2t: A2T (Yoo and Qi, EMNLP 2021; QData/TextAttack, attack_recipes/a2t_yoo_2021.py): a tenth of the words, the
            clean loss plus that of the other text, 20 candidates. The words come from one gradient at once, where A2T
            replaces and asks again one by one, and without its filters for parts of speech and sentence similarity.
        ascc: ASCC (Dong et al., ICLR 2021; dongxinshuai/ASCC): KL from the clean prediction with weight 4, 10 steps,
            entropy 10. Steps have one length a word, where the code has Adam, and loss and entropy are both means.
        dne: DNE (Zhou et al., ACL 2021; RockyLzy/TextDefender, trainer/dne.py): a Dirichlet draw and three steps of
            length 10, each pass training the weights with the task loss; their mean, where the code sums.

    Examples:
        >>> method = toughen.words(synonyms="synonyms.json")  # {"good": ["fine", "nice"], ...}
        >>> method.options.share
        0.3
    """

    search: Literal["random", "flip", "hull"] = "flip"
    """How other words are found: by chance, by the gradient, or as a mixture of all candidates."""
    share: float = 0.3
    """Largest share of a text's words that changes, at least one word."""
    synonyms: str | None = None
    """A JSON file {word: [words]}, a folder of WordNet, or "vocabulary" for the words with the most similar
    embeddings. Default: an installed WordNet."""
    count: int = 8
    """Largest number of candidates of a word."""
    steps: int = 1
    """Gradient steps of the search (flip, hull)."""
    noise: float = 0.5
    """How much chance is in the search: Gumbel noise on the gains, in units of their mean (flip); the power of the
    weights that a mixture starts with, 1 draws them from a flat Dirichlet distribution (hull)."""
    step_size: float = 10.0
    """Length of a step of the mixture's logits, for each word (hull)."""
    entropy: float = 0.0
    """Weight of the entropy of a mixture, which the search lowers (hull)."""
    candidates: TokenTable | None = None
    """A function of tokenizer and model that gives a table of ids [tokens, count], in place of `synonyms`."""

    PRESETS: ClassVar = {
        "recommended": {},
        "random": {"search": "random"},
        "flip": {},
        "hull": {"search": "hull", "share": 1.0, "noise": 1.0},
        "safer": {"search": "random", "share": 1.0},
        "a2t": {"share": 0.1, "count": 20, "noise": 0.0},
        "ascc": {
            "search": "hull",
            "share": 1.0,
            "weight": 4.0,
            "steps": 10,
            "step_size": 1.0,
            "noise": 1.0,
            "entropy": 10.0,
        },
        "dne": {"search": "hull", "share": 1.0, "steps": 3, "noise": 1.0},
    }

    def build(self) -> "Method":
        from ..parts import Accumulate, Add, Divergence, Method, PerturbedOnly, TaskLoss, WordEmbedding

        search, site = self._search(), WordEmbedding()
        if self.preset == "safer":
            return Method(site, search, TaskLoss(), PerturbedOnly(), dropout=self.dropout)
        if self.preset == "dne":
            return Method(site, search, TaskLoss(), Accumulate(search.steps + 1), dropout=self.dropout)
        if self.preset == "a2t":
            return Method(site, search, TaskLoss(), Add(self.weight), dropout=self.dropout)
        compare = Divergence("kl") if self.preset == "ascc" else Divergence()
        # A divergence is flat at the clean text, from where flips start.
        goal = TaskLoss() if self.search == "flip" else None
        return Method(site, search, compare, Add(self.weight), search_objective=goal, dropout=self.dropout)

    def _search(self) -> "RandomWords | FlipWords | HullWords":
        from ..search import Candidates, FlipWords, HullWords, RandomWords

        if self.search not in _OWN:
            raise MethodError(f"search={self.search!r} is not known. Choose 'random', 'flip' or 'hull'.")
        known = self.preset_values(self.preset)
        if self.preset in _PERTURBED_ALONE and self.weight != known["weight"]:
            raise MethodError(
                f"weight={self.weight} changes nothing: words({self.preset!r}) trains on the other text alone."
            )
        for name in _OWN["hull"]:
            if name not in _OWN[self.search] and getattr(self, name) != known[name]:
                raise MethodError(
                    f"{name}={getattr(self, name)} changes nothing: search={self.search!r} does not read it."
                )
        source = Candidates(self.synonyms, self.count, self.candidates)
        if self.search == "random":
            return RandomWords(self.share, source)
        own: dict[str, Any] = {name: getattr(self, name) for name in _OWN[self.search]}
        return (FlipWords if self.search == "flip" else HullWords)(self.share, source, **own)
