"""Judges of ALBIC against COLA on synthetic jobs, and of its own constants."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

from experiments.statistics import mean_interval
from experiments.studies.papers.albic.judges_jobs import last_third
from experiments.studies.papers.claims import Finding, verdict_of

if TYPE_CHECKING:
    from collections.abc import Callable

    import pandas as pd

SAME = 10.0
"""The load distance asked of both."""

MAX_LD = 10.0
_HALF = 50.0
NODES = 40
WIDE = "ALBIC, max_part_load=50.0"


def _pairs(table: pd.DataFrame, column: str, target: float = SAME) -> pd.DataFrame:
    """Return ALBIC's and COLA's values, a line a seed and share or size."""
    mine = table[
        (table["policy"] == "ALBIC") | ((table["policy"] == "COLA") & (table["target"] == target))
    ]
    return mine.pivot_table(
        index=["nodes", "one_to_one", "seed"], columns="policy", values=column
    ).dropna()


def _each(wide: pd.DataFrame, level: str) -> list[tuple[float, pd.DataFrame]]:
    return [(float(value), mine) for value, mine in wide.groupby(level=level)]  # type: ignore[arg-type]


def at_full_size(
    judge: Callable[[pd.DataFrame], Finding], *, by_size: bool = False
) -> Callable[[pd.DataFrame, pd.DataFrame], Finding]:
    """Judge at the paper's size, one instance a line; tell what 30 seeds of a tenth of it say.

    Parameters
    ----------
    by_size
        Whether the lines are those of Figure 11 (half one to one), and not those of Figure 10.
    """

    def judged(full: pd.DataFrame, small: pd.DataFrame) -> Finding:
        lines = full[(full["one_to_one"] == _HALF) == by_size]
        found, seeds = judge(lines), judge(small)
        figure = f"{found.figure}; of a tenth of the size, over seeds: {seeds.verdict}, "
        return replace(found, figure=figure + seeds.figure)

    return judged


def lower_distance(table: pd.DataFrame) -> Finding:
    """F10a: load distance at every share, planned and met."""
    parts, told = [], []
    met = _pairs(table, "next")
    for share, mine in _each(_pairs(table, "distance"), "one_to_one"):
        lower = int((mine["ALBIC"] < mine["COLA"]).sum())
        parts.append(bool(mine["ALBIC"].mean() < mine["COLA"].mean()) and lower > 0.9 * len(mine))
        after = met.loc[met.index.get_level_values("one_to_one") == share]
        told.append(
            f"x {share:g}: {mean_interval(mine['ALBIC'])} against {mean_interval(mine['COLA'])} "
            f"(next period {after['ALBIC'].mean():.3g} against {after['COLA'].mean():.3g}), lower "
            f"with {lower} of {len(mine)} seeds"
        )
    return Finding(
        verdict_of(*parts),
        f"{_size(table)}, {SAME:g} points asked of both; {'; '.join(told)}",
        **_none(),
    )


def _size(table: pd.DataFrame) -> str:
    nodes = table["nodes"].max()
    return f"at {nodes:g} nodes" + (f", where the paper has {NODES}" if nodes != NODES else "")


def _none() -> dict[str, Any]:
    return {"left_out": 1, "left_out_why": "x = 0: there is no traffic between key groups"}


def more_collocated(table: pd.DataFrame) -> Finding:
    """F10b: collocation at every share, at all targets of the load distance.

    ALBIC is asked for 10 points alone; at a lower target only the seeds count in which it keeps it.
    """
    leads: list[float] = []
    told, reached = [], True
    for target in sorted(table["target"].unique(), reverse=True):
        for share, mine in _each(_pairs(table, "collocated", target), "one_to_one"):
            distance = _pairs(table, "distance", target).loc[mine.index]
            own = mine[distance["ALBIC"] <= target]
            reached &= bool((own["COLA"] >= share - 0.5).all())
            leads.append(float((own["ALBIC"] - own["COLA"]).mean()))
            told.append(
                f"maxLD {target:g}, x {share:g}: {mean_interval(own['ALBIC'])} against "
                f"{mean_interval(own['COLA'])} ({len(own)} of {len(mine)} seeds)"
            )
    parts = [min(leads) >= -2.0, max(leads) >= 5.0]
    return Finding(
        verdict_of(*parts),
        f"{_size(table)}, collocated, % of all traffic, seeds in which ALBIC, asked for 10 points, "
        f"keeps maxLD: {'; '.join(told)}; ALBIC ahead by {min(leads):.2g} to {max(leads):.2g}",
        cause="COLA already collocates all that can be at every share and every maxLD tried, which "
        "leaves nothing to be ahead by"
        if reached and parts[0] and not parts[1]
        else None,
        **_none(),
    )


def obtainable(table: pd.DataFrame) -> Finding:
    """F10c: what is reached is x."""
    mine = _pairs(table, "collocated")
    shares = mine.index.get_level_values("one_to_one").to_numpy()
    off = mine.sub(shares, axis=0).abs().max()
    return Finding(
        verdict_of(*[off["COLA"] <= 1.0, off["ALBIC"] <= 1.0]),
        f"{_size(table)}, all traffic that can be collocated is x % of it by construction; COLA "
        f"ends at most "
        f"{off['COLA']:.2g}, ALBIC {off['ALBIC']:.2g} points from x, in {len(mine)} runs",
        **_none(),
    )


def fewer_parts(table: pd.DataFrame) -> Finding:
    """F10d: parts of the key groups, and the load distance had with them."""
    full = table[table["one_to_one"] == 100.0]
    told, fewer = [], []
    for target in sorted(full["target"].unique(), reverse=True):
        parts, distance = _pairs(full, "parts", target), _pairs(full, "distance", target)
        fewer.append(bool(parts["ALBIC"].mean() < parts["COLA"].mean()))
        told.append(f"{parts['COLA'].mean():.0f} at {distance['COLA'].mean():.2g}")
    ours = _pairs(full, "parts")["ALBIC"].mean()
    level = _pairs(full, "distance")["ALBIC"].mean()
    return Finding(
        verdict_of(*fewer),
        f"{_size(table)}, x 100: ALBIC has {ours:.0f} parts at a load distance of {level:.2g} "
        f"points; COLA {', '.join(told)}",
    )


def at_each_size(table: pd.DataFrame) -> Finding:
    """F11: load distance and collocation by size."""
    parts, told = [], []
    collocated = _pairs(table, "collocated")
    for nodes, mine in _each(_pairs(table, "distance"), "nodes"):
        own = collocated.loc[collocated.index.get_level_values("nodes") == nodes]
        lower = bool(mine["ALBIC"].mean() < mine["COLA"].mean())
        higher = bool(own["ALBIC"].mean() > own["COLA"].mean())
        parts += [lower, higher]
        told.append(
            f"{nodes:g} nodes ({len(mine)} seeds): load distance {mine['ALBIC'].mean():.3g} "
            f"against {mine['COLA'].mean():.3g}, collocated {own['ALBIC'].mean():.3g} against "
            f"{own['COLA'].mean():.3g} %"
        )
    whole = bool((collocated["COLA"] >= 49.5).all() and (collocated["ALBIC"] >= 49.5).all())
    return Finding(
        verdict_of(*parts),
        "; ".join(told),
        cause="both collocate all of the half that can be" if whole and not all(parts) else None,
    )


def part_load(table: pd.DataFrame, jobs: pd.DataFrame) -> Finding:
    """D1: collocation with maxPL 25 and with 50."""
    wide = table[table["one_to_one"] == 100.0].pivot_table(
        index="seed", columns="policy", values="collocated"
    )
    wide = wide[["ALBIC", WIDE]].dropna()
    policies = ("albic", "albic:max_part_load=50")
    days = int(jobs[jobs["policy"] == policies[1]]["period"].max())
    common = jobs[jobs["period"] <= days]
    ours, theirs = (last_third(common, 2, policy)["collocated"].mean() for policy in policies)
    return Finding(
        verdict_of(*[bool((wide["ALBIC"] >= wide[WIDE] - 2).all()), bool(ours >= theirs - 2)]),
        f"maxPL 25 against 50 points, collocated: {mean_interval(wide['ALBIC'])} against "
        f"{mean_interval(wide[WIDE])} % at x 100 ({len(wide)} seeds), {ours:.4g} against "
        f"{theirs:.4g} % in the last third of {days + 1} days of Real Job 2",
    )


def recalculations(table: pd.DataFrame) -> Finding:
    """D2: how often maxPL had to be lowered."""
    mine = table[table["policy"] == "ALBIC"]
    share = 100.0 * mine["recalculated"].sum() / mine["rounds"].sum()
    most = int(mine["most recalculations"].max())
    return Finding(
        verdict_of(*[most <= 5, share < 5.0]),
        f"at most {most} recalculations, any in {share:.2g} % of {int(mine['rounds'].sum())} plans",
        left_out=3,
        left_out_why="Real Jobs 2 to 4: their replays do not record it",
    )


def far_below(table: pd.DataFrame, jobs: pd.DataFrame) -> Finding:
    """D3: ALBIC's load distance beside maxLD."""
    worst = table[table["policy"] == "ALBIC"]["worst distance"].max()
    told, parts = [], [bool(worst <= 0.7 * MAX_LD)]
    for job in sorted(set(jobs["job"])):
        mine = jobs[(jobs["job"] == job) & (jobs["policy"] == "albic")]["distance"]
        parts.append(bool(mine.max() <= 0.7 * MAX_LD))
        below = int((mine <= 0.7 * MAX_LD).sum())
        told.append(
            f"Real Job {job} mean {mine.mean():.3g}, worst {mine.max():.3g}, at most 7 on {below} "
            f"of {len(mine)} days"
        )
    return Finding(
        verdict_of(*parts), f"of 10 points: synthetic at worst {worst:.2g}; {'; '.join(told)}"
    )
