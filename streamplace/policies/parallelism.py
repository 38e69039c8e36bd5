"""Policies that choose numbers of tasks: ``ds2`` alone, ``scale`` with nodes and their placement.

``ds2`` gives every operator as many tasks as its threads need to carry `headroom` times the input,
operator by operator (V. Kalavri et al., *Three steps is all you need*, OSDI 2018, section 3.2), and
places them on the nodes that are there for the highest rate.

``scale`` leaves alone what carries between `least` and `most` times the input. Else it takes the
plan of `formulations.throughput.scale`: the fewest nodes that carry `headroom` times the input, on
these the fewest tasks. Nodes that the plan empties are marked, and released at the next look.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from formulations.throughput.scale import ranges_of, scale
from optim.errors import InvalidInput, Problem
from optim.format.parallelism import at_parallelism
from optim.format.plan import Plan
from optim.methods.solve import solve
from optim.options import Option
from streamplace.policies.policy import Added, Decision, Policy, PolicyFactory, judged

if TYPE_CHECKING:
    from collections.abc import Mapping

    from optim.format.instance import Instance
    from streamplace.policies.policy import State

_SECONDS = 10.0


@dataclass(frozen=True)
class _Parallelism(Policy):
    """What both share.

    Attributes
    ----------
    headroom
        Multiple of the current input that is to be carried after a change.
    seed, time_limit
        Of the search.
    """

    headroom: float = 1.2
    seed: int = 0
    time_limit: float | None = None

    def check(self, instance: Instance) -> None:
        """Refuse an instance without tasks."""
        if not instance.num_tasks:
            reason = "has no tasks, of which a policy could choose the number"
            raise InvalidInput(Problem("tasks", None, reason, "name another instance"))


def _changed(instance: Instance, parallelism: Mapping[str, int]) -> dict[str, int]:
    """Return the numbers of tasks that are not what they are."""
    index = instance.operators.index
    return {o: n for o, n in parallelism.items() if n != len(instance.tasks_of(index[o]))}


def _in_words(instance: Instance, changed: Mapping[str, int]) -> str:
    index = instance.operators.index
    return ", ".join(f"{o} {len(instance.tasks_of(index[o]))} → {n}" for o, n in changed.items())


@dataclass(frozen=True)
class DS2(_Parallelism):
    """Numbers of tasks by what their threads need, whatever the nodes."""

    def decide(self, state: State, instance: Instance, now: float) -> Decision:
        """Compare the numbers of tasks with the least that carry the rate."""
        ranges, reasons = ranges_of(instance, self.headroom)
        if reasons:
            return Decision(state, f"no parallelism carries {self.headroom:g} × the input: "
                            f"{'; '.join(reasons)}")  # fmt: skip
        changed = _changed(instance, {instance.operators.ids[o]: n for o, (n, _) in ranges.items()})
        if not changed:
            return Decision(
                state, f"threads carry {self.headroom:g} × the input with as many tasks"
            )
        words = _in_words(instance, changed)
        scaled = at_parallelism(instance, changed)
        found = solve(
            scaled, objective="sustainable_rate", seed=self.seed,
            time_limit=_SECONDS if self.time_limit is None else self.time_limit,
        )  # fmt: skip
        if found.plan is None or not found.feasible:
            return Decision(state, f"{words}: no placement on the nodes there are")
        plan = Plan(
            instance.name, dict(found.plan.assignment), parallelism=changed, method="ds2",
            claimed_instance_sha256=instance.sha256,
        )  # fmt: skip
        return Decision(state, words, plan, parallelism=changed, objective="sustainable_rate")


@dataclass(frozen=True)
class ScalePolicy(_Parallelism):
    """Numbers of tasks, nodes and placement together.

    Attributes
    ----------
    least, most
        Multiples of the current input between which nothing is done.
    """

    least: float = 1.0
    most: float = 2.0

    def decide(self, state: State, instance: Instance, now: float) -> Decision:
        """Scale where what runs carries too little, or far more than is needed."""
        held = np.bincount(instance.tasks.node[instance.tasks.node >= 0],
                           minlength=instance.num_nodes) > 0  # fmt: skip
        marked = [name for name in _marked(state) if name in instance.nodes.ids]
        free = tuple(name for name in marked if not held[instance.nodes.ids.index(name)])
        state = {**state, "marked": [name for name in marked if name not in free]}
        evaluation = judged(instance)
        carried = 0.0 if evaluation is None else evaluation.sustainable_rate
        if carried is None:
            return Decision(state, "nothing grows with the input", release=free)
        told = f"carries {carried:.4g} × the input" if evaluation else "tasks without a node"
        if self.least <= carried <= self.most:
            return Decision(state, told, release=free)
        found = scale(instance, self.headroom, seed=self.seed)
        if found.plan is None:
            why = "proven that nothing" if found.infeasible else "no plan was found that"
            return Decision(state, f"{told}; {why} carries {self.headroom:g} ×", release=free)
        changed = _changed(instance, found.parallelism)
        nodes = {*found.plan.assignment.values()}
        fewer = (len(nodes), len(found.plan.assignment)) < (int(held.sum()), instance.num_tasks)
        if carried >= self.least and not fewer:
            return Decision(state, f"{told}; no fewer nodes or tasks do", release=free)
        mark = tuple(
            name for n, name in enumerate(instance.nodes.ids) if held[n] and name not in nodes
        )
        add = tuple(Added(name, like) for name, like in found.plan.added_nodes.items())
        parts = [
            told,
            f"{len(nodes)} nodes carry {self.headroom:g} ×",
            _in_words(instance, changed),
        ]
        return Decision(
            {**state, "marked": sorted({*state["marked"], *mark})},
            "; ".join(filter(None, parts)), found.plan, None, add, mark, (), free,
            parallelism=changed, objective="sustainable_rate", otherwise=state,
        )  # fmt: skip


def _marked(state: State) -> list[str]:
    """Return the nodes that a plan before empties."""
    marked = state.get("marked", [])
    if not isinstance(marked, list) or not all(isinstance(name, str) for name in marked):
        raise InvalidInput(
            Problem("state.marked", marked, "is no list of nodes", "begin a new state")
        )
    return marked


_HEADROOM = Option(
    "headroom", "float", 1.2, "multiple of the input that is to be carried", minimum=1e-3
)
_BETWEEN = (
    Option("least", "float", 1.0, "below this multiple of the input more is added", minimum=0.0),
    Option("most", "float", 2.0, "above this one less is looked for", minimum=0.0),
)


def _scaling(given: Mapping[str, Any], seed: int, time_limit: float | None) -> Policy:
    if not given["least"] <= given["headroom"] <= given["most"]:
        reason = "is not between least and most"
        raise InvalidInput(
            Problem("--policy scale:headroom", given["headroom"], reason, "else it never rests")
        )
    return ScalePolicy(given["headroom"], seed, time_limit, given["least"], given["most"])


DS2_RULE = PolicyFactory(
    "ds2", "numbers of tasks by what their threads need (DS2), on the nodes there are",
    lambda given, seed, limit: DS2(given["headroom"], seed, limit), (_HEADROOM,),
)  # fmt: skip
SCALE = PolicyFactory(
    "scale", "numbers of tasks, nodes and placement together, as `streamplace scale`",
    _scaling, (_HEADROOM, *_BETWEEN),
)  # fmt: skip
