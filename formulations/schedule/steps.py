"""`steps`: batches of moves from the present placement to a plan, checked by the referee.

Batches are filled greedily; where that is blocked all orders are searched, then parking. Making
whatever move fits can lead into a dead end, so a stuck greedy run proves nothing. Moves that can be
made first at no loss (`Room.safe`) are made first; of the others all orders are searched, each set
of moves made being met once, within a limit of work.
"""

from __future__ import annotations

import itertools
from collections import Counter, defaultdict
from dataclasses import dataclass, field, replace
from numbers import Real
from typing import TYPE_CHECKING, Any

import numpy as np

from formulations.schedule.capacity import Between, Blocked, Move, Room, Step, Waiting, taken_back
from optim.errors import InvalidInput, Problem, RefereeRefused
from optim.format.tables import APART
from optim.referee import check_belongs
from optim.rules import LINKS

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from optim.format.instance import Instance
    from optim.format.plan import Plan
    from optim.format.tables import Ints

LOOKED = 200_000  # Moves that the search for an order looks at.
JUDGED = 5_000  # The same where the referee has to judge each of them.
SEARCHED = 60
"""Moves of which all orders are searched at most, beside those that can be made first."""
PARKED = 400  # Places tried for tasks that are parked, at one time that nothing else can move.


@dataclass
class Order:
    """Batches of steps, and what could not be ordered."""

    batches: list[list[Step]] = field(default_factory=list)  # In their order.
    parked: list[int] = field(default_factory=list)  # Tasks that are on a third node for a while.
    #: Moves that are left, with what they wait for; none where all are ordered.
    blocked: list[Blocked] = field(default_factory=list)
    proven: bool = False  # Whether it is proven that without parking there is no order.
    found: bool = True  # Whether all moves are ordered.


def find_order(
    instance: Instance, new_room: Callable[[], Room], moves: Sequence[Move], *, parking: bool
) -> Order:
    """Order moves so that no placement on the way breaks a rule.

    Moves that take over from one another are one step (`exchanges`), unless that leads nowhere.

    `instance`: whose copies and sets say which moves are one step.
    `new_room`: makes the start.
    `moves`: from the start to the goal, each task once.
    `parking`: whether tasks may be on a third node for a while.
    """
    steps = exchanges(instance, moves)
    if len(steps) == len(moves):
        return _order_of(new_room, steps, parking=parking)
    whole = _order_of(new_room, steps, parking=False)
    if whole.found:
        return whole
    # exchanges as one step have no order: one by one there may be one, which copies state
    parted = _order_of(new_room, one_by_one(moves), parking=parking)
    parted.proven &= whole.proven
    return parted


def _order_of(new_room: Callable[[], Room], steps: list[Step], *, parking: bool) -> Order:
    room, order = new_room(), Order()
    left = _batches(room, list(steps), order)
    if not left:
        return order
    exact = _Search(new_room(), steps)
    sequence = exact.run()
    if sequence is not None:
        return Order(_cut(new_room(), sequence))
    proven = not (exact.gave_up or room.between.undecided)
    stuck, rest = exact.stuck()
    blocked = [why for step in rest if (why := stuck.why(step, rest)) is not None]
    if not blocked:  # each could be made first, and all of it ends like this
        blocked = [why for step in left if (why := room.why(step, left)) is not None]
    if parking:
        while left and _park(room, left, order):
            left = _batches(room, left, order)
        if not left:
            order.proven = proven
            return order
    return Order(blocked=blocked, proven=proven, found=False)


def _batches(room: Room, steps: list[Step], order: Order) -> list[Step]:
    """Make batches of all steps that fit, until none does; return those that are left."""
    waiting = Waiting(steps)
    while waiting:
        room.fill(waiting)
        if not room.batch:
            break
        order.batches.append(room.end())
    return waiting.steps()


def _cut(room: Room, sequence: Sequence[Step]) -> list[list[Step]]:
    """Part an order into batches of neighbours that may run together."""
    batches = []
    for step in sequence:
        if not room.fits(step):
            batches.append(room.end())
        room.begin(step)
    return [*batches, room.end()]


