"""Expressions as Spark columns. Only what stands here can reach Spark; texts become literals."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from pyspark.sql import functions as F

from experiments.traces.functions import type_of
from experiments.traces.grammar import ColumnName, Literal

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from pyspark.sql import Column

    from experiments.traces.grammar import Node

MICRO = 1_000_000
"""Costs, rates and states are summed in millionths, as whole numbers: sums of these do not depend
on the order of the events."""

_FROM_YEAR = r"^\s*\d{4}(-|\s*$)"
"""Spark would take a time without a date, or ``today``, and put in today's date; and ``201301`` for
a year."""

_LOCAL = r"^\s*\d{4}(-\d{1,2}){0,2}([T ][\d:.]*)?\s*$"
"""A moment that names no offset: nothing but digits after the date. Whatever else Spark can read
(``EST``, ``UTC+01:00``, ``Etc/GMT+5`` …) names one."""

_TO_THE_MINUTE = r"(?i)([T ]\d{1,2}:\d{2})(\s*(?:[a-z]|[+-]\d).*)$"
"""Spark takes minutes without seconds, but not before an offset."""

_DATED = (-62_135_596_800_000_000, 253_402_300_799_999_999)
"""Microseconds from 1970 to where the year 1 begins and the year 9999 ends."""

_SPARK_TYPES = {"text": "string", "whole": "bigint", "number": "double"}


@dataclass(frozen=True)
class Translator:
    """Turns checked expressions into columns.

    Attributes
    ----------
    columns
        Column and type by the name it has in expressions.
    types
        Types by name.
    zone
        Time zone of date parts.
    source_zone
        Time zone of moments without offset.
    decimal
        What stands before the fraction of a number in a text.
    """

    columns: Mapping[str, Column]
    types: Mapping[str, str]
    zone: str
    source_zone: str
    decimal: str = "."

    def __call__(self, node: Node) -> Column:
        """Return the column of an expression that `type_of` has accepted."""
        if isinstance(node, Literal):
            whole = isinstance(node.value, int)
            return F.lit(node.value).cast("bigint") if whole else F.lit(node.value)
        if isinstance(node, ColumnName):
            return self.columns[node.name]
        given = [self(part) for part in node.arguments]
        kinds = [type_of(part, self.types) for part in node.arguments]
        if node.function in _PARTS:
            return _PARTS[node.function](F.from_utc_timestamp(given[0], self.zone))
        if node.function in ("hash", "concat", "text"):
            given = [as_text(column, kind) for column, kind in zip(given, kinds, strict=True)]
        if node.function == "time":
            return given[0] if kinds[0] == "time" else moment(given[0], self.source_zone)
        if node.function == "number" and kinds[0] == "text":
            return pointed(given[0], self.decimal).try_cast("double")
        if node.function == "timestamp":
            return self._timestamp(given)
        return _PLAIN[node.function](*given)

    def _timestamp(self, given: list[Column]) -> Column:
        parts = [part.try_cast("int") for part in given]
        parts += [F.lit(0)] * (6 - len(parts))
        year, month, day, hour, minute, second = parts
        year = F.when(year.between(1, 9999), year)
        local = F.try_make_timestamp(year, month, day, hour, minute, second, F.lit("UTC"))
        return F.to_utc_timestamp(local, self.source_zone)


def as_text(column: Column, kind: str) -> Column:
    """Return values as texts; a moment as its microseconds since 1970."""
    if kind == "time":
        return F.unix_micros(column).cast("string")
    return column.cast("string")


def moment(column: Column, zone: str) -> Column:
    """Return texts as moments; null where one is none, `zone` where it names no offset."""
    full = F.regexp_replace(F.trim(column), _TO_THE_MINUTE, "$1:00$2")
    parsed = dated(F.when(column.rlike(_FROM_YEAR), full).try_cast("timestamp"))
    return F.when(column.rlike(_LOCAL), F.to_utc_timestamp(parsed, zone)).otherwise(parsed)


def dated(moments: Column) -> Column:
    """Return moments of the years 1 to 9999; null for others, where sums of time overflow."""
    return F.when(F.unix_micros(moments).between(*_DATED), moments)


def pointed(column: Column, decimal: str) -> Column:
    """Return texts of numbers with a point before the fraction; null where one stands already."""
    if decimal == ".":
        return column
    return F.when(~column.contains("."), F.replace(column, F.lit(decimal), F.lit(".")))


def typed(column: Column, kind: str, zone: str, decimal: str = ".") -> Column:
    """Return texts as values of a type; null where one is none."""
    if kind == "time":
        return moment(column, zone)
    if kind == "number":
        column = pointed(column, decimal)
    return column if kind == "text" else F.trim(column).try_cast(_SPARK_TYPES[kind])


def key_group(key: Column, key_groups: int) -> Column:
    """Return the key group of keys as texts; null for null."""
    group = F.pmod(F.xxhash64(key), F.lit(key_groups)).cast("int")
    return F.when(key.isNotNull(), group)


def micros(column: Column) -> Column:
    """Return amounts in millionths; null where one is no finite number, or too large."""
    return F.round(column.cast("double") * MICRO).try_cast("bigint")


def _hash(*texts: Column) -> Column:
    present = texts[0].isNotNull()
    for text in texts[1:]:
        present = present & text.isNotNull()
    return F.when(present, F.xxhash64(*texts))


def _at_least_two(function: Callable[..., Column]) -> Callable[..., Column]:
    """Return a function that also takes a single argument; null if any argument is null."""

    def apply(*given: Column) -> Column:
        present = given[0].isNotNull()
        for column in given[1:]:
            present = present & column.isNotNull()
        return F.when(present, function(*given)) if len(given) > 1 else given[0]

    return apply


def _of_64_bits(number: Column) -> Column:
    """Return numbers that a whole one can hold; null for others, which Spark stops at."""
    return F.when(number.try_cast("bigint").isNotNull(), number)


def _epoch(given: Column, micros_each: int) -> Column:
    return dated(F.timestamp_micros((given.cast("double") * micros_each).try_cast("bigint")))


def _remainder(left: Column, right: Column) -> Column:
    return F.when(right != 0, F.pmod(left, F.when(right != 0, right)))


_PLAIN: Mapping[str, Callable[..., Column]] = {
    "+": F.try_add,
    "-": F.try_subtract,
    "*": F.try_multiply,
    "/": lambda a, b: F.try_divide(a.cast("double"), b.cast("double")),
    "%": _remainder,
    "neg": lambda a: F.try_subtract(F.lit(0), a),
    "hash": _hash,
    "concat": F.concat,
    "coalesce": F.coalesce,
    "least": _at_least_two(F.least),
    "greatest": _at_least_two(F.greatest),
    "abs": lambda a: F.when(a < 0, F.try_subtract(F.lit(0), a)).otherwise(a),
    "floor": lambda a: F.floor(_of_64_bits(a)).cast("bigint"),
    "ceil": lambda a: F.ceil(_of_64_bits(a)).cast("bigint"),
    "round": lambda a: F.round(a).try_cast("bigint"),
    "length": lambda a: F.length(a).cast("bigint"),
    "lower": F.lower,
    "upper": F.upper,
    "trim": F.trim,
    "substring": lambda a, b, n: F.substring(a, b.try_cast("int"), n.try_cast("int")),
    "text": lambda a: a,
    "number": lambda a: a.try_cast("double"),
    "epoch": lambda a: _epoch(a, MICRO),
    "epoch_ms": lambda a: _epoch(a, 1000),
}

_PARTS: Mapping[str, Callable[[Column], Column]] = {
    "year": lambda t: F.year(t).cast("bigint"),
    "month": lambda t: F.month(t).cast("bigint"),
    "day": lambda t: F.dayofmonth(t).cast("bigint"),
    "dayofyear": lambda t: F.dayofyear(t).cast("bigint"),
    "weekday": lambda t: F.weekday(t).cast("bigint"),
    "week": lambda t: F.weekofyear(t).cast("bigint"),
    "hour": lambda t: F.hour(t).cast("bigint"),
    "minute": lambda t: F.minute(t).cast("bigint"),
    "second": lambda t: F.second(t).cast("bigint"),
    "date": lambda t: F.date_format(t, "yyyy-MM-dd"),
}
