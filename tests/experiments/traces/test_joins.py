"""Tables looked up for events, and amounts that are missing: whatever is passed over is told."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from optim.errors import InvalidInput
from tests.experiments.traces.cases import EVENTS, by_operator, trace, write_csv

pytestmark = pytest.mark.usefixtures("spark")


def table(folder: Path, name: str, header: str, *values: Any, **more: Any) -> dict[str, Any]:
    """Write a table and return its entry in the description."""
    write_csv(folder / f"{name}.csv", values, header.split(","))
    return {"path": f"{name}.csv", **more}


@pytest.mark.slow
def test_events_without_a_match_are_counted(tmp_path: Path) -> None:
    info = table(tmp_path, "info", "page,weight", ("a", "3"), on=["page"])
    found = trace(tmp_path, events__clicks__join={"info": info}, operator__1__key="info.weight")
    told = found.manifest.recordings["clicks"]
    # of five events two are on page b
    assert told["lookups"] == {"info": {"rows": 1, "doubled": 0, "unmatched": 2}}
    assert told["without_key"]["page"] == 2


@pytest.mark.slow
def test_a_table_may_be_looked_up_by_a_column_of_another(tmp_path: Path) -> None:
    join = {
        "a": table(tmp_path, "a", "page,j", ("a", "x"), ("b", "y"), on=["page"]),
        # names that differ by case only, and one that looks like a name of our own
        "A": table(tmp_path, "b", "j,weight", ("x", "10"), on=[["a.j", "j"]]),
        "e0": table(tmp_path, "c", "w,size", ("10", "7"), on=[["A.weight", "w"]]),
    }
    join["e0"]["columns"] = {"size": "number"}
    found = trace(tmp_path, events__clicks__join=join, operator__1__cost="e0.size")
    assert by_operator(found)[(0, "page")] == (3, 14.0)
    lookups = found.manifest.recordings["clicks"]["lookups"]
    assert {name: told["unmatched"] for name, told in lookups.items()} == {"a": 0, "A": 2, "e0": 2}


@pytest.mark.parametrize(
    ("kinds", "on", "message"),
    [
        ({"k": "number"}, [["floor(size)", "k"]], "compares whole with number"),
        ({"k": "whole"}, [["size", "k"]], "compares number with whole"),
        ({"k": "whole"}, [["page", "k"]], "compares text with whole"),
        ({}, [["time(at)", "k"]], r"join.info.on\[0\]: 'time\(at\) = k' compares time with text"),
    ],
)
def test_keys_of_different_types_are_refused(
    kinds: Any, on: Any, message: str, tmp_path: Path
) -> None:
    info = table(tmp_path, "info", "k,weight", ("1", "3"), on=on, columns=kinds)
    with pytest.raises(InvalidInput, match=message):
        trace(tmp_path, events__clicks__join={"info": info}, operator__1__key="info.weight")


@pytest.mark.slow
def test_keys_of_numbers_match_once_they_are_alike(tmp_path: Path) -> None:
    on = [["size", "number(k)"]]
    info = table(tmp_path, "info", "k,weight", ("4", "3"), on=on, columns={"k": "whole"})
    found = trace(tmp_path, events__clicks__join={"info": info}, operator__1__key="info.weight")
    assert found.manifest.recordings["clicks"]["lookups"]["info"]["unmatched"] == 4


@pytest.mark.slow
def test_missing_states_and_rates_are_counted(tmp_path: Path) -> None:
    events = [*EVENTS, ("2024-01-01T00:40:00Z", "ann", "a", None)]
    found = trace(
        tmp_path,
        events,
        operator__0__cost=1,
        operator__0__state="size / (size - 1)",  # null for the first event and the last
        edge__0__rate="size",
    )
    told = found.manifest.recordings["clicks"]
    assert told["without_cost"] == {"user": 0, "page": 0}
    assert told["without_state"] == {"user": 2}
    assert told["without_rate"] == {"user → page": 1}


def test_the_command_tells_what_was_missing() -> None:
    from experiments.traces.command import _recording_line

    fates = ("no_time", "outside", "late_dropped", "late_moved", "late_kept")
    counts = dict.fromkeys(fates, 0) | {
        "events": 9,
        "lookups": {"info": {"rows": 5, "doubled": 0, "unmatched": 3}},
        "without_cost": {"user": 0},
        "without_state": {"user": 2},
        "without_rate": {"user → page": 1},
    }
    assert _recording_line("clicks", counts) == (
        "clicks: 9 events; info: 3 events without a match; 2 times without a state, taken as 0; "
        "1 times without a rate, taken as 0"
    )
