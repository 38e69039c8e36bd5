"""The tables by case: the optimum or the bound, and what each method reaches."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from experiments.report.formats import listed
from experiments.report.words import SHORT_VERDICTS, VERDICTS, WORDS, mark
from streamplace.present.table import MOST_ROWS, Cell, Column, Kind, Table, Value, row, show

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from experiments.report.findings import Findings, MetricFindings, Record
    from experiments.report.labels import Case


def _case_columns(findings: Findings) -> tuple[Column, ...]:
    return (
        Column("instance", "Instance"),
        *(Column(name, name.replace("_", " ")) for name in findings.labels.level_names),
    )


def _case_cells(case: Case) -> tuple[Cell, ...]:
    return row(case.instance, *case.levels)


def _shown(metric: MetricFindings, record: Record | None, raw: float | None) -> float | None:
    """Return a raw value of the metric as it is shown: as a share of the traffic where it is."""
    if raw is None or not WORDS[metric.name].relative:
        return raw
    traffic = (record or {}).get("total_traffic")
    return raw / traffic if traffic else None


def _infeasible_text(findings: Findings, problem: str) -> str:
    return f"infeasible (by {listed(findings.infeasible[problem])})"


def _matrix(
    findings: Findings,
    metric: MetricFindings,
    slug: str,
    title: str,
    kind: Kind,
    caption: str,
    cell: str,
) -> Table:
    """Return a table of cases × contestants with one figure of each cell."""
    words = WORDS[metric.name]
    columns = (
        *_case_columns(findings),
        *(Column(name, name + mark(findings, metric, name), kind) for name in metric.order),
    )
    cases = [c for c in findings.labels.cases if c.problem not in findings.infeasible]
    places = metric.cells.places(metric.order, [case.problem for case in cases])

    def values(count: int) -> list[list[Value]]:
        named = _case_values(findings, cases[:count])
        return [*named, *(metric.cells.take(cell, column[:count]) for column in places.T)]

    return Table(
        f"{words.slug}-{slug}",
        title,
        columns,
        tuple(row(*line) for line in zip(*values(MOST_ROWS), strict=True)),
        caption,
        lead=1 + len(findings.labels.level_names),
        values=lambda: values(len(cases)),
        num_more=max(0, len(cases) - MOST_ROWS),
    )


def _case_values(findings: Findings, cases: Sequence[Case]) -> list[list[Value]]:
    """Return the columns that name cases."""
    found: list[list[Value]] = [[case.instance for case in cases]]
    for k in range(len(findings.labels.level_names)):
        found.append([case.levels[k] for case in cases])
    return found


def gap_table(findings: Findings, metric: MetricFindings) -> Table:
    """Return the distance to the optimum, by case and contestant."""
    return _matrix(
        findings,
        metric,
        "gaps-by-case",
        "Gap to the optimum by case",
        "gap",
        "Blank where no run ended at an optimum, or the method has no feasible plan.",
        "gap_optimum",
    )


def time_table(findings: Findings, metric: MetricFindings) -> Table:
    """Return the times, by case and contestant."""
    return _matrix(
        findings,
        metric,
        "times-by-case",
        "Time by case",
        "duration",
        "Building and solving; mean over the seeds. Blank where the run ended without an answer.",
        "seconds",
    )


def case_table(findings: Findings, metric: MetricFindings) -> Table:
    """Return one row a case: the optimum or the bound, and what each method reaches."""
    words, lead = WORDS[metric.name], 1 + len(findings.labels.level_names)
    columns = (
        *_case_columns(findings),
        Column("proven_optimum", "Optimum", words.kind),
        Column("bound", "Bound if open", words.kind),
        *(Column(name, name + mark(findings, metric, name), words.kind) for name in metric.order),
    )
    cases = findings.labels.cases
    rows = [_case_row(findings, metric, case) for case in cases[:MOST_ROWS]]
    known = [_known(findings, metric, case) for case in cases]
    bounds = lead + 1
    is_open = any(bound is not None for _, bound in known)
    if not is_open:
        columns = (*columns[:bounds], *columns[bounds + 1 :])
        rows = [(*row[:bounds], *row[bounds + 1 :]) for row in rows]

    def values() -> list[list[Value]]:
        told: list[list[Value]] = [[optimum for optimum, _ in known]]
        told += [[bound for _, bound in known]] if is_open else []
        places = metric.cells.places(metric.order, [case.problem for case in cases])
        reached = (metric.cells.take(words.value, column) for column in places.T)
        return [*_case_values(findings, cases), *told, *reached]

    shade = "The shade grows with the distance from the optimum"
    parts = [
        f"{words.heading} of the feasible plans, mean over the seeds. {shade}, or from the bound "
        "where none is known; the best of a row is set bold.",
        f"A bound behind a value ({words.limit}) is what that run itself had when it stopped.",
    ]
    return Table(
        f"{words.slug}-by-case",
        f"{words.heading} by case",
        columns,
        tuple(rows),
        " ".join(parts),
        lead=lead,
        values=values,
        num_more=max(0, len(cases) - MOST_ROWS),
    )


def _known(
    findings: Findings, metric: MetricFindings, case: Case
) -> tuple[float | None, float | None]:
    """Return the optimum of a case, or the best bound where it is open."""
    status = metric.status.get(case.problem)
    if status is None or case.problem in findings.infeasible:
        return None, None
    optimum = _shown(metric, status, status["optimum"])
    bound = _shown(metric, status, status["best_bound"])
    return optimum, bound if optimum is None else None


def _case_row(findings: Findings, metric: MetricFindings, case: Case) -> tuple[Cell, ...]:
    status = metric.status.get(case.problem)
    blank = tuple(Cell(None) for _ in metric.order)
    if case.problem in findings.infeasible:
        told = Cell(None, _infeasible_text(findings, case.problem))
        return (*_case_cells(case), told, Cell(None), *blank)
    cells = [_value_cell(metric, case, name, status) for name in metric.order]
    return (*_case_cells(case), *row(*_known(findings, metric, case)), *cells)


def _value_cell(metric: MetricFindings, case: Case, name: str, status: Record | None) -> Cell:
    words, found = WORDS[metric.name], metric.cells.get(name, case.problem)
    if found is None:
        return Cell(None, "not run")
    if not found["plans"]:
        return Cell(None, _verdicts(found["verdicts"], SHORT_VERDICTS))
    note = ""
    own_bound = _shown(metric, status, found["own_bound"])
    if own_bound is not None and not found["proved"]:
        note = f"{words.limit} {show(own_bound, words.kind)}"
    if found["plans"] < found["runs"]:
        note = f"{note} {found['plans']} of {found['runs']} runs".strip()
    best = status is not None and name in status["best_by"]
    gap = found["gap_bound"] if found["gap_optimum"] is None else found["gap_optimum"]
    return Cell(found[words.value], note, _relative(metric, status, gap), best)


def _verdicts(verdicts: str, words: Mapping[str, str]) -> str:
    return listed([words[verdict] for verdict in verdicts.split(",")])


def _said(by: str) -> str:
    return listed([one for one in by.split(",") if one])


def _relative(metric: MetricFindings, status: Record | None, gap: float | None) -> float | None:
    """Return a gap as a share between 0 and 1; a difference in relation to the worst plan's."""
    if gap is None or WORDS[metric.name].relative:
        return gap
    worst = (status or {}).get("worst_gap")
    return min(1.0, gap / worst) if worst else 0.0


