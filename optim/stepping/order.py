"""Orders of moves: batches as they come, all orders where these get stuck, parking as a last way.

Making whatever move fits can lead into a dead end, so a stuck greedy run proves nothing. Moves that
can be made first at no loss (`Room.safe`) are made first; of the others all orders are searched,
each set of moves made being met once, within a limit of work.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from optim.stepping.move import Blocked, Move

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from optim.stepping.room import Room

LOOKED = 200_000
"""Moves that the search for an order looks at."""
JUDGED = 5_000
"""The same where the referee has to judge each of them."""
SEARCHED = 60
"""Moves of which all orders are searched at most, beside those that can be made first."""
PARKED = 400
"""Places tried for tasks that are parked, at one time that nothing else can move."""


@dataclass
class Order:
    """Batches of moves, and what could not be ordered.

    Attributes
    ----------
    batches
        In their order.
    parked
        Tasks that are on a third node for a while.
    blocked
        Moves that are left, with what they wait for; none where all are ordered.
    proven
        Whether it is proven that without parking there is no order.
    found
        Whether all moves are ordered.
    """

    batches: list[list[Move]] = field(default_factory=list)
    parked: list[int] = field(default_factory=list)
    blocked: list[Blocked] = field(default_factory=list)
    proven: bool = False
    found: bool = True


def find_order(new_room: Callable[[], Room], moves: Sequence[Move], *, parking: bool) -> Order:
    """Order moves so that no placement on the way breaks a rule.

    Parameters
    ----------
    new_room
        Makes the start.
    moves
        From the start to the goal, each task once.
    parking
        Whether tasks may be on a third node for a while.
    """
    room, order = new_room(), Order()
    left = _batches(room, list(moves), order)
    if not left:
        return order
    exact = _Search(new_room(), moves)
    sequence = exact.run()
    if sequence is not None:
        return Order(_cut(new_room(), sequence))
    proven = not exact.gave_up
    stuck, rest = exact.stuck()
    blocked = [why for move in rest if (why := stuck.why(move, rest)) is not None]
    if not blocked:  # each could be made first, and all of it ends like this
        blocked = [why for move in left if (why := room.why(move, left)) is not None]
    if parking:
        while left and _park(room, left, order):
            left = _batches(room, left, order)
        if not left:
            order.proven = proven
            return order
    return Order(blocked=blocked, proven=proven, found=False)


def _batches(room: Room, moves: list[Move], order: Order) -> list[Move]:
    """Make batches of all moves that fit, until none does; return those that are left."""
    while moves:
        left = []
        for move in moves:
            if room.fits(move):
                room.begin(move)
            else:
                left.append(move)
        if not room.batch:
            return moves
        order.batches.append(room.end())
        moves = left
    return []


def _cut(room: Room, sequence: Sequence[Move]) -> list[list[Move]]:
    """Part an order into batches of neighbours that may run together."""
    batches = []
    for move in sequence:
        if not room.fits(move):
            batches.append(room.end())
        room.begin(move)
    return [*batches, room.end()]


class _Search:
    """All orders of moves; a set of moves made is a state, and is met once."""

    def __init__(self, room: Room, moves: Sequence[Move]) -> None:
        self.room, self.gave_up = room, False
        self._start: list[Move] = []
        self._rest = list(moves)
        self._advance(self._start, self._rest)

    def _advance(self, made: list[Move], rest: list[Move]) -> None:
        """Make what is safe, as long as anything is."""
        room = self.room
        coming: dict[int, Any] = defaultdict(float)
        going: dict[int, Any] = defaultdict(float)
        for move in rest:
            coming[move.target] = coming[move.target] + room.load_of(move.task)
            going[move.source] = going[move.source] + room.load_of(move.task)
        before = len(rest) + 1
        while len(rest) < before:
            before, kept = len(rest), []
            for move in rest:
                into, out = coming[move.target], going[move.source]
                if room.fits(move) and room.safe(move, into, out):
                    room.make(move)
                    made.append(move)
                    coming[move.target] = into - room.load_of(move.task)
                    going[move.source] = out - room.load_of(move.task)
                else:
                    kept.append(move)
            rest[:] = kept

    def run(self) -> list[Move] | None:
        """Return an order, or ``None``; then `gave_up` says whether there may be one."""
        seen: set[frozenset[Move]] = set()
        path: list[Move] = []
        rest = list(self._rest)
        if len(rest) > SEARCHED:
            self.gave_up = True
            return None
        left = JUDGED if self.room.judged else LOOKED
        stack = [iter(list(rest))]
        while rest:
            move = next(stack[-1], None)
            if move is None:
                stack.pop()
                if not stack:
                    return None
                back = path.pop()
                self.room.make(back.back())
                rest.append(back)
                continue
            left -= 1
            if left < 0:
                self.gave_up = True
                return None
            if not self.room.fits(move):
                continue
            after = frozenset(rest) - {move}
            if after in seen:
                continue
            seen.add(after)
            self.room.make(move)
            path.append(move)
            rest.remove(move)
            stack.append(iter(list(rest)))
        return self._start + path

    def stuck(self) -> tuple[Room, list[Move]]:
        """Return where no safe move is left, and the moves that are."""
        return self.room, self._rest


def _park(room: Room, left: list[Move], order: Order) -> bool:
    """Bring a task to a third node, so that another can move; its own move goes on from there."""
    wanted = Counter(move.target for move in left)
    held = sorted(
        (i for i, m in enumerate(left) if wanted[m.source] and m.task not in order.parked),
        key=lambda i: (-wanted[left[i].source], i),
    )
    second: tuple[int, Move] | None = None
    tried = 0
    for i in held:
        move = left[i]
        for target in _third_nodes(room, move):
            aside = Move(move.task, move.source, target)
            tried += 1
            if tried > PARKED:
                break
            if not room.fits(aside):
                continue
            room.make(aside)
            onward = Move(move.task, target, move.target)
            rest = [onward if j == i else other for j, other in enumerate(left)]
            helps = any(room.fits(other) for other in rest if other is not onward)
            if helps:
                left[:] = rest
                order.batches.append([aside])
                order.parked.append(move.task)
                return True
            room.make(aside.back())
            second = second or (i, aside)
    if second is None:
        return False
    i, aside = second
    room.make(aside)
    left[i] = Move(aside.task, aside.target, left[i].target)
    order.batches.append([aside])
    order.parked.append(aside.task)
    return True


def _third_nodes(room: Room, move: Move) -> list[int]:
    """Nodes that a task may be on for a while, the emptiest of the first resource first."""
    instance = room.between.instance
    may = instance.allowed_mask(move.task) & instance.open_nodes
    may[[n for n in (move.source, move.target) if n >= 0]] = False
    return [int(n) for n in np.flatnonzero(may)[np.argsort(room.free(may), kind="stable")]]
