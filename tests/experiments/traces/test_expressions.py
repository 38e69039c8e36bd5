"""Expressions: what is allowed, what each means to Spark, and that nothing else reaches it."""

from __future__ import annotations

import math
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyspark.sql import functions as F

from experiments.traces.expressions import (
    FUNCTIONS,
    INSTEAD,
    MAX_LENGTH,
    OTHER_NAMES,
    ExpressionFault,
    Scope,
    Typed,
    column_names,
    compiled,
    parse,
    quoted,
)
from experiments.traces.sums import key_group, micros

ROW = {"n": -7, "x": 2.5, "z": 0, "s": " Ab ", "none": None, "t": datetime(2013, 3, 10, 6, 59, 30)}
TYPES = {"n": "whole", "x": "number", "z": "whole", "s": "text", "none": "whole", "t": "time"}
NEW_YORK = "America/New_York"


def scope(decimal: str = ".", **types: str) -> Scope:
    columns = {name: Typed(f"`{name}`", kind) for name, kind in (TYPES | types).items()}
    return Scope(columns, list(columns), NEW_YORK, NEW_YORK, decimal)


@pytest.fixture(scope="module")
def frame(spark: Any) -> Any:
    session = spark.newSession()
    session.conf.set("spark.sql.session.timeZone", "UTC")
    session.conf.set("spark.sql.ansi.enabled", "true")
    schema = "n bigint, x double, z bigint, s string, none bigint, t timestamp_ntz"
    made = session.createDataFrame([tuple(ROW.values())], schema)
    return made.withColumn("t", F.col("t").cast("timestamp"))


def compute(frame: Any, *texts: str) -> list[Any]:
    found = []
    for number, text in enumerate(texts):
        value = compiled(parse(text), scope())
        sql = f"unix_micros({value.sql})" if value.kind == "time" else value.sql
        found.append(F.expr(sql).alias(f"v{number}"))
    return list(frame.select(*found).first())


