"""From the rows of a sweep to the whole report: graded, asked, laid out."""

from __future__ import annotations

import contextlib
import json
import time
from base64 import b64encode
from collections.abc import Callable, Collection, Iterator
from dataclasses import replace
from importlib.resources import files
from pathlib import Path
from typing import TYPE_CHECKING, cast

from markupsafe import Markup
from markupsafe import escape as html
from rich.console import Console
from rich.text import Text

from experiments.report.database import define_views, read_results
from experiments.report.figures import chance_section, figure_section
from experiments.report.findings import Findings, MetricFindings, Record, gather, grade
from experiments.report.tables import (
    OTHER,
    VERDICTS,
    WORDS,
    Part,
    Report,
    Section,
    first_line,
    gap_section,
    listed,
    metric_section,
    outcome_section,
    shortened,
)
from experiments.sweep.store import kept_instances
from formulations.conflicts.conflict import Clash
from optim.errors import InvalidInput, Problem
from optim.format.instance import Instance
from optim.util.files import write_atomic
from streamplace.explain.explanation import (
    SHOWN,
    Explanation,
    clash_figures,
    move_ends,
    objective_line,
    remedy_line,
    worth_text,
)
from streamplace.present.numbers import listed as some
from streamplace.present.numbers import plural
from streamplace.present.plots import to_pdf
from streamplace.present.table import (
    STAR,
    Cell,
    Column,
    Kind,
    Table,
    escape,
    grid,
    printable,
    row,
    show,
    split,
    to_csv,
    to_latex,
    to_markdown,
    unit,
    with_unit,
)
from streamplace.present.tables import carries_line, figure

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection

_NAMED = 4
_LONGEST = 160  # Characters of an error.


def summarise(findings: Findings) -> tuple[str, ...]:
    """Return the sentences: how much was run, what is optimal, who reaches what, what failed."""
    sentences = [_failed(findings), _undrained(findings), _size(findings)]
    sentences += [_state(findings, metric) for metric in findings.metrics]
    sentences += [_reached(findings, metric) for metric in findings.metrics]
    if refused := sum(item["refused"] for item in findings.contestants.values()):
        counts = "counts" if refused == 1 else "count"
        sentences.append(f"{plural(refused, 'plan')} broke limits and {counts} in no gap.")
    return tuple(printable(sentence) for sentence in sentences if sentence)


def _undrained(findings: Findings) -> str:
    """Say, before all else, which plans leave tasks on nodes that are to be emptied."""
    undrained = {name: item["undrained"] for name, item in findings.contestants.items()}
    texts = [f"{name} ({count})" for name, count in undrained.items() if count]
    if not texts:
        return ""
    plans = plural(sum(undrained.values()), "plan")
    return f"Not drained: {plans} with tasks on leaving nodes, of {some(texts, _NAMED)}."


def _size(findings: Findings) -> str:
    sweep, labels = findings.sweep, findings.labels
    parts = [plural(len({case.instance for case in labels.cases}), "instance")]
    for number, name in enumerate(labels.level_names):
        levels = len({case.levels[number] for case in labels.cases})
        parts.append(f"{plural(levels, 'level')} of {name.replace('_', ' ')}")
    what = f"{' × '.join(parts)}: " if len(parts) > 1 else ""
    methods = plural(sweep["num_contestants"], "method variant")
    runs = plural(sweep["num_runs"], "run")
    return f"{what}{plural(len(labels.cases), 'case')}, {methods}, {runs}."


def _state(findings: Findings, metric: MetricFindings) -> str:
    """Say on how many cases the optimum is known, by whom, and what is left open."""
    name = WORDS[metric.name].heading.lower()
    cases, none = len(findings.labels.cases), len(findings.infeasible)
    rows = [row for problem, row in metric.status.items() if problem not in findings.infeasible]
    proved = sum(row["optimum"] is not None for row in rows)
    if not proved:
        return f"No run ended at an optimal {name}."
    # cases proved infeasible count as cases, not as proved
    many = f"all {cases}" if proved == cases > 1 else f"{proved} of {cases}"
    certified = sum(row["certified"] for row in rows)
    word = "proved by certificates" if certified == proved else f"certificates prove {certified}"
    parts = [f"The optimal {name} is known on {many} cases ({word})"]
    if none:
        parts.append(f"{none} {'is' if none == 1 else 'are'} infeasible")
    bounded = sum(row["optimum"] is None and row["best_bound"] is not None for row in rows)
    if bounded:
        parts.append(f"on {bounded} only a bound is known")
    unknown = cases - none - proved - bounded
    if unknown:
        parts.append(f"on {unknown} nothing is known")
    return "; ".join(parts) + f". {_prover(findings, metric, proved)}"


