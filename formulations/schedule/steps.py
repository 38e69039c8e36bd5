"""`steps`: batches of moves from the present placement to a plan, checked by the referee."""

from __future__ import annotations

import itertools
from dataclasses import dataclass, replace
from numbers import Real
from typing import TYPE_CHECKING, Any

import numpy as np

from formulations.schedule.order import find_order, takes_over
from formulations.schedule.problem import Between, Blocked, Move, Step, taken_back
from formulations.schedule.room import Room
from optim.errors import InvalidInput, Problem, RefereeRefused
from optim.referee.evaluate import check_belongs
from optim.rules import LINKS

if TYPE_CHECKING:
    from optim.format.instance import Instance
    from optim.format.plan import Plan
    from optim.format.tables import Ints

STEPS_FORMAT = "streamplace.steps/1"


@dataclass(frozen=True, eq=False)
class Steps:
    """An order of moves, in batches.

    Attributes
    ----------
    instance, plan
        From the present placement of the one to the other.
    batches
        Moves that run together, one batch after another; none where there is no order.
    seconds
        How long each batch takes to copy its state; ``None`` where no rate was given. A task
        without ``state`` counts with its migration cost.
    parked
        Tasks that are on a third node for a while.
    exchanged
        Moves of a batch that are one step: replicas that take over each other's copies.
    blocked
        Where there is no order: the moves that cannot be made, and what they wait for.
    proven
        Whether it is proven that without parking there is no order.
    found
        Whether there is an order.
    notes
        What the answer does not say of what was asked.
    back
        Whether it is the way back to the present placement.
    """

    instance: Instance
    plan: Plan
    batches: tuple[tuple[Move, ...], ...]
    seconds: tuple[float | None, ...]
    parked: tuple[int, ...] = ()
    exchanged: tuple[Step, ...] = ()
    blocked: tuple[Blocked, ...] = ()
    proven: bool = False
    found: bool = True
    notes: tuple[str, ...] = ()
    back: bool = False

    @property
    def num_moves(self) -> int:
        """Moves in all batches; each task that is parked makes one more."""
        return sum(map(len, self.batches))

    def rollback(self, done: int) -> Steps:
        """Return the way back to the present placement after the first batches.

        Every placement on it was met on the way there.

        Parameters
        ----------
        done
            Number of batches that were made.
        """
        if not 0 <= done <= len(self.batches):
            reason = f"is not between 0 and the {len(self.batches)} batches"
            raise InvalidInput(Problem("--rollback", done, reason))
        back = tuple(map(taken_back, self.batches[:done][::-1]))
        made = set(itertools.chain(*self.batches[:done]))
        exchanged = tuple(taken_back(step) for step in self.exchanged if step[0] in made)
        seconds = self.seconds[:done][::-1]
        return replace(self, batches=back, exchanged=exchanged, seconds=seconds, back=True)

    def _repr_html_(self) -> str:
        from optim.format.html import figure, page

        told, unknown = self.to_dict(), [None] * len(self.batches)
        words = f"{self.num_moves} moves in {len(self.batches)} batches"
        if not self.found:
            words = "proven: no order without parking" if self.proven else "no order found"
        rows = [
            [k, move["task"], move["from"] or "nowhere", move["to"] or "nowhere", figure(seconds)]
            for k, (batch, seconds) in enumerate(
                zip(told["batches"], self.seconds or unknown, strict=True), 1
            )
            for move in batch
        ] or [["–", m["task"], m["from"] or "nowhere", m["to"], m["rule"]] for m in told["blocked"]]
        head = ["batch", "task", "from", "to", "seconds" if self.found else "breaks"]
        return page(f"steps of {self.instance.name}", words, head if rows else [], rows)

    def to_dict(self) -> dict[str, Any]:
        """Return it as plain data."""
        instance, names = self.instance, self.instance.tasks.ids
        return {
            "format": STEPS_FORMAT,
            "instance": instance.name,
            "instance_sha256": instance.sha256,
            "plan_sha256": self.plan.sha256,
            "found": self.found,
            "batches": [[move.to_dict(instance) for move in batch] for batch in self.batches],
            "seconds": list(self.seconds),
            "parked": [names[t] for t in self.parked],
            "exchanged": [[names[move.task] for move in step] for step in self.exchanged],
            "proven_no_order_without_parking": self.proven,
            "notes": list(self.notes),
            "back": self.back,
            "blocked": [blocked.to_dict(instance) for blocked in self.blocked],
        }


