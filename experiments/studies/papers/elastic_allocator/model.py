"""The paper's formulas against the referee.

The paper's matrix U: each operator's share of the bandwidth that a node uses.

Source: Elastic Allocator, SOSE 2014, section IV-B, whose formula is damaged; read as: u_ij is the
share of operator j in what crosses node i's links, so that every row of a node that sends or
receives anything sums to 1, and B'_i = B0_i + sent_i · Σ_j u_ij.
"""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING, Any

import numpy as np

from experiments.studies.papers.elastic_allocator.runs import RANDOM, nodes_of, run

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from optim.format.instance import Instance
    from optim.format.tables import Floats


def bandwidth_shares(instance: Instance, node: NDArray[Any]) -> tuple[Floats, Floats]:
    """Return U, (N, T), and what crosses the border of each node, (N,), in units of the rates.

    Parameters
    ----------
    node
        (T,) node of each task, -1 for none; traffic with such a task is nowhere.
    """
    (u, v, rate), count = instance.pairs, instance.num_tasks
    across = (node[u] >= 0) & (node[v] >= 0) & (node[u] != node[v])
    sent = np.bincount(u[across], rate[across], count)
    sent += np.bincount(v[across], rate[across], count)
    share = np.zeros((instance.num_nodes, count))
    placed = np.flatnonzero(node >= 0)
    share[node[placed], placed] = sent[placed]
    total: Floats = share.sum(axis=1)
    np.divide(share, total[:, None], out=share, where=total[:, None] > 0)
    return share, total


def formulas(seed: int) -> dict[str, Any]:
    """Return loads and link uses of a random query by the formulas, less the referee's."""
    from experiments.generators import generate

    instance = generate("eoa_random", seed=seed, nodes=5, operators=12)
    row, result = run(instance, RANDOM, seed=seed)
    judged: Any = result.evaluation
    node = nodes_of(instance, result)
    table = instance.operators
    demand = table.cpu_per_tuple * table.tuple_rate  # e_j r_j, one task an operator
    load = np.bincount(node, demand, instance.num_nodes) + instance.nodes.background[:, 0]
    told = [judged.utilisation[n]["cpu"] for n in instance.nodes.ids]
    share, sent = bandwidth_shares(instance, node)
    links = instance.links.background + (share * sent[:, None]).sum(axis=1)
    seen = np.array(list(judged.link_utilisation.values()))
    sums = share.sum(axis=1)
    return {
        "load, greatest difference": np.abs(load / instance.nodes.capacity[:, 0] - told).max(),
        "links, greatest difference": np.abs(links / instance.links.capacity - seen).max(),
        "rows of U that do not sum to 1": int((np.abs(sums[sent > 0] - 1) > 1e-9).sum()),
        "nodes that send or receive nothing": int((sent <= 0).sum()),
        "overloaded operators reported": _overloads(seed),
        "highest link use": row["bandwidth, highest"],
        **_by_hand(),
    }


@cache
def _by_hand() -> dict[str, float]:
    """Return load and link use of a case by the formulas as printed, and by the referee.

    Printed is ``load = Σ e r / s · CS + C0`` (IV-A), and ``B' = B_remain · Σ a u + B0`` (IV-B).
    """
    from optim import Instance
    from optim.referee.evaluate import evaluate_indices

    e, r, s, cs, c0 = 0.2, 100.0, 50.0, 90.0, 10.0
    sent, b0, b = 30.0, 20.0, 120.0
    instance = Instance.from_dict(
        {
            "format": "streamplace.instance/1",
            "name": "by hand",
            "nodes": [
                {"id": n, "capacity": {"cpu": cs + c0}, "background": {"cpu": c0}} for n in "ab"
            ],
            "links": [{"id": n, "nodes": [n], "capacity": b, "background": b0} for n in "ab"],
            "input_rate": r,
            "operators": [
                {"id": "o", "group": {"tasks": 1}, "cpu_per_tuple": e, "service_rate": s},
                {"id": "p", "group": {"tasks": 1}},
            ],
            "traffic": [["o/0", "p/0", sent]],
        }
    )
    node = np.array([0, 1], np.int32)
    found = evaluate_indices(instance, node)
    share, _ = bandwidth_shares(instance, node)
    assert found.utilisation is not None
    assert found.link_utilisation is not None
    return {
        "load by hand, printed": e * r / s * cs + c0,
        "load by hand, referee": found.utilisation["a"]["cpu"] * (cs + c0),
        "link by hand, printed": (b - b0) * float(share[0].sum()) + b0,
        "link by hand, referee": found.link_utilisation["a"] * b,
    }


def _overloads(seed: int) -> float:
    """Share of two operators, one with r/s = 0.5 and one with 2, reported as they should be."""
    from heuristics.elastic.gma import overloaded
    from optim import Instance

    rate = 10.0 + seed
    rates = {"calm": 2 * rate, "busy": rate / 2}
    instance = Instance.from_dict(
        {
            "format": "streamplace.instance/1",
            "name": "overload",
            "nodes": [{"id": "n", "capacity": {"cpu": 1}}],
            "input_rate": rate,
            "operators": [
                {"id": o, "group": {"tasks": 1}, "cpu_per_tuple": 1e-6, "service_rate": s}
                for o, s in rates.items()
            ],
        }
    )
    notes = overloaded(instance)
    return float(len(notes) == 1 and "operator busy is overloaded" in notes[0])
