"""Statistics periods: fixed lengths, or calendar days, weeks, months and years of a time zone."""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import UTC, date, datetime, time, timedelta
from typing import TYPE_CHECKING, Annotated, Any, Literal, NamedTuple
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from pydantic import AfterValidator, BaseModel, PlainValidator, model_validator

from experiments.documents import TABLE, Text
from optim.errors import Problem
from optim.format.read import Fault

if TYPE_CHECKING:
    from pyspark.sql import Column

MAX_PERIODS = 1_000_000

_LENGTH = re.compile(r"(\d+(?:\.\d+)?)\s*([a-z]+)", re.IGNORECASE)
_SECONDS = {
    "ms": 0.001, "s": 1, "sec": 1, "second": 1, "min": 60, "minute": 60, "h": 3600, "hour": 3600,
}  # fmt: skip
_DAYS = {"d": 1, "day": 1, "w": 7, "week": 7}
_MONTHS = {"month": 1, "quarter": 3, "year": 12}
_UNITS = {*_SECONDS, *_DAYS, *_MONTHS}
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_ABSURD = 1e15
"""More than any unit is counted in; with hundreds of digits a length is not even a number."""
_MONDAY = 4
"""Days from 1970-01-01, a Thursday, to the first Monday."""
_NO_ZONES = ("/", ".", "right/", "posix", "localtime", "Factory", "ROC")
"""Beginnings of paths, and of names that Python knows where the system does, but Java does not."""


@dataclass(frozen=True)
class Length:
    """How long a period is: microseconds, or days or months of the calendar."""

    micros: int = 0
    days: int = 0
    months: int = 0

    @property
    def of_calendar(self) -> bool:
        """Whether it is as long as the calendar makes it, and begins at a midnight."""
        return bool(self.days or self.months)

    @classmethod
    def parse(cls, text: str) -> Length:
        """Read ``15 min``, ``1 h``, ``1 day``, ``1 week``, ``1 month`` and the like.

        Raises
        ------
        ValueError
            With the reason.
        """
        match = _LENGTH.fullmatch(text.strip())
        unit = "" if match is None else match[2].lower()
        unit = unit if unit in ("s", "ms") else unit.removesuffix("s")
        if match is None or unit not in _UNITS:
            raise ValueError("is no length")
        amount = float(match[1])
        if amount > _ABSURD:
            raise ValueError("is absurdly long")
        if unit not in _SECONDS and not amount.is_integer():
            raise ValueError(f"must be whole {unit}s")
        if unit in _DAYS:
            length = cls(days=int(amount) * _DAYS[unit])
        elif unit in _MONTHS:
            length = cls(months=int(amount) * _MONTHS[unit])
        else:
            length = cls(micros=round(amount * _SECONDS[unit] * 1_000_000))
        if length == cls():
            raise ValueError("has no length")
        days = length.micros / 86_400e6 + length.days + length.months * 30
        if days > 100_000:
            raise ValueError("is absurdly long")
        return length


class Period(NamedTuple):
    """One statistics period: from `start` to before `end`."""

    number: int
    start: datetime
    end: datetime

    @property
    def seconds(self) -> float:
        """True length; a calendar day may have 23 or 25 hours."""
        return (self.end - self.start).total_seconds()


