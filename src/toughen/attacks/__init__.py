"""Attacks on a trained model: perturbed embeddings, characters, words, noise, hard sets; batched, kept, resumable."""
