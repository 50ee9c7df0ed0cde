"""What parts declare about themselves. A part is any object of the right form, so what it leaves out has a default."""

from typing import Any

DEFAULTS: dict[str, Any] = {
    # Sites
    "target": "activations",  # what is perturbed: "activations", "attention", "weights", "text", "dropout" or "none"
    "inside_layers": True,  # a checkpointed layer may run the site again in its backward pass
    "at_input_embedding": False,  # it shows the tokens that are embedded
    "skip": (),  # positions that are left alone
    # Sites, searches, comparisons, combines: the target they are made for
    "acts_on": "activations",
    # Searches
    "starts_at_clean": False,  # the first perturbation is zero
    "candidates": None,  # where it takes the words from that may stand in a word's place (search/candidates.py)
    # Comparisons
    "needs_clean": True,  # it reads the clean prediction, or the teacher's
    "needs_features": False,
    "needs_label_variance": False,
    "needs_predictions": True,  # not the loss and features alone
    "least_at_clean": False,  # it is a divergence: least, with a zero gradient, where both predictions are equal
    "from_predictions": False,  # it depends on the perturbed pass through its predictions alone
    # Combines
    "adds_regularizer": False,  # it has a `regularizer` that another method's loss can take in
    "includes_clean_loss": False,
    "makes_clean_pass": True,
    "ascends_between_passes": False,  # the search steps with the gradients of the training's backward passes
    "num_rounds": 1,  # how often it goes over an accumulation window
    "optional_labels": False,
    "reads_clean_last": False,  # it reads nothing of the clean pass before a perturbed one has run
}


def declared(part: object, need: str) -> Any:
    """What a part declares, or the default: a comparison that says nothing reads the clean prediction."""
    return getattr(part, need, DEFAULTS[need])
