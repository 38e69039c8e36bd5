"""Figures are found by name, and every one of them is declared whole."""

from __future__ import annotations

import argparse
import json
import re
import subprocess
import sys
from pathlib import Path

import pytest

from experiments.studies.papers import all_figures, command, find_figures, pages
from experiments.studies.papers.figure import Figure, run_figure
from optim.errors import InvalidInput
from tests.studies.papers.test_running import make_figure

FIGURES = all_figures()


@pytest.mark.parametrize("figure", FIGURES, ids=lambda figure: figure.name)
def test_every_figure_says_what_it_is(figure: Figure) -> None:
    assert re.fullmatch(r"[a-z0-9]+(-[a-z0-9]+)*/[a-z0-9]+(-[a-z0-9]+)*", figure.name)
    for text in (figure.title, figure.source, figure.words):
        assert text.strip()
    # comparisons of our own are not out of a paper
    ours = figure.source.startswith("Ours")
    assert ours or re.search(r"\b(19|20)\d\d\b", figure.source), "the source has no year"
    assert find_figures(figure.name) == [figure]


def test_names_are_unique() -> None:
    names = [figure.name for figure in FIGURES]
    assert len(set(names)) == len(names)


def test_a_paper_names_all_of_its_figures() -> None:
    found = find_figures("task-allocation")
    assert len(found) > 1
    assert {figure.paper for figure in found} == {"task-allocation"}


def test_an_unknown_name_is_told_with_the_nearest() -> None:
    with pytest.raises(InvalidInput, match=r"did you mean task-allocation/fig-4a\?"):
        find_figures("task-alocation/fig-4a")


def test_order_is_that_of_a_reader() -> None:
    names = [figure.name for figure in FIGURES if figure.paper == "albic"]
    assert names == [f"albic/fig-{n}" for n in ("2", "3", "4", "5", "8-9", "10", "11")]


def test_the_list_imports_nothing_heavy() -> None:
    code = (
        "import sys; from experiments.studies.papers import all_figures; all_figures(); "
        "print([m for m in ('pandas', 'matplotlib', 'pyspark', 'numba') if m in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def run(*words: str) -> int:
    parser = argparse.ArgumentParser()
    command.add_arguments(parser)
    return command.run(parser.parse_args(words))


def test_the_command_lists(capsys: pytest.CaptureFixture[str]) -> None:
    assert run() == 0
    assert "task-allocation/fig-4a " in capsys.readouterr().out
    assert run("--json") == 0
    listed = json.loads(capsys.readouterr().out)
    assert [entry["name"] for entry in listed] == [figure.name for figure in FIGURES]


def test_the_command_makes_a_figure(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(
        "experiments.studies.papers.find_figures", lambda name: [make_figure(name=name)]
    )
    assert run("p/f", "-o", str(tmp_path), "--reduced") == 0
    captured = capsys.readouterr()
    assert "The paper: It grows." in captured.out
    assert "reduced" in captured.out
    assert "p/f: A < B & C" in captured.err
    assert run("p/f", "-o", str(tmp_path), "--json") == 0
    (content,) = json.loads(capsys.readouterr().out)
    assert content["measured"] == ["It grows to 3.70."]
    assert content["table"][0] == {"x": 1, "gain (MB/s)": 1.234375}
    assert content["reduced"] is False


def test_an_interrupted_command_says_how_to_go_on(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def stopped(folder: Path, reduced: bool) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(
        "experiments.studies.papers.find_figures", lambda name: [make_figure(rows=stopped)]
    )
    assert run("p/f", "-o", str(tmp_path)) == 130
    assert "goes on" in capsys.readouterr().err


def test_a_paper_is_collected_into_one_page(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    figures = [make_figure(name=f"task-allocation/fig-{n}") for n in (1, 2)]
    monkeypatch.setattr(pages, "find_figures", lambda name: figures)
    folders = (tmp_path / "made", tmp_path / "docs", tmp_path / "tables")
    run_figure(figures[0], tmp_path / "made")
    with pytest.raises(InvalidInput, match="streamplace paper task-allocation/fig-2"):
        pages.collect("task-allocation", *folders)
    run_figure(figures[1], tmp_path / "made", reduced=True)
    page = pages.collect("task-allocation", *folders).read_text()
    assert page.startswith("# ")
    assert page.count("\n## A < B & C") == 2
    assert page.count("reduced run") == 1  # stands in for the full one, and says so
    for image in re.findall(r"!\[[^]]*\]\(([^)]*)\)", page):
        assert (tmp_path / "docs" / image).is_file()


def test_what_was_drawn_is_taken_where_the_table_has_not_all(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    panel = {"kind": "lines", "x": "x", "sql": "FROM runs"}  # the stored table alone has not these
    figure = make_figure(name="task-allocation/fig-1", panels=[panel], keeps_sentences=True)
    monkeypatch.setattr(pages, "find_figures", lambda name: [figure])
    folders = (tmp_path / "made", tmp_path / "docs", tmp_path / "tables")
    run_figure(figure, tmp_path / "made")
    pages.collect("task-allocation", *folders)
    (image,) = (tmp_path / "docs" / "img").iterdir()
    assert image.read_bytes() == next((tmp_path / "made").rglob("plot.svg")).read_bytes()
