"""Judges of the claims on the testbed over workloads: Figures 4 and 5."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from experiments.studies.papers.claims import Finding, verdict_of
from experiments.studies.papers.elastic_allocator.running import (
    BEST_FILL,
    BEST_SPREAD,
    BOTH,
    EVEN,
    FILL,
    PAPER_UNTIL,
    RANDOM,
    SPREAD,
)

if TYPE_CHECKING:
    import pandas as pd

SAME = 1e-9
HIGH = 700
"""Workloads from here on are high, of 200 to 1,200."""


def grid(
    testbed: pd.DataFrame, method: str, figure: str, until: float = PAPER_UNTIL
) -> pd.DataFrame:
    """Return a figure of a method, a line a workload and a column a seed."""
    mine = testbed[(testbed["method"] == method) & (testbed["workload"] <= until)]
    return mine.pivot_table(index="workload", columns="seed", values=figure)


def _ahead(
    testbed: pd.DataFrame, figure: str, method: str, until: float = PAPER_UNTIL
) -> pd.Series:
    """By workload, whether a method is above Even in every seed and above Random's greatest."""
    mine, even = grid(testbed, method, figure, until), grid(testbed, EVEN.label, figure, until)
    chance = grid(testbed, RANDOM.label, figure, until).max(axis=1)
    return ((mine > even + SAME).all(axis=1)) & (mine.mean(axis=1) > chance)


def _below(testbed: pd.DataFrame, figure: str, method: str, until: float) -> pd.Series:
    """By workload, whether a method is below Even and Random in every seed."""
    mine = grid(testbed, method, figure, until)
    others = [grid(testbed, other, figure, until) for other in (EVEN.label, RANDOM.label)]
    return (mine < np.minimum(others[0], others[1]) - SAME).all(axis=1)


def _identity(testbed: pd.DataFrame) -> float:
    """Greatest difference between methods of the CPU use over all nodes, in points."""
    table = testbed[testbed["workload"] <= PAPER_UNTIL]
    both = table.groupby(["workload", "seed"])["CPU, all"]
    return float(100 * (both.max() - both.min()).max())


def one_plan(testbed: pd.DataFrame, optimum: pd.DataFrame) -> Finding:
    """EOA-A1: the plan that balances CPU and bandwidth, its use and its deviation."""
    lowest = [_below(testbed, f"{what} deviation", BOTH.label, PAPER_UNTIL).all()
              for what in ("CPU", "bandwidth")]  # fmt: skip
    means = {
        name: testbed[testbed["method"] == name].groupby("workload")["CPU, served"].mean()
        for name in (BOTH.label, EVEN.label, RANDOM.label)
    }
    gain = 100 * (means[BOTH.label] - np.maximum(means[EVEN.label], means[RANDOM.label]))
    inside = gain[gain.index <= PAPER_UNTIL]
    count, use = len(inside), _ahead(testbed, "CPU, in use", BOTH.label)
    best = optimum[optimum["workload"] <= PAPER_UNTIL].set_index("workload")
    fill = best[best["method"] == BEST_FILL.label]["CPU deviation"]
    even = grid(testbed, EVEN.label, "CPU deviation")[0]
    above = int((fill > even.loc[fill.index]).sum())
    return Finding(
        verdict_of(all(lowest), use.all()),
        f"the plan for CPU and bandwidth has the lowest deviation of both at "
        f"{count if all(lowest) else 'not all'} of {count} workloads in all 30 seeds; its CPU use, "
        f"as served, is not below Even's and Random's means ({inside.min():+.2f} to "
        f"{inside.max():+.2f} points; to {gain.max():+.1f} at 2,000), over nodes in use it is "
        f"highest at {int(use.sum())} of {count}",
        "use over all nodes is the same wherever the load stands (methods differ by "
        f"{_identity(testbed):.1g} points), and over the nodes in use no plan can do both: the "
        f"proven plan of highest use has a higher CPU deviation than Even at {above} of "
        f"{len(fill)} workloads",
    )


def _use(testbed: pd.DataFrame, what: str) -> Finding:
    """EOA-F4a, F4b: highest use by GMA on the fewest nodes, by each reading."""
    figure = f"{what}, in use"
    ahead = _ahead(testbed, figure, FILL.label)
    kept = grid(testbed, FILL.label, "kept").mean(axis=1)
    whole = _ahead(testbed, f"{what}, all", BOTH.label)
    mine, even = (grid(testbed, m, figure).mean(axis=1) for m in (FILL.label, EVEN.label))
    count = len(ahead)
    spread = grid(testbed, BOTH.label, f"{what}, all").mean(axis=1)
    base = grid(testbed, EVEN.label, f"{what}, all").mean(axis=1)
    why = (
        f"over all nodes the use is the same for every placement: methods differ by "
        f"{_identity(testbed):.1g} points"
        if what == "CPU"
        else "over all links use is traffic, which a good placement saves: GMA's plans cross "
        f"{100 * float((1 - spread / base).min()):.0f} to "
        f"{100 * float((1 - spread / base).max()):.0f} % less than Even's"
    )
    why += (
        f"; over nodes in use GMA is ahead where it fills nodes, and keeps the limits with these "
        f"uplinks in all seeds at {int((kept == 1).sum())} of {count} workloads only"
    )
    return Finding(
        verdict_of(ahead.all(), whole.all(), bool(ahead.mean() > 0.5)),
        f"over nodes in use GMA is above Even in all seeds and above Random's greatest at "
        f"{int(ahead.sum())} of {count} workloads (means {100 * mine.min():.0f} to "
        f"{100 * mine.max():.0f} % against Even's {100 * even.min():.0f} to "
        f"{100 * even.max():.0f} %); over all, at {int(whole.sum())} of {count}",
        why,
    )


