"""METIS graph file of an instance: tasks as vertices, traffic as weighted edges.

METIS takes whole numbers. Where loads and rates are whole they stand as they are; otherwise each is
scaled so that the largest is `scale`, rounded, and at least 1 for an edge.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from optim.options import Option
from streamplace.clusters.exchange.declarations import Exporter

if TYPE_CHECKING:
    from collections.abc import Mapping

    from optim.format.instance import Instance
    from optim.format.tables import Floats
    from streamplace.clusters.exchange.ledger import Ledger
    from streamplace.clusters.exchange.placements import Places

_EXACT = 2**31 - 1


def write(
    instance: Instance, places: Places, options: Mapping[str, Any], ledger: Ledger
) -> dict[str, str]:
    """Return the graph: sizes where there is state, a weight a resource, undirected edges.

    Raises
    ------
    InvalidInput
        There are more task pairs than are spread out.
    """
    u, v, rate = instance.pairs
    weights = np.column_stack(
        [
            _whole(instance.tasks.load[:, r], f"loads of {name}", options["scale"], ledger)
            for r, name in enumerate(instance.resources)
        ]
    )
    edges = np.maximum(1, _whole(rate, "rates", options["scale"], ledger)) if len(rate) else rate
    state = instance.tasks.state
    sized = bool(len(state)) and not np.isnan(state).any()
    sizes = _whole(state, "states", options["scale"], ledger) if sized else None
    _tell_flat(weights, instance, ledger)
    lines: list[list[str]] = [
        [*([str(int(sizes[t]))] if sizes is not None else []), *map(str, weights[t].tolist())]
        for t in range(instance.num_tasks)
    ]
    for a, b, weight in zip(u.tolist(), v.tolist(), edges.tolist(), strict=True):
        lines[a] += [str(b + 1), str(int(weight))]
        lines[b] += [str(a + 1), str(int(weight))]
    width = f" {weights.shape[1]}" if weights.shape[1] > 1 else ""
    head = f"{instance.num_tasks} {len(u)} {int(sized)}11{width}"
    return {"": "\n".join([head, *(" ".join(line) for line in lines)]) + "\n"}


def _whole(values: Floats, what: str, scale: int, ledger: Ledger) -> Any:
    largest = float(values.max(initial=0.0))
    if largest <= _EXACT and np.array_equal(values, np.round(values)):
        return values.astype(np.int64)
    ledger.reading(f"{what} are scaled so that the largest is {scale}, and rounded")
    return np.round(values * (scale / largest)).astype(np.int64)


def _tell_flat(weights: Any, instance: Instance, ledger: Ledger) -> None:
    for r, name in enumerate(instance.resources):
        if not weights[:, r].any():
            ledger.warn(f"no task has any {name}: its weights are all 0")


EXPORTER = Exporter(
    name="metis-graph",
    summary="the instance as a METIS graph file; needs no plan",
    options=(
        Option(
            "scale",
            "int",
            1_000_000,
            "largest number that scaling gives",
            minimum=1,
            maximum=_EXACT,
        ),
    ),
    write=write,
    needs_plan=False,
)
