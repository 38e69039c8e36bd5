"""Judges of the MILP on its own: solving time, budgets, scale-in, Real Job 1."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from experiments.statistics import mean_interval, median_interval, paired_sign_test
from experiments.studies.papers.albic.jobs import MILP
from experiments.studies.papers.albic.measuring import MOVES
from experiments.studies.papers.albic.planning import DRAINED, FIRST, INTEGRATED, SOLVERS
from experiments.studies.papers.albic.solving_time import TIME
from experiments.studies.papers.claims import Finding, verdict_of

if TYPE_CHECKING:
    from collections.abc import Callable

    import pandas as pd

    from experiments.studies.papers.claims import Verdict

COLD = (*SOLVERS, "cp-sat")
"""Solvers cold; tables made before CP-SAT refused continuous variables have it too."""
EMPTY = 1e-9
GOOD = 10.0


def _at(table: pd.DataFrame, seconds: float) -> pd.DataFrame:
    return table[table[TIME] == seconds].set_index("setting")


def _seeds(table: pd.DataFrame, nodes: int, moves: int) -> pd.DataFrame:
    mine = table[(table["nodes"] == nodes) & (table["moves"] == moves)]
    return mine.pivot_table(index="seed", columns="way", values="distance", dropna=False)


def ahead_of_flux(nodes: int) -> Callable[[pd.DataFrame], Finding]:
    """Return the judge of F2, F3, and of the first half of F4."""

    def judge(table: pd.DataFrame) -> Finding:
        return Finding(*_ahead(table, nodes))

    return judge


def _ahead(table: pd.DataFrame, nodes: int) -> tuple[Verdict, str, str | None, int, str]:
    told, causes, parts, none = [], [], [], 0
    for moves in MOVES[nodes]:
        wide = _seeds(table, nodes, moves)
        names = [name for name in COLD if name in wide]
        cold = wide[names].fillna(math.inf)  # no plan yet: not below
        none += int(wide[names].isna().to_numpy().sum())
        flux, model = wide["flux"], wide["balance-search"]
        parts += [bool(cold[name].median() < flux.median()) for name in names]
        parts.append(bool(model.median() < flux.median() - 1e-6))
        won = ", ".join(f"{name} in {int((cold[name] < flux).sum())}" for name in names)
        below, equal = int((model < flux - 1e-6).sum()), int(((model - flux).abs() <= 1e-6).sum())
        told.append(
            f"{moves} moves: {won} of {len(wide)} clusters, the same model by balance-search in "
            f"{below} (equal in {equal})"
        )
        if 2 * equal > len(wide):
            causes.append(
                f"with {moves} moves for {round(0.2 * nodes)} shifted nodes Flux comes as low as "
                f"balance-search in {equal} of {len(wide)} clusters: there is nothing to win"
            )
        elif 2 * below > len(wide):
            causes.append(
                f"with {moves} moves the model holds it: its solution by balance-search is below "
                f"Flux in {below} of {len(wide)} clusters (median {model.median():.3g} against "
                f"{flux.median():.3g}, p {paired_sign_test(model, flux):.1g})"
            )
    level = verdict_of(*[all(parts), any(parts)])
    limit = table["limit"].iloc[0]
    spent = table[(table["nodes"] == nodes) & table["way"].isin(COLD)]["cpu"].median()
    return (
        level,
        f"below Flux after {limit:g} s cold ({spent:.2g} s of a processor, median): "
        + "; ".join(told),
        "; ".join(causes) if level != "same" and causes else None,
        none,
        "no solver's plan by then: counted as not below" if none else "",
    )


def largest(
    table: pd.DataFrame, small: pd.DataFrame, middle: pd.DataFrame, large: pd.DataFrame
) -> Finding:
    """F4: as F2, and more time pays there alone."""
    level, figure, cause, none, why = _ahead(table, 60)
    pays = {}
    for nodes, idle in ((20, small), (40, middle), (60, large)):
        early, late = (_best(_at(idle, seconds)) for seconds in (5.0, 60.0))
        pays[nodes] = int((early > 1.1 * late).sum()), len(late)
    only = pays[60][0] > 0 and pays[20][0] == pays[40][0] == 0
    level = verdict_of(*[level == "same", level != "different", only])
    told = ", ".join(f"{n} of {count} at {nodes} nodes" for nodes, (n, count) in pays.items())
    return Finding(
        level,
        f"{figure}; 60 s are over 10 % better than 5 s, best solver cold, in {told}",
        cause,
        none,
        why,
    )


def _best(found: pd.DataFrame) -> pd.Series[float]:
    return found[_columns(found)].min(axis=1)


def _columns(found: pd.DataFrame) -> list[str]:
    return [column for name in COLD if (column := f"{name}, cold") in found]


def quickly_near(small: pd.DataFrame, middle: pd.DataFrame, large: pd.DataFrame) -> Finding:
    """F4b: five seconds come within a tenth of sixty."""
    near = all_of = missing = ours = settings = 0
    for idle in (small, middle, large):
        early, late = _at(idle, 5.0), _at(idle, 60.0)
        for column in _columns(idle):
            a, b = early[column], late[column]
            missing += int(a.isna().sum())
            near += int((a <= 1.1 * b).sum())
            all_of += int(a.notna().sum())
        ours += int((early["balance-search"] <= 1.1 * late["balance-search"]).sum())
        settings += len(late)
    return Finding(
        verdict_of(*[near == all_of and not missing, near > 0]),
        f"LD(5 s) <= 1.1 LD(60 s) in {near} of {all_of} runs of free solvers, cold; balance-search "
        f"on the same model in {ours} of {settings} settings; one instance a size",
        left_out=missing,
        left_out_why="no plan after 5 s" if missing else "",
    )


def budgets(table: pd.DataFrame) -> Finding:
    """F4c: lower with more moves, higher with more variation."""
    means = table.pivot_table(index="varies", columns="moves", values="distance")
    down = bool((means.diff(axis=1).iloc[:, 1:] <= 1e-9).all().all())
    up = bool((means.diff(axis=0).iloc[1:] >= -1e-9).all().all())
    told = "; ".join(
        f"varies {varies:g} %: " + ", ".join(f"{value:.3g}" for value in row)
        for varies, row in zip(means.index, means.to_numpy(), strict=True)
    )
    moves = ", ".join(f"{m}" for m in means.columns)
    seeds = table["seed"].nunique()
    return Finding(verdict_of(*[down, up]), f"mean of {seeds} at {moves} moves: {told}")


def _first_rounds(rounds: pd.DataFrame, column: str, limit: float) -> pd.DataFrame:
    """Return by case and way the first round at or below a limit; never is one after the last."""
    met = rounds[rounds[column] <= limit].groupby(["seed", "overloaded", "way"])["round"].min()
    last = rounds.groupby(["seed", "overloaded", "way"])["round"].max() + 1
    return met.reindex(last.index).fillna(last).unstack("way")


def balanced_sooner(rounds: pd.DataFrame) -> Finding:
    """F5a: rounds until the load distance is good."""
    good = _first_rounds(rounds, "distance", GOOD)
    ratio = median_interval(good[INTEGRATED] / good[FIRST])
    never = good[FIRST] > rounds["round"].max()
    return Finding(
        verdict_of(*[ratio.value <= 0.5]),
        f"round within {GOOD:g} points: {mean_interval(good[INTEGRATED])} integrated, "
        f"{mean_interval(good[FIRST])} scale-in first; ratio {ratio}, median of {len(good)} "
        f"scale-ins; p {paired_sign_test(good[INTEGRATED], good[FIRST]):.1g}",
        left_out=int(never.sum()),
        left_out_why="scale-in first never comes within; counted as the round after the last"
        if never.any()
        else "",
    )


def _drained_at_full_size(figure: pd.DataFrame) -> str | None:
    """Return what emptying first changes in the cases of Figure 5; None where it does not."""
    mine = figure.set_index(["overloaded nodes", "round"]).filter(like=": load left")
    mine.columns = mine.columns.str.removesuffix(": load left")
    left = mine[INTEGRATED].groupby(level=0).min()
    empty = mine[mine <= EMPTY].stack().reset_index(level=1)["round"].groupby(level=[0, 1]).min()
    rounds = empty.unstack().reindex(left.index)
    both = rounds[[DRAINED, FIRST]]
    if (left <= EMPTY).any() or both.isna().to_numpy().any():
        return None
    told = "; ".join(
        f"with {case} overloaded {left[case]:.3g} points stay, and none from round "
        f"{drained:g} on (scale-in first: {first:g})"
        for case, (drained, first) in zip(both.index, both.to_numpy(), strict=True)
    )
    return (
        "the load distance goes before emptying; emptying put first once a round's moves suffice "
        f"for it ends the scale-in, at full size in the cases of Figure 5: {told}"
    )


def emptied_as_soon(rounds: pd.DataFrame, figure: pd.DataFrame) -> Finding:
    """F5b: rounds until the leaving nodes are empty."""
    done = _first_rounds(rounds, "left", EMPTY)
    ratio = median_interval(done[INTEGRATED] / done[FIRST])
    last = rounds.groupby(["seed", "overloaded", "way"])["left"].min().unstack("way")
    full = int((last[INTEGRATED] > EMPTY).sum())
    kept, beside = None, ""
    if DRAINED in last:
        kept = int((last[DRAINED] > EMPTY).sum())
        beside = f"; ours, drained at the end: {mean_interval(done[DRAINED])}"
    return Finding(
        verdict_of(*[ratio.value <= 1.2, full == 0]),
        f"round that finds the leaving nodes empty: {mean_interval(done[INTEGRATED])} integrated, "
        f"{mean_interval(done[FIRST])} scale-in first; ratio {ratio}, median of {len(done)} "
        f"scale-ins, of which {full} are never emptied by the integrated way{beside}",
        cause=f"the last key group's load cannot be spread with the moves of a round: drained at "
        f"the end, all but {kept} are emptied"
        if full and kept is not None and kept < full
        else _drained_at_full_size(figure)
        if full
        else None,
    )


def by_budget(table: pd.DataFrame) -> Finding:
    """F8: load distance by budget of moves, with spikes at the least."""
    mine = table[table["period"] > 0]
    means = mine.groupby("moves")["distance"].mean()
    worst = mine.groupby(["moves", "seed"])["distance"].max().unstack("moves")
    falling = bool(means.sort_index().is_monotonic_decreasing)
    ratio = worst[10] / worst[worst.columns.max()]
    return Finding(
        verdict_of(*[falling, median_interval(ratio).value > 3.0]),
        "mean load distance: "
        + ", ".join(f"{moves} moves {value:.3g}" for moves, value in means.items())
        + f"; worst of a run with 10 {mean_interval(worst[10])}, unrestricted "
        f"{mean_interval(worst[worst.columns.max()])}",
    )


def pauses(table: pd.DataFrame) -> Finding:
    """F9: share of processing that is paused, over a range of seconds a migration."""
    mine = table[table["period"] > 0]
    moves = mine.groupby("moves")["migrations"].mean()
    free, some = float(moves[moves.index.max()]), float(moves[13])
    shares = {pause: 100.0 * some / 300 * pause / 300 for pause in (0.5, 2.5, 10.0)}
    return Finding(
        verdict_of(*[free > 5 * some, max(shares.values()) < 1.0]),
        f"{free:.0f} key groups of 300 paused a period without a limit, {some:.0f} with 13: "
        + ", ".join(f"{share:.2g} % of processing at {p:g} s" for p, share in shares.items())
        + " a migration, of periods of 300 s",
    )


def _job(table: pd.DataFrame, policy: str) -> pd.DataFrame:
    found: pd.DataFrame = table[(table["job"] == 1) & (table["policy"] == policy)]
    return found


def milp_even(table: pd.DataFrame) -> Finding:
    """F7a: the MILP's load distance on Real Job 1."""
    rows = _job(table, MILP)
    mine, search = rows["distance"], _job(table, "balance-search")["distance"]
    below = int((mine < 1.0).sum())
    return Finding(
        verdict_of(*[below == len(mine), below > 0.9 * len(mine)]),
        f"load distance at most {mine.max():.3g} points, below 1 in {below} of {len(mine)} "
        f"periods, mean {mine.mean():.3g}; the MILP's model by balance-search: at most "
        f"{search.max():.3g}, below 1 in {int((search < 1.0).sum())}; synthetic edits, one "
        "recording",
        cause=_why_above(rows[mine >= 1.0]),
    )