def _prover(findings: Findings, metric: MetricFindings, proved: int) -> str:
    """Say which exact method found most, and in what time."""
    counts = {n: int((metric.cells.values(n, "proved") > 0).sum()) for n in metric.order}
    times = {name: findings.contestants[name]["seconds"] for name in counts}
    # most optima first; of equal ones the fastest, then by name
    best = min(
        counts, key=lambda name: (-counts[name], times[name] is None, times[name] or 0.0, name)
    )
    many = f"all {proved}" if counts[best] == proved else f"{counts[best]} of these"
    many = "it" if proved == 1 else many
    if times[best] is None:  # values that were given, not found here
        return f"{best} has {many}."
    return f"{best} found {many} (mean time of a run {with_unit(times[best], 'duration')})."


def _reached(findings: Findings, metric: MetricFindings) -> str:
    """Say what methods without proofs reach on average, and in what time."""
    words = WORDS[metric.name]
    # the first metric opens the report: there all are named, elsewhere those that optimise it
    opening = metric is findings.metrics[0]
    named = [
        name
        for name in metric.order
        if findings.contestants[name]["kind"] != "exact"
        and metric.contestants[name]["num_gap_optimum"]
        and (opening or findings.contestants[name]["objective_name"] in words.same)
    ]
    if not named:
        return ""
    first, *others = named[:_NAMED]
    source, kind = ("of_optimum", "share") if words.relative else ("gap_optimum", "gap")

    def reach(name: str, worst: str = "") -> str:
        return with_unit(metric.contestants[name][worst + source], cast("Kind", kind))

    mean = f"{first} reaches {reach(first)} of the optimum"
    if not words.relative:
        mean = f"{first} stays {reach(first)} {words.of_mean} above the optimum"
    above = "" if words.relative else " above"
    parts = [f"{mean} on average (worst {reach(first, 'worst_')}){_time_text(findings, first)}"]
    parts += [f"{name} {reach(name)}{above}{_time_text(findings, name)}" for name in others]
    return f"{words.heading}: {'; '.join(parts)}."


def _time_text(findings: Findings, name: str) -> str:
    tally = findings.contestants[name]
    seconds, plans, runs = tally["seconds"], tally["plans"], tally["solvable"]
    time = f" in {with_unit(seconds, 'duration')}" if seconds is not None else ""
    return time if plans == runs else f"{time}, with a plan in {plans} of {runs} runs"


def _failed(findings: Findings) -> str:
    """Name, before all else, the runs without an answer and why each ended."""
    failed = findings.failed
    if not failed:
        return ""
    texts = []
    for item in failed[:_NAMED]:
        reason = shortened(first_line(item["error"]), _LONGEST)
        why = ": ".join(filter(None, (VERDICTS[item["verdict"]], reason)))
        case = findings.labels.case(item["problem"]).name
        texts.append(f"{item['contestant']} on {case} ({why})")
    more = f"; and {len(failed) - _NAMED:,} more, listed at the end" if len(failed) > _NAMED else ""
    return f"{plural(len(failed), 'run')} failed: {'; '.join(texts)}{more}."


# -- the whole report ------------------------------------------------------------------------------

_MANY = 5


def make_findings(
    con: DuckDBPyConnection, tell: Callable[[str], None] = lambda _: None
) -> Findings:
    """Grade the rows of a sweep and ask them everything.

    `con`: a database with at least one row, from `experiments.report.database.read_sweep`.
    `tell`: receives what is being done.
    Raises `experiments.report.findings.ContradictoryRuns`: runs contradict one another; nothing is
        reported from them.
    """
    tell("grading the runs against each other")
    labels = define_views(con)
    grade(con)
    tell("comparing the methods")
    return gather(con, labels)


def make_report(findings: Findings, folder: Path | None = None) -> Report:
    """Lay out the report; with its result folder, plans of instances stored there are explained."""
    sections: list[Section] = [metric_section(findings, item) for item in findings.metrics]
    if findings.own_gaps:
        sections.append(gap_section(findings))
    if chance := chance_section(findings):
        sections.append(chance)
    figures = figure_section(findings)
    if figures.figures:
        sections.append(figures)
    if folder is not None and (why := why_section(findings, folder)):
        sections.append(why)
    sections.append(outcome_section(findings))
    sweeps = listed(findings.sweep["sweeps"])
    return Report(f"Sweep {sweeps}", summarise(findings), tuple(sections), facts(findings))