def cpu_use(testbed: pd.DataFrame) -> Finding:
    """EOA-F4a."""
    return _use(testbed, "CPU")


def bandwidth_use(testbed: pd.DataFrame) -> Finding:
    """EOA-F4b."""
    return _use(testbed, "bandwidth")


def _roughness(table: pd.DataFrame) -> float:
    """Median over seeds of the standard deviation about a straight line over workloads."""
    values = table.to_numpy()
    x = table.index.to_numpy(dtype=float)
    fit = np.polynomial.polynomial.polyfit(x, values, 1)
    off = values - np.polynomial.polynomial.polyval(x, fit).T
    return float(np.median(off.std(axis=0)))


def fluctuation(testbed: pd.DataFrame) -> Finding:
    """EOA-F4c: Random drawn anew at every workload, in 30 series."""
    ratios, told = [], []
    for figure in ("CPU, in use", "bandwidth, in use", "CPU deviation", "bandwidth deviation"):
        rough = {m: _roughness(grid(testbed, m, figure)) for m in
                 (RANDOM.label, EVEN.label, BOTH.label, FILL.label)}  # fmt: skip
        others = max(rough[EVEN.label], rough[BOTH.label])
        ratios.append(rough[RANDOM.label] / max(others, 1e-12))
        told.append(
            f"{figure} {100 * rough[RANDOM.label]:.1f} points against {100 * others:.1f} "
            f"(GMA on the fewest nodes {100 * rough[FILL.label]:.1f})"
        )
    steps = grid(testbed, FILL.label, "capacity in use").diff().abs().gt(SAME).any(axis=1).sum()
    return Finding(
        verdict_of(*(ratio > 2 for ratio in ratios)),
        "roughness over workloads, Random against the rougher of Even and GMA for CPU and "
        f"bandwidth: {'; '.join(told)}",
        "deviations are smoother still for Even, and curved for GMA, since it makes up for what "
        "runs already until the load is even; GMA on the fewest nodes jumps where it opens or "
        f"closes a node, at {int(steps)} of 11 workloads",
    )


def even_is_blind(testbed: pd.DataFrame) -> Finding:
    """EOA-F4d: heavy nodes beside light ones under Even, whatever runs."""
    even = testbed[(testbed["method"] == EVEN.label) & (testbed["workload"] <= PAPER_UNTIL)]
    both = testbed[(testbed["method"] == BOTH.label) & (testbed["workload"] <= PAPER_UNTIL)]
    same = even.groupby("workload")["traffic"].nunique().max() == 1
    high, mine = even["CPU, highest"].mean(), both["CPU, highest"].mean()
    return Finding(
        verdict_of(same, (even["CPU, highest"].to_numpy() > both["CPU, highest"].to_numpy()).all()),
        f"Even's plan is {'the same' if same else 'not the same'} over 30 draws of what runs on "
        f"the nodes (one traffic a workload); its busiest node is at {100 * high:.0f} % on "
        f"average, that of GMA for CPU and bandwidth at {100 * mine:.0f} %",
    )


def grows(testbed: pd.DataFrame, optimum: pd.DataFrame) -> Finding:
    """EOA-F4e."""
    rises = {}
    for method, figure in ((FILL.label, "CPU, in use"), (BOTH.label, "CPU, in use"),
                           (EVEN.label, "CPU, in use")):  # fmt: skip
        rises[method] = grid(testbed, method, figure).mean(axis=1).diff().dropna()
    falls = rises[FILL.label][rises[FILL.label] < -SAME]
    nodes = grid(testbed, FILL.label, "capacity in use").mean(axis=1).diff()
    opened = int((nodes.loc[falls.index] > 0).sum())
    best = optimum[(optimum["method"] == BEST_FILL.label) & (optimum["workload"] <= PAPER_UNTIL)]
    down = int((best["CPU, in use"].diff() < -SAME).sum())
    return Finding(
        verdict_of(falls.empty, *((rises[m] > -SAME).all() for m in (BOTH.label, EVEN.label))),
        f"mean CPU use rises at every step for Even and for GMA over CPU and bandwidth; for GMA on "
        f"the fewest nodes it falls at {len(falls)} of {len(rises[FILL.label])} steps",
        f"where it falls GMA opens a further node ({opened} of {len(falls)}); the optimum "
        f"falls, too, at {down}"
        if len(falls)
        else None,
    )


