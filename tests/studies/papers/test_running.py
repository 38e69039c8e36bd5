"""A figure's files: whole, labelled, and set beside the paper's words."""

from __future__ import annotations

import re
import sys
import xml.etree.ElementTree as ET
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

from experiments.studies.papers.figure import Figure, run_figure, to_csv, to_markdown
from optim.errors import InvalidInput


def make_figure(**changes: Any) -> Figure:
    def rows(folder: Path, reduced: bool) -> pd.DataFrame:
        sys.stderr.write("working\n")
        with (folder / "calls").open("a") as file:
            file.write("x")
        return pd.DataFrame({"x": [1, 2] if reduced else [1, 2, 3]})

    parts: dict[str, Any] = {
        "name": "some-paper/fig-1",
        "title": "A < B & C",
        "source": "Somebody, 2014, Figure 1",
        "words": "It grows.",
        "rows": rows,
        "sql": 'SELECT *, x * 1.234375::DOUBLE AS "gain (MB/s)" FROM runs',
        "panels": [{"kind": "lines", "x": "x"}],
        "texts": [("FROM shown", 'It grows to {max("gain (MB/s)"):.2f}.')],
        "readings": ("The start is chosen.",),
        "size": "Full: 3 points.",
    }
    return Figure(**{**parts, **changes})


FILES = ("table.csv", "table.md", "measured.json", "plot.svg", "plot.png", "page.md")


def test_every_file_is_written(tmp_path: Path) -> None:
    made = run_figure(make_figure(), tmp_path)
    assert made.folder == tmp_path / "some-paper" / "fig-1"
    assert {path.name for path in made.folder.iterdir()} == {"rows", *FILES}
    assert made.measured == ("It grows to 3.70.",)
    assert (made.folder / "table.csv").read_text() == (
        "x,gain (MB/s)\n1,1.234375\n2,2.46875\n3,3.703125\n"
    )
    assert (made.folder / "plot.png").read_bytes().startswith(b"\x89PNG")


def test_the_page_sets_our_figures_beside_the_papers_words(tmp_path: Path) -> None:
    page = (run_figure(make_figure(), tmp_path).folder / "page.md").read_text()
    order = ["It grows.\n", "It grows to 3.70.", "(plot.svg)", "| 3 | 3.703 |", "start is chosen"]
    places = [page.index(text) for text in order]
    assert places == sorted(places)
    assert "`streamplace paper some-paper/fig-1`: 3 rows" in page
    assert "reduced" not in page


def test_a_reduced_run_says_so_in_every_text_and_never_mixes(tmp_path: Path) -> None:
    full = run_figure(make_figure(), tmp_path)
    small = run_figure(make_figure(), tmp_path, reduced=True)
    assert small.folder != full.folder
    assert len(small.table) == 2
    for name in ("page.md", "table.md", "plot.svg"):
        assert "reduced" in (small.folder / name).read_text()
        assert "reduced" not in (full.folder / name).read_text()


def test_the_drawing_needs_nothing_else_and_repeats(tmp_path: Path) -> None:
    first = (run_figure(make_figure(), tmp_path / "a").folder / "plot.svg").read_text()
    again = (run_figure(make_figure(), tmp_path / "b").folder / "plot.svg").read_text()
    assert first == again
    ET.fromstring(first)
    assert not re.search(r'(href|src)="(?!#)', first)
    assert "url(http" not in first and "@import" not in first
    assert "gain (MB/s)" in first  # text stays text


def test_rows_are_asked_again_with_the_same_folder(tmp_path: Path) -> None:
    run_figure(make_figure(), tmp_path)
    made = run_figure(make_figure(), tmp_path)
    assert (made.folder / "rows" / "calls").read_text() == "xx"


def test_what_fails_leaves_no_page(tmp_path: Path) -> None:
    with pytest.raises(LookupError, match="nowhere"):
        run_figure(make_figure(panels=[{"kind": "lines", "sql": "FROM nowhere"}]), tmp_path)
    assert not (tmp_path / "some-paper" / "fig-1" / "page.md").exists()


def test_quiet_keeps_progress_to_itself(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    run_figure(make_figure(), tmp_path, quiet=True)
    assert capsys.readouterr().err == ""
    run_figure(make_figure(), tmp_path)
    assert capsys.readouterr().err == "working\n"


def test_a_folder_that_cannot_be_made_is_refused(tmp_path: Path) -> None:
    (tmp_path / "some-paper").write_text("a file")
    with pytest.raises(InvalidInput, match="choose another folder"):
        run_figure(make_figure(), tmp_path)


def test_several_panels_are_one_below_the_other(tmp_path: Path) -> None:
    panel = {"kind": "lines", "x": "x", "ylabel": "upper"}
    made = run_figure(make_figure(panels=[panel, {**panel, "ylabel": "lower"}]), tmp_path)
    drawing = (made.folder / "plot.svg").read_text()
    assert drawing.index("upper") < drawing.index("lower")


def test_markdown_shows_unknown_as_a_dash_and_escapes() -> None:
    table = pd.DataFrame({"a|b": ["x|y", "z"], "n": [1234567, 2], "v": [0.000123456, None]})
    assert to_markdown(table) == (
        "| a\\|b | n | v |\n|---|---:|---:|\n| x\\|y | 1,234,567 | 0.0001235 |\n| z | 2 | – |\n"
    )
    assert to_csv(table).splitlines()[2] == "z,2,"


def test_markdown_of_flags_and_large_numbers() -> None:
    table = pd.DataFrame({"ok": [True, False], "v": [123456.7, 99.999]})
    assert to_markdown(table).splitlines()[2:] == ["| yes | 123,457 |", "| no | 100 |"]
