"""Tables behind the claims of the ALBIC paper, and how each is made."""

from __future__ import annotations

from typing import TYPE_CHECKING

from experiments.studies.papers.albic.runs import rows_of
from experiments.studies.papers.claims.tables import Making

if TYPE_CHECKING:
    from collections.abc import Callable

    import pandas as pd

SEEDS = 30
REDUCED_SEEDS = 2

MOVES = {20: (10, 20), 40: (20, 50), 60: (20, 50)}
"""Budgets of Figures 2 to 4 by nodes; the paper's are lost."""

SHARES = (20.0, 40.0, 60.0, 80.0, 100.0)


def collocation(reduced: bool) -> pd.DataFrame:
    """Set-up K at four nodes, by share of one-to-one key groups."""
    from experiments.studies.papers.albic.collocation import summary

    size = {"nodes": 4, "key_groups": 8, "operators": 4}
    keys = [
        {"seed": seed, "given": {**size, "one_to_one": share}, **more}
        for seed in _seeds(reduced)
        for share in (SHARES[-1:] if reduced else SHARES)
        for more in ({}, {"options": {"max_part_load": 50.0}})
        if not more or (share == 100.0 and seed < 10)
    ]
    made = rows_of("collocation", keys, summary)
    made.attrs["left_out"] = 1
    made.attrs["left_out_why"] = "share 0: no traffic, which ALBIC and COLA refuse"
    return made


