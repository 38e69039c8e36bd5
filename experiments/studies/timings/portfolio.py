"""`solve` without a method beside every single method that suits, given the same time.

    python -m experiments.studies.timings.portfolio [SECONDS [examples|sweep …]]

Paired: on each instance the portfolio has the time, then each registered method that suits without
repair and optimises the same has as much. The instances are those of `examples`, and those of its
sweep (CAPSys queries whose CPU is filled to 50, 75 and 90 %). A plan that leaves tasks on leaving
nodes is worse than one that leaves fewer, then the objective decides, judged by the referee.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from experiments.studies.timings.table import print_table
from experiments.sweep.variations import Variation
from optim import solve
from optim.errors import StreamplaceError, UnsuitableMethod
from optim.figures.catalogue import OBJECTIVES
from optim.format.instance import Instance
from optim.kernels.warm import warm_up
from optim.methods.choose import check_suitable
from optim.methods.portfolio import PORTFOLIO
from optim.methods.registry import get_method, method_names

if TYPE_CHECKING:
    from collections.abc import Iterator

    from optim.figures.figure import Figure
    from optim.referee.result import Result

EXAMPLES = Path(__file__).parents[3] / "examples"
SECONDS = 5.0
SHARES = (0.5, 0.75, 0.9)


class Reached(NamedTuple):
    """What a method reached: tasks on leaving nodes, and the objective."""

    left: int
    value: float


def examples() -> Iterator[Instance]:
    """Yield the instances among the examples."""
    for path in sorted(EXAMPLES.glob("*.json")):
        yield Instance.load(path)


def sweep() -> Iterator[Instance]:
    """Yield the instances of the examples' sweep."""
    vary = Variation("load_share", "load_share")
    for path in sorted(EXAMPLES.glob("capsys-q*.json")):
        document = Instance.load(path).to_dict()
        for share in SHARES:
            name = f"{document['name']} at {100 * share:g} %"
            yield Instance.from_dict({**vary.apply(document, share), "name": name})


def reached(result: Result, figure: Figure) -> Reached | None:
    """Return what a plan reaches by the referee; limits that the objective measures are none."""
    if result.evaluation is None or not (result.feasible or figure.hard):
        return None
    value = result.evaluation.objective(figure.name)
    left = result.evaluation.undrained
    count = 0 if left is None or figure.weighs_leaving else int(left["count"])
    return None if value is None else Reached(count, float(value))


def behind(one: Reached | None, other: Reached | None, figure: Figure) -> float:
    """Return by what share of the other the one is worse; below 0 it is better."""
    if other is None:
        return 0.0
    if one is None or one.left > other.left:
        return 1.0
    sign = 1.0 if figure.sense == "max" else -1.0
    size = max(abs(one.value), abs(other.value))
    lost = sign * (other.value - one.value)
    return lost / size if size > 1e-9 and one.left == other.left else 0.0


def singles(instance: Instance, objective: str) -> Iterator[str]:
    """Yield the methods that suit an instance without repair and optimise the same."""
    for name in method_names():
        method = get_method(name)
        if method.aimed_at(objective).objective != objective:
            continue
        try:
            check_suitable(method, instance, repair=False)
        except UnsuitableMethod:
            continue
        yield name


def compare(instance: Instance, seconds: float) -> list[object] | None:
    """Return a row: the portfolio, the best single method, and by how much it is better."""
    try:
        ours = solve(instance, PORTFOLIO, time_limit=seconds)
    except StreamplaceError as error:
        print(f"{instance.name}: {error}", file=sys.stderr)
        return None
    if ours.objective is None:
        return None
    figure = OBJECTIVES[ours.objective.name]
    mine = reached(ours, figure)
    best, name, tried = None, "", 0
    for single in singles(instance, figure.name):
        try:
            result = solve(instance, single, time_limit=seconds, objective=figure.name)
        except StreamplaceError:
            continue
        found = reached(result, figure)
        tried += 1
        if found is not None and (best is None or behind(best, found, figure) > 0):
            best, name = found, single
    lost = behind(mine, best, figure)
    print(instance.name, figure.name, mine, best, name, lost, flush=True, file=sys.stderr)
    value = None if mine is None else mine.value
    other = None if best is None else best.value
    return [
        instance.name, figure.name, value, str(ours.termination), name, other, tried,
        f"{100 * lost:.3f} %",
    ]  # fmt: skip


def main() -> None:
    """Measure and print a table for each set of instances."""
    seconds = float(sys.argv[1]) if len(sys.argv) > 1 else SECONDS
    warm_up()
    for title, make in (("examples", examples), ("sweep", sweep)):
        if title in (sys.argv[2:] or (title,)):
            rows = [row for instance in make() if (row := compare(instance, seconds))]
            columns = [
                "instance", "objective", "portfolio", "ended", "best single", "its value",
                "methods", "portfolio is worse by",
            ]  # fmt: skip
            print_table(f"Portfolio beside single methods, {seconds:g} s: {title}", columns, rows)


if __name__ == "__main__":
    main()
