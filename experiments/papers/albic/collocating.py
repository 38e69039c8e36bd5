"""Figures 10 and 11 alike: ALBIC and COLA on jobs with one-to-one key groups, and the optimum."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from experiments.papers.albic.following import Policy, Row, follow, frame, kept
from experiments.papers.figure import Figure

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from pathlib import Path

    import pandas as pd
    from matplotlib.axes import Axes

ALBIC = "ALBIC, 20 pairs"
GAP = f"gap of {ALBIC}, to bound (%)"

POLICIES: tuple[Policy, ...] = (
    ("ALBIC", "albic", {"balance_gap": 5.0, "time_limit": 20.0}),
    (ALBIC, "albic", {"balance_gap": 5.0, "time_limit": 20.0, "pairs_per_round": 20}),
    ("COLA", "cola", {"ignore": ("max_migrations",)}),
    ("joint-search", "joint-search", {"max_load_distance": 10.0, "time_limit": 5.0}),
)

REDUCED: tuple[Policy, ...] = (
    (ALBIC, "albic", {"balance_gap": 5.0, "time_limit": 3.0, "pairs_per_round": 20}),
    POLICIES[2],
    ("joint-search", "joint-search", {"max_load_distance": 10.0, "time_limit": 2.0}),
)

READINGS = (
    "A budget of 20 migrations a period and varies 20 % (the paper's values are lost); ALBIC pins "
    "one pair a round, as in the paper, or 20 of them. COLA knows no budget.",
    "The last three columns are the row the paper lacks. *Joint optimum*: in the place of ALBIC "
    "(20 pairs) in each period, with its budget and at its load distance, joint-search collocates "
    "this much on average over all periods, and no plan more than the bound. *Gap to bound* is how "
    "far ALBIC's plans stay below it. The other columns are means over the last third of the "
    "periods.",
    "ALBIC's MILP stops at 5 points or after 20 s a plan (reduced: 3 s), joint-search after 5 s (2 "
    "s), so figures may differ a little from run to run.",
)


def measure(
    folder: Path, sizes: Sequence[Mapping[str, Any]], periods: int, policies: Sequence[Policy]
) -> pd.DataFrame:
    """Follow each job with each policy."""
    from experiments.generators.rebalancing import joint_periods

    rows: list[Row] = []
    for size in sizes:
        given = {"max_migrations": 20, "varies": 20.0, **size}
        for policy in policies:
            optimum = policy[0] == ALBIC
            made = kept(
                folder,
                {**given, "periods": periods, "policy": policy},
                lambda g=given, p=policy, o=optimum: follow(  # type: ignore[misc]
                    joint_periods(0, periods, **g), p, optimum=o
                ),
            )
            rows += [{**row, **size} for row in made]
    return frame(rows)


def table_by(column: str, name: str) -> Any:
    """Return what makes one line a value of a column: the last third of the periods."""

    def table(rows: pd.DataFrame) -> pd.DataFrame:
        lines = []
        for value, mine in rows.groupby(column, sort=False):
            line: Row = {name: value}
            late = mine[mine["period"] >= 2 * mine["period"].max() / 3]
            for policy, own in late.groupby("policy", sort=False):
                line[f"{policy}: collocated (%)"] = own["collocated"].mean()
                line[f"{policy}: load distance"] = own["distance"].mean()
                line[f"{policy}: migrations"] = own["migrations"].mean()
            judged = mine[mine["bound"].notna()]
            if len(judged):
                line["joint optimum, at least (%)"] = judged["joint"].mean()
                line["joint optimum, bound (%)"] = judged["bound"].mean()
                gap = 1.0 - judged["collocated"].sum() / max(1e-12, judged["bound"].sum())
                line[GAP] = 100.0 * gap
            lines.append(line)
        return frame(lines)

    return table


def plot_by(name: str) -> Any:
    """Return what draws collocation above and load distance below."""

    def plot(table: pd.DataFrame, axes: list[Axes]) -> None:
        from experiments.papers.drawing import draw_lines

        above, below = axes
        for panel, what in ((above, ": collocated (%)"), (below, ": load distance")):
            columns = [column for column in table.columns if column.endswith(what)]
            shown = table.rename(columns={column: column.removesuffix(what) for column in columns})
            draw_lines(panel, shown, name, [column.removesuffix(what) for column in columns])
            panel.set_ylim(bottom=0)
        above.set_ylabel("collocation factor (%)")
        below.set_ylabel("load distance (points)")
        below.set_xlabel(name)

    return plot


def said(table: pd.DataFrame) -> list[str]:
    """Set ALBIC, COLA and the joint optimum side by side."""
    name = table.columns[0]
    share, distance = ": collocated (%)", ": load distance"
    ahead = table[f"{ALBIC}{share}"] - table[f"COLA{share}"]
    lower = int((table[f"{ALBIC}{distance}"] < table[f"COLA{distance}"]).sum())
    worst, best = (
        f"{abs(points):.0f} points {'less' if points < 0 else 'more'}"
        for points in (ahead.min(), ahead.max())
    )
    lines = [
        f"ALBIC has the lower load distance in {lower} of {len(table)} lines, and collocates "
        f"{worst} than COLA at worst, {best} at best, with "
        f"{table[f'{ALBIC}: migrations'].max():.0f} migrations a period against COLA's "
        f"{table['COLA: migrations'].mean():.0f}."
    ]
    for _, row in table.iterrows():
        each = [
            f"{policy} {row[policy + share]:.1f} % (load distance {row[policy + distance]:.1f})"
            for policy in (ALBIC, "COLA", "joint-search")
        ]
        text = f"{name} {row[name]:g}: {', '.join(each)}"
        gap = row.get(GAP)
        if gap is not None and gap == gap:
            text += f"; ALBIC's gap to the bound of the joint optimum {gap:.0f} %"
        lines.append(text + ".")
    return lines


def figure(
    number: int,
    title: str,
    source: str,
    words: str,
    column: str,
    name: str,
    sizes: Callable[[bool], Sequence[Mapping[str, Any]]],
    size: str,
) -> Figure:
    """Return Figure 10 or 11.

    Parameters
    ----------
    number, title, source, words, size
        Of the figure.
    column, name
        What varies: the generator's parameter, and what tables call it.
    sizes
        Jobs to follow, by whether the run is a reduced one.
    """

    def rows(folder: Path, reduced: bool) -> pd.DataFrame:
        policies = REDUCED if reduced else POLICIES
        return measure(folder, sizes(reduced), 6 if reduced else 20, policies)

    return Figure(
        name=f"albic/fig-{number}",
        title=title,
        source=f"Madsen, Zhou, Cao 2016, {source}",
        words=words,
        rows=rows,
        table=table_by(column, name),
        plot=plot_by(name),
        measured=said,
        readings=READINGS,
        size=size,
        panels=2,
    )
