"""WHAT to compare."""

from .budget import BatchDivergence as BatchDivergence
from .budget import Budgeted as Budgeted
from .divergence import Divergence as Divergence
from .task import TaskAndDivergence as TaskAndDivergence
from .task import TaskAwayFromFeatures as TaskAwayFromFeatures
from .task import TaskLoss as TaskLoss
from .task import loss_of as loss_of
