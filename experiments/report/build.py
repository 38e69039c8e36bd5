"""From the rows of a sweep to the whole report: graded, asked, laid out."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from experiments.report.chance import chance_section
from experiments.report.comparison import gap_section, outcome_section
from experiments.report.curves import figure_section
from experiments.report.document import Report, Section
from experiments.report.findings import Findings, gather
from experiments.report.formats import listed
from experiments.report.grading import grade
from experiments.report.opening import metric_section
from experiments.report.summary import summarise
from experiments.report.views import define_views
from experiments.report.why import why_section

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from duckdb import DuckDBPyConnection

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
        Is told what is being done.

    Raises
    ------
    experiments.report.grading.ContradictoryRuns
        Runs contradict one another; nothing is reported from them.
    """
    tell("grading the runs against each other")
    labels = define_views(con)
    grade(con)
    tell("comparing the methods")
    return gather(con, labels)


def make_report(findings: Findings, folder: Path | None = None) -> Report:
    """Lay out the report.

    Parameters
    ----------
    findings
        What the rows say.
    folder
        Result folder: what it keeps of instances is explained, case by case.
    """
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
    sweep = findings.sweep
    hosts = sweep["hosts"]
    told_hosts = listed(hosts[:_MANY]) + (
        f" and {len(hosts) - _MANY} more" if len(hosts) > _MANY else ""
    )
    found = [
        ("Sweep", listed(sweep["sweeps"])),
        ("Rows", str(sweep["num_runs"])),
        ("Started", f"{sweep['first_start']} to {sweep['last_start']} UTC"),
        ("Hosts" if len(hosts) > 1 else "Host", told_hosts),
    ]
    found += [(f"Version: {name}", listed(values)) for name, values in _versions(findings)]
    return tuple(found)


def _versions(findings: Findings) -> list[tuple[str, list[str]]]:
    """Return every component's versions; more than one means that the runs are of two minds."""
    found: dict[str, set[str]] = {}
    for text in findings.sweep["versions"]:
        try:
            content = json.loads(text)
        except ValueError:
            content = None
        for name, version in content.items() if isinstance(content, dict) else ():
            found.setdefault(str(name), set()).add(str(version))
    return [(name, sorted(found[name])) for name in sorted(found)]
