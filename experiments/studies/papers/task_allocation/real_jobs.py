"""Figures 6 and 7, and what 8 shares: gains by capacity, Storm with as few workers as hold it."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from experiments.studies.papers.figure import Figure
from experiments.studies.papers.sweeps import sweep_rows
from experiments.studies.papers.task_allocation.optima import proved_only
from streamplace.present.drawing import draw_lines, log_scale

if TYPE_CHECKING:
    from collections.abc import Sequence

    import pandas as pd
    from matplotlib.axes import Axes

CAPACITY = "capacity of a node (% of a core)"
STORM = "Storm"
WORKERS = "Storm's workers"
NODES = 100

METHODS = ("TD", "TL", "Storm", "imc-search", "optimum")
"""Of Figures 6 and 7."""

STORM_READING = (
    "Storm's default spreads tasks over as many workers as it is told. Here it gets the fewest "
    "for which no node is overloaded, found by trying 1 to 100 at every capacity: the choice that "
    "is best for it."
)
TL_READING = (
    "TL is read as for the claims above, `group_imc` and `shuffled`, in the order of one seed."
)
COSTS_READING = (
    "The figure with costs and traffic of the groups is lost. Ours sum to the stated total and are "
    "chosen, among a few thousand drawn at random, with an eye on the percentages of the text. So "
    "it is the courses over the capacity that can be compared, not the percentages."
)


def gains(rows: pd.DataFrame, methods: Sequence[str]) -> pd.DataFrame:
    """One line a capacity at which all methods place the job: IMC gain in MB/s of each.

    Parameters
    ----------
    rows
        Of a sweep over ``instance.capacity``; Storm's also over ``instance.nodes``.
    methods
        Labels, in the order of the columns.
    """
    import pandas as pd

    rows = proved_only(rows[rows["feasible"].eq(True)])
    is_storm = rows["method_label"] == STORM
    # fewest workers first: of each capacity the first row is Storm's best
    storm = rows[is_storm].sort_values("num_nodes", kind="stable")
    storm = storm.drop_duplicates("instance.capacity").set_index("instance.capacity")
    wide = rows[~is_storm].pivot_table(
        index="instance.capacity", columns="method_label", values="imc_gain"
    )
    wide[STORM] = storm["imc_gain"]
    wide[WORKERS] = storm["num_nodes"].astype("Int64")
    # only optima may be missing: one that is not proved ends no line
    wide = wide.reindex(columns=[*methods, WORKERS]).dropna(
        subset=[m for m in methods if m != "optimum"]
    )
    table = wide.rename_axis(index=CAPACITY, columns=None).reset_index()
    return pd.DataFrame(table)


def plot_gains(table: pd.DataFrame, axes: Axes) -> None:
    """IMC gain over the capacity, on a logarithmic axis: it spans two orders of magnitude."""
    columns = [name for name in table.columns if name not in (CAPACITY, WORKERS)]
    draw_lines(axes, table, CAPACITY, columns)
    log_scale(axes, "x")
    axes.set_xlabel(CAPACITY)
    axes.set_ylabel("IMC gain (MB/s)")


def best_over(table: pd.DataFrame, better: str, other: str) -> tuple[float, float]:
    """Return by how many per cent one is above another at most, and at which capacity."""
    known = table[table[other] > 0]
    shares = (100 * (known[better] / known[other] - 1)).to_numpy()
    place = shares.argmax()
    return float(shares[place]), float(known[CAPACITY].to_numpy()[place])


def worst_over(table: pd.DataFrame, better: str, other: str) -> float:
    """Return the least that one is above another, in per cent; negative where it is below."""
    known = table[table[other] > 0]
    return float(100 * (known[better] / known[other] - 1).min())


def compared(table: pd.DataFrame, total: float) -> list[str]:
    """Say by how much TD is above the others, what it saves, and how far the optimum is.

    Parameters
    ----------
    total
        Traffic of the job, MB/s.
    """
    storm, tl = best_over(table, "TD", STORM), best_over(table, "TD", "TL")
    saved = 100 * ((table["TD"] - table[STORM]) / total).max()
    below = [worst_over(table, "TD", name) for name in (STORM, "TL")]
    known = table[table["optimum"] > 0]
    share, ours = (100 * (known[name] / known["optimum"]).min() for name in ("TD", "imc-search"))
    reached = f" TD is never below {share:.0f} % of it, `imc-search` never below {ours:.1f} %."
    return [
        f"TD is up to {storm[0]:.0f} % better than Storm's default (at {storm[1]:g} %) and up to "
        f"{tl[0]:.0f} % better than TL (at {tl[1]:g} %); at its worst "
        f"{_signed(below[0])} and {_signed(below[1])}.",
        f"It keeps up to {saved:.0f} % of the job's traffic more inside nodes than Storm does.",
        f"The optimum is known, by one solver's word, at {table['optimum'].notna().sum()} of "
        f"{len(table)} capacities." + (reached if len(known) else ""),
    ]


def _signed(share: float) -> str:
    return f"{abs(share):.0f} % {'above' if share >= 0 else 'below'}"


def _figure(number: int, title: str, words: str, capacities: Sequence[int], total: float) -> Figure:
    """Return Figure 6 or 7; `capacities` are those of a reduced run, `total` as of `compared`."""
    return Figure(
        name=f"task-allocation/fig-{number}",
        title=title,
        source=f"Chatzistergiou and Viglas, CIKM 2014, Figure {number}, section 7.4",
        words=words,
        rows=sweep_rows(
            Path(__file__).with_name(f"fig_{number}.toml"),
            reduced={"instances.generate.0.capacity": list(capacities)},
        ),
        table=partial(gains, methods=METHODS),
        plot=plot_gains,
        measured=partial(compared, total=total),
        readings=(COSTS_READING, STORM_READING, TL_READING),
        size="Full: 23 capacities, 100 nodes. Reduced: 5 capacities.",
    )


FIGURES = (
    _figure(
        6,
        "Twitter trending topics",
        "A spout, a count, a rank and a merge bolt on 100 nodes, 143 MB/s; node capacity from the "
        "least that works until all agree. TD is up to 91 % better than Storm's default and 79 % "
        "better than TL, and saves up to 13 % of the job's network load.",
        (60, 150, 400, 1000, 2900),
        total=143.0,
    ),
    _figure(
        7,
        "Stock market bargain detection",
        "Two spouts, a windowed average, a join, a filter and a result bolt on 100 nodes, "
        "790 MB/s; node capacity from the least that works until all agree. TD is up to 89 % "
        "better than Storm's default and up to 31 % better than TL, and saves up to 22 % of the "
        "job's network load.",
        (80, 200, 500, 1200, 3200),
        total=790.0,
    ),
)
