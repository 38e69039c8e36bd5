"""What the stored tables say of the claims; traffic between nodes stands in for latency."""

from __future__ import annotations

from typing import TYPE_CHECKING

from experiments.statistics import mean_interval, median_interval, paired_sign_test
from experiments.studies.papers.claims import Finding, verdict_of

if TYPE_CHECKING:
    import pandas as pd

HALF_LEFT = "the paper measures latency on a cluster; traffic between nodes stands in for it"
NONE = "lines on which the default already sends nothing between nodes"


def wide(clusters: pd.DataFrame, what: str = "nodes_traffic") -> pd.DataFrame:
    """Return one line a set-up and seed, a column a scheduler."""
    return clusters.fillna({"value": ""}).pivot_table(
        index=["sweep", "value", "seed"], columns="scheduler", values=what
    )


def less(table: pd.DataFrame, scheduler: str) -> pd.Series[float]:
    """Return by how many per cent a scheduler is below the default, where that sends anything."""
    known = table[table["default"] > 0]
    return 100 * (1 - known[scheduler] / known["default"])


def both_better(clusters: pd.DataFrame) -> Finding:
    """STORM-A1."""
    table = wide(clusters)
    offline, online = less(table, "offline"), less(table, "online")
    p = [paired_sign_test(table["default"], table[name]) for name in ("offline", "online")]
    by = [values.groupby("sweep").mean() for values in (offline, online)]
    none = [
        f"{name} in {', '.join(b.index[b <= 0.5])}"
        for name, b in zip(("offline", "online"), by, strict=True)
        if (b <= 0.5).any()
    ]
    return Finding(
        verdict_of(*(values.mean() > 0 and q < 0.01 for values, q in
                     zip((offline, online), p, strict=True)), not none),
        f"traffic between nodes falls by {mean_interval(offline)} % (offline, p {p[0]:.1g}) and "
        f"{mean_interval(online)} % (online, p {p[1]:.1g}) over {len(table)} lines",
        (f"nothing gained (0.5 % at most): {'; '.join(none)}; " if none else "") + HALF_LEFT,
        len(table) - len(offline),
        NONE,
    )  # fmt: skip


def always_better(clusters: pd.DataFrame, sizes: pd.DataFrame) -> Finding:
    """STORM-A3."""
    table = wide(clusters)
    close = 1e-6
    parts, said = [], []
    for name in ("offline", "online"):
        never = int((table[name] > table["default"] + close).sum())
        under = 100 * float((table[name] < table["default"] - close).mean())
        parts += [never == 0, under >= 90]
        said.append(f"{name} above the default in {never}, below it in {under:.0f} %")
    ties = table[(table["online"] - table["default"]).abs() <= close]
    most = ties.groupby(["sweep", "value"]).size()
    whole = most[most == table.groupby(["sweep", "value"]).size().reindex(most.index)]
    names = ", ".join(f"{sweep} {value}" for sweep, value in whole.index)
    few = sizes[sizes["executors"] == sizes["executors"].min()]
    alone = few["proved"] & ((few["online"] - few["exact"]).abs() <= close * few["exact"])
    return Finding(
        verdict_of(*parts),
        f"of {len(table)} lines: {'; '.join(said)}",
        f"online ties on all seeds of {len(whole)} set-ups ({names}); with one executor a "
        f"component no schedule is better: the optimum is online's in {int(alone.sum())} of "
        f"{len(alone)} seeds",
    )


def offline_is_worse(clusters: pd.DataFrame) -> Finding:
    """STORM-A4."""
    table = wide(clusters)
    worse = table["offline"] >= table["online"] - 1e-6
    mean = mean_interval(table["offline"] - table["online"])
    reversed_ = (~worse).groupby(["sweep", "value"]).mean()
    names = ", ".join(f"{s} {v}" for s, v in reversed_[reversed_ > 0.5].index)
    return Finding(
        verdict_of(mean.low > 0, worse.all()),
        f"offline {mean} points of all traffic above online; at or above it in "
        f"{100 * worse.mean():.0f} % of {len(table)} lines (p "
        f"{paired_sign_test(table['offline'], table['online']):.1g})",
        f"the other way round on most seeds of {names}" if names else None,
    )


def avoids_bottlenecks(clusters: pd.DataFrame, limits: pd.DataFrame) -> Finding:
    """STORM-A6: the default deals out executors by number, not by load."""
    mine = clusters[(clusters["scheduler"] == "default") & (clusters["sweep"] == "utilisation")]
    even = clusters[(clusters["scheduler"] == "default") & (clusters["value"] == "shuffle")]
    default = limits[(limits["setting"] == "default") & limits["possible"]]
    return Finding(
        verdict_of(mine["fullest"].mean() <= 1.1, even["fullest"].max() <= 1.1),
        f"fullest node {mean_interval(mine['fullest'])} times the mean at 50 to 85 % use (shuffle "
        f"grouping only: {even['fullest'].max():.3g}); {int((~default['feasible']).sum())} of "
        f"{len(default)} plans overload a node although one without exists",
        "by fields grouping executors of one component have unlike loads, and the default counts "
        "executors only",
        int((limits["setting"] == "default").sum()) - len(default),
        "instances for which no plan within capacity was found",
    )


