"""Tables behind the claims of the ALBIC paper, and how each is made."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import partial
from itertools import product
from typing import TYPE_CHECKING, Any

from experiments.studies.papers.albic import built, collocation, jobs, milp
from experiments.studies.papers.albic.runs import rows_of
from experiments.studies.papers.claims.tables import Making

if TYPE_CHECKING:
    from collections.abc import Iterator

    import pandas as pd

    from experiments.studies.papers.albic.runs import Row

SEEDS, REDUCED_SEEDS = 30, 2

MOVES = {20: (10, 20), 40: (20, 50), 60: (20, 50)}
"""Budgets of Figures 2 to 4 by nodes; the paper's are lost."""

SHARES = (20.0, 40.0, 60.0, 80.0, 100.0)

Keys = Callable[[bool], Iterable[dict[str, Any]]]
"""Arguments of the runs of a table, by whether it is reduced."""


def _seeds(reduced: bool) -> range:
    return range(REDUCED_SEEDS if reduced else SEEDS)


def _rows(name: str, make: Callable[..., list[Row]], keys: Keys, reduced: bool) -> pd.DataFrame:
    return rows_of(name, keys(reduced), make)


def _collocation_keys(reduced: bool) -> Iterator[dict[str, Any]]:
    """Set-up K at four nodes, by share of one-to-one key groups."""
    size = {"nodes": 4, "key_groups": 8, "operators": 4}
    for seed in _seeds(reduced):
        for share in SHARES[-1:] if reduced else SHARES:
            given = {**size, "one_to_one": share}
            yield {"seed": seed, "given": given}
            if share == 100.0 and seed < 10:
                yield {"seed": seed, "given": given, "options": {"max_part_load": 50.0}}


def _collocation(reduced: bool) -> pd.DataFrame:
    made = rows_of("collocation", _collocation_keys(reduced), collocation.summary)
    made.attrs["left_out"] = 1
    made.attrs["left_out_why"] = "share 0: no traffic, which ALBIC and COLA refuse"
    return made


def _paper_size_keys(reduced: bool) -> list[dict[str, Any]]:
    """Set-up K at the size of the paper: the lines of Figures 10 and 11."""
    small = ({"nodes": 4, "key_groups": 8, "operators": 4, "one_to_one": 20.0},)
    shares = [*((40, share) for share in SHARES), *((nodes, 50.0) for nodes in (20, 40, 60))]
    whole = [
        {"nodes": nodes, "key_groups": 20, "operators": nodes // 2, "one_to_one": share}
        for nodes, share in shares
    ]
    return [{"seed": 0, "given": given} for given in (small if reduced else whole)]


def _sizes_keys(reduced: bool) -> list[dict[str, Any]]:
    """Set-up K at half of the key groups one to one, by size of the cluster."""
    return [
        {
            "seed": seed,
            "given": {"nodes": n, "key_groups": 8, "operators": n // 2 * 2, "one_to_one": 50.0},
        }
        for seed in _seeds(reduced)
        for n in (2, 4, 6)
    ]


def _solving(reduced: bool) -> pd.DataFrame:
    """Set-up C: load distance of Flux, and of the MILP's model by balance-search and by solvers."""
    quick = {"seconds": 0.5} if reduced else {}
    keys = [
        {"seed": seed, "nodes": nodes, "moves": moves, "way": way, **quick}
        for seed in _seeds(reduced)
        for nodes, budgets in MOVES.items()
        for moves in budgets
        for way in ("flux", "balance-search", *milp.SOLVERS)
    ]
    made = rows_of("solving", keys, milp.solving)
    made["limit"] = quick.get("seconds", milp.SECONDS)
    return made


def _joint_keys(reduced: bool) -> list[dict[str, Any]]:
    sizes = ((2, 5), (4, 10), (8, 10), (20, 20))
    seconds = 5.0 if reduced else 60.0
    return [
        {"nodes": nodes, "key_groups": groups, "seconds": seconds}
        for nodes, groups in sizes[: 3 if reduced else 4]
    ]


def _swept(**values: Iterable[Any]) -> Keys:
    """Every seed with every combination of values, the first named outermost."""
    return lambda reduced: [
        {"seed": seed, **dict(zip(values, chosen, strict=True))}
        for seed in _seeds(reduced)
        for chosen in product(*values.values())
    ]


RUNS: dict[str, tuple[Callable[..., list[Row]], Keys, str, str]] = {
    "paper-size": (collocation.summary, _paper_size_keys, "one instance a line", "one instance"),
    "budgets": (
        milp.budgets, _swept(varies=(40.0, 60.0), moves=(10, 20)), "0-29; 20 nodes", "0-1",
    ),
    "scale-in": (
        milp.scale_in,
        lambda reduced: [
            {"seed": seed, "overloaded": 1, "way": way}
            for way in (milp.INTEGRATED, milp.FIRST)
            for seed in _seeds(reduced)
        ],
        "0-29; 18 nodes, 3 leave, 6 moves a round", "0-1",
    ),
    "periods": (
        milp.periods, _swept(moves=(10, 13, 300), count=(3,)), "0-29; 3 periods", "0-1; 3 periods",
    ),
    "overloads": (milp.overloads, _swept(moves=(0, 4, 20)), "0-29; 20 nodes at 75 %", "0-1"),
    "scale-outs": (built.scale_outs, _swept(plan_first=(True, False)), "0-29", "0-1"),
    "node-periods": (
        built.node_periods, _swept(policy=("albic", "balance-search"), serialise=(1.0,)),
        "0-29", "0-1",
    ),
    "scale-ins": (
        built.scale_ins, lambda reduced: [{"limit": None}, {"limit": 10.0}],
        "one built instance", "",
    ),
    "lemmas": (
        built.lemmas, lambda reduced: [{"seed": seed} for seed in (-1, *_seeds(reduced))],
        "0-29, and -1: a built counter-example", "0-1, and -1",
    ),
    "weighted": (built.weighted, _swept(), "0-29", "0-1"),
    "node-weights": (
        built.node_weights, _swept(way=("equal", "weights", "memory")), "0-29", "0-1",
    ),
    "joint-model": (
        built.joint_model, _joint_keys, "one instance a size", "one instance a size",
    ),
    "patterns": (built.patterns, _swept(pattern=built.PATTERNS), "0-29", "0-1"),
    "sizes": (
        collocation.summary, _sizes_keys, "0-29; 2, 4 and 6 nodes, a tenth of the paper's", "0-1",
    ),
}  # fmt: skip
"""Tables that are one run a key: the run, its keys, the seeds at full size and reduced."""

TABLES: dict[str, Making] = {
    "collocation": Making(_collocation, "0-29; 4 nodes, 32 key groups", "0-1"),
    "solving": Making(
        _solving,
        "0-29; varies 40 %, the figures' budgets",
        "0-1; varies 40 %, the figures' budgets, 0.5 s",
    ),
    **{
        f"job-{number}": Making(
            partial(jobs.job, number), "one recording", "one recording, 12 periods"
        )
        for number in (1, 2, 3, 4)
    },
    "after-cola": Making(jobs.after_cola, "one recording, 30 days", "one recording, 12 days"),
    "cola-starts": Making(jobs.cola_starts, "0-29", "0-2"),
    **{
        name: Making(partial(_rows, name, make, keys), full, reduced)
        for name, (make, keys, full, reduced) in RUNS.items()
    },
}
