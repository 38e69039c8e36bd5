"""Kinds of plans that the core cannot judge by itself: each brings its own referee.

The core judges plans that give every task a node. A plan of another kind (threads on acquired
machines) is judged by what its family registers in the entry point group
``streamplace.plan_kinds``, so that nothing here imports upwards.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from importlib.metadata import entry_points
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from optim.format.instance import Instance
    from optim.format.plan import Plan
    from optim.referee.evaluation import Evaluation

GROUP = "streamplace.plan_kinds"


@dataclass(frozen=True)
class PlanKind:
    """How plans of a kind are judged.

    Attributes
    ----------
    name
        The part of a plan that tells its kind.
    evaluate
        The referee: figures and verdict from instance and plan alone.
    remarks
        Notes that a result with such a plan carries.
    """

    name: str
    evaluate: Callable[[Instance, Plan], Evaluation]
    remarks: Callable[[Instance, Plan, Evaluation], Iterator[str]]


@cache
def plan_kind(name: str) -> PlanKind:
    """Load the kind of plans that a family registered under a name.

    Raises
    ------
    LookupError
        None is registered: the installation is incomplete.
    """
    for point in entry_points(group=GROUP, name=name):
        found: PlanKind = point.load()
        return found
    raise LookupError(f"no referee for plans with {name}: install streamplace again")
