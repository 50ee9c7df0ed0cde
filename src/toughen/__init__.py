"""Robust fine-tuning of pretrained transformers, as compositions of four small parts."""

from ._version import __version__ as __version__
