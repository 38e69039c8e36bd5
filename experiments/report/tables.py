"""The parts of a report, and its tables: by method, by case, outcomes, failed runs."""

from __future__ import annotations

import re
import zlib
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from experiments.report.database import COMPARED, FAILURES, UNSUITABLE, Case
from experiments.report.findings import Findings, MetricFindings, Record, ranking
from optim.figures import catalogue
from optim.figures.catalogue import BY_NAME, FIGURES
from optim.figures.figure import Figure as Measure
from streamplace.present.table import (
    MOST_ROWS,
    Cell,
    Column,
    Kind,
    Table,
    filled,
    printable,
    row,
    show,
)

if TYPE_CHECKING:
    from matplotlib.figure import Figure as Drawn

_LONGEST_SLUG = 60


@dataclass(frozen=True)
class Drawing:
    """A finished figure, its SVG, and what is read to those who do not see it."""

    figure: Drawn = field(compare=False, repr=False)
    svg: str
    description: str


@dataclass(frozen=True)
class Figure:
    """A drawing with the table that holds its numbers."""

    key: str
    title: str
    drawing: Drawing
    table: Table
    caption: str = ""


@dataclass(frozen=True)
class Part:
    """What is folded under a line of its own (`title`, `note`): sentences, then small tables.

    Such tables have no CSV files.
    """

    title: str
    note: str
    lines: tuple[str, ...] = ()
    tables: tuple[Table, ...] = ()


@dataclass(frozen=True)
class Section:
    """A heading with an introduction, open tables, figures, folded tables, and single cases."""

    key: str
    title: str
    text: str = ""
    tables: tuple[Table, ...] = ()
    figures: tuple[Figure, ...] = ()
    folded: tuple[Table, ...] = ()
    parts: tuple[Part, ...] = ()

    @property
    def all_tables(self) -> tuple[Table, ...]:
        """Every table, in the order of the page."""
        return (*self.tables, *(figure.table for figure in self.figures), *self.folded)


@dataclass(frozen=True)
class Report:
    """The whole report: what came out, in sentences, then sections; the first opens it.

    `facts` say how it was made: pairs of name and value.
    """

    title: str
    summary: tuple[str, ...]
    sections: tuple[Section, ...]
    facts: tuple[tuple[str, str], ...] = ()

    @property
    def tables(self) -> tuple[Table, ...]:
        """Every table of the report."""
        return tuple(table for section in self.sections for table in section.all_tables)


def slug(text: str) -> str:
    """Return a name for files and ids made from any text, another one for another text."""
    short = re.sub(r"[^A-Za-z0-9_-]+", "-", text)[:_LONGEST_SLUG]
    return short if short == text else f"{short}-{zlib.crc32(text.encode('utf-8', 'replace')):08x}"


def shortened(text: str, length: int) -> str:
    """Return a text of at most this many characters."""
    text = printable(text)
    return text if len(text) <= length else text[: length - 1].rstrip() + "…"


def first_line(text: str | None) -> str:
    """Return the first line of a message that says something."""
    return next((line.strip() for line in (text or "").splitlines() if line.strip()), "")


def listed(names: Sequence[str]) -> str:
    """Return names as a person lists them: ``a, b and c``."""
    return " and ".join([", ".join(names[:-1]), names[-1]] if len(names) > 1 else names)


# -- the words for what rows call by short names ---------------------------------------------------

OBJECTIVES: dict[str | None, str] = {
    None: "",
    **{figure.name: figure.label for figure in BY_NAME.values() if figure.sense},
}


def gap_words(figure: Measure | None) -> str:
    """Say what gaps are, where they are not relative; else nothing."""
    if figure is None or not figure.percent or figure.reference is None:
        return ""
    return f"Gaps are differences in percent of the {BY_NAME[figure.reference].label}."


VERDICTS = {
    "proved optimal": "optimal", "plan": "plan", "refused plan": "breaks limits",
    "proven infeasible": "infeasible", "no plan": "no plan", "not applicable": "not applicable",
    "error": "error", "crash": "crash", "timeout": "time-out", "memory": "out of memory",
}  # fmt: skip

SHORT_VERDICTS = VERDICTS | {"not applicable": "n/a"}  # The same for narrow columns.


