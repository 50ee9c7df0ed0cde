"""A demonstration that runs offline in minutes: plain fine-tuning against a robust one, on real requests."""

from .run_demo import demo as demo
from .run_demo import sample as sample
