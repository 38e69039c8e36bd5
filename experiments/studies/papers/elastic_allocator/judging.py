"""Judges of the claims on limits, formulas, the day and the optimum."""

from __future__ import annotations

from typing import TYPE_CHECKING

from experiments.statistics import median_interval
from experiments.studies.papers.claims import Finding, verdict_of
from experiments.studies.papers.elastic_allocator.running import BEST_FILL, BEST_SPREAD, BOTH, FILL

if TYPE_CHECKING:
    import pandas as pd

_EXACT = 1e-9


def bandwidth_matters(uplinks: pd.DataFrame) -> Finding:
    """EOA-A2."""
    known = uplinks[~uplinks["infeasible, proved"]]
    inside = known[known["uplink"] >= 1]
    by = inside.groupby("uplink")
    blind = by["CPU only, breaks a link"].mean()
    mine = by["GMA places"].mean()
    exact = by["exact places"].mean()
    told = ", ".join(f"{m:g}x {100 * s:.0f} %" for m, s in blind.items())
    placed = ", ".join(f"{m:g}x {100 * s:.0f} %" for m, s in mine.items())
    best = ", ".join(f"{m:g}x {100 * s:.0f} %" for m, s in exact.items())
    return Finding(
        verdict_of((blind > 0).all(), bool(blind.iloc[0] > 0.5), mine.eq(1).all()),
        f"plans that see CPU only break a link: {told}; GMA, which keeps every link it can, places "
        f"all within limits: {placed}; `eoa-milp`: {best}",
        "uplinks of three times the need do not bind; GMA takes operators one by one and fails "
        "where the exact method places: "
        f"{int((inside['exact places'] & ~inside['GMA places']).sum())} of {len(inside)} instances",
        left_out=len(uplinks) - len(known),
        left_out_why="infeasible",
    )


def adaptive(day: pd.DataFrame) -> Finding:
    """EOA-A3."""
    every, both = (day[day["method"] == m] for m in (FILL.label, BOTH.label))
    fill = every[every["kept"]]
    gain = 100 * (fill["CPU, in use"] - fill["CPU, in use, as at the peak"])
    spread = both["CPU deviation, as at the peak"] - both["CPU deviation"]
    moves = day.groupby(["method", "seed"])["moves"].mean()
    first, second = (median_interval(moves[m].to_list()) for m in (FILL.label, BOTH.label))
    hours, low = len(gain), int((gain < -1e-7).sum())
    by_hour = gain.groupby(fill["hour"]).median(), spread.groupby(both["hour"]).median()
    kept = 100 * every["kept"].mean()
    return Finding(
        verdict_of((by_hour[0] >= -1e-7).all()),
        f"over the day, on the fewest nodes: use of the nodes in use placed anew is at or above "
        f"that of the plan for the peak in {int((by_hour[0] >= -1e-7).sum())} of {len(by_hour[0])} "
        f"hours (medians of 30 seeds; {hours - low} of {hours} single ones) "
        f"(mean {gain.mean():+.1f} points; {kept:.0f} % of these plans keep the limits, "
        f"{100 * every['kept, as at the peak'].mean():.0f} % of the peak's), for {first} moves an "
        f"hour of 16 tasks; over CPU and bandwidth: CPU deviation lower or equal in "
        f"{int((by_hour[1] >= -1e-9).sum())} of {len(by_hour[1])} hours (medians; "
        f"{int((spread >= -1e-9).sum())} of {len(spread)}), for {second} moves an hour",
        left_out=len(every) - len(fill),
        left_out_why="hours in which GMA on the fewest nodes breaks a limit",
    )


def load_formula(formulas: pd.DataFrame) -> Finding:
    """EOA-M1: the formula as printed against the referee's; ours is a reading of it."""
    off = formulas["load, greatest difference"].max()
    told = formulas["overloaded operators told"].mean()
    printed, ours = (formulas[f"load by hand, {by}"].iloc[0] for by in ("printed", "referee"))
    return Finding(
        verdict_of(abs(printed - ours) < _EXACT, told == 1),
        f"printed, Σ e r / s · CS + C0 is {printed:.0f} where the referee has {ours:.0f} (e 0.2, r "
        f"100, s 50, CS 90, C0 10); operators with r/s of 2 and 0.5: reported as they should be in "
        f"{100 * told:.0f} %",
        f"our reading leaves r / s to the sign of overload: (C0 + Σ e r) / C differs from the "
        f"referee's use by at most {off:.1g} on {len(formulas)} random queries",
    )


def bandwidth_formula(formulas: pd.DataFrame) -> Finding:
    """EOA-M2: the formula as printed against the referee's; ours is a reading of it."""
    off = formulas["links, greatest difference"].max()
    rows = int(formulas["rows of U that do not sum to 1"].sum())
    silent = int(formulas["nodes that send or receive nothing"].sum())
    printed, ours = (formulas[f"link by hand, {by}"].iloc[0] for by in ("printed", "referee"))
    return Finding(
        verdict_of(abs(printed - ours) < _EXACT, rows == 0),
        f"printed, B_remain · Σ a u + B0 is {printed:.0f} where the referee has {ours:.0f} ("
        f"30 sent, B0 20, 120 in all); {rows} rows of U do not sum to 1",
        f"with rows of U that sum to 1 the printed formula fills every link; with what is sent in "
        f"place of what remains it differs from the referee's link use by at most {off:.1g} on "
        f"{len(formulas)} random queries",
        left_out=silent,
        left_out_why="rows of nodes that send and receive nothing",
    )


