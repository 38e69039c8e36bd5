"""The modelling phase: a task's performance model from trials of one slot.

>>> from experiments.modelling import SlotTask, model_task, queueing_trial
>>> task = SlotTask(cpu=0.02, wait=0.0, memory_per_thread=5.0)      # 20 ms of CPU a tuple
>>> points = model_task(queueing_trial(task, seconds=20), rate_step=5, max_threads=3)
>>> [(point.threads, point.rate) for point in points]
[(1, 50.0), (2, 50.0), (3, 50.0)]

Source: Shukla and Simmhan, JPDC 2018, arXiv:1702.01785, section 5, Algorithm 1.
"""

from __future__ import annotations

from experiments.modelling.trials import (
    SlotTask,
    Trial,
    TrialResult,
    as_document,
    callable_trial,
    model_task,
    queueing_trial,
)

__all__ = [
    "SlotTask", "Trial", "TrialResult", "as_document", "callable_trial", "model_task",
    "queueing_trial",
]  # fmt: skip
