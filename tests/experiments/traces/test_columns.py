"""Expressions computed by Spark, against values found by hand or by Python."""

from __future__ import annotations

import math
from datetime import UTC, date, datetime
from typing import Any

import pytest
from pyspark.sql import functions as F

from experiments.traces.columns import Translator, key_group, micros, moment
from experiments.traces.functions import FUNCTIONS, type_of
from experiments.traces.grammar import parse

ROW = {"n": -7, "x": 2.5, "z": 0, "s": " Ab ", "none": None, "t": datetime(2013, 3, 10, 6, 59, 30)}
TYPES = {"n": "whole", "x": "number", "z": "whole", "s": "text", "none": "whole", "t": "time"}
NEW_YORK = "America/New_York"


@pytest.fixture(scope="module")
def compute(spark: Any) -> Any:
    spark = spark.newSession()
    spark.conf.set("spark.sql.session.timeZone", "UTC")
    schema = "n bigint, x double, z bigint, s string, none bigint, t timestamp_ntz"
    frame = spark.createDataFrame([tuple(ROW.values())], schema)
    frame = frame.withColumn("t", F.col("t").cast("timestamp"))
    translate = Translator({name: F.col(name) for name in TYPES}, TYPES, NEW_YORK, NEW_YORK)

    def value(*texts: str) -> list[Any]:
        found = []
        for number, text in enumerate(texts):
            node = parse(text)
            column = translate(node)
            if type_of(node, TYPES) == "time":
                column = F.unix_micros(column)
            found.append(column.alias(f"v{number}"))
        return list(frame.select(*found).first())

    return value


CASES: dict[str, Any] = {
    "n + 2 * x": -2.0,
    "n % 3": 2,
    "n % z": None,
    "n / z": None,
    "1 / 4": 0.25,
    "-n": 7,
    "9223372036854775807 + 1": None,
    "none + 1": None,
    "coalesce(none, n)": -7,
    "least(n, 3)": -7,
    "greatest(n, none)": None,
    "least(x)": 2.5,
    "abs(n)": 7,
    "floor(1e30)": None,
    "ceil(x * -1e30)": None,
    "floor(number('NaN'))": None,
    "floor(9223372036854775807)": 9223372036854775807,
    "floor(-x)": -3,
    "ceil(x)": 3,
    "round(x)": 3,
    "round(-x)": -3,
    "length(s)": 4,
    "concat(lower(trim(s)), upper(s), n)": "ab AB -7",
    "concat(s, none)": None,
    "substring('stream', 2, 3)": "tre",
    "text(n)": "-7",
    "number('1e3')": 1000.0,
    "number(s)": None,
    "hash(none, n)": None,
    "hash(n) - hash('-7')": 0,
    # 06:59:30 UTC is 01:59:30 in New York, half a minute before its clocks are set forward
    "year(t)": 2013,
    "month(t)": 3,
    "day(t)": 10,
    "hour(t)": 1,
    "minute(t)": 59,
    "second(t)": 30,
    "weekday(t)": 6,
    "week(t)": 10,
    "dayofyear(t)": 69,
    "date(t)": "2013-03-10",
    "hour(epoch(1362898800))": 3,  # 07:00 UTC, an hour later by the clock
    "hour(epoch_ms(1362898799999))": 1,
    "epoch(1.5)": 1_500_000,
    "timestamp(2013, 7, 1)": 1372651200000000,  # 04:00 UTC
    "timestamp(2013, 2, 30)": None,
    "timestamp(2013, 7, 1, 25)": None,
    "time('2013-07-01 00:00:00')": 1372651200000000,
    "time('2013-07-01')": 1372651200000000,
    "time('2013-07-01T00:00:00Z')": 1372636800000000,
    "time('2013-07-01T00:00:00+02:00')": 1372629600000000,
    "time('yesterday')": None,
    "time('12:30:00')": None,
    "time('2013')": 1357016400000000,
    "time('201301')": None,  # no year
    "time('2013-07-01 00')": 1372651200000000,
    # moments that no calendar has
    "epoch(-9223372036854)": None,
    "epoch_ms(9e15)": None,
    "year(epoch(9e12))": None,
    "timestamp(294248, 1, 1)": None,
    "timestamp(0, 1, 1)": None,
    "time('0000-01-01')": None,
    "time(t)": 1362898770000000,
}


def test_values(compute: Any) -> None:
    found = dict(zip(CASES, compute(*CASES), strict=True))
    assert found == CASES


def test_every_function_is_computed() -> None:
    used = " ".join(CASES)
    assert not [name for name in FUNCTIONS if f"{name}(" not in used]


def test_texts_are_values_never_code(compute: Any) -> None:
    tricky = "'); drop table x --"
    quoted = tricky.replace("'", "''")
    assert compute(f"concat('{quoted}', n)") == [f"{tricky}-7"]


def test_key_groups(spark: Any) -> None:
    keys = [(f"k{i}",) for i in range(1000)] + [(None,)]
    frame = spark.createDataFrame(keys, "k string").select(key_group(F.col("k"), 7).alias("g"), "k")
    groups = [row["g"] for row in frame.collect()]
    assert set(groups[:-1]) == set(range(7))
    assert groups[-1] is None
    assert min(groups[:-1].count(g) for g in range(7)) > 100


def test_amounts_in_millionths(spark: Any) -> None:
    values = [0.0, 1e-6, 0.1234567, -2.0, math.nan, math.inf, 1e300, None]
    frame = spark.createDataFrame([(v,) for v in values], "x double")
    found = [row[0] for row in frame.select(micros(F.col("x"))).collect()]
    assert found == [0, 1, 123457, -2_000_000, None, None, None, None]


def test_moments_without_offset_are_local(spark: Any) -> None:
    frame = spark.createDataFrame([("2013-01-01 12:00",), ("2013-01-01 12:00Z",)], "s string")
    found = [r[0] for r in frame.select(F.unix_micros(moment(F.col("s"), NEW_YORK))).collect()]
    noon = datetime(2013, 1, 1, 12, tzinfo=UTC).timestamp() * 1e6
    assert found == [noon + 5 * 3600 * 1e6, noon]
    assert date(2013, 1, 1).weekday() == 1


@pytest.mark.parametrize(
    ("text", "hours"),
    [
        ("10:00:00 EST", 15),
        ("10:00:00EST", 15),
        ("10:00 CET", 9),
        ("10:00:00 PST", 18),
        ("10:00:00 UTC+01:00", 9),
        ("10:00UTC+01:00", 9),
        ("10:00:00 GMT+1", 9),
        ("10:00:00.0 Etc/GMT+5", 15),
        ("10:00:00 Z", 10),
        ("10:00:00 America/Argentina/Buenos_Aires", 13),
        ("10:00:00-05", 15),
        ("10:00:00", 15),
        ("10:00", 15),
        ("10:00:00.000 ", 15),
    ],
)
def test_moments_are_shifted_once(text: str, hours: int, spark: Any) -> None:
    session = spark.newSession()
    session.conf.set("spark.sql.session.timeZone", "UTC")
    frame = session.createDataFrame([(f"2013-01-15 {text}",)], "s string")
    found = frame.select(F.unix_micros(moment(F.col("s"), NEW_YORK))).first()[0]
    begin = datetime(2013, 1, 15, tzinfo=UTC).timestamp()
    assert found / 1e6 - begin == hours * 3600
