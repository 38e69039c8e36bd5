"""Rebalancing: `balance-search` and `balance-milp` beside Flux, the plain MILP and a peer; then
collocation under a load distance: `albic`, `joint-search`, `joint-milp`.

Clusters come from the generator by seed; those of the study (`given`) where the folder named by
``STREAMPLACE_SHARED`` holds them.
"""

from __future__ import annotations

import os
from dataclasses import dataclass, replace
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING, Any

import numpy as np

from experiments.generators import generate
from experiments.generators.rebalancing import CLUSTER, SCALE_IN
from experiments.studies.bench.rebalancer_process import (
    FORMULAS,
    PYTHON,
    find_peer,
    peak_megabytes,
    run_peer,
)
from experiments.studies.timings.registry import (
    LeftOut,
    apart,
    collocated,
    spend,
    timing,
    value_of,
)
from formulations.rebalancing.balance.model import build_full
from formulations.rebalancing.bound import Needs, forced_moves_bound
from formulations.rebalancing.problem import balance_problem
from optim import solve
from optim.format.instance import Instance
from optim.solvers import SOLVERS, capabilities, solve_linear

if TYPE_CHECKING:
    from collections.abc import Sequence

    from experiments.studies.timings.registry import Rows
    from optim.referee.result import Result

#: Load distance that the budgets of the large clusters are made for, and how generous they are.
NEEDED_FOR, GENEROUS = 0.5, 1.5

#: Beyond this many key groups a run gets a process of its own, for its peak memory.
OWN_PROCESS = 500_000


def given_instance(name: str) -> Instance | None:
    """Return the study's instance of a name, if there is one."""
    shared = os.environ.get("STREAMPLACE_SHARED")
    path = Path(shared or "") / "data" / "albic" / f"{name}.json.gz"
    return Instance.load(path) if shared and path.is_file() else None


@dataclass(frozen=True)
class Case:
    """One row: a size, a budget, and what is to be met.

    Attributes
    ----------
    name
        Of the instance given, and of the row.
    nodes, per_node, varies, budget
        Of the generator; the budget ``None`` is one and a half times what a load distance of 0.5
        takes at least.
    looks
        Seconds at which the best load distance so far is reported.
    limit
        Time limit, s.
    aim
        In words.
    """

    name: str
    nodes: int
    per_node: int
    varies: float
    budget: int | None
    looks: tuple[float, ...]
    limit: float
    aim: str = ""

    def given(self) -> Instance | None:
        """Return the study's instance, if there is one."""
        return given_instance(self.name)

    def made(self, seed: int) -> Instance:
        """Return an instance of this size by the generator."""
        sizes: dict[str, Any] = {
            "nodes": self.nodes, "key_groups": self.per_node, "varies": self.varies,
        }  # fmt: skip
        if self.name.startswith("scalein"):
            more = {"leaving": 2, "overloaded": 2, "max_migrations": self.budget}
            return SCALE_IN.make(seed, {**sizes, **more})
        budget = self.budget
        if budget is None:
            free = balance_problem(CLUSTER.make(seed, sizes | {"max_migrations": 0}))
            needs = Needs(free)
            budget = int(GENEROUS * needs.least_moves(*needs.outside(NEEDED_FOR))[0])
        return CLUSTER.make(seed, sizes | {"max_migrations": budget})