@dataclass(frozen=True)
class Calendar:
    """Which period a moment falls in.

    Attributes
    ----------
    length
        Of a period.
    zone
        Time zone of calendar days.
    start, end
        Of the recording; ``None``: from the period of the first event to that of the last.
    late
        What becomes of an event that arrives after its period: ``keep``, ``drop`` or ``move`` into
        the period in which it arrives.
    lateness
        Seconds after the end of a period in which its events are still taken.
    """

    length: Length
    zone: str = "UTC"
    start: datetime | None = None
    end: datetime | None = None
    late: str = "keep"
    lateness: float = 0.0

    def bucket(self, moment: Column) -> Column:
        """Return the number of the period of moments, counted from `origin`."""
        from pyspark.sql import functions as F

        length = self.length
        if length.of_calendar:
            local = F.to_date(F.from_utc_timestamp(moment, self.zone))
            if length.days:
                unit, units = F.unix_date(local), length.days
            else:
                unit, units = F.year(local) * 12 + F.month(local) - 1, length.months
            return F.floor((unit - self.origin) / units).cast("bigint")
        width = F.lit(length.micros).cast("bigint")
        micros = F.unix_micros(moment) - F.lit(self.origin).cast("bigint")
        return ((micros - F.pmod(micros, width)) / width).cast("bigint")

    @property
    def origin(self) -> int:
        """Microsecond or day since 1970, or month since the year 0, at which period 0 begins."""
        if self.start is not None:
            return self._unit_of(self.start)
        if self.length.months:
            return 1970 * 12
        return _MONDAY if self.length.days and self.length.days % 7 == 0 else 0

    def period(self, bucket: int, number: int) -> Period:
        """Return a period by its bucket; it ends where the recording does, if that comes first.

        Raises
        ------
        OverflowError
            It lies outside the years 1 to 9999.
        """
        start, end = self._begin(bucket), self._begin(bucket + 1)
        if self.end is not None:
            end = min(end, self.end)
        return Period(number, start, end)

    def bucket_of(self, moment: datetime) -> int:
        """Return the bucket of a moment."""
        length = self.length
        width = length.days or length.months or length.micros
        return (self._unit_of(moment) - self.origin) // width

    def _unit_of(self, moment: datetime) -> int:
        """Return the microsecond, day or month that a moment lies in."""
        if not self.length.of_calendar:
            return micros_of(moment)
        local = moment.astimezone(ZoneInfo(self.zone)).date()
        if self.length.months:
            return local.year * 12 + local.month - 1
        return (local - date(1970, 1, 1)).days

    def _begin(self, bucket: int) -> datetime:
        if not self.length.of_calendar:
            return _EPOCH + timedelta(microseconds=self.origin + bucket * self.length.micros)
        if self.length.months:
            year, month = divmod(self.origin + bucket * self.length.months, 12)
            if not 1 <= year <= 9999:
                raise OverflowError
            day = date(year, month + 1, 1)
        else:
            day = date(1970, 1, 1) + timedelta(days=self.origin + bucket * self.length.days)
        return datetime.combine(day, time(), ZoneInfo(self.zone)).astimezone(UTC)


def micros_of(moment: datetime) -> int:
    """Return the microseconds since 1970."""
    return (moment - _EPOCH) // timedelta(microseconds=1)


# -- as a job description has them -----------------------------------------------------------------


def _zone(name: str) -> str:
    try:
        if name.startswith(_NO_ZONES):
            raise ValueError
        ZoneInfo(name)
    except (ValueError, ZoneInfoNotFoundError, OSError):
        raise Fault("is no time zone", "such as UTC or America/New_York") from None
    return name


def _length(value: Any) -> Length:
    try:
        if isinstance(value, bool) or not isinstance(value, str | int | float):
            raise ValueError("is no length")
        return Length.parse(value if isinstance(value, str) else f"{value} s")
    except ValueError as error:
        raise Fault(str(error), "such as 15 min, 1 h, 1 day, 1 week or 1 month") from None


def _lateness(value: Any) -> float:
    """Return the seconds of a length that may be 0."""
    length = Length() if value in (0, "0") else _length(value)
    if length.months:
        raise Fault("must be a fixed time", "such as 30 days")
    return length.micros / 1e6 + 86400.0 * length.days


def _moment(value: Any) -> datetime:
    try:
        if isinstance(value, str):
            value = datetime.fromisoformat(value)
        elif isinstance(value, date) and not isinstance(value, datetime):
            value = datetime.combine(value, time())
        if not isinstance(value, datetime) or not 1900 <= value.year <= 2900:
            raise ValueError
    except ValueError:
        raise Fault("is no moment", "such as 2013-01-01 or 2013-01-01T06:00:00Z") from None
    return value


Zone = Annotated[Text, AfterValidator(_zone)]


class PeriodTable(BaseModel):
    """The table ``[period]``."""

    model_config = TABLE
    length: Annotated[Length, PlainValidator(_length)]
    timezone: Zone = "UTC"
    start: Annotated[datetime, PlainValidator(_moment)] | None = None
    end: Annotated[datetime, PlainValidator(_moment)] | None = None
    late: Literal["keep", "drop", "move"] = "keep"
    lateness: Annotated[float, PlainValidator(_lateness)] = 0.0

    @model_validator(mode="after")
    def _in_order(self) -> PeriodTable:
        calendar = self.calendar()
        start, end = calendar.start, calendar.end
        if start and end and end <= start:
            told = Problem("end", str(self.end), "must lie after period.start")
            raise Fault(problems=[told])
        if start and self.length.of_calendar:
            local = start.astimezone(ZoneInfo(self.timezone))
            reason = ""
            if local.time() != time():
                reason = f"must be a midnight in {self.timezone} for periods of the calendar"
            elif self.length.months and local.day != 1:
                reason = "must be the first of a month for periods of months"
            if reason:
                raise Fault(problems=[Problem("start", str(self.start), reason)])
        return self

    def calendar(self) -> Calendar:
        """Return the periods; moments without offset are of their time zone."""
        zone = ZoneInfo(self.timezone)
        start, end = (
            moment.replace(tzinfo=zone) if moment and moment.tzinfo is None else moment
            for moment in (self.start, self.end)
        )
        return Calendar(self.length, self.timezone, start, end, self.late, self.lateness)