CASES: dict[str, Any] = {
    "n + 2 * x": -2.0,
    "(n - 1) * 2 - 3": -19,
    "pmod(n, 3)": 2,
    "mod(n, 3)": -1,
    "pmod(n, z)": None,
    "mod(n, z)": None,
    "n / z": None,
    "1 / 4": 0.25,
    "-n": 7,
    "9223372036854775807 + 1": None,
    "none + 1": None,
    "coalesce(none, n)": -7,
    "nvl(none, ifnull(none, 5))": 5,
    "nullif(n, -7)": None,
    "least(n, 3)": -7,
    "greatest(n, none)": None,
    "least(x)": 2.5,
    "abs(n)": 7,
    "abs(-9223372036854775807 - 1)": None,
    "floor(1e30)": None,
    "ceil(x * -1e30)": None,
    "ceiling(x)": 3,
    "floor(number('NaN'))": None,
    "floor(9223372036854775807)": 9223372036854775807,
    "floor(-x)": -3,
    "ceil(x)": 3,
    "round(x)": 3,
    "round(-x)": -3,
    "sqrt(x * 2 - 1)": 2.0,
    "exp(0) + ln(1)": 1.0,
    "ln(z)": None,
    "power(n, 2)": 49.0,
    "pow(2, 0.5) > 1.414": True,
    "length(s)": 4,
    "char_length(s)": 4,
    "concat(lower(trim(s)), upper(s), n)": "ab AB -7",
    "'a' || n || true": "a-7true",
    "concat(s, none)": None,
    "replace(s, 'b', 'c')": " Ac ",
    "substring('stream', 2, 3)": "tre",
    "substr('stream', 2, 3)": "tre",
    "split_part('a/b/c', '/', 2)": "b",
    "split_part('a/b/c', '/', -1)": "c",
    "split_part('a/b/c', '/', 0)": None,
    "contains(s, 'Ab') AND startswith(s, ' ') AND NOT endswith(s, 'b')": True,
    "text(n)": "-7",
    "CAST(n AS STRING)": "-7",
    "CAST('12' AS BIGINT) + CAST('3' AS INT)": 15,
    "CAST('2147483648' AS INT)": None,
    "CAST(x AS BIGINT)": 2,
    "CAST(n AS DOUBLE) / 2": -3.5,
    "TRY_CAST(s AS DOUBLE)": None,
    "CAST('true' AS BOOLEAN)": True,
    "s::bigint": None,
    "number('1e3')": 1000.0,
    "number(s)": None,
    "xxhash64('-7') - xxhash64(CAST(n AS STRING))": 0,
    "IF(none IS NOT NULL, xxhash64(CAST(none AS STRING)), NULL)": None,  # hash of older versions
    "n = -7": True,
    "n <> -7 OR x >= 2.5": True,
    "none = 1": None,
    "none <=> null": True,
    "n < 0 AND NOT (z > 0)": True,
    "none IS NULL": True,
    "n IS NOT NULL": True,
    "(n < 0) IS TRUE": True,
    "n IN (1, -7)": True,
    "s NOT IN ('a', 'b')": True,
    "x BETWEEN 2 AND 3": True,
    "trim(s) LIKE 'A_'": True,
    r"'10%' LIKE '10\\%'": True,
    "CASE WHEN n > 0 THEN 'plus' WHEN n < 0 THEN 'minus' END": "minus",
    "CASE n WHEN 1 THEN 1 ELSE 2.5 END": 2.5,
    "CASE WHEN none > 0 THEN 1 END": None,
    "IF(n > 0, 'a', 'b')": "b",
    "if(z = 0, null, n / z)": None,
    # 06:59:30 UTC is 01:59:30 in New York, half a minute before its clocks are set forward
    "year(t)": 2013,
    "quarter(t)": 1,
    "month(t)": 3,
    "day(t)": 10,
    "dayofmonth(t)": 10,
    "hour(t)": 1,
    "minute(t)": 59,
    "second(t)": 30,
    "weekday(t)": 6,
    "dayofweek(t)": 1,
    "weekofyear(t)": 10,
    "week(t)": 10,
    "dayofyear(t)": 69,
    "date(t)": "2013-03-10",
    "hour(timestamp_seconds(1362898800))": 3,  # 07:00 UTC, an hour later by the clock
    "hour(epoch_ms(1362898799999))": 1,
    "epoch(1.5)": 1_500_000,
    "timestamp_millis(1500)": 1_500_000,
    "timestamp_micros(7)": 7,
    "unix_micros(t)": 1362898770000000,
    "make_timestamp(2013, 7, 1, 0, 0, 0)": 1372651200000000,  # 04:00 UTC
    "timestamp(2013, 7, 1)": 1372651200000000,
    "timestamp(2013, 2, 30)": None,
    "timestamp(2013, 7, 1, 25)": None,
    "to_timestamp('2013-07-01 00:00:00')": 1372651200000000,
    "try_to_timestamp('x')": None,
    "CAST('2013-07-01' AS TIMESTAMP)": 1372651200000000,
    "timestamp '2013-07-01'": 1372651200000000,
    "timestamp('2013-07-01')": 1372651200000000,
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


def test_values(frame: Any) -> None:
    found = dict(zip(CASES, compute(frame, *CASES), strict=True))
    assert found == CASES


def test_every_function_is_computed_and_documented(repository: Path) -> None:
    used = " ".join(CASES)
    documented = (repository / "docs" / "traces.md").read_text(encoding="utf-8")
    for name in (*FUNCTIONS, *OTHER_NAMES):
        assert f"{name}(" in used, name
        assert f"`{name}`" in documented, name


SAME = (
    "pmod(n, 3)", "mod(n, 3)", "coalesce(none, n)", "nullif(n, -7)", "abs(n)", "ceil(x)",
    "floor(-x)",
    "sqrt(x)", "power(n, 2)", "xxhash64(n, x, s, t)", "concat(s, n)", "s || n", "length(s)",
    "upper(s)", "trim(s)", "replace(s, 'b', 'c')", "substring(s, 2, 1)", "split_part(s, 'b', 1)",
    "n BETWEEN -8 AND 0", "s LIKE '%b%'", "n IN (1, 2)", "none IS NULL", "none <=> n",
    "CASE WHEN n < 0 THEN 1 ELSE 2 END", "CASE n WHEN -7 THEN 'a' END", "IF(n < 0, s, 'x')",
    "CAST(x AS BIGINT)", "CAST(n AS STRING)", "n + 2 * 3 - -1", "n / 2", "NOT n < 0 OR x > 1",
    "'it''s'", r"'a\\b\n'", "'\u00fc \U0001f600'", "year(t)", "hour(t)", "weekday(t)",
    "dayofweek(t)", "weekofyear(t)", "timestamp_seconds(5)", "unix_micros(t)",
)  # fmt: skip


def test_what_is_allowed_means_what_spark_means(frame: Any) -> None:
    """The same text, given to Spark as it stands where the time zone is that of the job."""
    session = frame.sparkSession
    mine = compute(frame, *SAME)
    session.conf.set("spark.sql.session.timeZone", NEW_YORK)
    try:
        theirs = []
        for number, text in enumerate(SAME):
            of_time = compiled(parse(text), scope()).kind == "time"
            column = F.unix_micros(F.expr(text)) if of_time else F.expr(text)
            theirs.append(column.alias(f"v{number}"))
        found = list(frame.select(*theirs).first())
    finally:
        session.conf.set("spark.sql.session.timeZone", "UTC")
    assert dict(zip(SAME, found, strict=True)) == dict(zip(SAME, mine, strict=True))


@given(st.text(max_size=12), st.integers(0, 9))
def test_texts_are_values_never_code(text: str, number: int) -> None:
    """Whatever a text holds, its literal has neither a quote nor a backslash of its own."""
    literal = quoted(text)
    inner = literal[1:-1]
    assert "'" not in inner
    decoded = inner.encode("ascii").decode("unicode_escape")
    assert decoded.encode("utf-16", "surrogatepass") == text.encode("utf-16", "surrogatepass")


def test_texts_reach_spark_as_they_are(frame: Any) -> None:
    tricky = "'); drop table x -- \\' \" ` ${x} \u00fc\U0001f600\x00\t\n"
    assert frame.select(F.expr(quoted(tricky))).first()[0] == tricky
    written = "'''); drop table x --'"
    assert compute(frame, f"concat({written}, n)") == ["'); drop table x ---7"]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "is empty"),
        (" ", "is empty"),
        ("a b", "'a AS b' is not allowed in expressions"),
        ("a;drop table x", "at character 2: is more than one expression"),
        ("a;", "at character 2: is more than one"),
        ("concat(a, b", r"at character 11: Expecting \)"),
        ("(a))", "at character 4: .*not an expression of Spark SQL"),
        ("a +", "at character 3: "),
        ("a..b", "at character 3: "),
        ("'open", "Error tokenizing"),
        ("a + from", "at character 5.*a column that is called from is written `from`"),
        ("1e999", "too large"),
        ("99999999999999999999", "too large"),
        ("(" * 100 + "a", "Expecting|nested too deeply"),
        ("(" * 100 + "a" + ")" * 100, "nested too deeply"),
        ("(" * 1900 + "a" + ")" * 1900, "nested too deeply"),
        ("+".join("a" * 100), "nested too deeply"),
        ("concat(" + ",".join("a" * 500) + ")", "parts"),
        ("a" * (MAX_LENGTH + 1), "longer than"),
        ("n % 3", r"'n % 3' is not allowed.*pmod\(a, b\) is never negative"),
        ("hash(n)", r"no function 'hash' in the allow-list \(in older.* xxhash64\(CAST"),
        ("HASH(n)", "no function 'HASH'"),
        ("lenght(s)", r"no function 'lenght'.*did you mean length\?"),
        ("reflect('java.lang.System', 'exit', 1)", "no function 'reflect'"),
        ("java_method('java.lang.Runtime', 'x')", "no function 'java_method'"),
        ("input_file_name()", "no function 'input_file_name'"),
        ("current_date()", "no function.*its time"),
        ("sum(n)", "no function 'sum'.*summed anyway"),
        ("count(n) OVER ()", "is not allowed.*summed by state"),
        ("(SELECT 1)", r"is not allowed.*\[events\.NAME\.join\.TABLE\]"),
        ("n IN (SELECT 1)", "IN takes values"),
        ("exists(SELECT 1)", "is not allowed"),
        ("transform(s, y -> y)", "is not allowed"),
        ("tags[-1]", "is not allowed"),
        ("a.*", "is not allowed"),
        ("*", "is not allowed"),
        ("?", "is not allowed"),
        ("${x}", "is not allowed"),
        ("n div 2", r"is not allowed.*floor\(a / b\)"),
        ("s RLIKE 'a'", "is not allowed.*LIKE"),
        ("s LIKE n", "LIKE takes a pattern"),
        ("INTERVAL 5 MINUTES", "is not allowed.*lateness"),
        ("EXTRACT(hour FROM t)", r"is not allowed.*hour\(t\)"),
        ("CAST(s AS DECIMAL(3, 2))", r"CAST to DECIMAL\(3, 2\) is not allowed.*to STRING, BIGINT"),
        ("CAST(s AS DATE)", "CAST to DATE is not allowed"),
        ("CAST(n AS ARRAY<INT>)", "is not allowed"),
        ("abs(n, n)", "takes 1 arguments, not 2"),
        ("timestamp(n, n)", "takes 3 to 6 arguments"),
        ("concat()", "takes at least 1"),
    ],
)
def test_everything_else_is_refused_with_what_is_near(text: str, message: str) -> None:
    with pytest.raises(ExpressionFault) as caught:
        parse(text)
    import re

    assert re.search(message, str(caught.value.problem("at", text)))


