"""WHAT to compare."""

from .budget import BatchSumDivergence as BatchSumDivergence
from .budget import DivergenceWithBudget as DivergenceWithBudget
from .divergence import Divergence as Divergence
from .ema_teacher import EmaTeacher as EmaTeacher
from .task_loss import TaskLoss as TaskLoss
from .task_loss import TaskLossAndDivergence as TaskLossAndDivergence
from .task_loss import TaskLossMinusCosine as TaskLossMinusCosine
from .task_loss import loss_of as loss_of