def facts(findings: Findings) -> tuple[tuple[str, str], ...]:
    """Return what the report was made from: sweep, rows, times, hosts, versions."""
    sweep, hosts = findings.sweep, findings.sweep["hosts"]
    more = f" and {len(hosts) - _MANY} more" if len(hosts) > _MANY else ""
    # more than one version of a component means that the runs cannot be held against each other
    versions: dict[str, set[str]] = {}
    for text in sweep["versions"]:
        with contextlib.suppress(ValueError, AttributeError):
            for name, version in json.loads(text).items():
                versions.setdefault(name, set()).add(str(version))
    return (
        ("Sweep", listed(sweep["sweeps"])),
        ("Rows", str(sweep["num_runs"])),
        ("Started", f"{sweep['first_start']} to {sweep['last_start']} UTC"),
        ("Hosts" if len(hosts) > 1 else "Host", listed(hosts[:_MANY]) + more),
        *((f"Version: {name}", listed(sorted(versions[name]))) for name in sorted(versions)),
    )


# -- per case: what holds the best plan, or why there is none --------------------------------------

MOST_CASES = 60  # Cases that are explained.
SECONDS, ALL_SECONDS = 10.0, 60.0  # For the conflicts of a case, and of all together.
_MOST_WORK = 20_000_000  # Tasks × moves up to which the worth of moves is reported.

_TEXT = (
    "Of each case the best plan by the objective that most runs have: the bottleneck, which "
    "rules leave no room, and what undoing each move alone would do. Where there is no plan: rules "
    "that cannot hold together, each needed for that, and the smallest change that would help."
)


def why_section(findings: Findings, folder: Path) -> Section | None:
    """Explain the first cases; ``None`` where the folder keeps no instance of them."""
    chosen = {record["problem"]: record for record in findings.chosen}
    cases = [case for case in findings.labels.cases if case.problem in chosen]
    records = [chosen[case.problem] for case in cases[:MOST_CASES]]
    instances = kept_instances(folder, {record["instance_sha256"] for record in records})
    plans = _plans(folder, {record["run_key"] for record in records if record["has_plan"]})
    ends = time.perf_counter() + ALL_SECONDS
    parts = []
    for number, (case, record) in enumerate(zip(cases, records, strict=False)):
        instance = instances.get(record["instance_sha256"])
        if instance is not None:
            parts.append(_part(case.name, number, record, instance, plans, ends))
    text = _TEXT
    if len(cases) > MOST_CASES:
        text += f" The first {MOST_CASES} of {len(cases):,} cases."
    return Section("why", "Why, case by case", text, parts=tuple(parts)) if parts else None


def _plans(folder: Path, keys: Collection[str]) -> dict[str, dict[str, str]]:
    """Return where each task is in the plans of some runs, by key; plans of threads have none."""
    assignments = {}
    for key, result in read_results(folder, keys).items():
        plan = json.loads(result or "{}").get("plan") or {}
        assignments[key] = plan.get("assignment") or {}
    return assignments


def _part(
    title: str,
    number: int,
    record: Record,
    original: Instance,
    plans: dict[str, dict[str, str]],
    ends: float,
) -> Part:
    from optim.rules import without_limits

    instance = without_limits(original, [name for name in record["ignored"].split(", ") if name])
    if not record["has_plan"]:
        # no case takes what the others of the report need
        remaining = min(SECONDS, ends - time.perf_counter())
        return _conflicts(title, number, instance, remaining, proven=record["none_exists"])
    if not instance.num_tasks or not plans.get(record["run_key"]):
        return Part(title, f"the best plan is of threads, by {record['contestant']}")
    return _plan(title, number, record, instance, plans[record["run_key"]])