def pair_table(findings: Findings, metric: MetricFindings) -> Table:
    """Return one row a case and contestant, with everything known of it."""
    words = WORDS[metric.name]
    gap: Kind = "gap"
    columns = (
        *_case_columns(findings),
        Column("method", "Method", "name"),
        Column("outcome", "Outcome"),
        Column("runs", "Runs", "count"),
        Column(metric.name, "Traffic kept" if words.relative else words.heading, "number"),
        *((Column("collocation", words.heading, "share"),) if words.relative else ()),
        Column("own_bound", "Own bound", "number", "what these runs tell themselves"),
        Column("own_bound_by", "By", "text", "one solver, two solvers, or a certificate"),
        Column("certified_bound", "Certified bound", "number", "what a checked certificate proves"),
        Column("gap_to_certified", "Gap to certified bound", gap),
        Column("best_bound", "Best bound", "number", "the tightest bound any run tells"),
        Column("gap_to_bound", "Gap to best bound", gap),
        Column("gap_to_optimum", "Gap to optimum", gap),
        Column("gap_to_best_known", "Gap to best known", gap),
        Column("seconds", "Time", "duration"),
    )
    order = [*metric.order, *(n for n in findings.contestants if n not in metric.order)]
    cases, cells = findings.labels.cases, metric.cells
    places = cells.places(order, [case.problem for case in cases])
    # the pairs that were run: which case, whom, and where the row of the pair is
    of_case, who = np.nonzero(places >= 0)
    bounds = [(metric.status.get(case.problem) or {}).get("best_bound") for case in cases]
    measures = ("value", "collocation_factor")[: 2 if words.relative else 1]

    def values(count: int) -> list[list[Any]]:
        ran = places[of_case[:count], who[:count]]
        mine = of_case[:count].tolist()
        named = [[column[k] for k in mine] for column in _case_values(findings, cases)]
        told = {text: _verdicts(text, VERDICTS) for text in set(cells.take("verdicts", ran))}
        said = {text: _said(text) for text in set(cells.take("said_by", ran))}
        return [
            *named,
            [order[k] for k in who[:count].tolist()],
            [told[text] for text in cells.take("verdicts", ran)],
            *(cells.take(name, ran) for name in ("runs", *measures, "own_bound")),
            [said[text] for text in cells.take("said_by", ran)],
            *(cells.take(name, ran) for name in ("certified", "gap_certified")),
            [bounds[k] for k in mine],
            *(
                cells.take(name, ran)
                for name in ("gap_bound", "gap_optimum", "gap_known", "seconds")
            ),
        ]

    lead = 2 + len(findings.labels.level_names)
    rows = []
    for line in zip(*values(MOST_ROWS), strict=True):
        name = line[lead - 1]
        rows.append(row(*line[: lead - 1], Cell(name, mark(findings, metric, name)), *line[lead:]))
    return Table(
        f"{words.slug}-every-case-and-method",
        "Every case and method",
        columns,
        tuple(rows),
        "Means over the seeds. Gap to best bound, to optimum and to best known are three "
        "different things; blank is unknown.",
        lead=lead,
        values=lambda: values(len(who)),
        num_more=max(0, len(who) - MOST_ROWS),
    )
