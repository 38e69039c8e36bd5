"""The inside of a task: chunks in, rows stored batch by batch."""

from __future__ import annotations

import zlib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from experiments.sweep import isolation as worker
from experiments.sweep.execution import _instances_in_chunks
from experiments.sweep.isolation import (
    Answer,
    Call,
    Chunk,
    Outcome,
    Setting,
    find_runner,
    handle,
    make_row,
    pack_chunk,
    run_partition,
)
from experiments.sweep.plan import plan_runs
from experiments.sweep.spec import Spec
from experiments.sweep.store import list_parts, read_columns
from optim.errors import InvalidInput
from tests.experiments.sweep import fakes
from tests.experiments.sweep import rows as sample


class Documents:
    """What stands for a broadcast."""

    def __init__(self, value: dict[str, bytes]) -> None:
        self.value = value


@pytest.fixture(autouse=True)
def fresh_child() -> Iterator[None]:
    yield
    worker._caller.child.close()


@pytest.fixture
def chunk(make_spec: Callable[..., Spec]) -> tuple[Chunk, Documents]:
    spec = make_spec({"method": ["good", "raises"], "seed": [1, 2]}, run_timeout=30)
    runs = plan_runs(spec, fakes.NAME).runs
    return pack_chunk(runs), Documents({r.instance.sha256: r.instance.packed for r in runs})


def test_rows_are_written_as_parts(chunk: tuple[Chunk, Documents], tmp_path: Path) -> None:
    data, documents = chunk
    setting = Setting("t", fakes.NAME, "{}", str(tmp_path))
    assert list(run_partition(setting, documents, None, [data])) == [4]
    (part,) = list_parts(tmp_path)
    assert (part.rows, part.failed) == (4, 2)
    rows = read_columns([part.path], ("sweep", "method", "seed", "outcome", "host", "time_total"))
    assert [(r["method"], r["seed"], r["outcome"]) for r in rows] == [
        ("good", 1, "ok"),
        ("good", 2, "ok"),
        ("raises", 1, "error"),
        ("raises", 2, "error"),
    ]
    assert all(r["sweep"] == "t" and r["host"] and r["time_total"] > 0 for r in rows)


def test_rows_that_wait_too_long_are_stored_at_once(
    chunk: tuple[Chunk, Documents], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(worker, "FLUSH_SECONDS", 0.0)
    setting = Setting("t", fakes.NAME, "{}", str(tmp_path))
    list(run_partition(setting, chunk[1], None, [chunk[0]]))
    assert [part.rows for part in list_parts(tmp_path)] == [1, 1, 1, 1]


def test_rows_can_be_handed_over(chunk: tuple[Chunk, Documents]) -> None:
    kept: list[dict[str, Any]] = []
    list(run_partition(Setting("t", fakes.NAME, "{}"), chunk[1], kept.extend, [chunk[0]]))
    assert len(kept) == 4


def test_instances_of_few_chunks_go_with_them(make_spec: Callable[..., Spec]) -> None:
    runs = plan_runs(
        make_spec({"method": ["good"], "seed": [1, 2, 3]}, run_timeout=30), fakes.NAME
    ).runs
    sha256, packed = runs[0].instance.sha256, runs[0].instance.packed
    chunks, known = [runs[:2], runs[2:]], {sha256: packed}
    assert _instances_in_chunks(chunks, known, 1) == frozenset()  # every worker needs it: broadcast
    assert _instances_in_chunks(chunks, {sha256: packed * 100_000}, 2) == frozenset()  # large
    carried = _instances_in_chunks(chunks, known, 2)
    assert carried == {sha256}
    kept: list[dict[str, Any]] = []
    packages = [pack_chunk(chunk, carried) for chunk in chunks]
    list(run_partition(Setting("t", fakes.NAME, "{}"), Documents({}), kept.extend, packages))
    assert len(kept) == 3


def test_a_stop_file_ends_the_chunk_with_what_is_done(
    chunk: tuple[Chunk, Documents], tmp_path: Path
) -> None:
    stop = tmp_path / "stop"
    kept: list[dict[str, Any]] = []
    setting = Setting("t", fakes.NAME, "{}", None, str(stop))
    assert list(run_partition(setting, chunk[1], kept.extend, [chunk[0]])) == [4]
    stop.touch()
    assert list(run_partition(setting, chunk[1], kept.extend, [chunk[0]])) == [0]


def test_the_runner_gets_the_document() -> None:
    call = Call(fakes.NAME, zlib.compress(b'{"a": 1}'), {"method": "good", "seed": 5})
    assert handle(call)["result"] == '{"a": 1}'
    assert handle(call)["objective"] == 5.0


@pytest.mark.parametrize("name", ["", "json", "json:nothing", "no.such.module:run", "json:__doc__"])
def test_a_runner_that_is_none_is_refused(name: str) -> None:
    with pytest.raises(InvalidInput, match="runner"):
        find_runner(name)


def test_failures_keep_what_is_known() -> None:
    known = {k: v for k, v in sample.make_row().items() if v is not None}
    row = make_row(known, Answer(Outcome.CRASH, error="gone", exit_code=-9), 1.5)
    assert (row["outcome"], row["exit_code"], row["time_total"]) == ("crash", -9, 1.5)
    assert row["method"] == "m"
    assert row["objective"] is None


def test_an_answer_that_is_no_row_is_an_error_of_that_run() -> None:
    row = make_row(sample.make_row(), Answer(Outcome.OK, {"colour": "red"}), 1.0)
    assert row["outcome"] == "error"
    assert "colour" in row["error"]
    assert make_row(sample.make_row(), Answer(Outcome.OK, {"gap": 0.5}), 1.0)["gap"] == 0.5