def shift_text(shift: float) -> str:
    """Say how times are averaged."""
    amount = "1 s" if shift == 1.0 else f"{1000 * shift:g} ms"
    return f"the geometric mean shifted by {amount}"


OTHER = "†"  # Marks a method that optimises something else than what it is measured by.


@dataclass(frozen=True)
class MetricWords:
    """How a metric is described."""

    #: Name in file names; heading and introduction of its section; heading of its column.
    slug: str
    title: str
    text: str
    heading: str
    #: Which figure is shown, ``collocation_factor`` or the ``value`` itself, and what kind of
    #: number that is.
    value: str
    kind: Kind
    same: frozenset[str]  # Objectives that come to the same as optimising it.
    #: Whether plans are given as a share of the optimum, rather than by how much they are above it,
    #: as a share of the figure's reference.
    relative: bool
    limit: str  # Sign before a bound.
    of_mean: str  # What gaps are a share of, where they are not relative: ``of the mean load``.


def _words(figure: Measure) -> MetricWords:
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

METHOD = Column("method", "Method", "name")  # The column that names a contestant.


def mark(findings: Findings, metric: MetricFindings, contestant: str) -> str:
    """Return the mark of a method that optimises something else."""
    objective = findings.contestants[contestant]["objective_name"]
    return "" if objective in WORDS[metric.name].same else OTHER


# -- by case ---------------------------------------------------------------------------------------


def _case_columns(findings: Findings) -> tuple[Column, ...]:
    names = findings.labels.level_names
    return Column("instance", "Instance"), *(Column(n, n.replace("_", " ")) for n in names)


def _case_values(cases: Sequence[Case]) -> list[NDArray[Any]]:
    """Return the columns that name cases."""
    named = [(case.instance, *case.levels) for case in cases]
    return [np.array(column, dtype=object) for column in zip(*named, strict=True)]


def _contestant_columns(findings: Findings, metric: MetricFindings, kind: Kind) -> list[Column]:
    return [Column(name, name + mark(findings, metric, name), kind) for name in metric.order]


def _shown_value(metric: MetricFindings, record: Record | None, raw: float | None) -> float | None:
    """Return a raw value of the metric as it is shown: as a share of the traffic where it is."""
    if raw is None or not WORDS[metric.name].relative:
        return raw
    traffic = (record or {}).get("total_traffic")
    return raw / traffic if traffic else None


def _long_table(
    key: str,
    title: str,
    columns: Iterable[Column],
    caption: str,
    values: Callable[[int], Sequence[Any]],
    count: int,
    **more: Any,
) -> Table:
    """Return a table of `count` rows, given by column; the first ones are made of cells."""
    first = (column.tolist() if isinstance(column, np.ndarray) else column
             for column in values(MOST_ROWS))  # fmt: skip
    cells = ([None if value != value else value for value in column] for column in first)
    return Table(
        key,
        title,
        tuple(columns),
        tuple(row(*line) for line in zip(*cells, strict=True)),
        caption,
        values=lambda: values(count),
        num_more=max(0, count - MOST_ROWS),
        **more,
    )


def _matrix(
    findings: Findings, metric: MetricFindings, kind: Kind, cell: str, *words: str
) -> Table:
    """Return a table of cases × contestants; `words`: end of the key, title, caption."""
    cases = [c for c in findings.labels.cases if c.problem not in findings.infeasible]
    places = metric.cells.places(metric.order, [case.problem for case in cases])

    def values(count: int) -> list[NDArray[Any]]:
        reached = (metric.cells.take(cell, column[:count]) for column in places.T)
        return [*_case_values(cases[:count]), *reached]

    slug, title, caption = words
    columns = (*_case_columns(findings), *_contestant_columns(findings, metric, kind))
    key, lead = f"{WORDS[metric.name].slug}-{slug}", 1 + len(findings.labels.level_names)
    return _long_table(key, title, columns, caption, values, len(cases), lead=lead)


_MATRICES: tuple[tuple[Kind, str, str, str, str], ...] = (
    ("gap", "gap_optimum", "gaps-by-case", "Gap to the optimum by case",
     "Blank where no run ended at an optimum, or the method has no feasible plan."),
    ("duration", "seconds", "times-by-case", "Time by case",
     "Building and solving; mean over the seeds. Blank where the run ended without an answer."),
)  # fmt: skip
"""Of the tables by case and contestant: kind and column of a cell, key, title and caption."""


