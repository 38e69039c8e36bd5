"""Where `solve` lets repair finish a plan that is incomplete or breaks a limit."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from optim.referee.evaluate import evaluate_indices
from optim.referee.result import Termination

if TYPE_CHECKING:
    from optim.format.instance import Instance
    from optim.methods.registry import Outcome


def finish(instance: Instance, outcome: Outcome) -> bool:
    """Complete and mend the outcome's placement in place; return whether anything changed.

    A plan that keeps every rule is never touched.
    """
    from optim.moves.repair import repair

    if outcome.node is None:
        if outcome.termination is Termination.INTERRUPTED:
            return False
        outcome.node = np.full(instance.num_tasks, -1, dtype=np.int32)
    elif evaluate_indices(instance, outcome.node, outcome.slot).feasible:
        return False
    mended = repair(instance, outcome.node)
    if np.array_equal(mended.node, outcome.node):
        return False
    outcome.node, outcome.slot, outcome.claimed = mended.node, None, None
    outcome.notes += mended.notes
    return True
