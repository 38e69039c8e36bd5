"""Figures 2 to 4 alike: load distance over solving time, by solver, cold and warm started."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import product
from typing import TYPE_CHECKING, Any

from experiments.studies.papers.albic.runs import Row, frame, kept
from experiments.studies.papers.figure import Figure
from streamplace.present.plots import draw_lines, log_scale

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    import pandas as pd
    from matplotlib.axes import Axes

    from formulations.rebalancing.problem import Floats
    from optim.format.instance import Instance

SOLVERS = ("cbc", "highs", "scip")
SECONDS, SECONDS_REDUCED = (1.0, 2.0, 5.0, 10.0, 20.0, 30.0, 60.0), (0.5, 1.0, 2.0, 5.0)
TIME = "solving time (s)"

WORDS = (
    "Load distance after some seconds of solving, for several budgets of "
    "migrations and load fluctuations. The MILP (CPLEX, a desktop computer of "
    "2011) beats Flux and comes close to its best within seconds; more time "
    "pays only for the largest cluster."
)

READINGS = (
    "The values of maxMigrations and varies are lost. Chosen: varies 40 and 60 %, and the budgets "
    "in the table; noise ±5 % (reconstructed).",
    (
        "*cold*: the paper's full model as it is. *warm*: started from "
        "balance-search after a tenth of a second, not counted. One thread; times "
        "include building and passing the model."
    ),
    "*balance-search*, ours, has the same time; the proven bound is the one it has by then.",
    "A column is empty where the solver had no plan by then.",
)


@dataclass(frozen=True)
class Measured:
    """Rows of one of the figures.

    Attributes
    ----------
    nodes, budgets
        Size of the cluster (20 key groups a node), and maxMigrations of each setting.
    """

    nodes: int
    budgets: tuple[int, ...]

    def __call__(self, folder: Path, reduced: bool) -> pd.DataFrame:
        """Measure every setting, way and solver; what is in the folder is not measured again."""
        seconds = SECONDS_REDUCED if reduced else SECONDS
        solvers = SOLVERS[1:3] if reduced else SOLVERS
        settings = list(product((40.0, 60.0), self.budgets))[: 1 if reduced else None]
        rows: list[Row] = []
        for varies, budget in settings:
            made = self._instance(varies, budget)
            key = {"nodes": self.nodes, "varies": varies, "budget": budget, "seconds": seconds}
            ours = {**key, "ways": "flux, balance-search with its bound"}
            parts = kept(folder, ours, lambda m=made: quick_ways(m, seconds))  # type: ignore[misc]
            for solver, warm in product(solvers, (False, True)):
                more = {**key, "solver": solver, "warm": warm}
                parts = parts + kept(
                    folder,
                    more,
                    lambda m=made, s=solver, w=warm: traced(m, s, w, seconds),  # type: ignore[misc]
                )
            setting = f"varies {varies:g} %, {budget} moves"
            rows += [{**row, "setting": setting} for row in parts]
        return frame(rows)

    def _instance(self, varies: float, budget: int) -> Instance:
        from experiments.generators import generate

        return generate("cluster", nodes=self.nodes, varies=varies, max_migrations=budget)


def quick_ways(instance: Instance, seconds: tuple[float, ...]) -> list[Row]:
    """Flux, which takes no time; balance-search and its proven bound, read at each time."""
    from optim import solve

    flux = solve(instance, "flux").evaluation
    search = solve(instance, "balance-search", time_limit=seconds[-1])
    levels = [flux.load_distance if flux is not None else None] * len(seconds)
    values = _read(search.trace, seconds, 1)
    # the trace ends where the proof does, and has the first level only
    values[-1] = search.objective.value if search.objective else None
    bounds = _read(search.trace, seconds, 2)
    ways = {"Flux": levels, "balance-search": values, "proven bound": bounds}
    return [
        {"way": way, TIME: moment, "distance": value}
        for way, known in ways.items()
        for moment, value in zip(seconds, known, strict=True)
    ]


def _read(trace: Sequence[Any], seconds: tuple[float, ...], place: int) -> list[float | None]:
    """Return the last entry of a trace known at each time."""
    known = []
    for moment in seconds:
        values = [point[place] for point in trace if point[0] <= moment]
        known.append(next((value for value in reversed(values) if value is not None), None))
    return known


def traced(instance: Instance, solver: str, warm: bool, seconds: tuple[float, ...]) -> list[Row]:
    """Solve the paper's model once and read its trace at each time."""
    from formulations.rebalancing.balance.model import build_full
    from formulations.rebalancing.balance.search import search_balance
    from formulations.rebalancing.problem import balance_problem
    from optim.solvers import solve_linear

    problem = balance_problem(instance)
    built = build_full(problem)
    start: Floats | None = None
    if warm:
        found = search_balance(problem)
        start = None if found is None else built.write(found)
    solution = solve_linear(
        built.model, solver, time_limit=seconds[-1], abs_gap=1e-3, warm_start=start
    )
    way = f"{solver}, {'warm' if warm else 'cold'}"
    values = _read(solution.trace, seconds, 1)
    values[-1] = solution.objective if values[-1] is None else values[-1]
    return [
        {"way": way, TIME: moment, "distance": value}
        for moment, value in zip(seconds, values, strict=True)
    ]


