"""Who competes on what: names the contestants and the cases of a sweep from its factors.

A *contestant* is a method with its options, its solver where several were tried, and every other
setting that differs between runs of one method on one case. A *case* is one problem: the content
of an instance, and the limits that a run was told to ignore.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

from experiments.report.database import ask, distinct
from experiments.sweep.store import literal

if TYPE_CHECKING:
    from collections.abc import Sequence

    from duckdb import DuckDBPyConnection

_NEVER_A_CASE = frozenset({"method", "method_label", "solver", "seed", "instance"})
_IN_THE_LABEL = frozenset({"method", "method_label", "solver", "seed", "instance"})
_SHOWN_SHA = 8
_MOST_NAMES = 3


@dataclass(frozen=True)
class Case:
    """One problem that the contestants tried.

    Attributes
    ----------
    problem
        Its key: the hash of the instance's content, whatever it is called, followed by the ignored
        limits where there are any.
    instance
        The instance's name; of equal instances all names, or how many.
    levels
        What tells it from the other cases of the same name, one text per name in
        `Labels.level_names`; empty where a name does not apply.
    num_tasks, num_nodes
        Its size.
    """

    problem: str
    instance: str
    levels: tuple[str, ...]
    num_tasks: int | None
    num_nodes: int | None

    @property
    def name(self) -> str:
        """Return a short name, such as ``Q3 · 0.9``."""
        return " · ".join([self.instance, *(level for level in self.levels if level)])


@dataclass(frozen=True)
class Labels:
    """Cases in natural order, and the names of what tells them apart."""

    cases: tuple[Case, ...]
    level_names: tuple[str, ...]

    def case(self, problem: str) -> Case:
        """Return the case with this key."""
        return self._by_problem[problem]

    @cached_property
    def _by_problem(self) -> dict[str, Case]:
        return {case.problem: case for case in self.cases}


def natural_key(text: str) -> list[tuple[int, float, str]]:
    """Return a sorting key that puts ``Q2`` before ``Q10`` and 0.5 before 0.75."""
    parts = re.split(r"(\d+(?:\.\d+)?)", text)
    return [
        (0, float(part), "") if index % 2 else (1, 0.0, part.casefold())
        for index, part in enumerate(parts)
    ]


def factor_names(con: DuckDBPyConnection) -> list[str]:
    """Return the names of all factors in the table ``sweep_rows``."""
    text = "SELECT DISTINCT unnest(map_keys(factors)) AS name FROM sweep_rows ORDER BY name"
    return [row["name"] for row in ask(con, text)]


def case_factors(con: DuckDBPyConnection, names: Sequence[str]) -> list[str]:
    """Return the factors that belong to the instance: one value on each, several in the sweep."""
    names = [name for name in names if name not in _NEVER_A_CASE]
    inside = _varying(con, names, "instance_sha256")
    overall = _varying(con, names)
    return [name for name in names if name in overall and name not in inside]


def setting_factors(con: DuckDBPyConnection, names: Sequence[str]) -> list[str]:
    """Return the factors that differ between runs of one method, solver, seed and instance."""
    names = [name for name in names if name not in _IN_THE_LABEL]
    group = "instance_sha256, method_label, coalesce(solver, factors['solver'], ''), seed"
    varying = _varying(con, names, group)
    return [name for name in names if name in varying]


def _varying(con: DuckDBPyConnection, names: Sequence[str], group: str = "") -> set[str]:
    """Return the factors with several values within a group of rows; absent is one of them."""
    if not names:
        return set()
    values = [f"coalesce(factors[{literal(name)}], '')" for name in names]
    several = ", ".join(f"min({v}) <> max({v}) AS f{i}" for i, v in enumerate(values))
    any_of = ", ".join(f"bool_or(f{i}) AS f{i}" for i in range(len(values)))
    grouped = f"SELECT {several} FROM sweep_rows" + (f" GROUP BY {group}" if group else "")
    (found,) = ask(con, f"SELECT {any_of} FROM ({grouped})")
    return {name for i, name in enumerate(names) if found[f"f{i}"]}


def contestant_expression(settings: Sequence[str]) -> str:
    """Return the SQL text of a contestant's name.

    Needs the columns ``method_label``, ``used_solver``, ``num_solvers`` and ``factors``.
    """
    parts = [
        "method_label",
        "CASE WHEN num_solvers > 1 THEN ' [' || used_solver || ']' END",
        *(f"{literal(f' {name}=')} || factors[{literal(name)}]" for name in settings),
    ]
    return f"concat({', '.join(parts)})"  # which leaves out what is NULL


def read_labels(con: DuckDBPyConnection, case_names: Sequence[str]) -> Labels:
    """Name the cases of the table ``runs``.

    Parameters
    ----------
    con
        The database.
    case_names
        The factors that belong to the instance, from `case_factors`.
    """
    levels = [
        f"{distinct(f'factors[{literal(name)}]')} AS level{i}" for i, name in enumerate(case_names)
    ]
    columns = ", ".join(
        [
            "problem",
            f"{distinct('instance')} AS instances",
            "min(ignored) AS ignored",
            "max(num_tasks) AS num_tasks",
            "max(num_nodes) AS num_nodes",
            *levels,
        ]
    )
    rows = ask(con, f"SELECT {columns} FROM runs GROUP BY problem")
    names = tuple(case_names)
    if len({row["ignored"] for row in rows}) > 1:
        names = (*names, "ignored limits")
    cases = []
    for row in rows:
        found = tuple(_joined(row[f"level{i}"]) for i in range(len(case_names)))
        if len(names) > len(case_names):
            found = (*found, row["ignored"])
        cases.append(
            Case(
                row["problem"],
                _joined(row["instances"]),
                found,
                row["num_tasks"],
                row["num_nodes"],
            )
        )
    cases.sort(
        key=lambda case: ([natural_key(t) for t in (case.instance, *case.levels)], case.problem)
    )
    return Labels(*_told_apart(cases, names))


def _joined(texts: Sequence[str]) -> str:
    """Return one text for those of equal instances."""
    if len(texts) <= _MOST_NAMES:
        return ", ".join(texts)
    return f"{texts[0]} and {len(texts) - 1} equal ones"


def _told_apart(
    cases: list[Case], names: tuple[str, ...]
) -> tuple[tuple[Case, ...], tuple[str, ...]]:
    """Add the beginning of the sha256 where two cases would else have the same name."""
    if len({case.name for case in cases}) == len(cases):
        return tuple(cases), names
    longer = [
        Case(
            case.problem,
            case.instance,
            (*case.levels, case.problem[:_SHOWN_SHA]),
            case.num_tasks,
            case.num_nodes,
        )
        for case in cases
    ]
    return tuple(longer), (*names, "sha256")
