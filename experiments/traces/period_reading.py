"""Read the ``[period]`` table of a job description."""

from __future__ import annotations

from datetime import date, datetime, time
from typing import TYPE_CHECKING, Any
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from experiments.traces.periods import Calendar, Length

if TYPE_CHECKING:
    from experiments.sweep.checking import Checker

_KEYS = ("length", "timezone", "start", "end", "late", "lateness")
_LATE = ("keep", "drop", "move")
_NO_ZONES = ("/", ".", "right/", "posix", "localtime", "Factory", "ROC")
"""Beginnings of paths, and of names that Python knows where the system does, but Java does not."""


def read_calendar(check: Checker, value: Any) -> Calendar | None:
    """Return the periods; problems go to the checker."""
    remedy = 'add [period] with length = "1 day"'
    if value is None:
        check.add("period", None, "is missing", remedy)
        return None
    table = check.table(value, "period")
    if table is None:
        return None
    check.keys(table, "period", _KEYS)
    zone = read_zone(check, table.get("timezone", "UTC"), "period.timezone")
    length = None
    if "length" in table:
        length = _length(check, table["length"], "period.length")
    else:
        check.add("period.length", None, "is missing", 'such as length = "1 day"')
    start, end = (_moment(check, table.get(key), f"period.{key}", zone) for key in ("start", "end"))
    late = table.get("late", "keep")
    if late not in _LATE:
        check.add("period.late", late, "is not known", f"one of {', '.join(_LATE)}")
    lateness = 0.0
    if "lateness" in table and table["lateness"] not in (0, "0"):
        allowed = _length(check, table["lateness"], "period.lateness")
        if allowed and allowed.months:
            reason = "must be a fixed time"
            check.add("period.lateness", table["lateness"], reason, "such as 30 days")
        elif allowed:
            lateness = allowed.micros / 1e6 + 86400.0 * allowed.days
    if start and end and end <= start:
        check.add("period.end", str(table["end"]), "must lie after period.start")
    if length is None:
        return None
    if start and length.of_calendar:
        local = start.astimezone(ZoneInfo(zone))
        if local.time() != time():
            reason = f"must be a midnight in {zone} for periods of the calendar"
            check.add("period.start", str(table["start"]), reason)
        elif length.months and local.day != 1:
            reason = "must be the first of a month for periods of months"
            check.add("period.start", str(table["start"]), reason)
    return Calendar(length, zone, start, end, str(late), lateness)


def read_zone(check: Checker, value: Any, where: str) -> str:
    """Return a time zone's name."""
    try:
        if not isinstance(value, str) or not value or value.startswith(_NO_ZONES):
            raise ValueError
        ZoneInfo(value)
    except (ValueError, ZoneInfoNotFoundError, OSError):
        check.add(where, value, "is no time zone", "such as UTC or America/New_York")
        return "UTC"
    return value


def _length(check: Checker, value: Any, where: str) -> Length | None:
    try:
        if isinstance(value, bool) or not isinstance(value, str | int | float):
            raise ValueError("is no length")
        return Length.parse(value if isinstance(value, str) else f"{value} s")
    except ValueError as error:
        check.add(where, value, str(error), "such as 15 min, 1 h, 1 day, 1 week or 1 month")
        return None


def _moment(check: Checker, value: Any, where: str, zone: str) -> datetime | None:
    if value is None:
        return None
    try:
        if isinstance(value, str):
            value = datetime.fromisoformat(value)
        elif isinstance(value, date) and not isinstance(value, datetime):
            value = datetime.combine(value, time())
        if not isinstance(value, datetime):
            raise ValueError
        if not 1900 <= value.year <= 2900:
            raise ValueError
    except ValueError:
        check.add(where, str(value), "is no moment", "such as 2013-01-01 or 2013-01-01T06:00:00Z")
        return None
    return value if value.tzinfo else value.replace(tzinfo=ZoneInfo(zone))
