"""Measure time and memory of a training step of each method, beside a plain step."""

from .step_time import Row as Row
from .step_time import bench as bench
from .step_time import markdown as markdown