def case_table(findings: Findings, metric: MetricFindings) -> Table:
    """Return one row a case: the optimum or the bound, and what each method reaches."""
    words, lead = WORDS[metric.name], 1 + len(findings.labels.level_names)
    cases = findings.labels.cases
    bounds = [_optimum_or_bound(findings, metric, case) for case in cases]
    is_open = any(bound is not None for _, bound in bounds)
    columns = (
        *_case_columns(findings),
        Column("proven_optimum", "Optimum", words.kind),
        *([Column("bound", "Bound if open", words.kind)] if is_open else []),
        *_contestant_columns(findings, metric, words.kind),
    )

    def cells(case: Case, bounds: Sequence[float | None]) -> tuple[Cell, ...]:
        shown: list[Any] = [*bounds] if is_open else [bounds[0]]
        if case.problem in findings.infeasible:
            shown[0] = Cell(None, f"infeasible (by {listed(findings.infeasible[case.problem])})")
            reached = [Cell(None)] * len(metric.order)
        else:
            status = metric.status.get(case.problem)
            reached = [_value_cell(metric, case, name, status) for name in metric.order]
        return row(case.instance, *case.levels, *shown, *reached)

    def values() -> list[Any]:
        places = metric.cells.places(metric.order, [case.problem for case in cases])
        reached = (metric.cells.take(words.value, column) for column in places.T)
        shown = [list(column) for column in zip(*bounds, strict=True)]
        return [*_case_values(cases), *(shown if is_open else shown[:1]), *reached]

    caption = (
        f"{words.heading} of the feasible plans, mean over the seeds. The shade grows with the "
        "distance from the optimum, or from the bound where none is known; the best of a row is "
        f"set bold. A bound behind a value ({words.limit}) is what that run itself had when it "
        "stopped."
    )
    return Table(
        f"{words.slug}-by-case",
        f"{words.heading} by case",
        columns,
        tuple(map(cells, cases[:MOST_ROWS], bounds)),
        caption,
        lead=lead,
        values=values,
        num_more=max(0, len(cases) - MOST_ROWS),
    )


def _optimum_or_bound(
    findings: Findings, metric: MetricFindings, case: Case
) -> tuple[float | None, float | None]:
    """Return the optimum of a case, or the best bound where it is open."""
    status = metric.status.get(case.problem)
    if status is None or case.problem in findings.infeasible:
        return None, None
    optimum = _shown_value(metric, status, status["optimum"])
    bound = _shown_value(metric, status, status["best_bound"])
    return optimum, bound if optimum is None else None


def _value_cell(metric: MetricFindings, case: Case, name: str, status: Record | None) -> Cell:
    words, cell = WORDS[metric.name], metric.cells.get(name, case.problem)
    if cell is None:
        return Cell(None, "not run")
    if not cell["plans"]:
        return Cell(None, _verdicts(cell["verdicts"], SHORT_VERDICTS))
    note = ""
    own_bound = _shown_value(metric, status, cell["own_bound"])
    if own_bound is not None and not cell["proved"]:
        note = f"{words.limit} {show(own_bound, words.kind)}"
    if cell["plans"] < cell["runs"]:
        note = f"{note} {cell['plans']} of {cell['runs']} runs".strip()
    best = status is not None and name in status["best_by"]
    gap = cell["gap_bound"] if cell["gap_optimum"] is None else cell["gap_optimum"]
    if gap is not None and not words.relative:  # as a share between 0 and 1, of the worst plan's
        worst = (status or {}).get("worst_gap")
        gap = min(1.0, gap / worst) if worst else 0.0
    return Cell(cell[words.value], note, gap, best)


def _verdicts(verdicts: str, words: Mapping[str, str]) -> str:
    return listed([words[verdict] for verdict in verdicts.split(",")])


