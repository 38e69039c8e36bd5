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
    find_peer,
    peak_megabytes,
    run_peer,
)
from experiments.studies.timings.registry import (
    apart,
    cases,
    collocated,
    spend,
    value_of,
)
from formulations.rebalancing.balance.model import build_full
from formulations.rebalancing.bound import Needs, forced_moves_bound
from formulations.rebalancing.problem import balance_problem
from optim import solve
from optim.format.instance import Instance
from optim.solvers import SOLVERS, capabilities, solve_linear

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

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
    limit: float
    looks: Sequence[float] = ()
    budget: int | None = None
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


CASES = tuple(Case(**one) for one in cases("rebalancing"))


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


def solvers(cases: int = 3, limit: float = 30.0) -> Rows:
    """At most 30 s each; `rebalancer` is what ``STREAMPLACE_REBALANCER`` names the Python of."""
    compiled()
    python = find_peer()
    for case in CASES[:cases]:
        instance = case.given() or case.made(0)
        for method in ("balance-search", "balance-milp", "flux"):
            most = None if method == "flux" else limit
            run = spend(solve, instance, method, time_limit=most)
            spent = run.wall - run.value.times.get("compile", 0.0)
            yield case.name, method, value_of(run.value), run.value.bound, spent
        problem = balance_problem(instance)
        built = build_full(problem)
        built.model.freeze()
        for solver in (name for name in SOLVERS if not capabilities(name).integer_only):
            run = spend(solve_linear, built.model, solver, time_limit=limit)
            x, bound = run.value.x, run.value.bound
            value = None if x is None else problem.levels(built.read(x)).distance
            yield case.name, f"the paper's model, {solver}", value, bound, run.wall
        for formula in FORMULAS if python else ():
            assert python is not None
            answer = run_peer(python, instance, formula, limit)
            placement = np.array(answer["place"], dtype=np.int64)
            fits = problem.is_feasible(placement)
            reached = problem.levels(placement).distance if fits else "above the budget"
            spent = answer["build"] + answer["solve"]
            yield case.name, f"rebalancer, {formula}", reached, None, spent


def flux(seeds: int = 10) -> Rows:
    """How far Flux stays off when every key group may move."""
    case = Case("ample", 60, 20, 60.0, 5.0, budget=1_200)
    for seed in range(seeds):
        instance = case.made(seed)
        theirs, ours = solve(instance, "flux"), solve(instance, "balance-search", time_limit=2.0)
        yield seed, value_of(theirs), value_of(ours), ours.bound


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


def joint(
    sizes: Sequence[tuple[int, int, int]] = SIZES, seeds: int = 10, limit: float = MILP_SECONDS
) -> Rows:
    """`albic`, `joint-search` and `joint-milp`; of the kind ``joint`` half of the key groups is
    fully partitioned.
    """
    solve(joint_instance(4, 40, 4, 1), "joint-search", max_load_distance=5.0)
    short, longer, whole = min(limit, 2.0), min(limit, 20.0), None if limit > 10 else limit
    generated = range(1, seeds + 1)
    asked: tuple[tuple[str, Sequence[int], str, float | None], ...] = (
        ("cluster", (0,), "albic", None), ("cluster", (0,), "joint-search", short),
        ("cluster", (0,), "joint-search", whole), ("cluster", (0,), "joint-milp", limit),
        ("cluster", generated, "joint-search", short), ("cluster", generated, "joint-milp", limit),
        ("joint", generated, "joint-search", short), ("joint", generated, "joint-search", longer),
    )  # fmt: skip
    for kind, chosen, method, most in asked:
        for nodes, key_groups, budget in sizes:
            given: dict[str, Any] = {} if method != "albic" else {"ignore": ("max_load_distance",)}
            if method == "joint-milp" and nodes > 20:
                given["gap"] = MILP_GAP
            made = [joint_instance(nodes, key_groups, budget, seed, kind) for seed in chosen]
            runs = [solve(instance, method, time_limit=most, **given) for instance in made]
            found = [run.evaluation for run in runs if run.evaluation]
            met = sum(str(run.termination) in ("optimal", "gap_reached") for run in runs)
            spent = [_spent(run) for run in runs]
            yield (
                made[0].name if len(made) == 1 else f"{kind}, {nodes} × {key_groups}, m{budget}",
                method if most is None else f"{method}, {most:g} s",
                f"{len(found)} of {len(made)}", f"{met} of {len(made)}",
                _median(collocated(run) for run in runs if run.evaluation),
                _median(
                    100 * run.bound / (instance.total_traffic or 1.0)
                    for instance, run in zip(made, runs, strict=True) if run.bound is not None
                ),
                _median(100 * run.gap for run in runs if run.gap is not None),
                _median(one.load_distance for one in found if one.load_distance is not None),
                _median(one.migrations or 0 for one in found), median(spent), max(spent),
            )  # fmt: skip


def _median(values: Iterable[float]) -> float | None:
    return median(known) if (known := list(values)) else None