def paper_size(reduced: bool) -> pd.DataFrame:
    """Set-up K at the size of the paper: the lines of Figures 10 and 11."""
    from experiments.studies.papers.albic.collocation import summary

    small = ({"nodes": 4, "key_groups": 8, "operators": 4, "one_to_one": 20.0},)
    shares = [(40, share) for share in (20.0, 40.0, 60.0, 80.0, 100.0)]
    whole = [
        {"nodes": nodes, "key_groups": 20, "operators": nodes // 2, "one_to_one": share}
        for nodes, share in (*shares, *((nodes, 50.0) for nodes in (20, 40, 60)))
    ]
    keys = [{"seed": 0, "given": given} for given in (small if reduced else whole)]
    return rows_of("paper-size", keys, summary)


def sizes(reduced: bool) -> pd.DataFrame:
    """Set-up K at half of the key groups one to one, by size of the cluster."""
    from experiments.studies.papers.albic.collocation import summary

    keys = [
        {"seed": seed, "given": _half(nodes)} for seed in _seeds(reduced) for nodes in (2, 4, 6)
    ]
    return rows_of("sizes", keys, summary)


def _half(nodes: int) -> dict[str, float]:
    return {"nodes": nodes, "key_groups": 8, "operators": nodes // 2 * 2, "one_to_one": 50.0}


def solving(reduced: bool) -> pd.DataFrame:
    """Set-up C: load distance of Flux, and of the MILP's model by balance-search and by solvers."""
    from experiments.studies.papers.albic.milp import SECONDS, SOLVERS
    from experiments.studies.papers.albic.milp import solving as make

    quick = {"seconds": 0.5} if reduced else {}
    keys = [
        {"seed": seed, "nodes": nodes, "moves": moves, "way": way, **quick}
        for seed in _seeds(reduced)
        for nodes, budgets in MOVES.items()
        for moves in budgets
        for way in ("flux", "balance-search", *SOLVERS)
    ]
    made = rows_of("solving", keys, make)
    made["limit"] = quick.get("seconds", SECONDS)
    return made


def budgets(reduced: bool) -> pd.DataFrame:
    """Set-up C at 20 nodes: load distance by budget and by how much nodes vary."""
    from experiments.studies.papers.albic.milp import budgets as make

    keys = [
        {"seed": seed, "varies": varies, "moves": moves}
        for seed in _seeds(reduced)
        for varies in (40.0, 60.0)
        for moves in (10, 20)
    ]
    return rows_of("budgets", keys, make)


def scale_in(reduced: bool) -> pd.DataFrame:
    """Set-up I at three tenths of its size: round after round."""
    from experiments.studies.papers.albic.milp import FIRST, INTEGRATED
    from experiments.studies.papers.albic.milp import scale_in as make

    keys = [
        {"seed": seed, "overloaded": overloaded, "way": way}
        for way in (INTEGRATED, FIRST)
        for seed in _seeds(reduced)
        for overloaded in (1,)
    ]
    return rows_of("scale-in", keys, make)


def periods(reduced: bool) -> pd.DataFrame:
    """Load distance and migrations by budget, period after period."""
    from experiments.studies.papers.albic.milp import periods as make

    keys = [
        {"seed": seed, "moves": moves, "count": 3}
        for seed in _seeds(reduced)
        for moves in (10, 13, 300)
    ]
    return rows_of("periods", keys, make)


def overloads(reduced: bool) -> pd.DataFrame:
    """Seconds of overload by load distance."""
    from experiments.studies.papers.albic.milp import overloads as make

    keys = [{"seed": s, "moves": m} for s in _seeds(reduced) for m in (0, 4, 20)]
    return rows_of("overloads", keys, make)


def job(number: int) -> Callable[[bool], pd.DataFrame]:
    """Return what makes the rows of set-up J (number 1) or R, period by period."""

    def make(reduced: bool) -> pd.DataFrame:
        from experiments.studies.papers.albic.jobs import job as of

        return of(number, reduced)

    return make


def after_cola(reduced: bool) -> pd.DataFrame:
    """Real Job 2 from a plan of COLA on."""
    from experiments.studies.papers.albic.jobs import after_cola as make

    return make(reduced)


def cola_starts(reduced: bool) -> pd.DataFrame:
    """Real Job 4, COLA from random placements."""
    from experiments.studies.papers.albic.jobs import cola_starts as make

    return make(reduced)


def scale_outs(reduced: bool) -> pd.DataFrame:
    """Nodes added when scaling looks at planned loads, and when at those that run."""
    from experiments.studies.papers.albic.built import scale_outs as make

    keys = [{"seed": s, "plan_first": first} for s in _seeds(reduced) for first in (True, False)]
    return rows_of("scale-outs", keys, make)


def node_periods(reduced: bool) -> pd.DataFrame:
    """Nodes needed by ALBIC and where only balance is asked for."""
    from experiments.studies.papers.albic.built import node_periods as make

    keys = [
        {"seed": seed, "policy": policy, "serialise": 1.0}
        for seed in _seeds(reduced)
        for policy in ("albic", "balance-search")
    ]
    return rows_of("node-periods", keys, make)


def scale_ins(reduced: bool) -> pd.DataFrame:
    """Nodes marked where the rest cannot be balanced."""
    from experiments.studies.papers.albic.built import scale_ins as make

    return rows_of("scale-ins", [{"limit": None}, {"limit": 10.0}], make)


def lemmas(reduced: bool) -> pd.DataFrame:
    """Optima with and without moves onto leaving nodes."""
    from experiments.studies.papers.albic.built import lemmas as make

    return rows_of("lemmas", [{"seed": seed} for seed in (-1, *_seeds(reduced))], make)


def weighted(reduced: bool) -> pd.DataFrame:
    """The weighted objective and the lexicographic one."""
    from experiments.studies.papers.albic.built import weighted as make

    return rows_of("weighted", [{"seed": seed} for seed in _seeds(reduced)], make)


def node_weights(reduced: bool) -> pd.DataFrame:
    """Solving time of equal nodes, weighted nodes, and with a second resource."""
    from experiments.studies.papers.albic.built import node_weights as make

    ways = ("equal", "weights", "memory")
    keys = [{"seed": seed, "way": way} for seed in _seeds(reduced) for way in ways]
    return rows_of("node-weights", keys, make)


def joint_model(reduced: bool) -> pd.DataFrame:
    """The joint model at growing sizes."""
    from experiments.studies.papers.albic.built import joint_model as make

    sizes = ((2, 5), (4, 10), (8, 10)) if reduced else ((2, 5), (4, 10), (8, 10), (20, 20))
    keys = [
        {"nodes": nodes, "key_groups": groups, "seconds": 5.0 if reduced else 60.0}
        for nodes, groups in sizes
    ]
    return rows_of("joint-model", keys, make)


def patterns(reduced: bool) -> pd.DataFrame:
    """Collocation by partitioning pattern."""
    from experiments.studies.papers.albic.built import PATTERNS
    from experiments.studies.papers.albic.built import patterns as make

    keys = [{"seed": s, "pattern": pattern} for s in _seeds(reduced) for pattern in PATTERNS]
    return rows_of("patterns", keys, make)


def _seeds(reduced: bool) -> range:
    return range(REDUCED_SEEDS if reduced else SEEDS)


TABLES: dict[str, Making] = {
    "collocation": Making(collocation, "0-29; 4 nodes, 32 key groups", "0-1"),
    "paper-size": Making(paper_size, "one instance a line", "one instance"),
    "solving": Making(
        solving,
        "0-29; varies 40 %, the figures' budgets",
        "0-1; varies 40 %, the figures' budgets, 0.5 s",
    ),
    "budgets": Making(budgets, "0-29; 20 nodes", "0-1"),
    "scale-in": Making(scale_in, "0-29; 18 nodes, 3 leave, 6 moves a round", "0-1"),
    "periods": Making(periods, "0-29; 3 periods", "0-1; 3 periods"),
    "overloads": Making(overloads, "0-29; 20 nodes at 75 %", "0-1"),
    **{
        f"job-{number}": Making(job(number), "one recording", "one recording, 12 periods")
        for number in (1, 2, 3, 4)
    },
    "after-cola": Making(after_cola, "one recording, 30 days", "one recording, 12 days"),
    "cola-starts": Making(cola_starts, "0-29", "0-2"),
    "scale-outs": Making(scale_outs, "0-29", "0-1"),
    "node-periods": Making(node_periods, "0-29", "0-1"),
    "scale-ins": Making(scale_ins, "one built instance"),
    "lemmas": Making(lemmas, "0-29, and -1: a built counter-example", "0-1, and -1"),
    "weighted": Making(weighted, "0-29", "0-1"),
    "node-weights": Making(node_weights, "0-29", "0-1"),
    "joint-model": Making(joint_model, "one instance a size", "one instance a size"),
    "patterns": Making(patterns, "0-29", "0-1"),
    "sizes": Making(sizes, "0-29; 2, 4 and 6 nodes, a tenth of the paper's", "0-1"),
}