def pair_table(findings: Findings, metric: MetricFindings) -> Table:
    """Return one row a case and contestant, with everything known of it."""
    words = WORDS[metric.name]
    columns = (
        *_case_columns(findings),
        METHOD,
        Column("outcome", "Outcome"),
        Column("runs", "Runs", "count"),
        Column(metric.name, "Traffic inside" if words.relative else words.heading, "number"),
        *((Column("collocation", words.heading, "share"),) if words.relative else ()),
        Column("own_bound", "Own bound", "number", "what these runs report themselves"),
        Column("own_bound_by", "By", "text", "one solver, two solvers, or a certificate"),
        Column("certified_bound", "Certified bound", "number", "what a checked certificate proves"),
        Column("gap_to_certified", "Gap to certified bound", "gap"),
        Column("best_bound", "Best bound", "number", "the tightest bound any run reports"),
        Column("gap_to_bound", "Gap to best bound", "gap"),
        Column("gap_to_optimum", "Gap to optimum", "gap"),
        Column("gap_to_best_known", "Gap to best known", "gap"),
        Column("seconds", "Time", "duration"),
    )
    order = [*metric.order, *(n for n in findings.contestants if n not in metric.order)]
    cases, cells = findings.labels.cases, metric.cells
    places = cells.places(order, [case.problem for case in cases])
    # the pairs that were run: which case, whom, and where the row of the pair is
    of_case, who = np.nonzero(places >= 0)
    case_columns = _case_values(cases)
    bounds = [(metric.status.get(case.problem) or {}).get("best_bound") for case in cases]
    best_bound, names = np.array(bounds, dtype=float), np.array(order, dtype=object)
    measures = ("value", "collocation_factor")[: 2 if words.relative else 1]

    def values(count: int) -> list[Any]:
        case_index, ran = of_case[:count], places[of_case[:count], who[:count]]
        verdicts, said_by = (cells.take(name, ran).tolist() for name in ("verdicts", "said_by"))
        verdict_texts = {text: _verdicts(text, VERDICTS) for text in set(verdicts)}
        prover_texts = {
            text: listed([one for one in text.split(",") if one]) for text in set(said_by)
        }
        reached, certified, gaps = (
            [cells.take(name, ran) for name in group]
            for group in (
                ("runs", *measures, "own_bound"),
                ("certified", "gap_certified"),
                ("gap_bound", "gap_optimum", "gap_known", "seconds"),
            )
        )
        return [
            *(column[case_index] for column in case_columns), names[who[:count]],
            [verdict_texts[text] for text in verdicts], *reached,
            [prover_texts[text] for text in said_by],
            *certified, best_bound[case_index], *gaps,
        ]  # fmt: skip

    lead = 2 + len(findings.labels.level_names)
    table = _long_table(
        f"{words.slug}-every-case-and-method",
        "Every case and method",
        columns,
        "Means over the seeds. Gap to best bound, to optimum and to best known are three "
        "different things; blank is unknown.",
        values,
        len(who),
        lead=lead,
    )
    marks = {name: mark(findings, metric, name) for name in order}
    rows = (
        (*line[: lead - 1], Cell(line[lead - 1].value, marks[str(line[lead - 1].value)]),
         *line[lead:])
        for line in table.rows
    )  # fmt: skip
    return replace(table, rows=tuple(rows))


# -- by method -------------------------------------------------------------------------------------

MOST_OPEN_ROWS = 60  # A table of more rows than these is folded.

VIRTUAL_BEST = "virtual best"


def metric_section(findings: Findings, metric: MetricFindings) -> Section:
    """Return the tables of one metric: by method, by case, and every pair of them."""
    words, cases = WORDS[metric.name], case_table(findings, metric)
    few = len(cases.rows) <= MOST_OPEN_ROWS
    folded = [*(_matrix(findings, metric, *parts) for parts in _MATRICES)]
    return Section(
        key=words.slug,
        title=words.title,
        text=words.text,
        tables=(method_table(findings, metric), *([cases] if few else [])),
        folded=(*([] if few else [cases]), *folded, pair_table(findings, metric)),
    )