def packs_an_idle_edge(built: pd.DataFrame) -> Finding:
    """STORM-A7: offline knows no rates."""
    table = built.pivot_table(index="busy_edge", columns="scheduler", values="nodes_traffic")
    last = table.iloc[-1]
    cuts = bool((table["offline"].diff().dropna() > 0).all())
    return Finding(
        verdict_of(last["offline"] > last["default"], cuts),
        f"of a spout with an edge of 1 and one of {table.index[-1]:g}, offline sends "
        f"{last['offline']:g} between nodes, the default {last['default']:g}, online "
        f"{last['online']:g}",
    )


def dealt_evenly(rules: pd.DataFrame) -> Finding:
    """STORM-D1."""
    mine = rules[rules["possible"]]
    executors, workers = mine["executors_uneven"].max(), mine["workers_uneven"].max()
    return Finding(
        verdict_of(executors <= 1, workers <= 1),
        f"executors over workers differ by {executors:.0f} at most, workers over nodes by "
        f"{workers:.0f}, in {len(mine)} random clusters",
        left_out=len(rules) - len(mine),
        left_out_why="clusters without slots for all",
    )


def possible_iff(rules: pd.DataFrame) -> Finding:
    """STORM-D2."""
    same = (rules["slots"] >= rules["wanted"]) == rules["possible"]
    return Finding(
        verdict_of(same.all()),
        f"equivalent in {int(same.sum())} of {len(rules)} random clusters "
        f"({int(rules['possible'].sum())} possible)",
    )