CASES = (
    Case(
        "cluster_20x400_v40_s0_m10", 20, 20, 40.0, 10, (0.05,), 15.0,
        "0.5452 closed ≤ 5 s; nine of ten ≤ 15 s",
    ),
    Case("cluster_60x1200_v40_s0_m20", 60, 20, 40.0, 20, (0.05,), 5.0, "5.1876 closed ≤ 1 s"),
    Case(
        "cluster_60x1200_v40_s0_m50", 60, 20, 40.0, 50, (0.05, 10.0), 15.0,
        "≤ 0.40 in 50 ms, ≤ 0.30 in 10 s, gap ≤ 0.1",
    ),
    Case("cluster_60x1200_v60_s0_m50", 60, 20, 60.0, 50, (0.05,), 15.0, "≤ 1.1 in 15 s"),
    Case("cluster_200x10000_v40_s0_m303", 200, 50, 40.0, None, (0.2,), 5.0, "≤ 0.22 in 0.2 s"),
    Case("1,000 × 100,000", 1_000, 100, 40.0, None, (1.0,), 2.0, "≤ 0.10 in 1 s"),
    Case("10,000 × 1,000,000", 10_000, 100, 40.0, None, (10.0,), 10.0, "≤ 0.10 in 10 s, ≤ 6 GB"),
    Case(
        "scalein_20x400_v20_s0_m20", 20, 20, 20.0, 20, (1.0,), 15.0,
        "≤ 3.25 in 1 s; bound ≥ 2.95 in 15 s",
    ),
)  # fmt: skip


def distance_at(result: Result, seconds: float) -> float:
    """Return the best load distance known by a moment of a run."""
    known = [value for at, value, _ in result.trace if at <= seconds and value is not None]
    return known[-1] if known else float("nan")


def proved_at(result: Result, gap: float = 1e-3) -> float:
    """Return when value and bound came this near, infinity if never."""
    for at, value, bound in result.trace:
        if value is not None and bound is not None and value - bound <= gap * (1.0 + 1e-9):
            return at
    return float("inf")


def searched(case: Case, seed: int | None) -> tuple[list[float], float, float, float] | None:
    """Run `balance-search` on a case; return what it knew at the looks, value, bound, and peak GB.

    The seed ``None`` is the instance given; the result ``None`` where there is none.
    """
    instance = case.given() if seed is None else case.made(seed)
    if instance is None:
        return None
    result = solve(instance, "balance-search", time_limit=case.limit)
    looks = [distance_at(result, at) for at in case.looks]
    value = float("nan") if result.objective is None else value_of(result)
    return looks, value or 0.0, result.bound or 0.0, peak_megabytes() / 1024


def compiled() -> None:
    """Compile, or load, what is timed below."""
    forced_moves_bound(balance_problem(CASES[0].made(0)))


@timing(
    "balance-search: load distance d, points", "instance", "which", "d by then", "d in the end",
    "bound", "gap", "memory, GB", "aim", quick={"seeds": 1, "cases": 1, "limit": 1.0},
)  # fmt: skip
def search(seeds: int = 10, cases: int = len(CASES), limit: float | None = None) -> Rows:
    """What is reached, when, and what is proved: given, and the median over seeds."""
    compiled()
    for case in CASES[:cases]:
        asked = replace(case, limit=limit or case.limit)
        large = case.nodes * case.per_node > OWN_PROCESS
        for label, chosen in (("given", (None,)), (f"median of {seeds} seeds", range(seeds))):
            found = [apart(searched, asked, s) if large else searched(asked, s) for s in chosen]
            runs = [one for one in found if one is not None]
            if runs:
                looks = (median(run[0][i] for run in runs) for i in range(len(case.looks)))
                shown = [f"{d:.4f} at {at:g} s" for d, at in zip(looks, case.looks, strict=True)]
                value, bound = median(r[1] for r in runs), median(r[2] for r in runs)
                gap = median(r[1] - r[2] for r in runs)
                cells = (f"{x:.4f}" for x in (value, bound, gap))
                memory = f"{max(r[3] for r in runs):.2f}"
                yield case.name, label, ", ".join(shown), *cells, memory, case.aim


@timing(
    "Proofs of the small clusters, within 15 s and 5 s", "instance", "which", "method",
    "d (median)", "closed in time", "s (median)", quick={"seeds": 1, "cases": 1, "limit": 1.0},
)  # fmt: skip
def proof(seeds: int = 10, cases: int = 2, limit: float | None = None) -> Rows:
    """How soon `balance-milp` and `balance-search` prove."""
    compiled()
    for case in CASES[:cases]:
        most = limit or case.limit
        for method in ("balance-milp", "balance-search"):
            for which in ("given", f"{seeds} seeds"):
                made = [case.given()] if which == "given" else [case.made(s) for s in range(seeds)]
                runs = [solve(i, method, time_limit=most) for i in made if i is not None]
                if runs:
                    at = [_proved(run) for run in runs]
                    closed = f"{sum(one <= most for one in at)} of {len(at)}"
                    value = median(value_of(run) or 0.0 for run in runs)
                    yield case.name, which, method, value, closed, median(at)


