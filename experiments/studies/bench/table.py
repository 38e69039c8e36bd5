"""Tables: a line a case as it is done, what it comes to by family, what is known of the cases."""

from __future__ import annotations

import math
import textwrap
from typing import TYPE_CHECKING, Any

from experiments.studies.bench.scores import mean, median
from optim.figures.catalogue import OBJECTIVES
from streamplace.present.table import markdown

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from experiments.studies.bench.cases import Case

WIDTH, MOST_NAME = 98, 40
_HEADS = ("tasks × nodes", "value", "gap", "p. integral", "s")
_WIDTHS = (14, 11, 11, 13, 8)


class Lines:
    """Lays out the lines of a run: columns as wide as its cases ask for."""

    def __init__(self, cases: Iterable[Case]) -> None:
        self._name = min(MOST_NAME, max((len(case.name) for case in cases), default=4))

    def head(self) -> str:
        """Return the columns' heads."""
        return self._line("case", _HEADS)

    def of(self, row: dict[str, Any]) -> str:
        """Return the line of a case; what is wrong with it stands in place of its gap."""
        size = f"{row['tasks']:,} × {row['nodes']:,}"
        seconds = f"{row['seconds']:.2f}"
        if not row["feasible"]:
            head = self._line(row["case"], (size,))
            told = " ".join(str(row["problem"]).split())
            room = max(20, WIDTH - len(head) - 2)
            return f"{head}  {told if len(told) <= room else told[: room - 1] + '…'}"
        integral = row["primal_integral"]
        integral = "" if integral is None else f"{integral:.4f}"
        cells = (size, f"{row['value']:.6g}", gap_text(row), integral, seconds)
        return self._line(row["case"], cells) + (" *" if row["better_than_best"] else "")

    def _line(self, name: str, cells: Sequence[str]) -> str:
        if len(name) > self._name:
            name = name[: self._name - 1] + "…"
        padded = (cell.rjust(width) for cell, width in zip(cells, _WIDTHS, strict=False))
        return (name.ljust(self._name) + "".join(padded)).rstrip()


def percent_of(row: dict[str, Any], which: str) -> float | None:
    """Return a gap of a row in percent, ``None`` where it is unknown."""
    gap: float | None = row[which]
    if gap is None:
        return None
    return gap if OBJECTIVES[row["objective"]].percent else 100 * gap


def gap_text(row: dict[str, Any]) -> str:
    """Return the gap to the certified bound, or with a ``~`` that to the best known value."""
    gap = percent_of(row, "gap")
    if gap is not None:
        return "0" if row["at_bound"] else f"{gap:.3g} %"
    gap = percent_of(row, "gap_to_best")
    return "" if gap is None else f"~{gap:.3g} %"


