"""Is it adversarial? What the logged figures of a run say about its perturbation, in sentences."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Literal

from .attacks import Attack
from .curves import late
from .folder import Run

Answer = Literal["yes", "partly", "no"]


@dataclass(frozen=True)
class Finding:
    """One thing that was looked at."""

    question: str
    answer: Answer
    words: str


def findings(run: Run, attacks: Sequence[Attack] = ()) -> list[Finding]:
    """What is known: where the perturbation came from, what it did beside dropout, what an adversary hides."""
    return [*_direction(run), *_effect(run), *_hiding(run), *_beside_noise(attacks)]


def _direction(run: Run) -> Iterator[Finding]:
    share = late(run, "delta_from_gradient")
    if share is None:
        return
    answer: Answer = "yes" if share >= 0.5 else "partly" if share >= 0.1 else "no"
    says = {
        "yes": "the gradient turned it away from its random start",
        "partly": "a good part of it is still its random start",
        "no": "it is its random start, hardly turned: noise under another name",
    }
    yield Finding(
        "Did the gradient find it?",
        answer,
        f"{share:.2f} on a scale from 0 (random) to 1 (the gradient's): {says[answer]}.",
    )


def _effect(run: Run) -> Iterator[Finding]:
    moved, dropout = late(run, "divergence_perturbation"), late(run, "divergence_dropout")
    if moved is None or dropout is None:
        return
    if dropout <= 1e-12:
        yield Finding("Does it do more than dropout?", "yes", "there was no dropout: all of the divergence is its own.")
        return
    ratio = moved / dropout
    answer: Answer = "yes" if ratio >= 1 else "partly" if ratio >= 0.2 else "no"
    says = "" if ratio >= 1 else "; what the model learned to ignore was dropout before all"
    much = f"{ratio:.2f} times as much as" if ratio >= 0.01 else "less than a hundredth of what"
    yield Finding(
        "Does it do more than dropout?", answer, f"it moved predictions {much} another dropout mask did{says}."
    )


def _hiding(run: Run) -> Iterator[Finding]:
    visible = late(run, "budget")
    if visible is None or not 0 <= visible <= 1:  # the authors' variant counts pairs, not shares
        return
    hidden = 1 - visible
    answer: Answer = "yes" if hidden >= 0.02 else "partly" if hidden >= 0.002 else "no"
    says = "" if hidden >= 0.002 else ": it has given up, as hiding costs more than it gains (lower tau)"
    yield Finding("Does the adversary hide attention?", answer, f"{hidden:.1%} of all pairs, late in training{says}.")


def _beside_noise(attacks: Sequence[Attack]) -> Iterator[Finding]:
    """The attack itself: where noise of the same size does as much harm, a flat curve proves nothing."""
    for attack in attacks:
        if attack.arm != "method" or not attack.points or attack.points[-1].noise is None:
            continue
        last = attack.points[-1]
        noise = last.noise or last.score
        lost, by_noise = attack.clean[0] - last.score[0], attack.clean[0] - noise[0]
        answer: Answer = "yes" if last.score[2] < noise[1] else "partly" if lost > by_noise else "no"
        yield Finding(
            f"Is the attack more than noise? ({attack.title})",
            answer,
            f"at {last.x:g} it costs {lost:.3f} of {attack.metric}, random noise of the same size {by_noise:.3f}.",
        )