def _why_above(rows: pd.DataFrame) -> str | None:
    """Say of periods at a point and more whether the budget or the moves' own traffic is why."""
    bound = rows["bound"][rows["bound"] >= 1.0]
    other = rows[(rows["bound"] < 1.0) & (rows["planned"] < 1.0)]
    causes = []
    if len(bound):
        causes.append(
            f"in {len(bound)} of {len(rows)} periods above 1 no plan of 13 moves is below: bounds "
            f"of {_listed(bound)} are proven"
        )
    if len(other):
        causes.append(
            f"in {len(other)} the plan has {_listed(other['planned'])} on the loads that it was "
            f"made with, and {_listed(other['distance'])} once its moves have changed what is "
            "serialised"
        )
    return "; ".join(causes) or None


def _listed(values: pd.Series[float]) -> str:
    return ", ".join(f"{value:.3g}" for value in values)


def flux_uneven(table: pd.DataFrame) -> Finding:
    """F7b: Flux's load distance on Real Job 1."""
    ours, theirs = _job(table, MILP), _job(table, "flux")
    times = theirs["distance"].max() / ours["distance"].max()
    return Finding(
        verdict_of(*[bool(times > 3.0), bool((theirs["migrations"] >= 0.9 * 13).mean() > 0.9)]),
        f"Flux up to {theirs['distance'].max():.3g} points, {times:.3g} times the MILP's worst, "
        f"mean {theirs['distance'].mean():.3g} against {ours['distance'].mean():.3g}, with "
        f"{theirs['migrations'].mean():.1f} against {ours['migrations'].mean():.1f} moves",
    )


