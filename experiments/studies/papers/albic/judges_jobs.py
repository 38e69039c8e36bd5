"""Judges of ALBIC and COLA on the real jobs."""

from __future__ import annotations

from typing import TYPE_CHECKING

from experiments.statistics import mean_interval, paired_sign_test
from experiments.studies.papers.albic.jobs import MILP
from experiments.studies.papers.claims import Finding, verdict_of

if TYPE_CHECKING:
    from collections.abc import Callable

    import pandas as pd

    from experiments.studies.papers.claims import Verdict

LAST = 3
"""*The last third* of a replay."""

CHARGES = (0.0, 0.05, 0.1, 0.25, 0.5)
"""What moving a key group costs, in the mean load of one at the start: the paper's cost is lost."""

HEAVY_CHARGES = (0.5, 1.0, 1.5, 2.0, 3.0, 4.0)
HALF = 50.0
"""Percent of days, more of which are *most*."""

DAYS = 30

KEY_GROUPS = {2: 200, 3: 300, 4: 800}


def _of(jobs: pd.DataFrame, job: int, policy: str) -> pd.DataFrame:
    found: pd.DataFrame = jobs[(jobs["job"] == job) & (jobs["policy"] == policy)]
    return found


def last_third(jobs: pd.DataFrame, job: int, policy: str) -> pd.DataFrame:
    """Return the last third of a policy's periods."""
    mine = _of(jobs, job, policy)
    return mine[mine["period"] >= mine["period"].max() * (LAST - 1) / LAST]


def reaches_optimum(jobs: pd.DataFrame) -> Finding:
    """F12a: COLA at once, with its moves."""
    mine = jobs[(jobs["job"] == 2) & (jobs["policy"] == "cola")]
    ours = jobs[(jobs["job"] == 2) & (jobs["policy"] == "albic")]
    first = float(mine["collocated"].iloc[0])
    moves, own = mine["migrations"].mean(), ours["migrations"].mean()
    return Finding(
        verdict_of(*[first >= 99.0, 150 <= moves <= 200, own <= 10.0]),
        f"COLA {first:.4g} % in the first period; {moves:.0f} moves a period, ALBIC {own:.3g}",
    )


def climbs(job: int, least: float | None = None) -> Callable[[pd.DataFrame], Finding]:
    """Return the judge of F12b and F14b: ALBIC's collocation in the last third."""

    def judge(jobs: pd.DataFrame) -> Finding:
        ours, theirs = last_third(jobs, job, "albic"), last_third(jobs, job, "cola")
        now, following = ours["collocated"].mean(), ours["collocated next"].mean()
        wanted = theirs["collocated"].mean() - 2.0 if least is None else least
        met = theirs["collocated next"].mean() - 2.0 if least is None else least
        all_of = jobs[(jobs["job"] == job) & (jobs["policy"] == "albic")]
        reached = all_of[all_of["collocated"] >= wanted]["period"].min()
        when = "never" if reached != reached else f"first on day {reached:.0f}"
        return Finding(
            verdict_of(*[bool(now >= wanted), bool(following >= met)]),
            f"last third: ALBIC {now:.4g} %, {following:.4g} % as met on the next day; COLA "
            f"{theirs['collocated'].mean():.4g} and {theirs['collocated next'].mean():.4g} %; "
            f"{wanted:.4g} % {when}",
        )

    return judge


def consistently_lower(jobs: pd.DataFrame) -> Finding:
    """F12c: days on which ALBIC's load distance is lower than COLA's."""
    return Finding(*_lower(jobs, 2))


def _lower(jobs: pd.DataFrame, job: int) -> tuple[Verdict, str]:
    mine = jobs[(jobs["job"] == job) & jobs["policy"].isin(["albic", "cola"])]
    wide = mine.pivot_table(index="period", columns="policy", values=["distance", "distance next"])
    now, following = (wide[name].dropna() for name in ("distance", "distance next"))
    lower = float(100.0 * (now["albic"] < now["cola"]).mean())
    met = float(100.0 * (following["albic"] < following["cola"]).mean())
    means = now["albic"].mean(), now["cola"].mean()
    return (
        verdict_of(*[lower == 100.0, bool(means[0] < means[1])]),
        f"lower on {lower:.0f} % of {len(now)} days, {met:.0f} % as met on the next; mean "
        f"{means[0]:.3g} against {means[1]:.3g} "
        f"(p {paired_sign_test(now['albic'], now['cola']):.1g}), "
        f"next {following['albic'].mean():.3g} against {following['cola'].mean():.3g}",
    )


