"""From the rows of a sweep to the whole report: graded, asked, laid out."""

from __future__ import annotations

import contextlib
import json
from typing import TYPE_CHECKING, cast

from experiments.report.figures import figure_section
from experiments.report.findings import Findings, gather, grade
from experiments.report.pairs import chance_section
from experiments.report.queries import define_views
from experiments.report.reasons import why_section
from experiments.report.tables import (
    VERDICTS,
    WORDS,
    Report,
    Section,
    first_line,
    gap_section,
    listed,
    metric_section,
    outcome_section,
    shortened,
)
from streamplace.present.numbers import plural
from streamplace.present.table import printable, with_unit

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from duckdb import DuckDBPyConnection

    from experiments.report.findings import MetricFindings
    from streamplace.present.table import Kind

_NAMED = 4
_LONGEST = 160
"""Characters of an error."""


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
    left = {name: item["undrained"] for name, item in findings.contestants.items()}
    told = [f"{name} ({count})" for name, count in left.items() if count]
    if not told:
        return ""
    more = f" and {len(told) - _NAMED} more" if len(told) > _NAMED else ""
    plans = plural(sum(left.values()), "plan")
    return f"Not drained: {plans} with tasks on leaving nodes, of {', '.join(told[:_NAMED])}{more}."


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
    """Say on how many cases the optimum is known, by which solver or proof, and what is left
    open.
    """
    name = WORDS[metric.name].heading.lower()
    cases, none = len(findings.labels.cases), len(findings.infeasible)
    rows = [row for problem, row in metric.status.items() if problem not in findings.infeasible]
    proved = sum(row["optimum"] is not None for row in rows)
    if not proved:
        return f"No run ended at an optimal {name}."
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
    best = min(
        counts, key=lambda name: (-counts[name], times[name] is None, times[name] or 0.0, name)
    )
    many = f"all {proved}" if counts[best] == proved else f"{counts[best]} of these"
    many = "it" if proved == 1 else many
    if times[best] is None:  # values that were given, not found here
        return f"{best} has {many}."
    return f"{best} found {many} (mean time of a run {with_unit(times[best], 'duration')})."


def _reached(findings: Findings, metric: MetricFindings) -> str:
    """Say what methods without proofs reach on average, and in what time.

    The first metric is what the report opens with: there all are named that do not prove. Of
    the others only methods are named that optimise it.
    """
    words = WORDS[metric.name]
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
    parts = [f"{mean} on average (worst {reach(first, 'worst_')}){_in_time(findings, first)}"]
    parts += [f"{name} {reach(name)}{above}{_in_time(findings, name)}" for name in others]
    return f"{words.heading}: {'; '.join(parts)}."


def _in_time(findings: Findings, name: str) -> str:
    tally = findings.contestants[name]
    seconds, plans, runs = tally["seconds"], tally["plans"], tally["solvable"]
    time = f" in {with_unit(seconds, 'duration')}" if seconds is not None else ""
    return time if plans == runs else f"{time}, with a plan in {plans} of {runs} runs"


def _failed(findings: Findings) -> str:
    """Name, before all else, the runs without an answer and why each ended."""
    failed = findings.failed
    if not failed:
        return ""
    told = []
    for item in failed[:_NAMED]:
        reason = shortened(first_line(item["error"]), _LONGEST)
        why = ": ".join(filter(None, (VERDICTS[item["verdict"]], reason)))
        case = findings.labels.case(item["problem"]).name
        told.append(f"{item['contestant']} on {case} ({why})")
    more = f"; and {len(failed) - _NAMED:,} more, listed at the end" if len(failed) > _NAMED else ""
    return f"{plural(len(failed), 'run')} failed: {'; '.join(told)}{more}."


# -- the whole report ------------------------------------------------------------------------------

_MANY = 5


def make_findings(
    con: DuckDBPyConnection, tell: Callable[[str], None] = lambda _: None
) -> Findings:
    """Grade the rows of a sweep and ask them everything.

    Parameters
    ----------
    con
        A database with at least one row, from `experiments.report.database.read_sweep`.
    tell
        Receives what is being done.

    Raises
    ------
    experiments.report.findings.ContradictoryRuns
        Runs contradict one another; nothing is reported from them.
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