def potc_uneven(table: pd.DataFrame) -> Finding:
    """F7c: PoTC on Real Job 1."""
    ours, theirs = _job(table, MILP), _job(table, "potc")
    more = theirs["load index"].mean() / ours["load index"].mean()
    return Finding(
        verdict_of(*[bool(theirs["distance"].max() > 5.0), bool(more > 1.0)]),
        f"PoTC up to {theirs['distance'].max():.3g} points; its load index is "
        f"{100 * theirs['load index'].mean():.1f} %, that of the MILP "
        f"{100 * ours['load index'].mean():.1f} %",
    )


def less_overhead(table: pd.DataFrame) -> Finding:
    """F7d: what the MILP costs beside Flux and PoTC."""
    ours, flux, potc = (_job(table, name) for name in (MILP, "flux", "potc"))
    moves = ours["migrations"].mean(), flux["migrations"].mean()
    index = ours["load index"].mean(), potc["load index"].mean()
    return Finding(
        verdict_of(*[bool(moves[0] < moves[1]), bool(index[0] < index[1])]),
        f"{moves[0]:.1f} moves a period against Flux's {moves[1]:.1f} under the same budget of 13; "
        f"load index {100 * index[0]:.1f} % against PoTC's {100 * index[1]:.1f} %",
        cause=f"a budget of 13 is used up by both; per move the MILP takes the load distance to "
        f"{ours['distance'].mean():.2g}, Flux to {flux['distance'].mean():.2g} points"
        if moves[0] >= moves[1]
        else None,
    )
