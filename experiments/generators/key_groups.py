"""Key groups on nodes as arrays: loads, homes, who sends to whom; and the instance they make."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Mapping

    from numpy.typing import NDArray

    from optim.format.instance import Instance

    Floats = NDArray[np.float64]
    Integers = NDArray[np.int64]

LEAST_LOAD = 0.05
"""No key group falls below this, in points."""

SPREAD_OF_RATES = 0.5
"""Standard deviation of the logarithm of one-to-one rates in clusters."""

_DECIMALS = 4


@dataclass(frozen=True, eq=False)
class KeyGroups:
    """A rebalancing instance in the making.

    Attributes
    ----------
    load, home
        (T,) load in points and current node.
    operator
        (T,) number of each key group's operator.
    source, target, rate
        (K,) directed traffic.
    """

    load: Floats
    home: Integers
    operator: Integers
    source: Integers
    target: Integers
    rate: Floats

    @property
    def num_operators(self) -> int:
        """One more than the highest number."""
        return int(self.operator.max(initial=-1)) + 1


def even_key_groups(
    rng: np.random.Generator, nodes: int, per_node: int, mean: float, noise: float
) -> tuple[Floats, Integers]:
    """Return loads and homes of as many key groups on every node, loads ± `noise` percent.

    Parameters
    ----------
    nodes, per_node
        How many nodes, and key groups on each.
    mean
        Load of a node in points, before the noise.
    """
    load = mean / per_node * (1.0 + rng.uniform(-noise, noise, nodes * per_node) / 100.0)
    return load, np.repeat(np.arange(nodes), per_node)


def shift_nodes(
    rng: np.random.Generator,
    load: Floats,
    home: Integers,
    nodes: Integers,
    percent: Floats,
    mean: float,
) -> Floats:
    """Return loads after nodes were shifted by changing a random half of their key groups.

    Every changed key group takes a random part of the shift, between half and one and a half of an
    even one before they are scaled to the whole; none falls below `LEAST_LOAD`.

    Parameters
    ----------
    load, home
        (T,) before.
    nodes, percent
        Which nodes, and by how many percent of `mean` each.
    mean
        Load of a node in points.
    """
    shifted = load.copy()
    for node, change in zip(nodes.tolist(), percent.tolist(), strict=True):
        members = np.flatnonzero(home == node)
        if not len(members):
            continue
        half = rng.choice(members, max(1, len(members) // 2), replace=False)
        part = rng.uniform(0.5, 1.5, len(half))
        moved = shifted[half] + change / 100.0 * mean * part / part.sum()
        shifted[half] = np.maximum(LEAST_LOAD, moved)
    return shifted


def one_to_one_job(
    rng: np.random.Generator,
    key_groups: int,
    operators: int,
    one_to_one: float,
    outside: bool = False,
) -> tuple[Integers, Integers, Integers, Floats]:
    """Return a job of operator pairs: operators, senders, receivers and rates.

    Operators 0 and 1, 2 and 3, … form pairs, the first of each sending to the second. A share of
    the senders has one receiver each, which receives from no one else; the others send evenly to
    all receivers that are left (where none are, as of an odd number of key groups, to all). Key
    groups go to operators in turn. All traffic adds up to 100.

    Parameters
    ----------
    key_groups, operators
        How many; operators in even number.
    one_to_one
        Percent of the key groups with one partner.
    outside
        The others send out of the job instead, which is no traffic between key groups: then
        there is nothing to collocate but the pairs.
    """
    operator = np.arange(key_groups) % operators
    sources, targets, rates = [], [], []
    for pair in range(operators // 2):
        up = rng.permutation(np.flatnonzero(operator == 2 * pair))
        down = rng.permutation(np.flatnonzero(operator == 2 * pair + 1))
        out = rng.uniform(0.5, 1.5, len(up))
        single = round(min(len(up), len(down)) * one_to_one / 100.0)
        rest = down[single:] if single < len(down) else down
        if outside:
            sources.append(up[:single])
            targets.append(down[:single])
            rates.append(out[:single])
            continue
        sources += [up[:single], np.repeat(up[single:], len(rest))]
        targets += [down[:single], np.tile(rest, len(up) - single)]
        rates += [out[:single], np.repeat(out[single:] / len(rest), len(rest))]
    source, target, rate = (np.concatenate(part) for part in (sources, targets, rates))
    order = np.lexsort((target, source))
    rate = rate[order] * (100.0 / max(1e-300, rate.sum()))
    return operator, source[order], target[order], rate


def one_to_one_pairs(
    rng: np.random.Generator, key_groups: int, one_to_one: float
) -> tuple[Integers, Integers, Integers, Floats]:
    """Return two operators whose key groups are one to one in part, the others without traffic.

    Rates are lognormal (σ `SPREAD_OF_RATES`) and add up to 100. The operators have the key groups
    in turn.

    Parameters
    ----------
    key_groups
        How many.
    one_to_one
        Percent of the key groups with one partner.
    """
    operator = np.arange(key_groups) % 2
    up = rng.permutation(np.flatnonzero(operator == 0))
    down = rng.permutation(np.flatnonzero(operator == 1))
    pairs = round(len(down) * one_to_one / 100.0)
    rate = rng.lognormal(0.0, SPREAD_OF_RATES, pairs)
    order = np.lexsort((down[:pairs], up[:pairs]))
    rate = rate[order] * (100.0 / rate.sum()) if pairs else rate
    return operator, up[:pairs][order], down[:pairs][order], rate


def build_instance(
    name: str,
    origin: str,
    groups: KeyGroups,
    nodes: list[dict[str, Any]],
    limits: Mapping[str, Any],
    names: Mapping[str, Any] | None = None,
) -> Instance:
    """Put arrays into the tables of an instance; a million key groups need no million objects.

    Parameters
    ----------
    name, origin
        Of the instance.
    groups
        The key groups.
    nodes
        Entries of the document.
    limits
        Budget and the like; ``None`` values are left out.
    names
        Further entries of the document, such as ``labels``.
    """
    from optim.format.instance import Instance
    from optim.format.tables import TaskTable, TrafficTable

    bare = Instance.from_dict(
        {
            "format": "streamplace.instance/1",
            "name": name,
            "origin": origin,
            "units": {"cpu": "percent points", "rate": "percent of all traffic"},
            "resources": ["cpu"],
            "nodes": nodes,
            "operators": [{"id": f"op{o}"} for o in range(groups.num_operators)],
            "limits": {key: value for key, value in limits.items() if value is not None},
            **(names or {}),
        }
    )
    count = len(groups.load)
    order = np.argsort(groups.operator, kind="stable")
    start = np.searchsorted(groups.operator[order], np.arange(groups.num_operators + 1))
    member = np.empty(count, dtype=np.int32)
    member[order] = np.arange(count) - np.repeat(start[:-1], np.diff(start))
    tasks = TaskTable(
        ids=tuple(f"k{i:06d}" for i in range(count)),
        operator=groups.operator.astype(np.int32),
        member=member,
        load=np.round(groups.load, _DECIMALS)[:, None],
        state=np.ones(count),
        given_cost=np.full(count, np.nan),
        node=groups.home.astype(np.int32),
        slot=np.full(count, -1, dtype=np.int32),
        restricted=np.zeros(0, dtype=np.int32),
        allowed_indptr=np.zeros(1, dtype=np.int32),
        allowed_indices=np.zeros(0, dtype=np.int32),
    )
    operators = replace(
        bare.operators, task_indptr=start.astype(np.int32), task_indices=order.astype(np.int32)
    )
    traffic = TrafficTable(
        groups.source.astype(np.int32),
        groups.target.astype(np.int32),
        np.round(groups.rate, _DECIMALS + 2),
    )
    return replace(bare, operators=operators, tasks=tasks, traffic=traffic)
