"""The paper experiment on ZeroTune's placements, on graphs of its own."""

from __future__ import annotations

from pathlib import Path

import pytest

from experiments.studies.papers import find_figures
from experiments.studies.papers.figure import run_figure
from experiments.studies.papers.zerotune import runs
from optim.errors import InvalidInput
from tests.studies.formats.test_zerotune import graph


def test_the_figure(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    data = tmp_path / "graphs" / "kind"
    data.mkdir(parents=True)
    (data / "one-1.graph").write_text(graph())
    monkeypatch.setenv(runs.VARIABLE, str(tmp_path / "graphs"))
    monkeypatch.setattr(runs, "SECONDS_REDUCED", 60.0)  # it ends by itself, on a busy machine late
    (figure,) = find_figures("zerotune/placements")
    made = run_figure(figure, tmp_path / "out", reduced=True, quiet=True)
    (row,) = made.table.to_dict("records")
    # by hand, even rates: forwarded pairs of 50 stay within hosts in Flink's placement; of the 10
    # tuples/s to the aggregate on h1 the filter's instance on h2 sends half: 5 of 110. Nothing is
    # better with 5 and 2 slots: h2 holds 2 of the 7, and splitting a forwarded pair costs 50.
    assert row["Flink (%)"] == pytest.approx(100 * 5 / 110)
    assert row["planned (%)"] == pytest.approx(100 * 5 / 110)
    assert row["bound (%)"] == pytest.approx(100 * 5 / 110)
    assert row["proven"] == "optimal"
    # made again from what is kept, without the graphs' being solved again
    monkeypatch.setattr(runs, "plan_query", None)
    again = run_figure(figure, tmp_path / "out", reduced=True, quiet=True)
    assert again.table.equals(made.table)


def test_without_data(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(runs.VARIABLE, raising=False)
    monkeypatch.setenv(runs.SHARED, str(tmp_path / "nothing"))
    with pytest.raises(InvalidInput, match=f"{runs.VARIABLE} is not set.*name their folder"):
        runs.data_folder()
    monkeypatch.setenv(runs.VARIABLE, str(tmp_path / "absent"))
    with pytest.raises(InvalidInput, match="is no folder"):
        runs.data_folder()
    monkeypatch.setenv(runs.VARIABLE, str(tmp_path))
    with pytest.raises(InvalidInput, match="holds no graphs"):
        runs.graph_files(runs.data_folder())
