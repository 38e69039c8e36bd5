"""The real jobs as figures: the stream of edits, tables, and what is said of them."""

from __future__ import annotations

import tomllib
from pathlib import Path

import pandas as pd
import pytest

from experiments.studies.papers import find_figures
from experiments.studies.papers.albic_real import runs
from streamplace.policies.registry import read_policy


def rows() -> pd.DataFrame:
    """COLA collocates 80 % at once, ALBIC climbs to as much in ten periods."""
    found = []
    for policy, share in (("cola", lambda _: 0.8), ("albic", lambda p: 0.08 * p)):
        for period in range(12):
            found.append(
                {
                    "policy": policy,
                    "period": period,
                    "collocation_factor": min(0.8, share(period)),
                    "load_distance": 4.0,
                    "load_distance_next": 6.0 if period < 11 else None,
                    "load_index": 1.0 - share(period) / 2,
                    "migrations": 90 if policy == "cola" else 10,
                }
            )
    return pd.DataFrame(found)


def test_the_table_and_what_is_said() -> None:
    figure, *_ = find_figures("albic-real/fig-12")
    table = figure.table(rows())
    assert table["policy"].tolist() == ["COLA", "ALBIC, 1 pair"]
    assert table["migrations a period"].tolist() == [90, 10]
    assert table["best (%)"].tolist() == pytest.approx([80, 80])
    told = " ".join(figure.measured(table))
    assert "COLA collocates 80 % of the traffic at the end" in told
    assert "90 % of COLA's first in period 9" in told
    assert "on the next day: ALBIC 6.0 (one pair), COLA 6.0 points" in told


def test_every_policy_can_be_read() -> None:
    from optim.methods.registry import method_names

    with Path(runs.__file__).with_name("figures.toml").open("rb") as file:
        figures = tomllib.load(file)["figure"]
    assert [one["name"] for one in figures] == ["control", "fig-12", "fig-13", "fig-14"]
    for one in figures:
        for name in one["given"]["policies"]:
            if name.partition(":")[0] in (*method_names(), "static", "potc"):
                read_policy(name, 0)


def test_the_edits_repeat(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import pyarrow.parquet as pq

    monkeypatch.setattr(runs, "EDITS_A_PERIOD", 500)
    tables = []
    for name in ("one", "two"):
        (tmp_path / name).mkdir()
        path = runs.write_edits(tmp_path / name, reduced=True)["edits"]
        tables.append(pq.read_table(path))
    assert tables[0].equals(tables[1])
    frame = tables[0].to_pandas()
    period = (frame["seconds"] - frame["seconds"].min()) // runs.PERIOD_SECONDS
    assert period.nunique() == runs.PERIODS_REDUCED
    popular = frame["article"].value_counts(normalize=True)
    assert popular.iloc[0] > 20 / runs.ARTICLES


def test_edits_are_written_whole_or_not_at_all(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    import pyarrow.parquet as pq

    monkeypatch.setattr(runs, "EDITS_A_PERIOD", 500)
    write = pq.write_table

    def killed(table: object, where: object) -> None:
        write(table, where)
        raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr(pq, "write_table", killed)
        with pytest.raises(KeyboardInterrupt):
            runs.write_edits(tmp_path, reduced=True)
    assert list(tmp_path.iterdir()) == []
    path = runs.write_edits(tmp_path, reduced=True)["edits"]
    assert [p.name for p in tmp_path.iterdir()] == ["edits.parquet"]
    assert pq.read_table(path).num_rows > 0
