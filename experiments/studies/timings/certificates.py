"""Claimed against certified bounds, and what writing and checking certificates takes."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from experiments.generators import generate
from experiments.studies.bench.cases import read
from experiments.studies.bench.proofs import EXACT, methods_of
from experiments.studies.timings.registry import spend, value_of
from optim import solve
from optim.certificates import check
from optim.certificates.grade import certified
from optim.figures.catalogue import OBJECTIVES

if TYPE_CHECKING:
    from experiments.studies.timings.registry import Rows
    from optim.format.instance import Instance
    from optim.referee.result import Result

SECONDS, MOST_NODES = 60.0, 20_000


def row_of(
    case: str, instance: Instance, objective: str, method: str, limit: float | None = None
) -> list[object]:
    """Solve an instance, certify its bound, and have the checker read both again."""
    run = spend(solve, instance, method, objective=objective, time_limit=limit)
    result, text = run.value, instance.to_json().encode()
    write = spend(lambda: certified(result, text, nodes=MOST_NODES, seconds=SECONDS))
    graded, document = write.value
    value = value_of(result)
    if document is None:
        return [case, value, result.bound, None, None, "no", "", run.cpu, write.cpu, None, None]
    packed = json.dumps(document).encode()

    def checked() -> None:
        read, sha256 = check.parse(text)
        check.check(read, sha256, check.parse(packed)[0])

    gap, kind = gap_of_value(graded), document["proof"]["kind"]
    closed = "yes" if gap is not None and gap <= 1e-6 else "no"
    return [
        case, value, result.bound, graded.certified_bound, gap, closed, kind, run.cpu, write.cpu,
        spend(checked).cpu, len(packed),
    ]  # fmt: skip


def gap_of_value(result: Result) -> float | None:
    """Return the certified gap; of the load distance, whose gaps are points of the mean load, as a
    share of the value like the others.
    """
    gap, bound = result.certified_gap, result.certified_bound
    if gap is None or result.objective is None or not result.objective.value:
        return gap
    value = result.objective.value
    percent = OBJECTIVES[result.objective.name].percent
    return abs(value - bound) / abs(value) if percent and bound is not None else gap


def bench(only: str = "", limit: float = 120.0) -> Rows:
    """Certify the default cases whose names hold a text."""
    for case in read():
        exact = [method for method in methods_of(case) if method in EXACT]
        if exact and case.unasked and only in case.name:
            instance = case.instance()
            yield row_of(case.name, instance, case.objective, exact[0], limit)


def random_graphs(graphs: int = 2000) -> Rows:
    """As in `task_allocation.random_graphs`."""
    for seed in range(graphs):
        made = generate("random_graphs", seed=seed)
        yield row_of(f"graph {seed}", made, "imc_gain", "imc-exact")
