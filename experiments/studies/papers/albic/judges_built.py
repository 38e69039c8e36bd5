"""Judges of what the paper proves or says in passing: the framework, the model, its lemmas."""

from __future__ import annotations

from typing import TYPE_CHECKING

from experiments.statistics import mean_interval, median_interval, paired_sign_test
from experiments.studies.papers.albic.planning import INTEGRATED
from experiments.studies.papers.claims import Finding

if TYPE_CHECKING:
    from collections.abc import Sequence

    import pandas as pd

    from experiments.studies.papers.claims.claim import Verdict


def verdict(parts: Sequence[bool]) -> Verdict:
    """Return *same* where all parts hold, *in part* where some do."""
    if all(parts):
        return "same"
    return "in part" if any(parts) else "different"


def scale_outs(table: pd.DataFrame) -> Finding:
    """W1: nodes added by planning first, and by looking at what runs."""
    first = table[table["plan first"]].set_index("seed")["added"]
    after = table[~table["plan first"]].set_index("seed")["added"].loc[first.index]
    fewer, equal = int((first < after).sum()), int((first == after).sum())
    holds = median_interval(first).value <= median_interval(after).value
    return Finding(
        verdict([holds, fewer > 0 and paired_sign_test(first, after) < 0.05]),
        f"nodes added on a day: {mean_interval(first)} planned first, {mean_interval(after)} not; "
        f"fewer on {fewer} days, as many on {equal} of {len(first)}",
    )


def node_periods(table: pd.DataFrame) -> Finding:
    """W2: node periods with collocation and without."""
    wide = table.pivot_table(index="seed", columns="policy", values="node periods")
    ours, theirs = wide["albic"], wide["balance-search"]
    fewer = int((ours < theirs).sum())
    return Finding(
        verdict([bool(ours.mean() < theirs.mean()), paired_sign_test(ours, theirs) < 0.05]),
        f"node periods of a day: ALBIC {mean_interval(ours)}, balance alone "
        f"{mean_interval(theirs)}; fewer on {fewer} of {len(wide)} days",
    )


def scale_ins(table: pd.DataFrame) -> Finding:
    """W3: nodes marked with a limit on the load distance, and without one."""
    limited = table[table["limit"].astype(str) != "none"].iloc[0]
    free = table[table["limit"].astype(str) == "none"].iloc[0]
    return Finding(
        verdict([limited["marked"] == 0 and free["marked"] > 0]),
        f"{limited['marked']} nodes marked where the rest comes to a load distance of "
        f"{limited['planned distance']:.3g} and {limited['limit']} is asked for; "
        f"{free['marked']} by utilisation alone",
    )


def _cases(table: pd.DataFrame) -> tuple[pd.DataFrame, pd.DataFrame, pd.DataFrame]:
    """Return integral and divisible cases of the seeds, and the built counter-example."""
    proven = table[table["proven"]]
    seeds = proven[proven["seed"] >= 0]
    return (
        seeds[seeds["loads"] == "key groups"],
        seeds[seeds["loads"] == "divisible"],
        proven[(proven["seed"] < 0) & (proven["loads"] == "key groups")],
    )


def _loses(cases: pd.DataFrame) -> pd.Series[float]:
    """Return by seed how much d forbidding moves onto leaving nodes costs."""
    wide = cases.pivot_table(index="seed", columns="into", values="distance").dropna()
    return wide[False] - wide[True]


def lemma_1(table: pd.DataFrame) -> Finding:
    """N1: forbidding moves onto leaving nodes costs nothing."""
    whole, divisible, built = _cases(table)
    lost, lost_divisible, lost_built = map(_loses, (whole, divisible, built))
    worse = int((lost > 1e-3).sum())
    left = int((~table["proven"]).sum())
    return Finding(
        verdict(
            [
                bool((lost_divisible.abs() < 1e-6).all()),
                worse == 0 and bool((lost_built <= 1e-3).all()),
            ]
        ),
        f"without moves onto leaving nodes d is as small in {len(lost_divisible)} of "
        f"{len(lost_divisible)} cases with divisible loads, in {len(lost) - worse} of {len(lost)} "
        "with key groups",
        cause=f"the proof takes loads to be divisible: with key groups of 6, 6, 7 and 7 points on "
        f"three nodes d is {lost_built.iloc[0]:.3g} larger without the fourth, leaving one",
        left_out=left,
        left_out_why="not solved to the end in time",
    )


