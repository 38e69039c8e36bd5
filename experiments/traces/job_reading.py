"""Read a job description table by table; everything that is wrong is told at once."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from experiments.traces.cluster_reading import read_cluster, read_units
from experiments.traces.functions import TYPES, check_functions
from experiments.traces.grammar import ExpressionFault, parse
from experiments.traces.job import (
    FORMAT,
    Edge,
    Events,
    Expression,
    Files,
    Input,
    Job,
    Join,
    OperatorSpec,
    format_of,
)
from experiments.traces.period_reading import read_calendar, read_zone

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from experiments.sweep.checking import Checker

MAX_KEY_GROUPS = 1_000_000

_TOP = ("format", "name", "description", "period", "events", "operator", "edge", "cluster")
_FILES = ("path", "format", "columns", "null", "delimiter", "multiline", "timezone")
_FORMATS = ("csv", "parquet", "jsonl")
_NAME = re.compile(r"[^\W\d]\w*")


class JobReader:
    """Reads the tables; problems go to the checker."""

    def __init__(self, checker: Checker) -> None:
        self.checker = checker
        self.zone = "UTC"

    def read(self, document: Any, base: Path, source: str) -> Job | None:
        """Read the whole file; ``None`` where too much is wrong to go on."""
        check = self.checker
        top = check.table(document, "$")
        if top is None:
            return None
        check.keys(top, "", (*_TOP, "limits", "units"))
        if top.get("format") != FORMAT:
            remedy = f'write format = "{FORMAT}"'
            check.add("format", top.get("format"), "is not understood", remedy)
        name = self._needed(top, "name", "")
        calendar = read_calendar(check, top.get("period"))
        self.zone = calendar.zone if calendar else "UTC"
        events = self._events(top.get("events"))
        # by their names: a recording that is wrong is told once, not again by who reads it
        names = list(top["events"]) if isinstance(top.get("events"), dict) else []
        operators = self._operators(top.get("operator"), names)
        edges = self._edges(top.get("edge", []), operators)
        cluster = read_cluster(check, top)
        if check.problems or calendar is None or name is None:
            return None
        return Job(
            name=name,
            calendar=calendar,
            events=tuple(events),
            operators=tuple(operators),
            edges=tuple(edges),
            cluster=cluster,
            description=str(top.get("description", "")),
            units=read_units(check, top.get("units", {})),
            base=base,
            document=top,
            source=source,
        )

    # -- events ----------------------------------------------------------------------------------

    def _events(self, value: Any) -> list[Events]:
        check = self.checker
        remedy = 'add [events.NAME] with path = "…" and time = "…"'
        if not value:
            check.add("events", None, "is missing", remedy)
            return []
        table = check.table(value, "events") or {}
        return [found for name in table if (found := self._recording(table[name], name))]

    def _recording(self, value: Any, name: str) -> Events | None:
        where = f"events.{name}"
        table = self.checker.table(value, where)
        if table is None or not self._name(name, where):
            return None
        self.checker.keys(table, where, (*_FILES, "time", "arrival", "join"))
        files = self._files(table, where)
        time = self._expression(table, "time", where)
        arrival = self._expression(table, "arrival", where) if "arrival" in table else None
        joins = self.checker.table(table.get("join", {}), f"{where}.join") or {}
        tables = [self._join(joins[key], key, f"{where}.join.{key}") for key in joins]
        if files is None or time is None:
            return None
        return Events(name, files, time, arrival, tuple(t for t in tables if t))

    def _join(self, value: Any, name: str, where: str) -> Join | None:
        check = self.checker
        table = check.table(value, where)
        if table is None or not self._name(name, where):
            return None
        check.keys(table, where, (*_FILES, "on"))
        files = self._files(table, where)
        if "on" not in table:
            check.add(f"{where}.on", None, "is missing", 'such as on = ["origin", "time_hour"]')
            return None
        pairs = []
        for i, item in enumerate(check.items(table["on"], f"{where}.on") or []):
            sides = item if isinstance(item, list) else [item, item]
            if len(sides) != 2:
                check.add(f"{where}.on[{i}]", item, "must be one expression, or a pair")
                continue
            mine, theirs = (self._parsed(side, f"{where}.on[{i}]") for side in sides)
            if mine and theirs:
                pairs.append((mine, theirs))
        return Join(name, files, tuple(pairs)) if files and pairs else None

    def _files(self, table: dict[str, Any], where: str) -> Files | None:
        check = self.checker
        path = self._needed(table, "path", where)
        kind = table.get("format", "" if path is None else _by_ending(path))
        if path is not None and kind not in _FORMATS:
            given = table.get("format")
            reason = "is no format" if given else "is missing, and the path does not tell it"
            check.add(f"{where}.format", given, reason, f"one of {', '.join(_FORMATS)}")
        columns = check.table(table.get("columns", {}), f"{where}.columns") or {}
        for name, value in columns.items():
            if value not in TYPES:
                remedy = f"one of {', '.join(TYPES)}"
                check.add(f"{where}.columns.{name}", value, "is no type", remedy)
        null, delimiter = table.get("null"), table.get("delimiter", ",")
        if null is not None and not isinstance(null, str):
            check.add(f"{where}.null", null, "must be a text")
        if not isinstance(delimiter, str) or len(delimiter) != 1 or delimiter in '"\n\r\\':
            check.add(f"{where}.delimiter", delimiter, "must be one character")
        multiline = table.get("multiline", False)
        if not isinstance(multiline, bool):
            check.add(f"{where}.multiline", multiline, "must be true or false")
        elif multiline and kind != "csv":
            check.add(f"{where}.multiline", multiline, "is of use for CSV only", "remove it")
        zone = read_zone(check, table.get("timezone", self.zone), f"{where}.timezone")
        if path is None or check.problems:
            return None
        return Files(where, path, str(kind), columns, null, delimiter, zone, multiline)

    # -- operators and edges ---------------------------------------------------------------------

    def _operators(self, value: Any, events: Sequence[str]) -> list[OperatorSpec]:
        check = self.checker
        if not value:
            check.add("operator", None, "is missing", "add [[operator]] with id, key, key_groups")
            return []
        found: list[OperatorSpec] = []
        for i, item in enumerate(check.items(value, "operator") or []):
            operator = self._operator(item, f"operator[{i}]", events)
            if operator is None:
                continue
            if operator.id in [other.id for other in found]:
                check.add(f"operator[{i}].id", operator.id, "stands twice")
            found.append(operator)
        return found

    def _operator(self, value: Any, where: str, events: Sequence[str]) -> OperatorSpec | None:
        check = self.checker
        table = check.table(value, where)
        if table is None:
            return None
        own = ("events", "key", "cost", "state")
        check.keys(table, where, ("id", "key_groups", "null_key", "input", *own))
        name = self._needed(table, "id", where)
        groups = None
        if "key_groups" in table:
            groups = check.whole(table["key_groups"], f"{where}.key_groups", 1, MAX_KEY_GROUPS)
        else:
            check.add(f"{where}.key_groups", None, "is missing", "such as key_groups = 100")
        null_key = table.get("null_key", "drop")
        if null_key not in ("drop", "group"):
            check.add(f"{where}.null_key", null_key, "is not known", "drop or group")
        if "input" in table:
            for key in own:
                if key in table:
                    check.add(f"{where}.{key}", None, "stands beside input", "put it into one")
            items = check.items(table["input"], f"{where}.input") or []
            read = [self._input(v, f"{where}.input[{i}]", events) for i, v in enumerate(items)]
        else:
            read = [self._input({k: table[k] for k in own if k in table}, where, events)]
        inputs = tuple(i for i in read if i)
        for i, entry in enumerate(inputs):
            if entry.events in [other.events for other in inputs[:i]]:
                check.add(f"{where}.input[{i}].events", entry.events, "stands twice")
        if name is None or groups is None:
            return None
        return OperatorSpec(name, groups, inputs, null_key)

    def _input(self, value: Any, where: str, events: Sequence[str]) -> Input | None:
        check = self.checker
        table = check.table(value, where)
        if table is None:
            return None
        check.keys(table, where, ("events", "key", "cost", "state"))
        name = self._recording_name(table.get("events"), f"{where}.events", events)
        key = self._expression(table, "key", where)
        cost = self._parsed(table.get("cost", 1), f"{where}.cost")
        state = self._parsed(table["state"], f"{where}.state") if "state" in table else None
        return Input(name, key, cost, state) if name and key and cost else None

    def _recording_name(self, value: Any, where: str, events: Sequence[str]) -> str | None:
        if value is None and len(events) == 1:
            return events[0]
        if value in events:
            return str(value)
        if events:
            reason = "is missing" if value is None else "is no recording"
            self.checker.add(where, value, reason, f"one of {', '.join(events)}")
        return None

    def _edges(self, value: Any, operators: Sequence[OperatorSpec]) -> list[Edge]:
        check = self.checker
        if not isinstance(value, list):
            check.add("edge", value, "must be a list", "write [[edge]]")
            return []
        found: list[Edge] = []
        for i, item in enumerate(value):
            edge = self._edge(item, f"edge[{i}]", {o.id: o for o in operators})
            if edge is None:
                continue
            if (edge.source, edge.target) in [(e.source, e.target) for e in found]:
                check.add(f"edge[{i}]", f"{edge.source} → {edge.target}", "stands twice")
            found.append(edge)
        return found

    def _edge(self, value: Any, where: str, operators: dict[str, OperatorSpec]) -> Edge | None:
        check = self.checker
        table = check.table(value, where)
        if table is None:
            return None
        check.keys(table, where, ("from", "to", "rate", "events"))
        ends = []
        for key in ("from", "to"):
            name = self._needed(table, key, where)
            if name is not None and name not in operators:
                remedy = f"one of {', '.join(operators)}"
                check.add(f"{where}.{key}", name, "is no operator", remedy)
            ends.append(operators.get(name or ""))
        rate = self._parsed(table.get("rate", 1), f"{where}.rate")
        source, target = ends
        if source is None or target is None or rate is None:
            return None
        if source is target:
            check.add(where, source.id, "leads from an operator to itself")
            return None
        both = [i.events for i in source.inputs if target.input_of(i.events)]
        wanted = table.get("events", both)
        wanted = [wanted] if isinstance(wanted, str) else wanted
        if not both or not isinstance(wanted, list) or not set(map(str, wanted)) <= set(both):
            reason = "must reach both operators"
            remedy = f"these do: {', '.join(both)}" if both else "give both an input of the same"
            check.add(f"{where}.events", table.get("events"), reason, remedy)
            return None
        return Edge(where, source.id, target.id, tuple(dict.fromkeys(wanted)), rate)

    # -- single values ---------------------------------------------------------------------------

    def _needed(self, table: dict[str, Any], key: str, where: str) -> str | None:
        path = f"{where}.{key}" if where else key
        if key not in table:
            self.checker.add(path, None, "is missing", f'add {key} = "…"')
            return None
        return self.checker.text(table[key], path)

    def _name(self, name: str, where: str) -> bool:
        if _NAME.fullmatch(name):
            return True
        self.checker.add(where, name, "is no name", "letters, digits and _")
        return False

    def _expression(self, table: dict[str, Any], key: str, where: str) -> Expression | None:
        if key not in table:
            self.checker.add(f"{where}.{key}", None, "is missing", "add an expression")
            return None
        return self._parsed(table[key], f"{where}.{key}")

    def _parsed(self, value: Any, where: str) -> Expression | None:
        if isinstance(value, int | float) and not isinstance(value, bool):
            value = repr(value)
        if not isinstance(value, str):
            self.checker.add(where, value, "must be an expression", "a text or a number")
            return None
        try:
            node = parse(value)
            check_functions(node)
        except ExpressionFault as fault:
            self.checker.problems.append(fault.problem(where, value))
            return None
        return Expression(where, value, node)


def _by_ending(path: str) -> str:
    return format_of(path) or ("csv" if path.lower().endswith(".zip") else "")
