"""A demonstration that runs offline in minutes: plain fine-tuning against two robust methods, on generated data."""

from .run_demo import demo as demo
from .run_demo import sample as sample