def lemma_2(table: pd.DataFrame, rounds: pd.DataFrame) -> Finding:
    """N2: nothing is left on leaving nodes at the least d, and in the end."""
    whole, divisible, built = _cases(table)
    free = whole[whole["into"]]
    empty = int((free["left"] <= 1e-6).sum())
    stays = float(divisible["left"].max())
    kept = float(built[built["into"]]["left"].iloc[0])
    mine = rounds[rounds["way"] == INTEGRATED]
    last = mine.groupby(["seed", "overloaded"])["left"].min()
    emptied = int((last <= 1e-9).sum())
    return Finding(
        verdict([stays < 1e-6, empty == len(free) and kept == 0, emptied == len(last)]),
        f"at the least d at most {stays:.1g} points stay on leaving nodes with divisible loads; "
        f"none with key groups in {empty} of {len(free)} cases; {emptied} of {len(last)} scale-ins "
        "are emptied in the end",
        cause=f"the proof takes loads to be divisible: the counter-example keeps {kept:g} points "
        "on the leaving node at its least d",
        left_out=int((~table["proven"]).sum()),
        left_out_why="not solved to the end in time",
    )


def weights_of_the_goal(table: pd.DataFrame) -> Finding:
    """N3: the weighted objective against the lexicographic one."""
    wide = table.pivot_table(index="seed", columns="weighted", values="distance").dropna()
    apart = (wide[True] - wide[False]).abs()
    same = int((apart <= 1e-3).sum())
    unproven = int((~table["proven"]).sum())
    return Finding(
        verdict([same == len(apart), same > 0]),
        f"the same d within 0.001 points in {same} of {len(apart)} clusters, at most "
        f"{apart.max():.2g} apart; {unproven} solves did not end",
    )


def node_weights(table: pd.DataFrame) -> Finding:
    """N4: solving times with node weights and with a second resource."""
    wide = table.pivot_table(index="seed", columns="way", values="seconds").dropna()
    ratios = {way: median_interval(wide[way] / wide["equal"]) for way in ("weights", "memory")}
    memory = table[(table["way"] == "memory") & table["memory used"].notna()]
    kept = bool((memory["memory used"] <= memory["memory"] + 1e-6).all())
    return Finding(
        verdict([*(0.5 <= r.value <= 2.0 for r in ratios.values()), kept]),
        f"solving time over that of equal nodes, median: weights 1 to 4 {ratios['weights']}, a "
        f"second resource {ratios['memory']}; its capacity kept in {len(memory)} of {len(memory)}"
        if kept
        else "capacity of the second resource broken",
        left_out=len(set(table["seed"])) - len(wide),
        left_out_why="seeds without all three ways",
    )


def rounds_of_a_scale_in(rounds: pd.DataFrame) -> Finding:
    """N5: every round within the budget, leaving nodes empty in the end."""
    mine = rounds[rounds["way"] == INTEGRATED]
    most = int(mine["moves"].max())
    last = mine.groupby(["seed", "overloaded"])["left"].min()
    emptied = int((last <= 1e-9).sum())
    return Finding(
        verdict([most <= 6, emptied == len(last)]),
        f"at most {most} of 6 moves in any of {len(mine)} rounds; {emptied} of {len(last)} "
        "scale-ins emptied in the end",
    )


def joint_model(table: pd.DataFrame) -> Finding:
    """N6: state of the joint model by size."""
    largest = table.sort_values("key groups").iloc[-1]
    told = []
    for row in table.sort_values("key groups").to_dict("records"):
        value, bound = row["value"], row["bound"]
        gap = "no plan" if value != value else "no bound"
        if value == value and bound == bound:
            gap = f"gap {100 * (bound - value) / max(bound, 1e-12):.2g} %"
        told.append(f"{row['key groups']:g} key groups: {row['state']}, {gap}")
    return Finding(
        verdict([largest["state"] != "optimal"]),
        f"after {largest['seconds']:g} s: {'; '.join(told)}",
    )


def patterns(table: pd.DataFrame) -> Finding:
    """N7: how much can be collocated, by pattern."""
    best = {str(name): mean_interval(mine["collocated"]) for name, mine in table.groupby("pattern")}
    low = [best[name].value for name in ("one to one", "partial merge", "partial, skewed")]
    even = best["full, even"].value
    return Finding(
        verdict([min(low) > best["partial, even"].value > even, even < 100 / 6 + 5]),
        "collocated, %: " + "; ".join(f"{name} {value}" for name, value in best.items())
        + "; 16.7 by chance on six nodes",
    )  # fmt: skip


def overloads(table: pd.DataFrame) -> Finding:
    """S4: overload by load distance."""
    by_seed = [
        mine["distance"].corr(mine["overload seconds"], method="spearman")
        for _, mine in table.groupby("seed")
    ]
    means = table.groupby("moves")[["distance", "overload seconds"]].mean()
    means = means.sort_values("distance")
    rising = bool(means["overload seconds"].is_monotonic_increasing)
    ends = means.iloc[[0, -1]]
    return Finding(
        verdict([rising, mean_interval(by_seed).low > 0.5]),
        f"rank correlation of load distance and overload {mean_interval(by_seed)}; node seconds "
        f"above capacity {ends['overload seconds'].iloc[0]:.0f} at a load distance of "
        f"{ends['distance'].iloc[0]:.2g}, {ends['overload seconds'].iloc[1]:.0f} at "
        f"{ends['distance'].iloc[1]:.3g}",
    )