def _proved(result: Result) -> float:
    at = proved_at(result)
    if str(result.termination) == "optimal":
        at = min(at, result.times["solve"] + result.times.get("build", 0.0))
    return at


@timing(
    "Flux, the paper's full model cold by each solver, and ours", "instance", "by", "d", "bound",
    "s", quick={"cases": 1, "limit": 1.0},
)  # fmt: skip
def solvers(cases: int = 3, limit: float = 30.0) -> Rows:
    """At most 30 s each."""
    compiled()
    for case in CASES[:cases]:
        instance = case.given() or case.made(0)
        for method in ("balance-search", "balance-milp", "flux"):
            most = None if method == "flux" else limit
            run = spend(lambda: solve(instance, method, time_limit=most))  # noqa: B023
            spent = run.wall - run.value.times.get("compile", 0.0)
            yield case.name, method, value_of(run.value), run.value.bound, spent
        problem = balance_problem(instance)
        built = build_full(problem)
        built.model.freeze()
        for solver in (name for name in SOLVERS if not capabilities(name).integer_only):
            run = spend(lambda: solve_linear(built.model, solver, time_limit=limit))  # noqa: B023
            x, bound = run.value.x, run.value.bound
            value = None if x is None else problem.levels(built.read(x)).distance
            yield case.name, f"the paper's model, {solver}", value, bound, run.wall


@timing("Flux with a budget of all key groups, varies 60", "seed", "Flux", "ours", "bound",
        quick={"seeds": 1})  # fmt: skip
def flux(seeds: int = 10) -> Rows:
    """How far Flux stays off when every key group may move."""
    case = Case("ample", 60, 20, 60.0, 1_200, (), 5.0)
    for seed in range(seeds):
        instance = case.made(seed)
        theirs, ours = solve(instance, "flux"), solve(instance, "balance-search", time_limit=2.0)
        yield seed, value_of(theirs), value_of(ours), ours.bound


@timing(
    "Meta's rebalancer (PyPI), local search by moves and swaps", "instance", "by", "d", "s",
    "memory, MB", quick={"cases": 1, "limit": 1.0},
)  # fmt: skip
def peer(cases: int = 5, limit: float = 10.0) -> Rows:
    """What it reaches with its formulas, beside ours."""
    python = find_peer()
    if python is None:
        raise LeftOut(f"{PYTHON} names no Python that has it (pip install rebalancer)")
    for case in CASES[:cases]:
        found = searched(case, None) or searched(case, 0)
        assert found is not None
        looks, value, _, gigabytes = found
        for d, at in ((looks[0], case.looks[0]), (value, case.limit)):
            yield case.name, "balance-search", d, at, 1024 * gigabytes
        instance = case.given() or case.made(0)
        problem = balance_problem(instance)
        for formula in FORMULAS:
            answer = run_peer(python, instance, formula, limit)
            placement = np.array(answer["place"], dtype=np.int64)
            fits = problem.is_feasible(placement)
            reached = problem.levels(placement).distance if fits else "above the budget"
            seconds = answer["build"] + answer["solve"]
            yield case.name, f"rebalancer, {formula}", reached, seconds, answer["megabytes"]


SIZES = ((20, 400, 20), (60, 1_200, 50))
MILP_SECONDS, MILP_GAP = 120.0, 0.01