def steps(
    instance: Instance,
    plan: Plan,
    *,
    transient: bool = False,
    copy_rate: float | None = None,
    per_node: int = 1,
    parking: bool = True,
) -> Steps:
    """Order the moves of a plan so that no placement on the way breaks a rule.

    Parameters
    ----------
    instance, plan
        The present placement, and the one to come to. A task that is nowhere yet is started where
        the plan has it.
    transient
        A moving task needs its place on both of its nodes until its batch has ended.
    copy_rate
        State a second that each node can send, and that each can receive; for the durations.
    per_node
        Moves that a node takes part in at a time.
    parking
        Whether tasks may be on a third node for a while where there is no other way.

    Returns
    -------
    Steps
        `found` says whether there is an order; where not, `blocked` has what waits for what.

    Raises
    ------
    InvalidInput
        The plan is for another instance, does not place every task, or makes threads; a number
        is not above 0.
    RefereeRefused
        The referee does not accept a placement on the way: an error of this program.

    Examples
    --------
    >>> from streamplace import InstanceBuilder, Plan, steps
    >>> builder = InstanceBuilder("two").node("n1", capacity=100).node("n2", capacity=100)
    >>> builder = builder.task("map", load=60, node="n1").task("sink", load=30, node="n2")
    >>> instance = builder.traffic("map", "sink", 12.5).build()
    >>> order = steps(instance, Plan.from_indices(instance, [0, 0]), copy_rate=0.5)
    >>> order.found, order.to_dict()["batches"], order.seconds
    (True, [[{'task': 'sink', 'from': 'n2', 'to': 'n1'}]], (2.0,))
    """
    start, goal = instance.tasks.node, _goal(instance, plan)
    if copy_rate is not None and not (isinstance(copy_rate, Real) and 0 < copy_rate < np.inf):
        raise InvalidInput(Problem("--copy-rate", copy_rate, "must be a number above 0"))
    if not (isinstance(per_node, int) and per_node >= 1):
        raise InvalidInput(Problem("--per-node", per_node, "must be a whole number above 0"))
    between = Between(instance, start, goal)
    changed = np.flatnonzero(start != goal).tolist()
    moves = [Move(t, int(start[t]), int(goal[t])) for t in changed]
    order = find_order(instance, lambda: Room(between, per_node), moves, parking=parking)
    batches = [tuple(itertools.chain(*batch)) for batch in order.batches]
    _check(between, start, batches)
    return Steps(
        instance,
        plan,
        tuple(batches),
        tuple(_durations(instance, batches, moves, copy_rate)),
        tuple(order.parked),
        tuple(step for batch in order.batches for step in batch if len(step) > 1),
        tuple(order.blocked),
        order.proven,
        order.found,
        _notes(instance) if transient else (),
    )


def _notes(instance: Instance) -> tuple[str, ...]:
    """Say for which rules a task that moves is not on both of its nodes."""
    rules = (
        ("links", LINKS.present(instance) is not None),
        ("crossing_cost", bool(instance.crossing_cost.any())),
        ("workers", bool((instance.topologies.workers >= 0).any())),
    )
    some = ", ".join(name for name, present in rules if present)
    return (f"{some}: a moving task counts on one node at a time, never on both",) if some else ()


def _goal(instance: Instance, plan: Plan) -> Ints:
    check_belongs(instance, plan)
    if plan.threads is not None:
        reason = "makes threads on machines of its own: nothing moves"
        raise InvalidInput(Problem("PLAN", plan.instance_name, reason))
    goal = plan.node_indices(instance)
    lost = np.flatnonzero(goal < 0)[:20].tolist()
    if lost:
        names = (instance.tasks.ids[t] for t in lost)
        reason, remedy = "is not placed by the plan", "use a plan that places every task"
        raise InvalidInput([Problem(f"assignment.{n}", None, reason, remedy) for n in names])
    return goal


def _check(between: Between, start: Ints, batches: list[tuple[Move, ...]]) -> None:
    """Have the referee judge the placement after each batch."""
    node = start.copy()
    for number, batch in enumerate(batches, 1):
        for move in batch:
            node[move.task] = move.target
        worse = between.worse(node)
        if worse:
            raise RefereeRefused(f"after batch {number} of {len(batches)}: {worse[0]}")
    if batches and (node != between.goal).any():
        raise RefereeRefused("the batches do not end at the plan")


def _durations(
    instance: Instance, batches: list[Step], moves: list[Move], rate: float | None
) -> list[float | None]:
    """Return how long the node that copies most takes, for each batch.

    A switch to a copy takes no time, unless the replica that holds it there leaves before.
    """
    if rate is None:
        return [None] * len(batches)
    cost, copies = instance.tasks.migration_cost, instance.copy_nodes
    state = np.where(np.isnan(instance.tasks.state), cost, instance.tasks.state)
    kept_by, left, found = takes_over(instance, moves), set[int](), list[float | None]()
    for batch in batches:
        out, into = np.zeros(instance.num_nodes), np.zeros(instance.num_nodes)
        for move in batch:
            held = move.target in copies.get(move.task, ()) and kept_by.get(move.task) not in left
            if move.source >= 0 and not held:
                out[move.source] += state[move.task]
                into[move.target] += state[move.task]
        left.update(move.task for move in batch)
        found.append(float(max(out.max(initial=0.0), into.max(initial=0.0)) / rate))
    return found