class _Search:
    """All orders of steps; a set of steps made is a state, and is met once."""

    def __init__(self, room: Room, steps: Sequence[Step]) -> None:
        self.room, self.gave_up = room, False
        self._start: list[Step] = []
        self._rest = list(steps)
        self._advance(self._start, self._rest)

    def _advance(self, done: list[Step], rest: list[Step]) -> None:
        """Make what is safe, as long as anything is."""
        room = self.room
        coming: dict[int, Any] = defaultdict(float)
        going: dict[int, Any] = defaultdict(float)
        for move in itertools.chain(*rest):
            coming[move.target] = coming[move.target] + room.load_of(move.task)
            going[move.source] = going[move.source] + room.load_of(move.task)
        before = len(rest) + 1
        while len(rest) < before:
            before, remaining = len(rest), []
            for step in rest:
                move = step[0]
                into, out = coming[move.target], going[move.source]
                if room.fits(step) and room.safe(step, into, out):
                    room.make(step)
                    done.append(step)
                    coming[move.target] = into - room.load_of(move.task)
                    going[move.source] = out - room.load_of(move.task)
                else:
                    remaining.append(step)
            rest[:] = remaining

    def run(self) -> list[Step] | None:
        """Return an order, or ``None``; then `gave_up` says whether there may be one."""
        seen: set[frozenset[Step]] = set()
        path: list[Step] = []
        rest = list(self._rest)
        if len(rest) > SEARCHED:
            self.gave_up = True
            return None
        left = JUDGED if self.room.is_slow else LOOKED
        stack = [iter(list(rest))]
        while rest:
            step = next(stack[-1], None)
            if step is None:
                stack.pop()
                if not stack:
                    return None
                back = path.pop()
                self.room.make(taken_back(back))
                rest.append(back)
                continue
            left -= 1
            if left < 0:
                self.gave_up = True
                return None
            if not self.room.fits(step):
                continue
            # the steps left determine the placement: a set is searched once, however it was reached
            after = frozenset(rest) - {step}
            if after in seen:
                continue
            seen.add(after)
            self.room.make(step)
            path.append(step)
            rest.remove(step)
            stack.append(iter(list(rest)))
        return self._start + path

    def stuck(self) -> tuple[Room, list[Step]]:
        """Return where no safe step is left, and the steps that are."""
        return self.room, self._rest


def _park(room: Room, left: list[Step], order: Order) -> bool:
    """Bring a task to a third node, so that another can move; its own move goes on from there."""
    wanted = Counter(move.target for (move,) in left)
    candidates = sorted(
        (i for i, (m,) in enumerate(left) if wanted[m.source] and m.task not in order.parked),
        key=lambda i: (-wanted[left[i][0].source], i),
    )
    second: tuple[int, Move] | None = None
    tried = 0
    for i in candidates:
        (move,) = left[i]
        for target in _third_nodes(room, move):
            aside = Move(move.task, move.source, target)
            tried += 1
            if tried > PARKED:
                break
            if not room.fits((aside,)):
                continue
            room.make((aside,))
            onward = (Move(move.task, target, move.target),)
            rest = [onward if j == i else other for j, other in enumerate(left)]
            helps = any(room.fits(other) for other in rest if other is not onward)
            if helps:
                left[:] = rest
                order.batches.append([(aside,)])
                order.parked.append(move.task)
                return True
            room.make((aside.back(),))
            # taken where no third node lets another task move at once
            second = second or (i, aside)
    if second is None:
        return False
    i, aside = second
    room.make((aside,))
    left[i] = (Move(aside.task, aside.target, left[i][0].target),)
    order.batches.append([(aside,)])
    order.parked.append(aside.task)
    return True


def _third_nodes(room: Room, move: Move) -> list[int]:
    """Nodes that a task may be on for a while, the emptiest of the first resource first."""
    instance = room.between.instance
    may = instance.allowed_mask(move.task) & instance.open_nodes
    may[[n for n in (move.source, move.target) if n >= 0]] = False
    return [int(n) for n in np.flatnonzero(may)[np.argsort(room.free(may), kind="stable")]]