def _plan(
    title: str, number: int, record: Record, instance: Instance, assignment: dict[str, str]
) -> Part:
    from optim import Plan
    from streamplace.explain.explanation import why_plan

    node = Plan(instance.name, assignment).node_indices(instance)
    moved = int(((instance.tasks.node != node) & (instance.tasks.node >= 0)).sum())
    # each move undone is measured on the whole plan: moves × tasks steps
    few = moved * instance.num_tasks <= _MOST_WORK
    explanation = why_plan(instance, record["method"], node, record["objective_name"], worths=few)
    assert explanation.objective is not None
    assert explanation.evaluation is not None
    bound = record["best_bound"]
    reference = explanation.objective.reference_of(explanation.evaluation)
    gap = explanation.objective.gap(
        explanation.evaluation.objective(explanation.objective.name), bound, reference
    )
    summary = objective_line(instance, replace(explanation, bound=bound, gap=gap))
    note = (
        f"{summary}; {plural(moved, 'move')}, {plural(len(explanation.binding), 'rule')} that bind"
    )
    lines = [f"Plan of {record['contestant']}.", *_bottleneck_lines(instance, explanation)]
    if not few:
        lines.append("What single moves are worth is left out: too many moves of too many tasks.")
    return Part(title, note, tuple(lines), tuple(_tables(number, instance, explanation)))


def _bottleneck_lines(instance: Instance, explanation: Explanation) -> Iterator[str]:
    """Say where the bottleneck is: the fullest resource, and what the input fills first."""
    assert explanation.evaluation is not None
    shares = [
        (share, resource, node)
        for node, used in (explanation.evaluation.utilisation or {}).items()
        for resource, share in used.items()
    ]
    if shares:
        share, resource, node = max(shares)
        yield f"Bottleneck: {resource} of {node}, {figure(instance, 'share', share)} used."
    carries = carries_line(explanation.evaluation)
    if carries is not None:
        yield carries.plain.replace("bottleneck  ", "As the input grows, the bottleneck is ") + "."


_MOVE_COLUMNS = (
    *(Column(key, key.capitalize()) for key in ("task", "from", "to")),
    Column("worth", "Undone alone"),
)
_BINDING_COLUMNS = (
    Column("rule", "Rule"), Column("where", "On"),
    Column("used", "Used", "number"), Column("available", "Of", "number"),
)  # fmt: skip
_CLASH_COLUMNS = (
    Column("rule", "Rule"), Column("where", "On"),
    Column("needed", "Needed"), Column("available", "Available"),
)  # fmt: skip


def _tables(number: int, instance: Instance, explanation: Explanation) -> Iterator[Table]:
    """Give the moves that are worth most, and the rules that leave no room."""
    assert explanation.objective is not None
    if explanation.moves:
        moves = tuple(
            row(*move_ends(instance, move), worth_text(instance, explanation.objective, move))
            for move in explanation.moves[:SHOWN]
        )
        title, more = "Moves, the most worth first", _more_text(len(explanation.moves), "move")
        yield Table(f"why-{number}-moves", title, _MOVE_COLUMNS, moves, more)
    if explanation.binding:
        rules = tuple(
            row(b.rule, b.where, b.used, b.available) for b in explanation.binding[:SHOWN]
        )
        title, more = "Rules that leave no room", _more_text(len(explanation.binding), "rule")
        yield Table(f"why-{number}-binding", title, _BINDING_COLUMNS, rules, more)


def _more_text(count: int, noun: str) -> str:
    return f"And {plural(count - SHOWN, f'more {noun}')}." if count > SHOWN else ""


def _conflicts(
    title: str, number: int, instance: Instance, seconds: float, *, proven: bool
) -> Part:
    from streamplace.explain.explanation import why_infeasible

    note = "infeasible" if proven else "no method has a plan"
    explanation = why_infeasible(instance, seconds) if seconds > 0 else None
    if explanation is not None and explanation.feasible and not proven:
        return Part(title, f"{note}, though one exists that keeps every rule")
    if explanation is None or not explanation.conflicts:
        return Part(title, f"{note}; the rules that conflict were not found in the time given")
    names = ", ".join(dict.fromkeys(rule.rule for rules in explanation.conflicts for rule in rules))
    helps = (
        f"Would help: {remedy_line(r)}." for r in (*explanation.relaxation, *explanation.remedies)
    )
    tables = (
        _conflict_table(f"why-{number}-{k}", instance, r)
        for k, r in enumerate(explanation.conflicts)
    )
    return Part(title, f"{note}: {names}", tuple(helps), tuple(tables))


def _conflict_table(key: str, instance: Instance, rules: tuple[Clash, ...]) -> Table:
    title = "Cannot hold together" if len(rules) > 1 else "Cannot hold"
    rows = tuple(row(r.rule, r.where, *clash_figures(instance, r)) for r in rules)
    return Table(key, title, _CLASH_COLUMNS, rows)


