"""The tables of the report: by method, by case, every case and method, outcomes, failed runs."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from experiments.report.database import COMPARED
from experiments.report.document import Section, slug
from experiments.report.findings import ranking
from experiments.report.queries import FAILURES, UNSUITABLE
from optim.figures import catalogue
from optim.figures.catalogue import BY_NAME, FIGURES
from streamplace.present.table import (
    MOST_ROWS,
    Cell,
    Column,
    Kind,
    Table,
    Value,
    printable,
    row,
    show,
)

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from experiments.report.database import Case
    from experiments.report.findings import Findings, MetricFindings, Record
    from optim.figures.figure import Figure


def shortened(text: str, length: int) -> str:
    """Return a text of at most this many characters."""
    text = printable(text)
    return text if len(text) <= length else text[: length - 1].rstrip() + "…"


def first_line(text: str | None) -> str:
    """Return the first line of a message that says something."""
    return next((line.strip() for line in (text or "").splitlines() if line.strip()), "")


def listed(names: list[str]) -> str:
    """Return names as a person lists them: ``a, b and c``."""
    return " and ".join([", ".join(names[:-1]), names[-1]] if len(names) > 1 else names)


# -- the words for what rows call by short names ---------------------------------------------------

KINDS = {"exact": "exact", "heuristic": "heuristic", "search": "search"}

OBJECTIVES: dict[str | None, str] = {
    None: "",
    **{figure.name: figure.label for figure in BY_NAME.values() if figure.sense},
}


def gap_words(figure: Figure) -> str:
    """Say what gaps are, where they are not relative; else nothing."""
    if not figure.percent or figure.reference is None:
        return ""
    return f"Gaps are differences in percent of the {BY_NAME[figure.reference].label}."


VERDICTS = {
    "proved optimal": "optimal",
    "plan": "plan",
    "refused plan": "breaks limits",
    "proven infeasible": "infeasible",
    "no plan": "no plan",
    "not applicable": "not applicable",
    "error": "error",
    "crash": "crash",
    "timeout": "time-out",
    "memory": "out of memory",
}

SHORT_VERDICTS = VERDICTS | {"not applicable": "n/a"}
"""The same for narrow columns."""


def shift_text(shift: float) -> str:
    """Say how times are averaged."""
    amount = "1 s" if shift == 1.0 else f"{1000 * shift:g} ms"
    return f"the geometric mean shifted by {amount}"


OTHER = "†"
"""Marks a method that optimises something else than what it is measured by."""


@dataclass(frozen=True)
class MetricWords:
    """How a metric is spoken of.

    Attributes
    ----------
    slug, title, text
        Name in file names, heading, introduction.
    heading
        Column heading of its value.
    value
        Which figure is shown: ``collocation_factor``, or the ``value`` itself.
    kind
        What kind of number that is.
    same
        Objectives that come to the same as optimising it.
    relative
        Whether plans are told as a share of the optimum, rather than by how much they are above
        it, as a share of the figure's reference.
    limit
        Sign before a bound.
    of_mean
        What gaps are a share of, where they are not relative: ``of the mean load``.
    """

    slug: str
    title: str
    text: str
    heading: str
    value: str
    kind: Kind
    same: frozenset[str]
    relative: bool
    limit: str
    of_mean: str


def _words(figure: Figure) -> MetricWords:
    shown = BY_NAME[figure.shown_as or figure.name]
    heading = shown.label.capitalize()
    better = "more" if figure.sense == "max" else "less"
    text = (
        f"{heading} is the {shown.words}: {better} is better. Every feasible plan can be measured "
        "by it, whatever its method optimises, and set against the optimum of the case."
    )
    return MetricWords(
        slug=shown.label.replace(" ", "-"),
        title=figure.question,
        text=f"{text} {gap_words(figure)}".strip(),
        heading=heading,
        value=figure.shown_as or "value",
        kind="share" if shown.unit == "share" else "points",
        same=frozenset(f.name for f in FIGURES if figure.name in (f.name, f.same_as)),
        relative=not figure.percent,
        limit="≤" if figure.sense == "max" else "≥",
        of_mean=f"of the {BY_NAME[figure.reference].label}" if figure.reference else "",
    )


WORDS = {figure.name: _words(figure) for figure in COMPARED}


def mark(findings: Findings, metric: MetricFindings, contestant: str) -> str:
    """Return the mark of a method that optimises something else."""
    objective = findings.contestants[contestant]["objective_name"]
    return "" if objective in WORDS[metric.name].same else OTHER


# -- by case ---------------------------------------------------------------------------------------


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


# -- by method -------------------------------------------------------------------------------------

MOST_OPEN_ROWS = 60
"""A table of more rows than these is folded."""

VIRTUAL_BEST = "virtual best"


def metric_section(findings: Findings, metric: MetricFindings) -> Section:
    """Return the tables of one metric: by method, by case, and every pair of them."""
    words, cases = WORDS[metric.name], case_table(findings, metric)
    few = len(cases.rows) <= MOST_OPEN_ROWS
    folded = [
        gap_table(findings, metric),
        time_table(findings, metric),
        pair_table(findings, metric),
    ]
    return Section(
        key=words.slug,
        title=words.title,
        text=words.text,
        tables=(method_table(findings, metric), *([cases] if few else [])),
        folded=tuple(folded if few else [cases, *folded]),
    )


def method_table(findings: Findings, metric: MetricFindings) -> Table:
    """Return one row a contestant: how much, how far from the optimum, in what time."""
    words = WORDS[metric.name]
    columns = (
        Column("method", "Method", "name"),
        Column("kind", "Kind", detail=True),
        Column("optimises", "Optimises"),
        Column("plans", "Plans", "count", "runs with a feasible plan"),
        Column("of_runs", "of runs", "count", "runs on cases that are not infeasible"),
        Column("proved", "Optimal", "count", "runs that ended so, by their solver's word"),
        Column("certified", "Certified", "count", "of these, by a checked certificate"),
        Column("mean", f"{words.heading}, mean", words.kind),
        *_reference_columns(words),
        Column(
            "optimum_cases",
            "on cases",
            "count",
            "cases with an optimum and a plan",
            detail=True,
        ),
        Column("seconds", "Time, mean", "duration"),
        Column("most_seconds", "Time, longest", "duration", detail=True),
    )
    rows = [_method_row(findings, metric, name) for name in metric.order]
    best = metric.best
    rows.append(
        row(
            VIRTUAL_BEST,
            "",
            "",
            best["plans"],
            best["runs"],
            best["proved"],
            None,
            best[words.value],
            *_references(words, best),
            best["proved"],
            best["seconds"],
            None,
        )
    )
    return Table(
        f"{words.slug}-by-method",
        f"{words.heading} by method",
        columns,
        tuple(rows),
        caption=_method_caption(findings, metric),
        last_is_summary=True,
    )


def _reference_columns(words: MetricWords) -> tuple[Column, Column]:
    if words.relative:
        return (
            Column("of_optimum", "Of optimum, mean", "share"),
            Column("worst_of_optimum", "worst", "share"),
        )
    return (
        Column("above_optimum", "Above optimum, mean", "gap"),
        Column("worst_above_optimum", "worst", "gap"),
    )


def _references(words: MetricWords, found: Record) -> tuple[Value, Value]:
    name = "of_optimum" if words.relative else "gap_optimum"
    return found[name], found[f"worst_{name}"]


def _method_row(findings: Findings, metric: MetricFindings, name: str) -> tuple[Cell, ...]:
    words, found = WORDS[metric.name], metric.contestants[name]
    tally = findings.contestants[name]
    own = tally["objective_name"] == metric.name
    return row(
        Cell(name, mark(findings, metric, name)),
        KINDS.get(tally["kind"], tally["kind"]),
        OBJECTIVES.get(tally["objective_name"], tally["objective_name"] or ""),
        tally["plans"],
        tally["solvable"],
        tally["proved"] if own else None,
        tally["certified"] if own else None,
        found[words.value],
        *_references(words, found),
        found["num_gap_optimum"],
        tally["seconds"],
        tally["most_seconds"],
    )


def _method_caption(findings: Findings, metric: MetricFindings) -> str:
    parts = [
        "Means are over the cases where the method has a feasible plan; a method that fails on "
        "hard cases is not compared on them, so read them with the column Plans.",
        f"Time is building and solving, without reading the file and the referee; its mean is "
        f"{shift_text(findings.shift)}.",
        "The virtual best takes on each case the best plan of any method, and the least time "
        "in which one came to it.",
    ]
    if any(mark(findings, metric, name) for name in metric.order):
        parts.append(f"{OTHER} optimises something else, or nothing, and is only measured by this.")
    absent = [name for name in findings.contestants if name not in metric.order]
    if absent:
        parts.append(f"Without any plan: {listed(sorted(absent))}.")
    return " ".join(parts)


# -- methods against each other on what they optimise, and what became of every run ----------------

_SHOWN_KEY = 12

GAP_TEXT = (
    "Three gaps that are never mixed, each only among runs with the same objective on the same "
    "case: to the best bound that any run tells, to the optimum where some run ended at it (by its "
    "solver's word; proved is what a checked certificate says), and to the best plan known. A gap "
    "is |a − b| / max(|a|, |b|) unless its table says otherwise. Means are first over the seeds of "
    "a case, then over cases; worst is the worst single run. Blank is unknown."
)


def gap_section(findings: Findings) -> Section:
    """Return one table per objective: the three gaps, shares and times."""
    objectives = sorted({item["objective_name"] for item in findings.own_gaps})
    # what is compared by few says least: the objective with most methods comes first
    sizes = {
        name: sum(item["objective_name"] == name for item in findings.own_gaps)
        for name in objectives
    }
    objectives.sort(key=lambda name: (-sizes[name], name))
    return Section(
        "gaps",
        "Gaps on the methods' own objectives",
        GAP_TEXT,
        tuple(own_gap_table(findings, name) for name in objectives),
    )


def own_gap_table(findings: Findings, objective: str) -> Table:
    """Return the three gaps of the methods that optimise `objective`."""
    gap: Kind = "gap"
    columns = (
        Column("method", "Method", "name"),
        Column("runs", "Runs", "count", "applicable runs on cases that are not infeasible"),
        Column("plans", "Plans", "count", "runs with a feasible plan"),
        Column("gap_to_bound", "To best bound, mean", gap),
        Column("worst_gap_to_bound", "worst", gap),
        Column("gap_to_optimum", "To optimum, mean", gap),
        Column("worst_gap_to_optimum", "worst", gap),
        Column("optimum_cases", "on cases", "count", "cases with an optimum and a plan"),
        Column("gap_to_best_known", "To best known, mean", gap),
        Column("worst_gap_to_best_known", "worst", gap),
        Column("share_proved", "Optimal", "share", "by their solver's word"),
        Column("share_best", "Best known", "share"),
        Column("seconds", "Time, mean", "duration"),
    )
    found = [item for item in findings.own_gaps if item["objective_name"] == objective]
    ranks = ranking(found, {item["contestant"]: item["cases"] for item in found})
    found.sort(key=lambda item: ranks[item["contestant"]])
    rows = [_gap_row(findings, item) for item in found]
    best = next(item for item in findings.own_best if item["objective_name"] == objective)
    known = 0.0 if best["plans"] else None
    rows.append(
        row(
            VIRTUAL_BEST,
            best["runs"],
            best["plans"],
            best["gap_bound"],
            best["worst_gap_bound"],
            best["gap_optimum"],
            best["worst_gap_optimum"],
            best["proved"],
            known,
            known,
            _share(best["proved"], best["runs"]),
            _share(best["plans"], best["runs"]),
            best["seconds"],
        )
    )
    name = OBJECTIVES.get(objective, objective)
    figure = catalogue.OBJECTIVES.get(objective)
    gaps = f" {gap_words(figure)}" if figure and gap_words(figure) else ""
    return Table(
        f"gaps-{slug(objective)}",
        f"Methods that optimise the {name}",
        columns,
        tuple(rows),
        f"Shares are of the runs; “best known” counts plans as good as the best of any run. "
        f"Time is {shift_text(findings.shift)}.{gaps}",
        last_is_summary=True,
    )


def _gap_row(findings: Findings, item: Record) -> tuple[Cell, ...]:
    return row(
        item["contestant"],
        item["runs"],
        item["plans"],
        item["gap_bound"],
        item["worst_gap_bound"],
        item["gap_optimum"],
        item["worst_gap_optimum"],
        item["num_gap_optimum"],
        item["gap_known"],
        item["worst_gap_known"],
        _share(item["proved"], item["runs"]),
        _share(item["best"], item["runs"]),
        findings.contestants[item["contestant"]]["seconds"],
    )


def _share(part: int, whole: int) -> Value:
    return part / whole if whole else None


def outcome_section(findings: Findings) -> Section:
    """Return what became of the runs: a count of every ending, and the failures one by one."""
    tables = [outcome_table(findings)]
    if findings.failed:
        tables.append(failure_table(findings))
    folded = (not_applicable_table(findings),) if findings.not_applicable else ()
    return Section(
        "runs",
        "What became of the runs",
        "A run that fails is a row like any other; nothing is left out of the counts.",
        tuple(tables),
        folded=folded,
    )


def outcome_table(findings: Findings) -> Table:
    """Return how the runs of each contestant ended; the counts of a row add up to its runs."""
    columns = (
        Column("method", "Method", "name"),
        Column("kind", "Kind"),
        Column("family", "Family"),
        Column("runs", "Runs", "count"),
        Column("proved", "Optimal", "count", "by their solver's word"),
        Column("certified", "of these certified", "count", "proved by a checked certificate"),
        Column("unproved", "Other plan", "count"),
        Column("refused", "Plan breaks limits", "count"),
        Column("infeasible", "Infeasible", "count"),
        Column("none_exists", "No plan, none exists", "count"),
        Column("no_plan", "No plan", "count"),
        Column("not_applicable", "Not applicable", "count"),
        *(Column(name, VERDICTS[name].capitalize(), "count") for name in FAILURES),
        Column("seconds", "Time, mean", "duration"),
    )
    keys = [column.key for column in columns[3:]]
    rows = [
        row(
            name,
            KINDS.get(item["kind"], item["kind"]),
            item["family"],
            *(item[key] for key in keys),
        )
        for name, item in findings.contestants.items()
    ]
    repaired = sum(item["repaired"] for item in findings.contestants.values())
    parts = [
        "“Plan breaks limits”: the referee found the plan infeasible; it counts in no gap. "
        "“No plan, none exists”: another run ended with that. “Not applicable”: the "
        "method said that it does not suit the instance.",
        f"Time is {shift_text(findings.shift)}, over the runs that ended with an answer.",
    ]
    if repaired:
        parts.append(f"{repaired} plans were finished by repair.")
    return Table("outcomes", "Outcomes by method", columns, tuple(rows), " ".join(parts))


def failure_table(findings: Findings) -> Table:
    """Return the runs that ended without an answer, with the first line of the error."""
    columns = (
        Column("method", "Method", "name"),
        Column("case", "Case"),
        Column("seed", "Seed", "number"),
        Column("outcome", "Outcome"),
        Column("exit_code", "Exit code", "number"),
        Column("error", "First line of the error"),
        Column("run", "Run", "name"),
    )
    place = {case.problem: number for number, case in enumerate(findings.labels.cases)}

    def in_order(item: Record) -> tuple[str, int, int]:
        return item["contestant"], place[item["problem"]], item["seed"]

    rows = [
        row(
            item["contestant"],
            findings.labels.case(item["problem"]).name,
            item["seed"],
            VERDICTS[item["verdict"]],
            item["exit_code"],
            first_line(item["error"]),
            item["run_key"][:_SHOWN_KEY],
        )
        for item in sorted(findings.failed, key=in_order)
    ]
    return Table("failed-runs", "Failed runs", columns, tuple(rows))


def not_applicable_table(findings: Findings) -> Table:
    """Return why methods refused instances, with the number of runs that said so."""
    columns = (
        Column("method", "Method", "name"),
        Column("runs", "Runs", "count"),
        Column("reason", "Reason"),
    )
    rows = [
        row(
            item["contestant"],
            item["runs"],
            re.sub(UNSUITABLE, "", first_line(item["error"])),
        )
        for item in findings.not_applicable
    ]
    return Table("not-applicable", "Methods that do not suit the instance", columns, tuple(rows))
