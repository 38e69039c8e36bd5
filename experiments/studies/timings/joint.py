"""Collocation under a load-distance cap: `albic`, `joint-search` and `joint-milp` by back end.

Run: ``python -m experiments.studies.timings.joint [FOLDER]``. FOLDER holds the instances
``joint_20x400_v40_s0_m20`` and ``joint_60x1200_v40_s0_m50``; without it, and for the further seeds,
the generator makes their like (``cluster`` with half of the key groups one to one). Load distance
at most 1 point, kernels compiled before. The last table is of the harder kind ``joint``, in which
the other half is fully partitioned.
"""

from __future__ import annotations

import statistics
import sys
from pathlib import Path
from typing import Any

from experiments.generators import generate
from experiments.studies.timings.table import print_table
from optim import Instance, solve

SIZES = ((20, 400, 20), (60, 1_200, 50))
SEEDS = range(1, 11)
MILP_SECONDS, MILP_GAP = 120.0, 0.01
SECONDS = 2.0
FULL = {"operators": 2}


def instance_of(
    nodes: int, key_groups: int, budget: int, seed: int, folder: Path | None = None
) -> Instance:
    """Return the study's instance (seed 0, where there is a folder) or one like it."""
    name = f"joint_{nodes}x{key_groups}_v40_s0_m{budget}.json.gz"
    if seed == 0 and folder is not None and (folder / name).is_file():
        return Instance.load(folder / name)
    return generated("cluster", nodes, key_groups, budget, seed, one_to_one=50)


def generated(
    kind: str, nodes: int, key_groups: int, budget: int, seed: int, **given: Any
) -> Instance:  # fmt: skip
    """Return a generated instance."""
    return generate(
        kind, seed=seed, nodes=nodes, key_groups=key_groups // nodes, varies=40,
        max_migrations=budget, max_load_distance=1.0, **given,
    )  # fmt: skip


def measure(instance: Instance, method: str, label: str, **given: Any) -> list[object]:
    """Return a row: collocated share, bound, gap, load distance, moves, seconds."""
    result = solve(instance, method, **given)
    found = result.evaluation
    spent = sum(result.times.get(part, 0.0) for part in ("build", "solve"))
    if found is None or found.collocation_factor is None:
        return [instance.name, label, "–", "–", "–", "–", "–", spent]
    bound = None if result.bound is None else 100.0 * result.bound / (found.total_traffic or 1.0)
    share = 100.0 * found.collocation_factor
    gap = "–" if result.gap is None else f"{100.0 * result.gap:.2f} %"
    shown = "–" if bound is None else f"{bound:.2f}"
    distance = float(found.load_distance or 0.0)
    return [instance.name, label, f"{share:.2f}", shown, gap, distance, found.migrations, spent]


def main() -> None:
    """Measure and print the tables."""
    folder = Path(sys.argv[1]) if len(sys.argv) > 1 else None
    rows: list[list[object]] = []
    solve(instance_of(4, 40, 4, 1), "joint-search", max_load_distance=5.0)
    for nodes, key_groups, budget in SIZES:
        made = instance_of(nodes, key_groups, budget, 0, folder)
        rows.append(measure(made, "albic", "albic", ignore=("max_load_distance",)))
        rows.append(measure(made, "joint-search", "joint-search, 2 s", time_limit=2.0))
        rows.append(measure(made, "joint-search", "joint-search"))
        gap = MILP_GAP if nodes > 20 else None
        label = "joint-milp, gap ≤ 1 %" if gap else "joint-milp"
        rows.append(measure(made, "joint-milp", label, time_limit=MILP_SECONDS, gap=gap))
    columns = ["instance", "method", "collocated %", "bound %", "gap", "load distance", "moves"]
    columns.append("s")
    print_table("Collocation under a load distance of 1 point", columns, rows)
    rows = []
    for nodes, key_groups, budget in SIZES:
        size = f"{nodes} × {key_groups}, {budget} moves"
        of_kind = [instance_of(nodes, key_groups, budget, seed) for seed in SEEDS]
        gap = MILP_GAP if nodes > 20 else None
        rows.append(summary(size, "joint-search, 2 s", of_kind, time_limit=SECONDS))
        rows.append(summary(size, "joint-milp", of_kind, time_limit=MILP_SECONDS, gap=gap))
    print_table("Ten generated instances each", SUMMARY, rows)
    rows = []
    for nodes, key_groups, budget in SIZES:
        size = f"{nodes} × {key_groups}, {budget} moves"
        of_kind = [generated("joint", nodes, key_groups, budget, seed, **FULL) for seed in SEEDS]
        rows.append(summary(size, "joint-search, 2 s", of_kind, time_limit=SECONDS))
        rows.append(summary(size, "joint-search, 20 s", of_kind, time_limit=10 * SECONDS))
    print_table("The same, the other half of the key groups fully partitioned", SUMMARY, rows)


SUMMARY = [
    "size", "method", "with a plan", "ended within its gap", "collocated % (median)",
    "gap % (median)", "s (median)", "s (most)",
]  # fmt: skip


def summary(size: str, label: str, instances: list[Instance], **given: Any) -> list[object]:
    """Return a row: how many have a plan and how many met their gap; medians over those."""
    results = [solve(instance, label.split(",")[0], **given) for instance in instances]
    shares = [100.0 * (r.evaluation.collocation_factor or 0.0) for r in results if r.evaluation]
    gaps = [100.0 * r.gap for r in results if r.gap is not None]
    spent = [sum(r.times.get(part, 0.0) for part in ("build", "solve")) for r in results]
    met = sum(str(r.termination) in ("optimal", "gap_reached") for r in results)
    return [
        size, label, f"{len(shares)} of {len(results)}", f"{met} of {len(results)}",
        statistics.median(shares or [0.0]), statistics.median(gaps or [0.0]),
        statistics.median(spent), max(spent),
    ]  # fmt: skip


if __name__ == "__main__":
    main()