@pytest.mark.parametrize(
    ("text", "kind"),
    [
        ("n + 1", "whole"),
        ("n + x", "number"),
        ("n / n", "number"),
        ("xxhash64(t, s, n)", "whole"),
        ("concat(s, n)", "text"),
        ("date(t)", "text"),
        ("timestamp(n, n, n)", "time"),
        ("coalesce(n, x)", "number"),
        ("floor(w.x)", "whole"),
        ("n > x", "boolean"),
        ("CASE WHEN n > 1 THEN null ELSE 1 END", "whole"),
        ("to", "text"),  # a column, though a word of SQL
    ],
)
def test_types(text: str, kind: str) -> None:
    assert compiled(parse(text), scope(**{"w.x": "number", "to": "text"})).kind == kind


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("m", "no column 'm'"),
        ("s + 1", "takes whole or number, and column 's' is text"),
        ("year(s)", "takes time"),
        ("concat(t)", "takes text or whole or number"),
        ("coalesce(s, n)", "mixes text and whole"),
        ("s = 1", "= mixes text and whole"),
        ("t > '2013-01-01'", "> mixes text and time"),
        ("IF(s, 1, 2)", "if takes boolean, and column 's' is text"),
        ("NOT n", "NOT takes boolean"),
        ("n AND true", "AND takes boolean"),
        ("n LIKE 'a'", "LIKE takes text"),
        ("CASE WHEN n > 1 THEN 'a' ELSE 1 END", "CASE mixes text and whole"),
        ("t || 'a'", "concat takes text or whole"),
        ("CAST(n AS TIMESTAMP)", "CAST of whole to time is not allowed"),
        ("CAST(t AS DOUBLE)", "CAST of time to number is not allowed"),
        ("time(" * 6 + "s" + ")" * 6, ""),
    ],
)
def test_types_that_do_not_fit(text: str, message: str) -> None:
    if not message:
        assert compiled(parse(text), scope()).kind == "time"
        return
    with pytest.raises(ExpressionFault, match=message):
        compiled(parse(text), scope())


