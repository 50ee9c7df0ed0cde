"""WHAT to compare."""

from .budget import BatchDivergence as BatchDivergence
from .budget import Budgeted as Budgeted
from .divergence import Divergence as Divergence
from .task_loss import TaskAndDivergence as TaskAndDivergence
from .task_loss import TaskAwayFromFeatures as TaskAwayFromFeatures
from .task_loss import TaskLoss as TaskLoss
from .task_loss import loss_of as loss_of