def bounds(rules: pd.DataFrame) -> Finding:
    """STORM-M1."""
    least = rules["M0"] == -(-rules["E"] // rules["W"])
    most = rules["M1"] == rules["E"] - rules["W"] + 1
    return Finding(
        verdict_of(least.all(), most.all()),
        f"M(0) in {int(least.sum())}, M(1) in {int(most.sum())} of {len(rules)} pairs of E and W",
    )


def alpha_tunes(alphas: pd.DataFrame) -> Finding:
    """STORM-M2."""
    parts, said = [], []
    for name, mine in alphas.groupby("scheduler"):
        by = mine.groupby("alpha")[["spread", "nodes_traffic"]].mean()
        rises = by["spread"].iloc[-1] > by["spread"].iloc[0]
        falls = by["nodes_traffic"].iloc[-1] < by["nodes_traffic"].iloc[0]
        flat = by["spread"].drop_duplicates(keep="first").index[-1]
        parts += [rises, falls]
        said.append(
            f"{name}: executors of slots differ by {by['spread'].iloc[0]:.1f} to "
            f"{by['spread'].iloc[-1]:.1f}, traffic {by['nodes_traffic'].iloc[0]:.0f} to "
            f"{by['nodes_traffic'].iloc[-1]:.0f} %, no change from {flat:g} on"
        )
    return Finding(
        verdict_of(*parts),
        "; ".join(said),
        "gamma, the load of a slot, binds at 1.5 long before alpha does; that traffic falls is "
        "ours",
    )


def all_workers_used(betas: pd.DataFrame) -> Finding:
    """STORM-M3."""
    used = betas["slots"] == betas["asked"]
    return Finding(
        verdict_of(used.all()),
        f"all workers used in {int(used.sum())} of {len(betas)} schedules, beta 0 to 1",
    )


def best_beta(betas: pd.DataFrame) -> Finding:
    """STORM-M4: the earlier stages carry more where rates fall."""
    mine = betas[betas["alpha"] == 1]
    mean = mine.groupby(["selectivity", "beta"])["nodes_traffic"].mean().unstack()
    rows = {float(str(s)): row for s, row in mean.iterrows()}
    best = {s: float(row.index[row <= row.min() + 1e-6][0]) for s, row in rows.items()}
    falling, level = best[min(best)], best[max(best)]
    gain = {s: float(row.iloc[0] - row.min()) for s, row in rows.items()}
    return Finding(
        verdict_of(falling > level, gain[min(gain)] > gain[max(gain)]),
        "; ".join(
            f"rates times {s:g} a stage: least traffic from beta {best[s]:g} on, {gain[s]:.1f} "
            "points below beta 0"
            for s in sorted(best, reverse=True)
        ),
    )


def simple_but_good(clusters: pd.DataFrame) -> Finding:
    """STORM-M5."""
    gain = less(wide(clusters), "offline")
    by = gain.groupby("sweep").mean()
    return Finding(
        verdict_of(mean_interval(gain).low > 0, (by > 0).all()),
        f"offline {mean_interval(gain)} % below the default; "
        + ", ".join(f"{name} {value:.0f}" for name, value in by.items()),
        f"0 or less in {', '.join(by.index[by <= 0])}: with as many executors a component as "
        "slots, or more, every one of them holds all components anyway"
        if (by <= 0).any()
        else None,
    )


def in_hertz(hertz: pd.DataFrame) -> Finding:
    """STORM-O1."""
    error = hertz["largest_error"].max()
    return Finding(
        verdict_of(error < 1e-9 * 100, (hertz["at_2_GHz"] == 5).all()),
        f"largest error {error:.1g} points over {len(hertz)} seeds; 10 % of 1 GHz is "
        f"{hertz['at_2_GHz'].iloc[0]:g} % of 2 GHz",
    )


def after_the_window(trigger: pd.DataFrame) -> Finding:
    """STORM-O2; a measurement every 30 s."""
    mine = trigger[trigger["what"] == "overload"]
    late = mine["fired_after"] - mine["bound"]
    return Finding(
        verdict_of(((late > 0) & (late <= 30)).all()),
        "; ".join(
            f"X {bound:.0f} s: fires after {fired:.0f} s"
            for bound, fired in zip(mine["bound"], mine["fired_after"], strict=True)
        ),
    )


def more_than_r(trigger: pd.DataFrame) -> Finding:
    """STORM-O3."""
    taken = trigger[trigger["what"] == "traffic"]
    right = (taken["less"] > taken["bound"]) == taken["taken"].astype(bool)
    drift = trigger[trigger["what"] == "drift"]
    ratio = median_interval(drift["adaptive"] / drift["fixed"])
    p = paired_sign_test(drift["adaptive"], drift["fixed"])
    return Finding(
        verdict_of(right.all(), ratio.value < 1 and p < 0.01),
        f"taken if and only if traffic falls by more than R in {int(right.sum())} of {len(taken)} "
        f"trials ({int(taken['taken'].astype(bool).sum())} taken); over drifting rates traffic is "
        f"{ratio} of the fixed plan's (p {p:.1g})",
    )


def keeps_capacity(limits: pd.DataFrame) -> Finding:
    """STORM-O4: wherever a plan within capacity exists."""
    mine = limits[limits["setting"] != "default"]
    able = mine[mine["possible"]]
    by = able.groupby("setting")["feasible"].agg(["size", "sum"])
    asked = able[~able["setting"].str.contains("gamma")]
    broken = asked[~asked["feasible"]]
    least = able[able["setting"].str.contains("gamma")]
    return Finding(
        verdict_of(len(broken) == 0, least["feasible"].all()),
        "; ".join(
            f"{name}: {row['size'] - row['sum']} of {row['size']} plans overload a node"
            for name, row in by.iterrows()
        ),
        "phase 1 may fill a slot to gamma (1.5) times the mean before nodes are known, and a slot "
        f"is not cut in phase 2: none overload below {broken['use'].min():.0f} % use, and with "
        f"gamma 1.1 {int((~least['feasible']).sum())} of {len(least)}; the paper gives no gamma"
        if len(broken)
        else None,
        len(mine) - len(able),
        "runs on instances for which no plan within capacity was found",
    )


def quick_greedy(sizes: pd.DataFrame) -> Finding:
    """STORM-O5; rows whose optimum is 0 are compared by difference, not dropped."""
    known = sizes[sizes["proved"] & sizes["exact"].notna() & sizes["online"].notna()]
    gap = 100 * (known["online"] - known["exact"]) / known["exact"]
    packed = 100 * (known["few_nodes"] - known["exact"]) / known["exact"]
    speed = median_interval(known["exact_s"] / known["online_s"])
    zero = int((known["exact"] == 0).sum())
    return Finding(
        verdict_of(speed.low > 1, gap.median() <= 10),
        f"{speed} times faster than the exact model; {mean_interval(gap)} % above the optimum, "
        f"{mean_interval(packed)} % on few nodes; optimum 0 in {zero} of {len(known)}",
        "the optimum may fill slots and nodes as it likes; gamma, delta and node_spread, which the "
        "paper's code has, keep online even: without spread over nodes "
        f"{gap.mean() - packed.mean():.0f} points of the gap are gone",
        len(sizes) - len(known),
        "instances without an optimum or without a plan within capacity",
    )


def avoids_imbalance(clusters: pd.DataFrame) -> Finding:
    """STORM-O6."""
    table = wide(clusters, "fullest")
    difference = mean_interval(table["online"] - table["default"])
    under = 100 * float((table["online"] <= table["default"] + 1e-6).mean())
    return Finding(
        verdict_of(difference.value <= 0, under >= 50, table["online"].max() <= 2),
        f"fullest node {table['online'].mean():.2f} times the mean, the default's "
        f"{table['default'].mean():.2f}: {difference} apart; not above it in {under:.0f} % of "
        f"{len(table)} lines; at worst {table['online'].max():.2f}",
        "online bounds the load of a slot (gamma 1.5) and of a node, and within these goes for "
        "traffic",
    )