def test_sql_that_would_grow_without_end_is_refused() -> None:
    with pytest.raises(ExpressionFault, match="nested too deeply"):
        compiled(parse("abs(" * 25 + "n" + ")" * 25), scope())


def test_columns_are_told_once() -> None:
    names = column_names(parse("a + f + abs(b) * w.c - length('d') + a + `x y`.`z`[0].w[1]"))
    assert names == ("a", "f", "b", "w.c", "x y.z[0].w[1]")


@given(st.text(max_size=60))
def test_any_text_is_a_tree_or_a_fault(text: str) -> None:
    try:
        tree = parse(text)
    except ExpressionFault as fault:
        assert fault.reason
    else:
        assert column_names(tree) is not None


WORDS = (
    "a", "(", ")", "+", ",", "1", "'x'", "CASE", "WHEN", "THEN", "END", "IN", "IS", "NULL", "NOT",
    "CAST(", "AS", "INT", "[0]", ".b", "abs(", "=", "LIKE", "BETWEEN", "AND",
)  # fmt: skip


@given(st.lists(st.sampled_from(WORDS), max_size=12))
def test_any_row_of_words_is_a_tree_or_a_fault(words: list[str]) -> None:
    text = " ".join(words)
    try:
        column_names(parse(text))
    except ExpressionFault as fault:
        assert fault.problem("at", text).reason


def test_what_stands_instead_is_allowed() -> None:
    """A remedy that is itself refused would be none."""
    assert not [name for name in INSTEAD if name in FUNCTIONS or name in OTHER_NAMES]
    for text in (
        "IF(a IS NOT NULL, xxhash64(CAST(a AS STRING)), NULL)",
        "unix_micros(t) / 1000000", "timestamp_seconds(n)",
        "date(to_timestamp(text))", "split_part(text, ';', n)", "substring(a, -n, n)", "a[0]",
        "timestamp_seconds(unix_micros(t) / 1000000 + 60)", "pmod(a, b) + mod(a, b)",
    ):  # fmt: skip
        parse(text)


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


ZONED = {
    "10:00:00 EST": 15,
    "10:00:00EST": 15,
    "10:00 CET": 9,
    "10:00:00 PST": 18,
    "10:00:00 UTC+01:00": 9,
    "10:00UTC+01:00": 9,
    "10:00:00 GMT+1": 9,
    "10:00:00.0 Etc/GMT+5": 15,
    "10:00:00 Z": 10,
    "10:00:00 America/Argentina/Buenos_Aires": 13,
    "10:00:00-05": 15,
    "10:00:00": 15,
    "10:00": 15,
    "10:00:00.000 ": 15,
}


def test_moments_are_shifted_once(frame: Any) -> None:
    found = compute(frame, *(f"time('2013-01-15 {text}')" for text in ZONED))
    begin = datetime(2013, 1, 15, tzinfo=UTC).timestamp()
    assert [value / 1e6 - begin for value in found] == [h * 3600 for h in ZONED.values()]


def test_numbers_with_a_comma() -> None:
    sql = compiled(parse("CAST(s AS DOUBLE)"), scope(decimal=",")).sql
    assert "replace(" in sql
    assert "replace(" not in compiled(parse("CAST(s AS BIGINT)"), scope(decimal=",")).sql
