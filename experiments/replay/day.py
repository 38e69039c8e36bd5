"""A synthetic day: loads that rise and fall, drift apart and burst, over a job of operator pairs.

Made up for trying policies, not measured: a cosine from the quietest to the busiest hour, key
groups of unequal weight that drift, and bursts on single operators.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from experiments.generators.kinds import Kind
from experiments.generators.rebalancing import (
    KeyGroups,
    build_instance,
    num_key_groups,
    one_to_one_job,
)
from optim.options import Option

if TYPE_CHECKING:
    from collections.abc import Mapping

    from numpy.typing import NDArray

    from optim.format.instance import Instance

    Floats = NDArray[np.float64]

_CAPACITY = 100.0
_QUIETEST = 4.0
"""Hour of least load."""


def day_periods(seed: int, **parameters: Any) -> list[Instance]:
    """Return the periods of a day, by its `PARAMETERS`.

    Raises
    ------
    InvalidInput
        Unknown parameters, or values that do not do.
    """
    made: list[Instance] = []

    def keep(rng: np.random.Generator, name: str, p: Mapping[str, Any]) -> Instance:
        made.extend(_build_all(rng, name, p))
        return made[0]

    Kind("day", "a synthetic day", PARAMETERS, keep).make(seed, parameters)
    return made


def _build_all(rng: np.random.Generator, name: str, p: Mapping[str, Any]) -> list[Instance]:
    count = num_key_groups(p)
    operator, source, target, rate = one_to_one_job(rng, count, p["operators"], p["one_to_one"])
    size = rng.lognormal(0.0, p["skew"], count)
    home = rng.permutation(count) % p["nodes"]
    levels, drift = _levels(p["periods"], p["night"]), np.zeros(count)
    bursts = _bursts(rng, p)
    busy = p["utilisation"] / 100.0 * _CAPACITY * p["nodes"]
    periods = []
    for period in range(p["periods"]):
        drift = 0.95 * drift + rng.normal(0.0, p["drift"], count)
        shape = size * np.exp(drift) * bursts[period, operator]
        load = shape / size.sum() * busy * levels[period]
        factor = load / (size / size.sum() * busy)
        groups = KeyGroups(load, home, operator, source, target, rate * factor[source])
        hour = 24.0 * period / p["periods"]
        nodes = [{"id": f"n{i:04d}", "capacity": {"cpu": _CAPACITY}} for i in range(p["nodes"])]
        one = build_instance(
            f"{name}-{period:03d}",
            f"synthetic day, period {period} of {p['periods']}",
            groups, nodes, {"max_migrations": p["max_migrations"]},
            labels={"hour": f"{int(hour):02d}:{round(hour % 1 * 60):02d}"},
        )  # fmt: skip
        periods.append(one)
    return periods


def _levels(periods: int, night: float) -> Floats:
    """(P,) share of the busiest hour's load, `night` percent of it at the quietest."""
    hours = 24.0 * np.arange(periods) / periods
    wave = 0.5 - 0.5 * np.cos(2.0 * np.pi * (hours - _QUIETEST) / 24.0)
    low = night / 100.0
    return low + (1.0 - low) * wave


def _bursts(rng: np.random.Generator, p: Mapping[str, Any]) -> Floats:
    """(P, O) factors: 1, but now and then an operator has `burst` times its load for an hour."""
    factors = np.ones((p["periods"], p["operators"]))
    length = max(1, p["periods"] // 24)
    starts = rng.random(factors.shape) < p["bursts"] / p["periods"]
    for period, operator in np.argwhere(starts).tolist():
        factors[period : period + length, operator] = p["burst"]
    return factors


PARAMETERS = (
    Option("nodes", "int", 20, "number of nodes, of 100 points", minimum=1, maximum=10_000),
    Option("key_groups", "int", 20, "key groups for each node", minimum=1, maximum=10_000),
    Option("operators", "int", 10, "number of operators, even", minimum=2),
    Option("one_to_one", "float", 50.0, "percent of key groups", minimum=0, maximum=100),
    Option("periods", "int", 96, "periods of the day", minimum=1, maximum=10_000),
    Option("utilisation", "float", 75.0, "percent at the busiest hour", minimum=1),
    Option("night", "float", 30.0, "percent of that at the quietest", minimum=0, maximum=100),
    Option("skew", "float", 0.5, "spread of key groups (log)", minimum=0, maximum=3),
    Option("drift", "float", 0.05, "drift of a key group a period (log)", minimum=0, maximum=1),
    Option("bursts", "float", 0.5, "bursts an operator and day", minimum=0),
    Option("burst", "float", 1.5, "factor of a burst", minimum=0.01, maximum=100),
    Option("max_migrations", "int", 20, "budget in moves; none: no limit", minimum=0),
)