def summary(rows: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return what the rows come to, by family and in all; see `streamplace.bench/1`."""
    families = list(dict.fromkeys(row["family"] for row in rows))
    parts = [(name, [row for row in rows if row["family"] == name]) for name in families]
    return [_sum(name, part) for name, part in [*parts, ("all", list(rows))]]


def _sum(name: str, rows: list[dict[str, Any]]) -> dict[str, Any]:
    bounded = [row for row in rows if row["bound_certified"]]
    known = [row for row in rows if row["best"] is not None]
    return {
        "family": name, "cases": len(rows),
        "feasible": sum(row["feasible"] for row in rows),
        "bounded": len(bounded),
        "at_bound": sum(bool(row["at_bound"]) for row in bounded),
        "median_gap_percent": median([_or_infinite(row, "gap") for row in bounded]),
        "median_gap_to_best_percent": median([_or_infinite(row, "gap_to_best") for row in known]),
        "mean_primal_integral": mean([row["primal_integral"] for row in known]),
        "own_certificates": sum(row["own_certificate"] for row in rows),
        "seconds": sum(row["seconds"] for row in rows),
    }  # fmt: skip


def _or_infinite(row: dict[str, Any], which: str) -> float:
    if which == "gap" and row["at_bound"]:
        return 0.0
    gap = percent_of(row, which)
    return math.inf if gap is None else gap


def summary_text(rows: Sequence[dict[str, Any]]) -> str:
    """Return the summary as a table, what its columns mean, and what is to be done about news."""
    heads = ("cases", "feasible", "at bound", "median gap", "to best", "p. integral", "certified")
    rows_of = [
        (
            part["family"], part["cases"], part["feasible"],
            f"{part['at_bound']}/{part['bounded']}", _percent(part["median_gap_percent"]),
            _percent(part["median_gap_to_best_percent"]), _number(part["mean_primal_integral"]),
            f"{part['own_certificates']}/{part['cases']}",
        )
        for part in summary(rows)
    ]  # fmt: skip
    lines = [_plain(("family", *heads), rows_of, ("family",))]
    lines += [
        "",
        "gap: to the certified bound, ~ to the best known value where none is certified; medians "
        "count\nmissing plans as infinite. p. integral: mean primal gap over the time limit, 0 to "
        "1.\ncertified: runs that come with a certificate of their own plan's optimality.",
    ]
    if news := [row["case"] for row in rows if row["better_than_best"]]:
        lines += [
            "",
            *textwrap.wrap(f"* better than the best known value: {', '.join(news)}.", WIDTH),
            "Please submit it: `--plans FOLDER` writes the plan, and “How to submit” says how, in",
            "docs/open-benchmark.md.",
        ]
    kept = sum(row["feasible"] for row in rows)
    bounded = sum(row["bound_certified"] for row in rows)
    close = sum(bool(row["at_bound"]) for row in rows)
    lines.append(f"\n{kept} of {len(rows)} feasible, {close} of {bounded} at the certified bound")
    return "\n".join(lines) + "\n"


def _percent(value: float | None) -> str:
    if value is None:
        return "-"
    if math.isinf(value):
        return "no plan"
    return "0" if value == 0 else f"{value:.3g} %"


def _number(value: float | None) -> str:
    return "-" if value is None else f"{value:.4f}"


KNOWN = (
    "case", "tasks × nodes", "objective", "best known", "by", "claimed bound", "by",
    "certified bound", "gap",
)  # fmt: skip
_LEFT = ("case", "objective", "by")
"""Columns of words."""


def cells(case: Case) -> tuple[str, ...]:
    """Return a case's line, a text a column; the gap is that of the best known value."""
    return (
        case.name, f"{case.tasks:,} × {case.nodes:,}", case.objective,
        _number7(case.best), case.best_by or "", _number7(case.stated), case.claimed_by or "",
        _number7(case.proven), _known_gap(case.best, case.proven),
    )  # fmt: skip


def known_text(cases: Iterable[Case]) -> str:
    """Return the table for a terminal, columns as wide as they need be."""
    return _plain(KNOWN, [cells(case) for case in cases], _LEFT) + "\n"


def page_table(cases: Iterable[Case]) -> str:
    """Return the table for a page: a claimed bound only where it differs from the certified one."""
    heads = (*KNOWN[:5], "certified bound, claimed bound (by)", "gap")
    lines = []
    for case in cases:
        *first, claimed, by, certified, gap = cells(case)
        others = [f"{claimed} ({by})"] if claimed not in ("", certified) else []
        lines.append([*first, ", ".join([certified] * bool(certified) + others), gap])
    return markdown(heads, lines, [heads[1], heads[3], *heads[5:]])


def _plain(heads: Sequence[str], rows: Sequence[Sequence[object]], left: Sequence[str]) -> str:
    """Return columns for a terminal, as wide as they need be."""
    from tabulate import tabulate

    align = ["left" if head in left else "right" for head in heads]
    form: dict[str, Any] = {"tablefmt": "plain", "disable_numparse": True, "colalign": align}
    return "\n".join(map(str.rstrip, tabulate(rows, heads, **form).splitlines()))


def _number7(value: float | None) -> str:
    return "" if value is None else f"{value:,.7g}"


def _known_gap(best: float | None, bound: float | None) -> str:
    """Return how far a bound is from a value, of the larger, in percent."""
    if best is None or bound is None:
        return ""
    gap = abs(best - bound) / (max(abs(best), abs(bound)) or 1.0)
    return "0" if gap <= 1e-6 else f"{100 * gap:.3g} %"