def halves(jobs: pd.DataFrame) -> Finding:
    """F12d: load index at the end."""
    mine = jobs[(jobs["job"] == 2) & (jobs["policy"] == "albic")]
    end = 100.0 * mine.tail(len(mine) // 12)["load index"].mean()
    least = 100.0 * mine["load index"].rolling(30).mean().min()
    return Finding(
        verdict_of(*[45.0 <= end <= 55.0]),
        f"load index {end:.3g} % in the last month, {least:.3g} % in its best 30 days",
    )


def less_saved(jobs: pd.DataFrame) -> Finding:
    """F12e: load index with migrations charged, over a range of their cost."""
    told, higher = [], []
    last = int(_of(jobs, 2, "cola")["period"].max())
    for charge in CHARGES:
        ends = {policy: _index(jobs, policy, charge) for policy in ("albic", "cola")}
        higher.append(ends["cola"] > ends["albic"] + 0.05)
        told.append(f"{charge:g}: {ends['cola']:.3g} against {ends['albic']:.3g} %")
    return Finding(
        verdict_of(*higher[1:]),
        f"load index of COLA and of ALBIC on days {last - DAYS + 1} to {last}, by what a move "
        f"costs in mean loads of a key group: {', '.join(told)}",
    )


def _index(jobs: pd.DataFrame, policy: str, charge: float) -> float:
    """Return the load index of Real Job 2 on COLA's last days, moves charged, in percent."""
    last = int(_of(jobs, 2, "cola")["period"].max())
    mine = _of(jobs, 2, policy)
    end = mine[(mine["period"] > last - DAYS) & (mine["period"] <= last)]
    index = end["load index"] + charge * end["migrations"] / KEY_GROUPS[2]
    return 100.0 * float(index.mean())


def half_of_job_2(jobs: pd.DataFrame) -> Finding:
    """F13a: collocation of Real Job 3 over that of Real Job 2."""
    ratios = {}
    for policy in ("albic", "cola"):
        one, two = (last_third(jobs, job, policy)["collocated"].mean() for job in (2, 3))
        ratios[policy] = float(two / one)
    best = _of(jobs, 3, "cola")["collocated"].mean()
    holds = [0.45 <= ratio <= 0.55 for ratio in ratios.values()]
    return Finding(
        verdict_of(*holds),
        f"ratio {ratios['albic']:.3g} with ALBIC, {ratios['cola']:.3g} with COLA",
        cause=f"COLA collocates {best - 50:.3g} points more than the half of the traffic that "
        "goes to the airplanes' operator: some of that to the routes, too"
        if not all(holds)
        else None,
    )


def same_trend(jobs: pd.DataFrame) -> Finding:
    """F13b: as F12b and F12c, on Real Job 3."""
    climbing = climbs(3)(jobs)
    level, figure = _lower(jobs, 3)
    parts = [climbing.verdict == "same", level == "same"]
    some = "different" not in (climbing.verdict, level) or any(parts)
    return Finding(verdict_of(*[*parts, some]), f"{climbing.figure}; load distance {figure}")


def bears_half(jobs: pd.DataFrame) -> Finding:
    """F13c: days with a node above its capacity, at all and at half of the input.

    Moves are charged as in F12e, spread over the nodes. Never the whole claim: what a move costs
    and how much of the cluster the job uses are not given.
    """
    shown, told = [], []
    for charge in HEAVY_CHARGES:
        ours, theirs = (_over(_of(jobs, 3, policy), charge) for policy in ("albic", "cola"))
        if max(ours[0], theirs[1]) < HALF < theirs[0]:
            shown.append(charge)
        told.append(f"{charge:g}: {theirs[0]:.0f} and {theirs[1]:.0f} %, ALBIC {ours[0]:.0f} %")
    beside = ", ".join(f"{_index(jobs, 'cola', charge):.0f} % at {charge:g}" for charge in shown)
    return Finding(
        verdict_of(*[bool(shown), False]),
        "days with a node of COLA above its capacity at all and at half of the input, and one of "
        "ALBIC at all, by what a move costs in mean loads of a key group: " + "; ".join(told),
        cause="the cost of a move and the use of the cluster are not given; where COLA bears half "
        f"only, its load index on Real Job 2 is {beside}, which the paper sees fall below 100"
        if shown
        else "COLA bears all of the input, or not even half, at each cost swept",
    )


def _over(mine: pd.DataFrame, charge: float) -> tuple[float, float]:
    """Return the days with a node above its capacity at all and half of the input, in percent."""
    start = mine["mean load"] / mine["load index"]
    moved = charge * start * mine["migrations"] / KEY_GROUPS[3]
    fullest = mine["mean load"] + mine["distance"] + moved
    return 100.0 * float((fullest > 100.0).mean()), 100.0 * float((fullest > 200.0).mean())


def random_starts(table: pd.DataFrame) -> Finding:
    """F14a: COLA on Real Job 4 from random placements."""
    spread, mean = float(table["collocated"].std()), mean_interval(table["collocated"])
    return Finding(
        verdict_of(*[spread <= 1.0, 59.0 <= mean.value <= 63.0]),
        f"collocated {mean} %, standard deviation {spread:.2g}, from {len(table)} random starts",
    )


def cheap_and_even(jobs: pd.DataFrame) -> Finding:
    """F14c: load index, load distance and moves of ALBIC on Real Job 4."""
    mine = _of(jobs, 4, "albic")
    index = 100.0 * mine.tail(len(mine) // 12)["load index"].mean()
    within = int((mine["distance"] <= 10.0 + 1e-6).sum())
    moves = mine["migrations"].mean()
    return Finding(
        verdict_of(*[bool(index < 75.0), within == len(mine), bool(9.9 <= moves <= 10.0)]),
        f"load index {index:.3g} % in the last month; load distance mean "
        f"{mine['distance'].mean():.3g}, at most 10 on {within} of {len(mine)} days (worst "
        f"{mine['distance'].max():.3g}); {moves:.3g} moves a day",
    )


def fewer_moves(jobs: pd.DataFrame) -> Finding:
    """S1: moves of ALBIC over those of COLA, both asked for 10 points of load distance."""
    ratios = {}
    for job in sorted(set(jobs["job"])):
        ours, theirs = (_of(jobs, job, policy)["migrations"].mean() for policy in ("albic", "cola"))
        ratios[job] = float(ours / theirs), float(ours), float(theirs)
    return Finding(
        verdict_of(*[ratio <= 0.1 for ratio, _, _ in ratios.values()]),
        "moves a day: "
        + ", ".join(f"Real Job {j} {a:.3g} of {b:.3g}" for j, (_, a, b) in ratios.items()),
    )


def from_cola(table: pd.DataFrame) -> Finding:
    """S2: collocation from COLA's plan on."""
    start = float(table["collocated"].groupby(table["policy"]).first().max())
    ends = {
        str(policy): float(mine.tail(10)["collocated"].mean())
        for policy, mine in table.groupby("policy")
    }
    lost = [start - value > 5.0 for name, value in ends.items() if name != "albic"]
    return Finding(
        verdict_of(*[ends["albic"] >= start - 5.0, *lost]),
        f"from {start:.3g} % on: "
        + ", ".join(f"{name.partition(':')[0]} {value:.3g} %" for name, value in ends.items())
        + f" in the last ten of {table['period'].max() + 1} days",
    )


def little_to_collocate(jobs: pd.DataFrame) -> Finding:
    """S3: collocation of Real Job 1, and what it saves beside the noise of the load."""
    ours, theirs = _of(jobs, 1, "albic"), _of(jobs, 1, MILP)
    best = ours["collocated"].max()
    saved = 100.0 * (1.0 - ours["mean load"].sum() / theirs["mean load"].sum())
    noise = 100.0 * theirs["mean load"].std() / theirs["mean load"].mean()
    most = _of(jobs, 1, "cola")["collocated"].max()
    return Finding(
        verdict_of(*[bool(best <= 6.0), bool(saved < noise)]),
        f"ALBIC at most {best:.3g} %, COLA {most:.3g} %; ALBIC saves {saved:.2g} % of the load, "
        f"which varies by {noise:.2g} % (standard deviation)",
    )