# Moves that are one step: replicas that take over each other's copies.
#
# A task that moves to a node which holds a copy of it copies nothing, as long as the task that
# keeps this copy there (another replica, of the same set that is ``apart``) leaves in the same
# step: two that change places are a change of roles, and a chain is one that ends with a new copy.
# Made one after the other, the first would have no place, or its copy would be gone.


def one_by_one(moves: Iterable[Move]) -> list[Step]:
    """Return each move as a step of its own."""
    return [(move,) for move in moves]


def exchanges(instance: Instance, moves: Sequence[Move]) -> list[Step]:
    """Group moves into steps, in the order of the first of each.

    Moves that take over from one another, directly or by others, are one step.
    """
    after = takes_over(instance, moves)
    root = {move.task: move.task for move in moves}

    def find(task: int) -> int:
        while root[task] != task:
            task = root[task]
        return task

    for task, other in after.items():
        root[find(other)] = find(task)
    steps: dict[int, list[Move]] = defaultdict(list)
    for move in moves:
        steps[find(move.task)].append(move)
    return [tuple(step) for step in steps.values()]


def takes_over(instance: Instance, moves: Iterable[Move]) -> dict[int, int]:
    """Return for tasks that move to a copy the task that keeps it there, and moves too."""
    copies, table = instance.copy_nodes, instance.sets
    if not copies:
        return {}
    moving = {move.task: move for move in moves}
    successor: dict[int, int] = {}
    for i in range(len(table.ids)):
        if table.rule[i] != APART:
            continue
        members = [moving[t] for t in table.tasks_of(i).tolist() if t in moving]
        leaves = {move.source: move.task for move in members if move.source >= 0}
        for move in members:
            other = leaves.get(move.target)
            if other is not None and move.target in copies.get(move.task, ()):
                successor.setdefault(move.task, other)
    return successor


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
        carried_out = set(itertools.chain(*self.batches[:done]))
        exchanged = tuple(taken_back(step) for step in self.exchanged if step[0] in carried_out)
        seconds = self.seconds[:done][::-1]
        return replace(self, batches=back, exchanged=exchanged, seconds=seconds, back=True)

    def _repr_html_(self) -> str:
        from optim.format.html import figure, page

        data, unknown = self.to_dict(), [None] * len(self.batches)
        summary = f"{self.num_moves} moves in {len(self.batches)} batches"
        if not self.found:
            summary = "proven: no order without parking" if self.proven else "no order found"
        rows = [
            [k, move["task"], move["from"] or "nowhere", move["to"] or "nowhere", figure(seconds)]
            for k, (batch, seconds) in enumerate(
                zip(data["batches"], self.seconds or unknown, strict=True), 1
            )
            for move in batch
        ] or [["–", m["task"], m["from"] or "nowhere", m["to"], m["rule"]] for m in data["blocked"]]
        head = ["batch", "task", "from", "to", "seconds" if self.found else "breaks"]
        return page(f"steps of {self.instance.name}", summary, head if rows else [], rows)

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
    unplaced = np.flatnonzero(goal < 0)[:20].tolist()
    if unplaced:
        names = (instance.tasks.ids[t] for t in unplaced)
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
    """Return how long the node that copies most takes, for each batch."""
    # A switch to a copy takes no time, unless the replica that holds it there leaves before
    if rate is None:
        return [None] * len(batches)
    cost, copies = instance.tasks.migration_cost, instance.copy_nodes
    state = np.where(np.isnan(instance.tasks.state), cost, instance.tasks.state)
    copy_keeper, left, seconds = takes_over(instance, moves), set[int](), list[float | None]()
    for batch in batches:
        out, into = np.zeros(instance.num_nodes), np.zeros(instance.num_nodes)
        for move in batch:
            by_copy = (
                move.target in copies.get(move.task, ()) and copy_keeper.get(move.task) not in left
            )
            if move.source >= 0 and not by_copy:
                out[move.source] += state[move.task]
                into[move.target] += state[move.task]
        left.update(move.task for move in batch)
        seconds.append(float(max(out.max(initial=0.0), into.max(initial=0.0)) / rate))
    return seconds