def method_table(findings: Findings, metric: MetricFindings) -> Table:
    """Return one row a contestant: how much, how far from the optimum, in what time."""
    words = WORDS[metric.name]
    if words.relative:
        source, share = "of_optimum", Column("of_optimum", "Of optimum, mean", "share")
    else:
        source, share = "gap_optimum", Column("above_optimum", "Above optimum, mean", "gap")
    columns = (
        METHOD,
        Column("kind", "Kind", detail=True),
        Column("optimises", "Optimises"),
        Column("plans", "Plans", "count", "runs with a feasible plan"),
        Column("of_runs", "of runs", "count", "runs on cases that are not infeasible"),
        Column("proved", "Optimal", "count", "runs that ended so, by their solver"),
        Column("certified", "Certified", "count", "of these, by a checked certificate"),
        Column("mean", f"{words.heading}, mean", words.kind),
        share,
        Column(f"worst_{share.key}", "worst", share.kind),
        Column("optimum_cases", "on cases", "count", "cases with an optimum and a plan", True),
        Column("seconds", "Time, mean", "duration"),
        Column("most_seconds", "Time, longest", "duration", detail=True),
    )

    def reached(of_metric: Record) -> Record:
        worst = of_metric[f"worst_{source}"]
        return {
            "mean": of_metric[words.value],
            share.key: of_metric[source],
            f"worst_{share.key}": worst,
        }

    def record(name: str) -> Record:
        tally, of_metric = findings.contestants[name], metric.contestants[name]
        objective = tally["objective_name"]
        unproved = {} if objective == metric.name else {"proved": None, "certified": None}
        return {
            **tally,
            **unproved,
            **reached(of_metric),
            "method": Cell(name, mark(findings, metric, name)),
            "optimises": OBJECTIVES.get(objective, objective or ""),
            "of_runs": tally["solvable"],
            "optimum_cases": of_metric["num_gap_optimum"],
        }

    best = metric.best
    summary = {
        **{name: best[name] for name in ("plans", "proved", "seconds")},
        **reached(best),
        "method": VIRTUAL_BEST,
        "kind": "",
        "optimises": "",
        "of_runs": best["runs"],
        "optimum_cases": best["proved"],
    }
    return Table(
        f"{words.slug}-by-method",
        f"{words.heading} by method",
        columns,
        filled(columns, [*map(record, metric.order), summary]),
        caption=_method_caption(findings, metric),
        last_is_summary=True,
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
    "case: to the best bound that any run reports, to the optimum where some run ended at it (by "
    "its solver; proved is what a checked certificate says), and to the best plan known. A gap "
    "is |a − b| / max(|a|, |b|) unless its table says otherwise. Means are first over the seeds of "
    "a case, then over cases; worst is the worst single run. Blank is unknown."
)


def gap_section(findings: Findings) -> Section:
    """Return one table per objective: the three gaps, shares and times."""
    # what is compared by few says least: the objective with most methods comes first
    sizes = Counter(item["objective_name"] for item in findings.own_gaps)
    objectives = sorted(sizes, key=lambda name: (-sizes[name], name))
    return Section(
        "gaps",
        "Gaps on the methods' own objectives",
        GAP_TEXT,
        tuple(own_gap_table(findings, name) for name in objectives),
    )


_GAP_COLUMNS = (
    METHOD,
    Column("runs", "Runs", "count", "applicable runs on cases that are not infeasible"),
    Column("plans", "Plans", "count", "runs with a feasible plan"),
    Column("gap_to_bound", "To best bound, mean", "gap"),
    Column("worst_gap_to_bound", "worst", "gap"),
    Column("gap_to_optimum", "To optimum, mean", "gap"),
    Column("worst_gap_to_optimum", "worst", "gap"),
    Column("optimum_cases", "on cases", "count", "cases with an optimum and a plan"),
    Column("gap_to_best_known", "To best known, mean", "gap"),
    Column("worst_gap_to_best_known", "worst", "gap"),
    Column("share_proved", "Optimal", "share", "by their solver"),
    Column("share_best", "Best known", "share"),
    Column("seconds", "Time, mean", "duration"),
)


