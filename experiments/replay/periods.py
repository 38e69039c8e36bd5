"""The periods of a replay: instances with the same key groups on the same nodes, in order.

From files, a trace, or a synthetic day: loads that rise and fall, drift apart and burst, over a job
of operator pairs. The day is made up for trying policies, not measured: a cosine from the quietest
to the busiest hour, key groups of unequal weight that drift, and bursts on single operators.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from experiments.generators.kinds import Kind
from experiments.generators.rebalancing import (
    KeyGroups,
    build_instance,
    num_key_groups,
    one_to_one_job,
)
from optim.errors import InvalidInput, Problem, raise_any
from optim.format.instance import Instance
from optim.plugins import Option
from streamplace.present.numbers import listed

Floats = NDArray[np.float64]

_SUFFIXES = (".json", ".json.gz")
_SHOWN = 5


def find_files(paths: Iterable[str | Path]) -> list[Path]:
    """Return the instance files of files and folders; a folder's by name, numbers in order.

    Raises `InvalidInput`: a path does not exist, or a folder holds no instance.
    """
    files: list[Path] = []
    for name in paths:
        path = Path(name)
        if path.is_dir():
            inside = [p for p in path.iterdir() if p.name.endswith(_SUFFIXES) and p.is_file()]
            if not inside:
                raise InvalidInput(Problem(str(path), None, "holds no .json or .json.gz file"))
            files += sorted(inside, key=_natural)
        elif path.exists():
            files.append(path)
        else:
            raise InvalidInput(Problem(str(path), None, "no such file or folder"))
    return files


def load_periods(paths: Iterable[str | Path]) -> list[Instance]:
    """Read the periods. Raises `InvalidInput`: a file is wrong, or they do not belong together."""
    files = find_files(paths)
    periods = [Instance.load(file) for file in files]
    check_periods(periods, [str(file) for file in files])
    return periods


def load_trace(
    path: str | Path, placement: str | None = None, *, seed: int = 0, most: int | None = None
) -> list[Instance]:
    """Return the periods of a trace, empty ones too.

    `placement`: where key groups are at first, as `experiments.traces.instances.place` takes it; as
        the job description says if not given. Nothing moves later: policies decide that.
    `seed`: of a placement by a method.
    `most`: only the first so many periods.
    Raises `InvalidInput`: the trace cannot be read, says nothing of nodes, or the placement cannot
        be made.
    """
    from experiments.traces.folder import TraceFolder
    from experiments.traces.instances import InstanceMaker, instances

    trace = TraceFolder.open(path)
    count = trace.manifest.num_over
    count = count if most is None else min(most, count)
    maker = InstanceMaker(trace, 0, count - 1)
    chosen = placement or maker.cluster.placement
    return list(instances(maker, range(count), chosen, seed=seed))


def check_periods(periods: Sequence[Instance], names: Sequence[str]) -> None:
    """Refuse periods that do not belong together.

    All need the key groups, nodes and resources of the first, in the same order; the first needs
    the placement the replay starts from. Later placements are not read: the policy decides them.

    Raises `InvalidInput`: with every problem.
    """
    if not periods:
        remedy = "name files or folders, or --day"
        raise InvalidInput(Problem("INSTANCE", None, "no periods were given", remedy))
    first = periods[0]
    problems = []
    if not first.has_current:
        reason = "is missing: a replay starts from the placement of its first period"
        remedy = "give each task its node there, for example from a plan of `streamplace solve`"
        problems.append(Problem(f"{names[0]}: tasks[].node", None, reason, remedy))
    for period, name in zip(periods[1:], names[1:], strict=True):
        for what, actual, expected in (
            ("tasks", period.tasks.ids, first.tasks.ids),
            ("nodes", period.nodes.ids, first.nodes.ids),
            ("resources", period.resources, first.resources),
        ):
            if actual != expected:
                problems.append(_difference_problem(name, what, actual, expected, names[0]))
    raise_any(problems[:20])


def _difference_problem(
    name: str, what: str, actual: Sequence[str], expected: Sequence[str], first: str
) -> Problem:
    missing = [item for item in expected if item not in set(actual)]
    extra = [item for item in actual if item not in set(expected)]
    differences = []
    if missing:
        differences.append(f"lacks {listed(missing, _SHOWN)}")
    if extra:
        differences.append(f"has {listed(extra, _SHOWN)} besides")
    reason = " and ".join(differences) or "stand in another order"
    return Problem(f"{name}: {what}", None, f"{reason}, unlike {first}", "make them the same")


def _natural(path: Path) -> list[tuple[int, int, str]]:
    parts = re.split(r"(\d+)", path.name)
    # every second part is a number; isdigit() takes signs such as ², which int() does not
    return [(1, int(part), "") if i % 2 else (0, 0, part) for i, part in enumerate(parts)]


# -- a synthetic day -------------------------------------------------------------------------------

_CAPACITY = 100.0
_QUIETEST = 4.0  # Hour of least load.


def day_periods(seed: int, **parameters: Any) -> list[Instance]:
    """Return the periods of a day, by `PARAMETERS`. Raises `InvalidInput`: they do not do."""
    periods: list[Instance] = []

    def keep(rng: np.random.Generator, name: str, p: Mapping[str, Any]) -> Instance:
        periods.extend(_build_all(rng, name, p))
        return periods[0]

    Kind("day", "a synthetic day", PARAMETERS, keep).make(seed, parameters)
    return periods


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