def classes(table: pd.DataFrame) -> Finding:
    """EOA-M3."""
    by = table.groupby("classes")
    seconds, capacity = by["seconds"].median(), by["capacity in use"].mean()
    wide = 100 * (capacity.max() / capacity.min() - 1)
    rise = seconds.iloc[-1] / seconds.iloc[0]
    paired = table.pivot_table(index="seed", columns="classes", values="seconds")
    slower = int((paired[10] > paired[2] * 1.1).sum())
    return Finding(
        verdict_of(wide <= 5, rise >= 1.1),
        f"ten classes take {rise:.2f} times as long as two (more than 1.1 times in {slower} of "
        f"{len(paired)} queries of 400 operators on 50 nodes); mean capacity in use differs by "
        f"{wide:.1f} %",
        None
        if rise >= 1.1
        else f"a class costs one division here ({1000 * seconds.min():.0f} to "
        f"{1000 * seconds.max():.0f} ms in all, with no trend), where the paper enumerates",
    )


def best_effort(table: pd.DataFrame) -> Finding:
    """EOA-M4."""
    light = table[table["light nodes"] > 0]
    placed = int(light["on light nodes"].sum())
    even = light["most less least on a light node"].max()
    return Finding(
        verdict_of(placed == light["operators"].sum(), even <= 1),
        f"with t_max over at once all {int(light['operators'].sum()):,} operators of {len(light)} "
        f"runs are placed, {placed:,} on light nodes, and numbers on these differ by {even} at "
        "most",
        left_out=len(table) - len(light),
        left_out_why="no light node",
    )


def linear(optimum: pd.DataFrame) -> Finding:
    """EOA-M5."""
    count = {m: optimum[optimum["method"] == m]["proved"] for m in
             (BEST_FILL.label, BEST_SPREAD.label)}  # fmt: skip
    told = "; ".join(
        f"{m}: {int(p.sum())} of {len(p)} optimal by one solver's word" for m, p in count.items()
    )
    return Finding(
        verdict_of(*(p.all() for p in count.values())),
        f"{told}, in {optimum['seconds'].median():.1f} s (median) to "
        f"{optimum['seconds'].max():.0f} s; integer, and R_dev by sets of tasks a node can hold, "
        "since it is not linear in the placement",
    )


def near_best(gaps: pd.DataFrame) -> Finding:
    """EOA-G1."""
    known = gaps[gaps["proved"] & gaps["GMA keeps the limits"]]
    holds, told = [], []
    for name, part in known.groupby("objective"):
        gap = 100 * (part["GMA"] - part["optimum"]) / part["GMA"]
        share = part["GMA, seconds"] / part["exact, seconds"]
        holds += [float(gap.mean()) <= 10, float(share.median()) < 0.01]
        told.append(
            f"{name}: gap {gap.mean():.1f} % on average, {gap.max():.0f} % at worst, none on "
            f"{int((gap.abs() < 1e-4).sum())} of {len(gap)}; GMA takes {share.median():.4f} of the "
            "exact time (median)"
        )
    part = known[known["objective"] == "CPU deviation"]
    absolute = (part["GMA"] - part["optimum"]).mean()
    links = gaps[gaps["proved"]]["highest link use of the optimum"]
    return Finding(
        verdict_of(*holds),
        "; ".join(told)
        + f"; the busiest uplink of the optimum is used to {100 * links.quantile(0.1):.0f}"
        f" to {100 * links.quantile(0.9):.0f} % (middle 80 %)",
        f"few operators on few nodes can be spread almost exactly (the optimum's R_dev is "
        f"{part['optimum'].mean():.3f} on average), so that {absolute:.2f} of R_dev above it is a "
        "large part; one pass of single operators cannot swap two",
        left_out=len(gaps) - len(known),
        left_out_why="not solved to the end, infeasible, or GMA's plan over a limit",
    )


def feasible_only(uplinks: pd.DataFrame, gaps: pd.DataFrame) -> Finding:
    """EOA-G2."""
    tight = uplinks[uplinks["exact places"]]
    wide = gaps[gaps["proved"] & ~gaps["infeasible"]]
    first, second = int((~tight["GMA places"]).sum()), int((~wide["GMA keeps the limits"]).sum())
    by = tight.groupby("uplink")["GMA places"].agg(lambda s: int((~s).sum()))
    told = ", ".join(f"{n} at {m:g}x" for m, n in by.items())
    return Finding(
        verdict_of(first == 0, second == 0, bool((by.iloc[-1]) == 0)),
        f"where a plan exists GMA finds none on {first} of {len(tight)} (uplinks as multiples of "
        f"the need: {told}), and on {second} of {len(wide)} runs of the gap table; such plans are "
        "marked as best effort",
        "GMA places operators one after the other and never takes two at once: with wider uplinks "
        f"the failures go from {int(by.iloc[0])} to {int(by.iloc[-1])}",
        left_out=len(uplinks) - len(tight),
        left_out_why="no plan known",
    )


def trace(day: pd.DataFrame) -> Finding:
    """EOA-N3: another public trace in place of the paper's."""
    both = day[day["method"] == BOTH.label]
    kept = 100 * both["kept"].mean()
    rates = both.groupby("hour")["workload"].mean()
    return Finding(
        verdict_of(False, kept == 100),
        f"not on that trace, which no registry has, but on {len(rates)} recorded hours of a public "
        f"load balancer ({rates.min():.0f} to {rates.max():.0f} tuples/s): GMA over CPU and "
        f"bandwidth keeps the limits in {kept:.0f} % of the hours",
        "another trace",
    )
