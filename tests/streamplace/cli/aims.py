"""Questions about changes against the same questions typed by hand, and against all placements.

``python -m tests.streamplace.cli.aims FIRST LAST`` asks for a range of seeds.
"""

from __future__ import annotations

import random
import sys
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import numpy as np

from optim import Instance, StreamplaceError, solve
from optim.format.changes import Change, altered
from optim.methods.portfolio import PORTFOLIO
from optim.methods.registry import Settings
from streamplace.cli.fewest_moves import Asking, curve_of, fewest_within
from streamplace.explain.what_if import aim_of, solve_pinned
from tests.fuzz.brute import Space
from tests.fuzz.reading import Reading

if TYPE_CHECKING:
    from collections.abc import Iterator

SHARES = (0.0, 0.02, 0.1, 0.3, 1.0)
_NEAR = 1e-7


def drawn(seed: int) -> dict[str, Any]:
    """Three to six tasks on two or three nodes, with what makes `solve` choose this aim or that."""
    rng = random.Random(seed)
    nodes = [
        {"id": f"n{i}", "capacity": {"cpu": rng.choice([6, 8, 12])}}
        for i in range(rng.choice([2, 3]))
    ]
    ids = [node["id"] for node in nodes]
    tasks: list[dict[str, Any]] = []
    for i in range(rng.randint(3, 6)):
        task: dict[str, Any] = {"id": f"t{i}", "load": {"cpu": rng.randint(1, 4)}}
        tasks.append({**task, "node": rng.choice(ids)})
        if rng.random() < 0.2:
            tasks[-1]["state"] = rng.randint(1, 9)
        if rng.random() < 0.15:
            tasks[-1]["copies"] = [rng.choice([n for n in ids if n != tasks[-1]["node"]])]
    names = [task["id"] for task in tasks]
    found: dict[str, Any] = {
        "format": "streamplace.instance/1", "name": f"drawn {seed}", "nodes": nodes, "tasks": tasks,
    }  # fmt: skip
    if rng.random() < 0.7:
        found["traffic"] = [
            [a, b, rng.randint(1, 9)] for a in names for b in names if a < b and rng.random() < 0.5
        ]
    if rng.random() < 0.3:
        found["links"] = [
            {"id": f"u{n}", "nodes": [n], "capacity": rng.choice([8, 15, 30])} for n in ids
        ]
    if rng.random() < 0.2:
        nodes[rng.randrange(len(nodes))]["leaving"] = True
    limits: dict[str, Any] = {}
    if rng.random() < 0.2:
        limits["max_migrations"] = rng.randint(1, 4)
    if rng.random() < 0.1:
        limits["max_load_distance"] = rng.choice([2, 4])
    if rng.random() < 0.1:
        limits["max_nodes_used"] = 2
    return {**found, "limits": limits} if limits else found


def fewest_of(document: dict[str, Any], result: Any, share: float) -> tuple[int, int] | None:
    """Count over all placements: the fewest moves near enough, strictly and with rounding.

    ``None`` where the objective has no value there. Plans leave no more on leaving nodes than the
    result's, unless the objective weighs that.
    """
    reading = Reading(document)
    space, told = Space(reading), result.objective
    values = space.figures.by_name.get(told.name)
    if values is None or not space.complete:
        return None
    keeps = space.tight
    if told.name == "sustainable_rate":  # its limits are what is measured
        free = [{**node, "capacity": {}} for node in document["nodes"]]
        links = [{k: v for k, v in u.items() if k != "capacity"} for u in document.get("links", [])]
        more = {"links": links} if links else {}
        keeps = Space(Reading({**document, "nodes": free, **more})).tight
    if told.name != "load_distance":
        stays = reading.leaving[space.at] & reading.can_stay_off
        node = np.array(
            [reading.node_ids.index(result.plan.assignment[t]) for t in reading.task_ids]
        )
        most = int((reading.leaving[node] & reading.can_stay_off).sum())
        keeps = keeps & (stays.sum(axis=1) <= most)
    sign, found = (-1.0 if told.sense == "max" else 1.0), []
    for slack in (-_NEAR, _NEAR):
        worst = sign * told.value + (share + slack) * abs(told.value) + slack
        good = keeps & (sign * values <= worst)
        if not good.any():
            return None
        found.append(int(space.figures.by_name["migrations"][good].min()))
    return found[0], found[1]


