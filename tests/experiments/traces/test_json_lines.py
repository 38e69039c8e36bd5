"""The names in JSON are those that Spark finds, where all bytes are UTF-8."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from experiments.traces.json_lines import found_schema
from experiments.traces.recordings import ONE, Events
from tests.slowly import slowly

FILES = {
    "plain": '{"a": 1, "b": "ü\ufffd"}\n\n  \n{"a": null}\r\n{"c": 2}',
    "nested": '{"a": {"b": {"c": 1}}, "d.e": 5, "d": {"e": 6}}\n[{"a": null}, {"f": [1]}]\n',
    "conflict": '{"a": [1]}\r{"a": "x"}\r{"a": {"b": 2}}\n',
    "odd": '\ufeff{"value": 1e400, "_corrupt_record": true}\n{"a": "\\ud800\\u0000"}\n',
}
WRONG = {
    "garbled": b'{"a": "\xfc"}\n',
    "key": b'{"a": 1}\n{"\xfc": 1}\n',
    "blank": b'{"a": 1}\n\xff\xfe\n',
    "cut": b'{"a": 1}\n{"a":\n',
    "empty": b"",
}


def found(path: Path, session: Any, content: bytes, **options: Any) -> Any:
    path.write_bytes(content)
    files = Events(path=str(path), time=ONE, format="jsonl", **options)
    return found_schema(session, files, [f"file://{path}"])


@pytest.mark.parametrize("name", ["nested", *slowly("plain", "conflict", "odd")])
def test_names_are_those_that_spark_finds(name: str, tmp_path: Path, spark: Any) -> None:
    path = tmp_path / "x.jsonl"
    schema = found(path, spark, FILES[name].encode())
    assert schema is not None
    assert schema == spark.read.option("primitivesAsString", True).json(f"file://{path}").schema


@pytest.mark.parametrize("name", ["key", *slowly("garbled", "blank", "cut", "empty")])
def test_what_is_wrong_is_left_to_be_judged(name: str, tmp_path: Path, spark: Any) -> None:
    assert found(tmp_path / "x.jsonl", spark, WRONG[name]) is None
    assert found(tmp_path / "x.jsonl", spark, b'{"a": 1}', encoding="latin-1") is None