def no_limits(testbed: pd.DataFrame) -> Finding:
    """EOA-F4f."""
    paper = testbed[testbed["workload"] <= PAPER_UNTIL]
    broken = 100 * (1 - paper.groupby(["method", "workload"])["kept"].mean().unstack())
    worst = broken.max(axis=1)
    return Finding(
        verdict_of(worst[RANDOM.label] > 0, worst[BOTH.label] == 0),
        f"up to {worst[RANDOM.label]:.0f} % of Random's plans break a limit, Even's "
        f"{worst[EVEN.label]:.0f} %, of GMA over CPU and bandwidth {worst[BOTH.label]:.0f} %, of "
        f"GMA on the fewest nodes {worst[FILL.label]:.0f} %",
    )


def _deviation(testbed: pd.DataFrame, what: str) -> Finding:
    figure = f"{what} deviation"
    both = _below(testbed, figure, BOTH.label, PAPER_UNTIL)
    alone = _below(testbed, figure, SPREAD.label, PAPER_UNTIL)
    mine = grid(testbed, BOTH.label, figure).mean(axis=1)
    others = [grid(testbed, m, figure).mean(axis=1) for m in (EVEN.label, RANDOM.label)]
    return Finding(
        verdict_of(both.all(), bool(both.any())),
        f"GMA over CPU and bandwidth is below Even and Random at {int(both.sum())} of {len(both)} "
        f"workloads in all 30 seeds ({mine.min():.2f} to {mine.max():.2f} against "
        f"{others[0].min():.2f} to {others[0].max():.2f} and {others[1].min():.2f} to "
        f"{others[1].max():.2f}); GMA over the CPU only at {int(alone.sum())}",
    )


def cpu_deviation(testbed: pd.DataFrame) -> Finding:
    """EOA-F5a."""
    return _deviation(testbed, "CPU")


def bandwidth_deviation(testbed: pd.DataFrame) -> Finding:
    """EOA-F5b."""
    return _deviation(testbed, "bandwidth")


def stable(testbed: pd.DataFrame, optimum: pd.DataFrame) -> Finding:
    """EOA-F5c: range over workloads, and the standard deviation where they are high."""
    holds, told = [], []
    for what in ("CPU", "bandwidth"):
        figure = f"{what} deviation"
        curves = {m: grid(testbed, m, figure) for m in (BOTH.label, EVEN.label, RANDOM.label)}
        width = {m: float((c.max() - c.min()).median()) for m, c in curves.items()}
        sd = {m: float(c[c.index >= HIGH].std().median()) for m, c in curves.items()}
        for values in (width, sd):
            holds.append(values[BOTH.label] < min(values[EVEN.label], values[RANDOM.label]))
        told.append(
            f"{what}: range {width[BOTH.label]:.2f} (Even {width[EVEN.label]:.2f}, Random "
            f"{width[RANDOM.label]:.2f}), sd from {HIGH} on {sd[BOTH.label]:.3f} "
            f"({sd[EVEN.label]:.3f}, {sd[RANDOM.label]:.3f})"
        )
    best = optimum[(optimum["method"] == BEST_SPREAD.label) & (optimum["workload"] <= PAPER_UNTIL)]
    width = best["CPU deviation"].max() - best["CPU deviation"].min()
    even = grid(testbed, EVEN.label, "CPU deviation")[0]
    return Finding(
        verdict_of(*holds),
        "; ".join(told),
        f"at low workloads what runs already cannot be evened out: the optimum's CPU "
        f"deviation ranges over {width:.2f}, Even's over {even.max() - even.min():.2f}, so no "
        "placement of least deviation has the narrower curve",
    )


def variable(testbed: pd.DataFrame, constants: pd.DataFrame) -> Finding:
    """EOA-F5d: to 2,000 tuples/s, and every chosen constant over its range."""
    holds, told = [], []
    for what in ("CPU", "bandwidth"):
        below = _below(testbed, f"{what} deviation", BOTH.label, 2000)
        table = constants.pivot_table(
            index=["constant", "value", "workload"], columns="method", values=f"{what} deviation"
        )
        least = table[[EVEN.label, RANDOM.label]].min(axis=1)
        swept = table[BOTH.label] < least - SAME
        holds += [below.all(), swept.all()]
        lost = [f"{c} {v:g} at {w:g}" for c, v, w in swept.index[~swept]]
        told.append(
            f"{what}: lowest at {int(below.sum())} of {len(below)} workloads to 2,000, and at "
            f"{int(swept.sum())} of {len(swept)} with a constant changed"
            + (f" (not: {', '.join(lost[:4])}{' …' if len(lost) > 4 else ''})" if lost else "")
        )
    kept = testbed[testbed["method"] == BOTH.label].groupby("workload")["kept"].mean()
    broken = kept[kept < 1]
    fails = ", ".join(f"{100 * (1 - k):.0f} % at {w:g}" for w, k in broken.items()) or "none"
    return Finding(
        verdict_of(*holds),
        "; ".join(told) + f"; plans over a limit: {fails}",
        left_out=int(constants["CPU deviation"].isna().sum()),
        left_out_why="no method has a plan: demand above all capacity",
    )