# -- what is written of a report: the page, Markdown, a folder of CSV files, the terminal ----------

_DARKEST = 0.5
_WHOLE = 24  # Characters of a text that is not broken into lines.


def to_html(report: Report) -> str:
    """Return the page; every text from the rows is escaped."""
    from jinja2 import Environment, StrictUndefined

    environment = Environment(
        autoescape=True, undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True
    )
    environment.filters |= {
        "listed_rows": _rows,
        "cell": _cell,
        "breakable": _breakable,
        "data": lambda svg: f"data:image/svg+xml;base64,{b64encode(svg.encode()).decode()}",
    }
    template, style = (
        files("experiments.report").joinpath(name).read_text("utf-8")
        for name in ("report.html.j2", "report.css")
    )
    return environment.from_string(template).render(report=report, style=style)


def _cell(cell: Cell, column: Column) -> Markup:
    """Return a cell of a page; no macro, as a page may have a hundred thousand."""
    text, shade = show(cell.value, column.kind), _shade(cell)
    of = [
        column.kind,
        "num" if column.numeric else "",
        "best" if cell.best else "",
        "none" if cell.value is None or text == "0" else "",
        "whole" if column.kind == "text" and len(text) <= _WHOLE else "",
    ]
    parts = [f'<td class="{" ".join(filter(None, of))}"']
    parts += [f' style="--shade:{shade}">' if shade else ">", html(text)]
    measure = unit(cell.value, column.kind) if column.kind == "duration" else ""
    parts += [f'<span class="unit">{html(measure)}</span>'] if measure else []
    note = f'<span class="note">{html(cell.note)}</span>' if cell.note else ""
    return Markup("".join([*parts, " " if note and text else "", note, "</td>"]))


def _shade(cell: Cell) -> str:
    """Return how strongly a cell is shaded, between 0 and 1, the root making small gaps visible."""
    if cell.distance is None or cell.distance <= 0:
        return ""
    return f"{_DARKEST * min(1.0, cell.distance) ** 0.7:.3f}"


def _breakable(text: str) -> list[str]:
    """Return the parts of a heading between which a line may break."""
    head, bracket, tail = text.partition(" [")
    return [head, f"[{tail}"] if bracket else [text]


def _rows(table: Table) -> Iterator[tuple[tuple[Cell, ...], str]]:
    """Return the rows that are shown, each with its classes."""
    before = None
    for number, cells in enumerate(table.rows):
        first = cells[0].value
        classes = []
        if table.lead > 1 and before is not None and first != before:
            classes.append("next")
        if table.last_is_summary and number == len(table.rows) - 1:
            classes.append("summary")
        before = first
        yield cells, " ".join(classes)


# -- the opening in a terminal ---------------------------------------------------------------------


def print_report(report: Report, console: Console) -> None:
    """Print the summary and the opening tables; those too wide are printed in parts."""
    console.print(Text(printable(report.title), style="bold"))
    for sentence in report.summary:
        console.print(Text(printable(sentence)))
    for table in report.sections[0].tables[:2] if report.sections else ():
        short = brief(table)
        for number, part in enumerate(split(short, console.width)):
            console.print()
            more = ", continued" if number else ""
            console.print(Text(printable(short.heading + more), style="bold"))
            console.print(grid(part, units=not short.unit))
        if short.caption:
            console.print(Text(printable(short.caption), style="dim"))


def brief(table: Table) -> Table:
    """Return a table without details: columns left out, remarks behind numbers as a star."""
    table = table.shown
    chosen = [number for number, column in enumerate(table.columns) if not column.detail]
    rows = tuple(tuple(_brief(row[i], table.columns[i]) for i in chosen) for row in table.rows)
    starred = any(cell.note == STAR for row in rows for cell in row)
    marked = any(OTHER in column.label for column in table.columns) or any(
        cell.note == OTHER for row in rows for cell in row
    )
    caption = " · ".join(
        [f"{STAR} not reported as optimal, or not by all runs: see the report"] * starred
        + [f"{OTHER} optimises something else"] * marked
    )
    columns = tuple(table.columns[i] for i in chosen)
    return replace(table, columns=columns, rows=rows, caption=caption)


def _brief(cell: Cell, column: Column) -> Cell:
    if column.numeric and cell.note:
        short = cell.note.split(" (")[0] if cell.value is None else STAR
        return cell._replace(note=short)
    return cell