def own_gap_table(findings: Findings, objective: str) -> Table:
    """Return the three gaps of the methods that optimise `objective`."""
    items = [item for item in findings.own_gaps if item["objective_name"] == objective]
    ranks = ranking(items, {item["contestant"]: item["cases"] for item in items})
    items.sort(key=lambda item: ranks[item["contestant"]])
    best = next(item for item in findings.own_best if item["objective_name"] == objective)
    best_gap = 0.0 if best["plans"] else None
    summary = best | {
        "contestant": VIRTUAL_BEST, "num_gap_optimum": best["proved"], "gap_known": best_gap,
        "worst_gap_known": best_gap, "best": best["plans"],
    }  # fmt: skip

    def record(item: Record) -> Record:
        name, runs = item["contestant"], item["runs"]
        gaps = {"bound": "bound", "optimum": "optimum", "best_known": "known"}
        return {
            **item,
            **{f"gap_to_{to}": item[f"gap_{key}"] for to, key in gaps.items()},
            **{f"worst_gap_to_{to}": item[f"worst_gap_{key}"] for to, key in gaps.items()},
            "method": name,
            "optimum_cases": item["num_gap_optimum"],
            "share_proved": item["proved"] / runs if runs else None,
            "share_best": item["best"] / runs if runs else None,
            "seconds": findings.contestants.get(name, item)["seconds"],
        }

    gaps = gap_words(catalogue.OBJECTIVES.get(objective))
    return Table(
        f"gaps-{slug(objective)}",
        f"Methods that optimise the {OBJECTIVES.get(objective, objective)}",
        _GAP_COLUMNS,
        filled(_GAP_COLUMNS, map(record, [*items, summary])),
        f"Shares are of the runs; “best known” counts plans as good as the best of any run. "
        f"Time is {shift_text(findings.shift)}. {gaps}".strip(),
        last_is_summary=True,
    )


def outcome_section(findings: Findings) -> Section:
    """Return what became of the runs: a count of every ending, and the failures one by one."""
    tables = [outcome_table(findings)]
    if findings.failed:
        tables.append(failure_table(findings))
    return Section(
        "runs",
        "What became of the runs",
        "A run that fails is a row like any other; nothing is left out of the counts.",
        tuple(tables),
        folded=(not_applicable_table(findings),) if findings.not_applicable else (),
    )


def outcome_table(findings: Findings) -> Table:
    """Return how the runs of each contestant ended; the counts of a row add up to its runs."""
    columns = (
        METHOD,
        Column("kind", "Kind"),
        Column("family", "Family"),
        Column("runs", "Runs", "count"),
        Column("proved", "Optimal", "count", "by their solver"),
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
    contestants = findings.contestants.items()
    repaired = sum(item["repaired"] for _, item in contestants)
    parts = [
        "“Plan breaks limits”: the referee found the plan infeasible; it counts in no gap. "
        "“No plan, none exists”: another run ended with that. “Not applicable”: the "
        "method said that it does not suit the instance.",
        f"Time is {shift_text(findings.shift)}, over the runs that ended with an answer.",
    ]
    if repaired:
        parts.append(f"{repaired} plans were finished by repair.")
    rows = filled(columns, ({**item, "method": name} for name, item in contestants))
    return Table("outcomes", "Outcomes by method", columns, rows, " ".join(parts))


RUN_COLUMNS = (
    METHOD, Column("case", "Case"), Column("seed", "Seed", "number"), Column("outcome", "Outcome"),
)  # fmt: skip
"""Of tables that list runs."""


def run_record(findings: Findings, item: Record) -> Record:
    """Return what names a run, and what came of it, under the keys of `RUN_COLUMNS`."""
    return {
        **item,
        "method": item["contestant"],
        "case": findings.labels.case(item["problem"]).name,
        "outcome": VERDICTS[item["verdict"]],
        "error": first_line(item["error"]),
    }


def failure_table(findings: Findings) -> Table:
    """Return the runs that ended without an answer, with the first line of the error."""
    columns = (
        *RUN_COLUMNS,
        Column("exit_code", "Exit code", "number"),
        Column("error", "First line of the error"),
        Column("run", "Run", "name"),
    )
    place = {case.problem: number for number, case in enumerate(findings.labels.cases)}
    failed = sorted(
        findings.failed, key=lambda run: (run["contestant"], place[run["problem"]], run["seed"])
    )
    records = ({**run_record(findings, r), "run": r["run_key"][:_SHOWN_KEY]} for r in failed)
    return Table("failed-runs", "Failed runs", columns, filled(columns, records))


def not_applicable_table(findings: Findings) -> Table:
    """Return why methods refused instances, with the number of runs that said so."""
    columns = (METHOD, Column("runs", "Runs", "count"), Column("reason", "Reason"))
    rows = tuple(
        row(item["contestant"], item["runs"], re.sub(UNSUITABLE, "", first_line(item["error"])))
        for item in findings.not_applicable
    )
    return Table("not-applicable", "Methods that do not suit the instance", columns, rows)