def table(rows: pd.DataFrame) -> pd.DataFrame:
    """One line a setting and time, one column a way."""
    wide = rows.pivot_table(
        index=["setting", TIME], columns="way", values="distance", sort=False, dropna=False
    )
    return wide.rename_axis(columns=None).reset_index()


def plot(table: pd.DataFrame, axes: list[Axes]) -> None:
    """Load distance over time with the larger budget, cold solvers only, both axes logarithmic."""
    names = list(dict.fromkeys(table["setting"]))
    shown = [c for c in table.columns if c not in ("setting", TIME) and not c.endswith("warm")]
    for panel, name in zip(axes, names[1::2] or names, strict=False):
        mine = table[table["setting"] == name]
        draw_lines(panel, mine, TIME, shown)
        most = 1.6 * float(mine[shown].max().max())
        panel.set_ylim(0.5 * float(mine["balance-search"].min()), most)
        log_scale(panel, "x")
        log_scale(panel, "y")
        panel.set_ylabel(f"points; {name}", fontsize=9.5)
    axes[-1].set_xlabel(TIME)


def _figure(number: int, nodes: int, budgets: tuple[int, ...]) -> Figure:
    """Return Figure 2, 3 or 4."""
    return Figure(
        name=f"albic/fig-{number}",
        title=f"Solution quality over solving time, {nodes} nodes and {20 * nodes} key groups",
        source=f"Madsen, Zhou, Cao 2016, Figure {number}, section 5.1",
        words=WORDS,
        rows=Measured(nodes, budgets),
        table=table,
        plot=plot,
        measured=said,
        readings=READINGS,
        size=(
            f"Full: four solvers up to {SECONDS[-1]:g} s, varies 40 and 60 %, {len(budgets)} "
            f"budgets. Reduced: two solvers up to {SECONDS_REDUCED[-1]:g} s, one setting."
        ),
        panels=2,
    )


def said(table: Any) -> list[str]:
    """Say who is ahead at the end of each setting."""
    lines = []
    for setting, mine in table.groupby("setting", sort=False):
        last = mine.iloc[-1].drop(["setting", TIME]).dropna().astype(float)
        cold = {way: value for way, value in last.items() if str(way).endswith("cold")}
        best = min(cold, key=lambda way: cold[way]) if cold else None
        text = f"{setting}: Flux {last['Flux']:.3g}, balance-search {last['balance-search']:.3g}"
        if best is not None:
            text += f", the best solver cold ({best}) {cold[best]:.3g} after {mine[TIME].max():g} s"
        lines.append(f"{text}; proven bound {last['proven bound']:.3g}.")
    return lines


FIGURES = (
    _figure(2, nodes=20, budgets=(10, 20)),
    _figure(3, nodes=40, budgets=(20, 50)),
    _figure(4, nodes=60, budgets=(20, 50)),
)
