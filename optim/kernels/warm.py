"""Compiling the kernels ahead of the clock."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from optim.util.compiled import warming

if TYPE_CHECKING:
    from optim.format.instance import Instance


def two_tasks() -> Instance:
    """Return an instance that is quickly done."""
    from optim.format.instance import Instance

    return Instance.from_dict(
        {
            "format": "streamplace.instance/1",
            "name": "warm-up",
            "resources": ["cpu"],
            "nodes": [{"id": name, "capacity": {"cpu": 1}} for name in "ab"],
            "tasks": [{"id": name, "load": {"cpu": 1}} for name in "ab"],
            "traffic": [["a", "b", 1]],
        }
    )


@warming
def warm_up() -> None:
    """Compile the kernels of repair and descent on two tasks, or load them from the cache."""
    from optim.kernels.descent import descend
    from optim.kernels.repair import place_rest, relieve, repair
    from optim.kernels.state import state_of

    instance = two_tasks()
    everything_on_one = np.zeros(2, dtype=np.int32)
    repair(instance, everything_on_one)
    state = state_of(instance, everything_on_one)
    relieve(state, np.ones(1), True)
    place_rest(state, np.arange(2), np.ones(1), True)
    descend(state, np.arange(2), 1, 1e-9)
