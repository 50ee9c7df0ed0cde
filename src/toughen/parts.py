"""All parts, and `Method`, which holds four of them: one import for a file that puts a method together."""

# ruff: noqa: F403
from .combine import *
from .compare import *
from .method import Method as Method
from .search import *
from .sites import *
