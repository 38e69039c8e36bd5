"""The registry of timings: names, parameters, quick work, two checkouts beside each other."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from experiments.studies.timings import registry
from experiments.studies.timings.__main__ import main
from experiments.studies.timings.registry import LeftOut, Timing, timings

NAMES = [one.name for one in timings()]
WORDS = ("-m", "streamplace", "-h")


def test_every_timing_is_listed_with_parameters_that_it_has(
    capsys: pytest.CaptureFixture[str],
) -> None:
    for one in timings():
        assert set(one.quick) <= set(one.parameters), one.name
        assert one.rows.__doc__, one.name
    assert main(["--list"]) == 0
    listed = [line.split()[0] for line in capsys.readouterr().out.splitlines()]
    assert listed == NAMES and len(set(NAMES)) == len(NAMES) > 30


def test_a_table_is_printed_and_written(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "tables.json"
    words = ["certificates.random_graphs", "--set", "graphs=1", "--json", str(file)]
    assert main(words) == 0
    out = capsys.readouterr().out
    assert "### certificates.random_graphs: The random graphs" in out and "| graph 0 |" in out
    (table,) = json.loads(file.read_text())["tables"]
    assert table["given"] == {"graphs": 1} and table["rows"][0][5] == "yes"
    assert len(table["columns"]) == len(table["rows"][0]) and table["cpu_seconds"] > 0


def test_rows_of_runs_are_what_the_sql_says_of_them(monkeypatch: pytest.MonkeyPatch) -> None:
    entry = {
        "parameters": {"nodes": [4, 5]},
        "each": {"kind": ["figure2"], "method": ["top-down", "naive"], "nodes": "$nodes"},
        "sql": "SELECT method, nodes, value FROM runs ORDER BY number",
    }
    rows = [tuple(row) for row in registry.solved(entry, nodes=[5])]
    assert [row[:2] for row in rows] == [("top-down", 5), ("naive", 5)]
    assert all(row[2] > 0 for row in rows)
    (first,) = registry.solved(entry, most=1)
    assert tuple(first)[:2] == ("top-down", 4)
    made = {**entry, "each": {**entry["each"], "alone": [True]}, "warm": entry["each"]}
    assert next(iter(registry.solved(made, most=1))) == first
    monkeypatch.setenv(registry.RUNS_ALONE, "1")
    assert list(registry.solved(entry, most=1)) == []


def test_what_cannot_be_measured_here_is_left_out_and_a_failure_is_not_the_end(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def rows() -> registry.Rows:
        raise LeftOut("needs a peer")

    def fails() -> registry.Rows:
        raise ValueError("no idea")

    def fine() -> registry.Rows:
        yield "a", None, float("nan"), 1234.5678

    made = {
        name: Timing(name, "t", ("w", "x", "y", "z"), work, "", {}, {})
        for name, work in (("kafka.a", rows), ("kafka.b", fails), ("kafka.c", fine))
    }
    monkeypatch.setattr(registry, "TIMINGS", made)
    assert main(["kafka"]) == 1
    out, err = capsys.readouterr()
    assert "kafka.a: left out: needs a peer" in out and "| a | | | 1235 |" in out
    assert "kafka.b failed: ValueError('no idea')" in err


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (["kafak"], "did you mean kafka?"),
        (["kafka", "--set", "cluster=3"], "did you mean clusters?"),
        (["kafka", "--set", "clusters"], "NAME=VALUE"),
        (["commands.processes", "--against", "/nowhere"], "is no checkout"),
    ],
)
def test_bad_words_are_refused(
    words: list[str], told: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(words) == 2
    assert told in capsys.readouterr().err


def test_two_checkouts_are_compared_by_whole_processes(
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    from experiments.studies.timings import commands

    monkeypatch.setattr(commands, "processes_of", lambda _: dict.fromkeys(("help", "more"), WORDS))
    other = tmp_path / "other"  # a checkout that fails at once
    (other / "streamplace").mkdir(parents=True)
    (other / "streamplace" / "__init__.py").touch()
    alone = f"import os; raise SystemExit(3 if {registry.RUNS_ALONE!r} in os.environ else 4)"
    (other / "streamplace" / "__main__.py").write_text(alone)
    words = ["commands.processes", "--against", str(other), "--repeats", "1"]
    assert main([*words, "--set", "only=hel"]) == 0
    out = capsys.readouterr().out
    assert "| help |" in out and "| more |" not in out
    assert "| process | CPU s there | here | ratio | exit codes |" in out
    assert "| {3} and {0} |" in out
    assert main(["kafka", "--against", str(other)]) == 2
    assert "older than this registry" in capsys.readouterr().err


@pytest.mark.slow
@pytest.mark.parametrize("name", NAMES)
def test_the_smallest_work_of_each(name: str, tmp_path: Path) -> None:
    file = tmp_path / "tables.json"
    assert main([name, "--quick", "--json", str(file)]) == 0
    for table in json.loads(file.read_text())["tables"]:
        assert table["rows"]
        assert {len(row) for row in table["rows"]} <= {len(table["columns"])}
