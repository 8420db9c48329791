"""What models learn. `TASKS` names them; each is one class in a file of this folder."""

from experiments.tasks.task import IGNORE, TASKS, Batch, Evaluation, Task

__all__ = ["IGNORE", "TASKS", "Batch", "Evaluation", "Task"]
