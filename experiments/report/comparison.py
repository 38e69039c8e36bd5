"""Methods against each other on what they optimise, and what became of every run."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from experiments.report.document import Section, slug
from experiments.report.findings import ranking
from experiments.report.formats import first_line
from experiments.report.opening import VIRTUAL_BEST
from experiments.report.queries import FAILURES
from experiments.report.views import UNSUITABLE
from experiments.report.words import KINDS, OBJECTIVES, VERDICTS, gap_words, shift_text
from optim.figures import catalogue
from streamplace.present.table import Cell, Column, Kind, Table, Value, row

if TYPE_CHECKING:
    from experiments.report.findings import Findings, Record

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