def joint_instance(
    nodes: int, key_groups: int, budget: int, seed: int, kind: str = "cluster"
) -> Instance:
    """Return the study's instance (seed 0, where there is one) or one like it: half of the key
    groups one to one, and of the harder kind ``joint`` the other half fully partitioned.
    """
    found = given_instance(f"joint_{nodes}x{key_groups}_v40_s0_m{budget}") if seed == 0 else None
    more: dict[str, Any] = {"one_to_one": 50} if kind == "cluster" else {"operators": 2}
    return found or generate(
        kind, seed=seed, nodes=nodes, key_groups=key_groups // nodes, varies=40,
        max_migrations=budget, max_load_distance=1.0, **more,
    )  # fmt: skip


def _spent(result: Result) -> float:
    return sum(result.times.get(part, 0.0) for part in ("build", "solve"))


@timing(
    "Collocation under a load distance of 1 point", "instance", "method", "collocated %", "bound %",
    "gap", "load distance", "moves", "s", quick={"sizes": ((4, 40, 4),), "limit": 1.0},
)  # fmt: skip
def joint(sizes: Sequence[tuple[int, int, int]] = SIZES, limit: float = MILP_SECONDS) -> Rows:
    """`albic`, `joint-search` and `joint-milp`."""
    solve(joint_instance(4, 40, 4, 1), "joint-search", max_load_distance=5.0)
    for nodes, key_groups, budget in sizes:
        made = joint_instance(nodes, key_groups, budget, 0)
        asked: tuple[tuple[str, dict[str, Any]], ...] = (
            ("albic", {"ignore": ("max_load_distance",)}),
            ("joint-search", {"time_limit": 2.0}),
            ("joint-search", {"time_limit": None if limit > 10 else limit}),
            ("joint-milp", {"time_limit": limit, "gap": MILP_GAP if nodes > 20 else None}),
        )
        for method, given in asked:
            result = solve(made, method, **given)
            found, bound = result.evaluation, result.bound
            limited = given.get("time_limit")
            label = method if limited is None else f"{method}, {limited:g} s"
            if found is None or found.collocation_factor is None:
                yield made.name, label, *(None,) * 5, _spent(result)
                continue
            share = None if bound is None else f"{100 * bound / (found.total_traffic or 1):.2f}"
            gap = None if result.gap is None else f"{100.0 * result.gap:.2f} %"
            cells = (f"{collocated(result):.2f}", share, gap, found.load_distance, found.migrations)
            yield made.name, label, *cells, _spent(result)


@timing(
    "Collocation under a load distance: medians of generated instances", "kind", "size", "method",
    "with a plan", "ended within its gap", "collocated %", "gap %", "s", "s (most)",
    quick={"sizes": ((4, 40, 4),), "seeds": 1, "limit": 1.0},
)  # fmt: skip
def joint_seeds(
    sizes: Sequence[tuple[int, int, int]] = SIZES, seeds: int = 10, limit: float = MILP_SECONDS
) -> Rows:
    """Ten instances each; of the kind ``joint`` the other half is fully partitioned."""
    for kind, method, most in (
        ("cluster", "joint-search", 2.0), ("cluster", "joint-milp", limit),
        ("joint", "joint-search", 2.0), ("joint", "joint-search", min(limit, 20.0)),
    ):  # fmt: skip
        for nodes, key_groups, budget in sizes:
            gap = MILP_GAP if method == "joint-milp" and nodes > 20 else None
            runs = [
                solve(
                    joint_instance(nodes, key_groups, budget, seed, kind), method, time_limit=most,
                    gap=gap,
                )
                for seed in range(1, seeds + 1)
            ]  # fmt: skip
            shares = [collocated(run) for run in runs if run.evaluation]
            gaps = [100.0 * run.gap for run in runs if run.gap is not None]
            met = sum(str(run.termination) in ("optimal", "gap_reached") for run in runs)
            spent = [_spent(run) for run in runs]
            size = f"{nodes} × {key_groups}, {budget} moves"
            counts = (f"{len(shares)} of {seeds}", f"{met} of {seeds}")
            cells = (median(shares or [0.0]), median(gaps or [0.0]), median(spent), max(spent))
            yield kind, size, f"{method}, {most:g} s", *counts, *cells