# -- files -----------------------------------------------------------------------------------------

_SUFFIXES = (".html", ".htm")


def check_output(output: str | Path) -> Path:
    """Return where the page goes, before any work is done for it.

    Raises `InvalidInput`: it does not end in ``.html``, is a folder, or lies in none.
    """
    path = Path(output)
    if path.is_dir():
        raise _refused(path, "is a folder", f"name a file, such as {path / 'report.html'}")
    if path.suffix.lower() not in _SUFFIXES:
        reason = "does not end in .html (Markdown and CSV are written beside it)"
        raise _refused(path, reason, f"write {path.with_suffix('.html')}")
    if not path.absolute().parent.is_dir():
        raise _refused(path, "lies in a folder that does not exist", "make it first")
    tables = tables_folder(path)
    if tables.exists() and not tables.is_dir():
        reason = f"needs {tables.name} beside it for the CSV files, which is no folder"
        raise _refused(path, reason, "choose another name")
    return path


def _refused(path: Path, reason: str, remedy: str) -> InvalidInput:
    return InvalidInput(Problem("--output", str(path), reason, remedy))


def tables_folder(output: Path) -> Path:
    """Return the folder of the CSV files: ``report.html`` has ``report-tables``."""
    return output.with_name(f"{output.stem}-tables")


def write_report(report: Report, output: Path) -> list[Path]:
    """Write all files, each whole or not at all; the page comes last.

    Returns the page, the Markdown file and the folder of CSV files.
    Raises `InvalidInput`: a file cannot be written.
    """
    folder = tables_folder(output)

    def csv_name(table: Table) -> str:
        return f"{folder.name}/{table.key}.csv".replace(" ", "%20")

    page, markdown = to_html(report), report_markdown(report, csv_name)
    _make_folder(folder, "--output", "choose another place")
    for table in report.tables:
        write_atomic(folder / f"{table.key}.csv", to_csv(table))
    write_atomic(output.with_suffix(".md"), markdown)
    write_atomic(output, page)
    return [output, output.with_suffix(".md"), folder]


def figures_folder(text: str | Path) -> Path:
    """Return the folder of figure files, before any work is done for it.

    Raises `InvalidInput`: it cannot be made.
    """
    return _make_folder(Path(text), "--figures", "choose another")


def _make_folder(folder: Path, argument: str, remedy: str) -> Path:
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        reason = f"cannot be made: {error.strerror}"
        raise InvalidInput(Problem(argument, str(folder), reason, remedy)) from None
    return folder


def write_drawings(report: Report, folder: Path) -> None:
    """Write every figure as SVG and as PDF, each whole or not at all."""
    for section in report.sections:
        for shown in section.figures:
            write_atomic(folder / f"{shown.key}.svg", shown.drawing.svg)
            write_atomic(folder / f"{shown.key}.pdf", to_pdf(shown.drawing.figure))


def write_latex(report: Report, folder: Path) -> None:
    """Write every table for LaTeX, each whole or not at all."""
    for table in report.tables:
        write_atomic(folder / f"{table.key}.tex", to_latex(table))


def report_markdown(report: Report, csv_name: Callable[[Table], str]) -> str:
    """Return the report as Markdown, with the tables of its figures; `csv_name` names CSV files."""
    parts = [f"# {escape(report.title)}", *(escape(sentence) for sentence in report.summary)]
    for section in report.sections:
        parts.append(f"## {escape(section.title)}")
        parts += [escape(section.text)] if section.text else []
        captions = {figure.table.key: figure for figure in section.figures}
        for table in section.all_tables:
            figure = captions.get(table.key)
            parts.append(f"### {escape(figure.title if figure else table.shown.heading)}")
            parts.append(to_markdown(table))
            caption = " ".join(filter(None, (figure.caption if figure else "", table.caption)))
            parts.append(f"{escape(caption)} ([CSV]({csv_name(table)}))".strip())
        for part in section.parts:
            parts.append(f"### {escape(part.title)}: {escape(part.note)}")
            parts += [escape(line) for line in part.lines]
            for table in part.tables:
                parts += [f"#### {escape(table.shown.heading)}", to_markdown(table)]
                parts += [escape(table.caption)] if table.caption else []
    parts.append("## How this was made")
    parts.append("\n".join(f"- {escape(name)}: {escape(value)}" for name, value in report.facts))
    return "\n\n".join(parts) + "\n"