def judged(seed: int) -> Iterator[tuple[str, str]]:
    """Yield (kind, detail) of what is wrong with the answers about one instance."""
    document = drawn(seed)
    try:
        instance = Instance.from_dict(document)
        result = solve(instance, PORTFOLIO, time_limit=5.0)
    except StreamplaceError:
        return
    if result.plan is not None and result.objective is not None:
        yield from _fewest(seed, document, instance, result)
    if seed % 4 == 0:
        yield from _changed(seed, instance, result)


def _fewest(
    seed: int, document: dict[str, Any], instance: Instance, result: Any
) -> Iterator[tuple[str, str]]:
    share = SHARES[seed % len(SHARES)]
    best = fewest_of(document, result, share)
    found, told = fewest_within(Asking(instance, result, seconds=5.0), share)
    if told is None or best is None:
        return
    strict, loose = max(best), min(best)
    which = f"{result.method} {result.objective.name} within {share:g}: {told}"
    if found.objective is None or found.objective.name != result.objective.name:
        yield "other-objective", which
    if told.moves < loose or told.at_least > strict:
        yield "wrong-count", f"{which}; all placements: {best}"
    if told.proved and not loose <= told.moves <= strict:
        yield "wrong-proof", f"{which}; all placements: {best}"
    if found.evaluation is None or found.evaluation.migrations != told.moves:
        yield (
            "other-moves",
            f"{which}; the plan has {found.evaluation and found.evaluation.migrations}",
        )
    if not told.proved:
        yield "unproved", which  # to be looked at, and counted
    curve = curve_of(Asking(instance, result, seconds=1.0), "moves")
    moves = [point.moves for point in curve.points]
    better = [b.value.better_than(a.value) for a, b in pairwise(curve.points)]
    if moves != sorted(set(moves)) or not all(better):
        yield "curve", f"{which}: {moves}"


def _changed(seed: int, instance: Instance, before: Any) -> Iterator[tuple[str, str]]:
    """What if against the changed instance, solved by hand for the objective as it was."""
    aim = aim_of(instance, None, Settings())
    if aim is None or before.objective is None or before.plan is None:
        return
    rng = random.Random(seed)
    node = rng.choice(instance.nodes.ids)
    change = rng.choice(
        [Change("drop-node", node), Change("fail-node", node), Change("add-node", node, 1),
         Change("scale-rate", "", 1.2), Change("budget", "", rng.randint(0, 5))]
    )  # fmt: skip
    try:
        changed = altered(instance, [change])
        found = solve_pinned(changed, aim, PORTFOLIO, Settings(time_limit=5.0))
    except StreamplaceError:
        return
    if found.objective is None:
        return
    which = f"{change}: {aim.method} {aim.objective}, then {found.method} {found.objective.name}"
    if found.objective.name != aim.objective:
        if not found.departs.startswith("another objective"):
            yield "silent-objective", which
        return
    if found.method != aim.method and not found.departs:
        with_it = _by_hand(changed, aim.method, aim.objective)
        if with_it is not None and found.objective.value != with_it.objective.value:
            yield "silent-method", f"{which}: {with_it.objective.value} by {aim.method}"
    by_hand = _by_hand(changed, PORTFOLIO, aim.objective)
    if by_hand is None or by_hand.objective is None or found.plan is None:
        return
    gain = found.objective.gain_over(by_hand.objective)
    proved = "optimal" in (str(found.termination), str(by_hand.termination))
    near = _NEAR * (1 + abs(by_hand.objective.value or 0.0))
    if gain is not None and proved and abs(gain) > near:
        yield "other-value", f"{which}: {found.objective.value}, by hand {by_hand.objective.value}"


def _by_hand(changed: Instance, method: str, objective: str) -> Any:
    try:
        return solve(changed, method, objective=objective, time_limit=5.0)
    except StreamplaceError:
        return None


if __name__ == "__main__":
    counts: dict[str, int] = {}
    for number in range(int(sys.argv[1]), int(sys.argv[2])):
        for kind, detail in judged(number):
            counts[kind] = counts.get(kind, 0) + 1
            sys.stdout.write(f"{number} {kind}: {detail}\n")
            sys.stdout.flush()
    sys.stdout.write(f"{counts}\n")
