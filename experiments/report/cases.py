"""The tables by case: the optimum or the bound, and what each method reaches."""

from __future__ import annotations

from typing import TYPE_CHECKING

from experiments.report.formats import listed
from experiments.report.words import SHORT_VERDICTS, VERDICTS, WORDS, mark
from streamplace.present.table import Cell, Column, Kind, Table, row, show

if TYPE_CHECKING:
    from collections.abc import Mapping

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
    rows = []
    for case in findings.labels.cases:
        if case.problem in findings.infeasible:
            continue
        found = (metric.cells.get(name, case.problem) for name in metric.order)
        rows.append(row(*_case_cells(case), *(item[cell] if item else None for item in found)))
    return Table(
        f"{words.slug}-{slug}",
        title,
        columns,
        tuple(rows),
        caption,
        lead=1 + len(findings.labels.level_names),
    )


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
    rows = [_case_row(findings, metric, case) for case in findings.labels.cases]
    bounds = lead + 1
    if all(row[bounds].value is None for row in rows):  # no case is open
        columns = (*columns[:bounds], *columns[bounds + 1 :])
        rows = [(*row[:bounds], *row[bounds + 1 :]) for row in rows]
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
    )


def _case_row(findings: Findings, metric: MetricFindings, case: Case) -> tuple[Cell, ...]:
    status = metric.status.get(case.problem)
    blank = tuple(Cell(None) for _ in metric.order)
    if case.problem in findings.infeasible:
        told = Cell(None, _infeasible_text(findings, case.problem))
        return (*_case_cells(case), told, Cell(None), *blank)
    optimum = _shown(metric, status, status["optimum"] if status else None)
    bound = _shown(metric, status, status["best_bound"] if status else None)
    cells = [_value_cell(metric, case, name, status) for name in metric.order]
    return (
        *_case_cells(case),
        Cell(optimum),
        Cell(bound if optimum is None else None),
        *cells,
    )


def _value_cell(metric: MetricFindings, case: Case, name: str, status: Record | None) -> Cell:
    words, found = WORDS[metric.name], metric.cells.get(name, case.problem)
    if found is None:
        return Cell(None, "not run")
    if not found["plans"]:
        return Cell(None, _verdicts(found, SHORT_VERDICTS))
    note = ""
    own_bound = _shown(metric, status, found["own_bound"])
    if own_bound is not None and not found["proved"]:
        note = f"{words.limit} {show(own_bound, words.kind)}"
    if found["plans"] < found["runs"]:
        note = f"{note} {found['plans']} of {found['runs']} runs".strip()
    best = status is not None and name in status["best_by"]
    gap = found["gap_bound"] if found["gap_optimum"] is None else found["gap_optimum"]
    return Cell(found[words.value], note, _relative(metric, status, gap), best)


def _verdicts(found: Record, words: Mapping[str, str]) -> str:
    return listed([words[verdict] for verdict in found["verdicts"].split(",")])


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
    rows = []
    for case in findings.labels.cases:
        status = metric.status.get(case.problem) or {}
        for name in order:
            found = metric.cells.get(name, case.problem)
            if found is None:
                continue
            value = (found["value"], found["collocation_factor"])
            rows.append(
                row(
                    *_case_cells(case),
                    Cell(name, mark(findings, metric, name)),
                    _verdicts(found, VERDICTS),
                    found["runs"],
                    *value[: 2 if words.relative else 1],
                    found["own_bound"],
                    listed([by for by in found["said_by"].split(",") if by]),
                    found["certified"],
                    found["gap_certified"],
                    status.get("best_bound"),
                    found["gap_bound"],
                    found["gap_optimum"],
                    found["gap_known"],
                    found["seconds"],
                )
            )
    return Table(
        f"{words.slug}-every-case-and-method",
        "Every case and method",
        columns,
        tuple(rows),
        "Means over the seeds. Gap to best bound, to optimum and to best known are three "
        "different things; blank is unknown.",
        lead=2 + len(findings.labels.level_names),
    )
