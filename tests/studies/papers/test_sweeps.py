"""Rows of a figure from a sweep: changed, run, resumed, and refused where a run failed."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from experiments.studies.papers.figure import _rows
from experiments.studies.papers.tables import load
from optim.errors import InvalidInput, StreamplaceError

if TYPE_CHECKING:
    import pandas as pd

SWEEP = """
name = "p/f"
[matrix]
method = ["top-down", {method = "task-level", options = {priority = ["task_imc", "significance"]}}]
[[instances.generate]]
kind = "figure2"
nodes = [4, 5]
seeds = [0]
"""


@pytest.fixture
def path(tmp_path: Path) -> Path:
    path = tmp_path / "f.toml"
    path.write_text(SWEEP)
    return path


def rows_of(path: Path, reduced: bool = False, **entry: Any) -> pd.DataFrame:
    """Return the rows of a figure that is made of the sweep."""
    entry = {"sweep": path.name, "reduced": {"instances.generate.0.nodes": [4]}, **entry}
    made = _rows(path.parent, entry, path.parent / ("small" if reduced else "rows"), reduced)
    assert not isinstance(made, dict)
    return made


def test_changes_make_a_reduced_sweep(path: Path) -> None:
    spec = load(path, {"instances.generate.0.nodes": [4], "matrix.method": ["naive"]})
    assert spec.name == "p/f (reduced)"
    assert spec.generators[0].parameters["nodes"] == (4,)
    assert [entry.method for entry in spec.factors["method"]] == ["naive"]
    assert load(path).name == "p/f"


@pytest.mark.parametrize("place", ["instances.generate.1.nodes", "matrix.methods", "x.y"])
def test_a_change_of_nothing_is_refused(path: Path, place: str) -> None:
    with pytest.raises((KeyError, IndexError)):
        load(path, {place: [4]})


def test_a_wrong_change_is_invalid(path: Path) -> None:
    with pytest.raises(InvalidInput):
        load(path, {"matrix.method": []})


@pytest.mark.slow
@pytest.mark.usefixtures("spark")
def test_rows_have_factors_as_columns_and_are_not_made_twice(path: Path) -> None:
    frame = rows_of(path)
    assert len(frame) == 6
    assert sorted(frame["instance.nodes"].unique()) == [4, 5]
    assert frame["instance.nodes"].dtype.kind in "iuf"
    # factors that some runs do not have stay unknown there
    assert set(frame["option.priority"].dropna()) == {"task_imc", "significance"}
    assert "result" not in frame
    again = rows_of(path)
    assert list(again["started_at"]) == list(frame["started_at"])
    small = rows_of(path, reduced=True)
    assert len(small) == 3


@pytest.mark.usefixtures("spark")
def test_rows_that_the_sweep_no_longer_means_are_left_out(path: Path) -> None:
    rows_of(path)
    path.write_text(SWEEP.replace("[4, 5]", "[5]"))
    frame = rows_of(path, wide=True)
    assert set(frame["instance.nodes"]) == {5}
    assert frame["result"].str.startswith("{").all()


@pytest.mark.usefixtures("spark")
def test_a_new_label_holds_for_old_rows(path: Path) -> None:
    rows_of(path)
    path.write_text(SWEEP.replace('"top-down"', '{method = "top-down", label = "TD"}'))
    frame = rows_of(path)
    assert set(frame.loc[frame["method"] == "top-down", "method_label"]) == {"TD"}


@pytest.mark.usefixtures("spark")
def test_failed_runs_make_no_figure(path: Path) -> None:
    # mba+sam needs performance models, which these have not
    path.write_text(SWEEP.replace('"top-down"', '"mba+sam"'))
    with pytest.raises(StreamplaceError, match=r"2 of 6 runs failed; first: mba\+sam"):
        rows_of(path)
