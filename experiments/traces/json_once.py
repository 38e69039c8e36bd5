"""JSON by lines, read once: the columns are taken from its first lines, and every line is held to.

Where a line does not agree, Spark stops, and the recording is read as `found_schema` finds it: that
also tells what is wrong. What is read once is the same to the letter, or is not read so at all.
"""

from __future__ import annotations

import json
from functools import reduce
from typing import TYPE_CHECKING, Any

from py4j.protocol import Py4JJavaError
from pyspark.errors import PySparkException
from pyspark.sql import functions as F
from pyspark.sql.types import StringType, StructField, StructType

from experiments.traces.grammar import Call, ColumnName, column_names
from experiments.traces.json_lines import judged_lines
from experiments.traces.lines import FAULT
from experiments.traces.recordings import UTF_8

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from pyspark.sql import Column, DataFrame, DataFrameReader

    from experiments.traces.grammar import Node
    from experiments.traces.recordings import Events, Expression

HEAD = 1000
"""Lines that tell the columns."""

_LONGEST = 10_000
"""Characters of these: what is longer is not brought to the driver."""

_STRAYS = "a line that is unlike the first ones"
_REWRITTEN = r"^-?\d+\.\d+(E-?\d+)?$|Infinity|NaN|^[\[{]"
_NOT_FINITE = r"Infinity|NaN|^[\[{]"
"""What a text looks like that may stand in the file in other letters: of numbers with a fraction
and of all that is nested this way of reading keeps the value only (``1.5`` for ``1.50``)."""


def read_once(
    reader: DataFrameReader, files: Events, paths: Sequence[str], expressions: Iterable[Expression]
) -> DataFrame | None:
    """Return the columns that expressions need, and `FAULT`, which stops at a line that strays.

    Parameters
    ----------
    reader
        That fails at what is not JSON.

    Returns
    -------
    DataFrame or None
        ``None`` where the first lines do not tell the columns, or hold what has to be read in
        other ways: another encoding, folders such as ``day=1``, lists.
    """
    nodes = [expression.node for expression in expressions]
    tables = [f"{join.name}." for join in files.joins]
    names = list(dict.fromkeys([*(n for e in nodes for n in column_names(e)), *files.columns]))
    if files.encoding != UTF_8 or files.read:
        return None
    try:
        lines = reader.text(list(paths))
        if lines.columns != ["value"]:
            return None
        first = _first(lines)
        places = {name: _place(name, first) for name in names}
        looked_up = [n for n in names if places[n] is None and n.startswith(tuple(tables))]
        found = {name: place for name, place in places.items() if place is not None}
        if not found or len(found) + len(looked_up) < len(names):
            return None
        # another reading of a name, which would have to be taken if any line had it
        others = {other for place in found.values() for other in _others(place)}
        for name in looked_up:
            others |= {(name,), (name.split(".", 1)[0],)}
        schema = _schema([*found.values(), *others])
        if schema is None:
            return None
        numbers = {name for name, kind in files.columns.items() if kind == "number"}
        text = (_as_text(nodes) | set(files.columns)) - numbers
        frame = reader.schema(schema).json(judged_lines(lines))
        strays = [_column(other).isNotNull() for other in others]
        for name, place in found.items():
            pattern = _REWRITTEN if name in text else _NOT_FINITE
            strays.append(F.coalesce(_column(place).rlike(pattern), F.lit(False)))
        any_one = reduce(lambda one, other: one | other, strays)
        fault = F.when(any_one, F.raise_error(F.lit(_STRAYS)).cast("string")).alias(FAULT)
        return frame.select(*(_column(place).alias(n) for n, place in found.items()), fault)
    except (PySparkException, Py4JJavaError, ValueError, RecursionError):
        return None


def _first(lines: DataFrame) -> list[dict[str, Any]]:
    """Return the objects of the first lines.

    Raises
    ------
    ValueError
        Some are none, or too long.
    """
    value = F.col("value")
    short = F.when(F.is_valid_utf8(value) & (F.length(value) <= _LONGEST), value)
    found = []
    for (line,) in lines.select(short).take(HEAD):
        if line is None:
            raise ValueError
        if line.strip():
            entry = json.loads(line)
            if not isinstance(entry, dict):
                raise ValueError
            found.append(entry)
    return found


Place = tuple[str, ...]
"""Names of fields, from the outermost one in."""


def _place(name: str, first: Sequence[Mapping[str, Any]]) -> Place | None:
    """Return where a name's values are; ``None`` where that is not the same in all lines."""
    for place in dict.fromkeys([(name,), tuple(name.split("."))]):
        values = [_value(entry, place) for entry in first]
        if any(isinstance(value, dict | list) for value in values):
            return None
        if any(value is not None for value in values):
            return place
    return None


def _value(entry: Any, place: Place) -> Any:
    for name in place:
        if entry is None:
            return None
        if not isinstance(entry, dict):
            return [entry]
        entry = entry.get(name)
    return entry


def _others(place: Place) -> Iterator[Place]:
    """Give the first fields of which the same name could come in another way (``a.b`` as one)."""
    for start in range(len(place)):
        for end in range(start + 2, len(place) + 1):
            yield (*place[:start], ".".join(place[start:end]))


def _schema(places: Iterable[Place]) -> StructType | None:
    """Return fields, all of them texts; ``None`` where one is asked for as a text and as fields."""
    tree: dict[str, Any] = {}
    for place in places:
        here = tree
        for name in place[:-1]:
            inner = here.setdefault(name, {})
            if inner is None:
                return None
            here = inner
        if here.setdefault(place[-1]) is not None:
            return None
    return _fields(tree)


def _fields(tree: Mapping[str, Any]) -> StructType:
    return StructType(
        [StructField(n, StringType() if t is None else _fields(t)) for n, t in tree.items()]
    )


def _column(place: Place) -> Column:
    return F.col(".".join("`" + name.replace("`", "``") + "`" for name in place))


def _as_text(nodes: Iterable[Node]) -> set[str]:
    """Return the columns whose letters count, and not the number that they write only."""
    found: set[str] = set()
    for node in nodes:
        if isinstance(node, ColumnName):
            found.add(node.name)
        elif isinstance(node, Call):
            of_number = node.function == "number"
            parts = (p for p in node.arguments if not (of_number and isinstance(p, ColumnName)))
            found |= _as_text(parts)
    return found
