"""Periods: lengths, calendar days, and that Python and Spark number them alike."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given
from hypothesis import strategies as st

from experiments.traces.instances import Calendar, Length, micros_of

NEW_YORK = "America/New_York"
START = datetime(2013, 1, 1, tzinfo=ZoneInfo(NEW_YORK))
CALENDARS = [
    Calendar(Length.parse("1 h")),
    Calendar(Length.parse("90 s"), start=datetime(2013, 1, 1, 0, 0, 7, tzinfo=UTC)),
    Calendar(Length.parse("1 day"), NEW_YORK),
    Calendar(Length.parse("1 week"), NEW_YORK),
    Calendar(Length.parse("3 days"), NEW_YORK, start=START),
    Calendar(Length.parse("1 month"), NEW_YORK),
    Calendar(Length.parse("5 months"), NEW_YORK, start=START),
    Calendar(Length.parse("1 year"), NEW_YORK),
]


@pytest.mark.parametrize(
    ("text", "length"),
    [
        ("1 h", Length(micros=3_600_000_000)),
        ("15min", Length(micros=900_000_000)),
        ("90 seconds", Length(micros=90_000_000)),
        ("250 ms", Length(micros=250_000)),
        ("1.5 hours", Length(micros=5_400_000_000)),
        ("1 day", Length(days=1)),
        ("2 weeks", Length(days=14)),
        ("1 month", Length(months=1)),
        ("1 quarter", Length(months=3)),
        ("2 years", Length(months=24)),
    ],
)
def test_lengths(text: str, length: Length) -> None:
    assert Length.parse(text) == length


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("0 s", "no length"),
        ("0 days", "no length"),
        ("1", "is no length"),
        ("-1 h", "is no length"),
        ("1 fortnight", "is no length"),
        ("0 months", "no length"),
        ("1.5 days", "whole days"),
        ("0.5 years", "whole years"),
        ("9999 years", "absurdly"),
        ("1000000 days", "absurdly"),
        ("9" * 400 + " s", "absurdly"),
        ("9" * 400 + " days", "absurdly"),
        ("", "is no length"),
    ],
)
def test_lengths_that_are_none(text: str, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        Length.parse(text)


def test_a_calendar_day_may_have_23_or_25_hours() -> None:
    calendar = Calendar(Length.parse("1 day"), NEW_YORK, start=START)
    hours = [calendar.period(bucket, bucket).seconds / 3600 for bucket in range(365)]
    assert sum(hours) == 365 * 24
    assert [(i, h) for i, h in enumerate(hours) if h != 24] == [(68, 23), (306, 25)]


def test_weeks_begin_on_monday() -> None:
    calendar = Calendar(Length.parse("1 week"), NEW_YORK)
    period = calendar.period(calendar.bucket_of(datetime(2013, 1, 1, 12, tzinfo=UTC)), 0)
    assert period.start.astimezone(ZoneInfo(NEW_YORK)) == datetime(
        2012, 12, 31, tzinfo=ZoneInfo(NEW_YORK)
    )


def test_months_are_those_of_the_calendar() -> None:
    calendar = Calendar(Length.parse("1 month"), NEW_YORK, start=START)
    days = [calendar.period(bucket, bucket).seconds / 86400 for bucket in range(14)]
    assert days[1:2] + days[3:10] + days[11:] == [28, 30, 31, 30, 31, 31, 30, 31, 31, 31, 28]
    assert days[2] == pytest.approx(31 - 1 / 24)  # the clock goes forward in March
    assert days[10] == pytest.approx(30 + 1 / 24)
    assert sum(days[:12]) == 365


def test_years_and_quarters_begin_in_january() -> None:
    moment = datetime(2013, 8, 20, tzinfo=UTC)
    for length, month in (("1 year", 1), ("1 quarter", 7)):
        calendar = Calendar(Length.parse(length))
        begin = calendar.period(calendar.bucket_of(moment), 0).start
        assert begin == datetime(2013, month, 1, tzinfo=UTC)


def test_the_last_period_ends_with_the_recording() -> None:
    calendar = Calendar(
        Length.parse("1 h"),
        start=datetime(2013, 1, 1, tzinfo=UTC),
        end=datetime(2013, 1, 1, 1, 30, tzinfo=UTC),
    )
    assert [calendar.period(i, i).seconds for i in range(2)] == [3600, 1800]


@given(
    st.sampled_from(CALENDARS),
    st.datetimes(datetime(1999, 1, 1), datetime(2030, 1, 1), timezones=st.just(UTC)),
)
def test_a_moment_lies_in_its_period(calendar: Calendar, moment: datetime) -> None:
    period = calendar.period(calendar.bucket_of(moment), 0)
    assert period.start <= moment < period.end


def test_spark_numbers_periods_as_python_does(spark: Any) -> None:
    from pyspark.sql import functions as F

    spark = spark.newSession()
    spark.conf.set("spark.sql.session.timeZone", "UTC")
    edges = [
        calendar.period(bucket, 0).start
        for calendar in CALENDARS
        for bucket in (-3, 0, 1, 500 if calendar.length.months else 16_000)
    ]
    moments = [e + timedelta(microseconds=d) for e in edges for d in (-1, 0, 1)]
    moments += [datetime(2013, 1, 1, tzinfo=UTC) + timedelta(hours=7 * i) for i in range(1300)]
    frame = spark.createDataFrame([(micros_of(m),) for m in moments], "m bigint")
    when = F.timestamp_micros("m")
    columns = [c.bucket(when).alias(f"b{i}") for i, c in enumerate(CALENDARS)]
    for moment, row in zip(moments, frame.select(*columns).collect(), strict=True):
        assert list(row) == [calendar.bucket_of(moment) for calendar in CALENDARS], moment
