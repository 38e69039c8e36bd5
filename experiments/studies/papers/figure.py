"""A figure (or a table) of a paper: its words, its rows, its table, its plot, and how it is made.

The figures of a paper are entries of its ``figures.toml``:

- ``name``, ``title``, ``source``, ``words``, ``readings``, ``size``: texts, as `Figure` has them;
  one that is a key of ``[texts]`` stands for the text there;
- where its rows come from: ``tables``, stored tables of the paper; ``sweep``, a TOML file beside,
  with ``reduced`` (`tables.change`); ``run`` with what goes with it (`tables`); or
  ``rows``, a function ``"module:name"`` of the paper that is called with a folder of its own,
  whether the run is reduced, and what ``given`` has. Rows of the latter three are the table
  ``runs`` of queries;
- ``sql``: the query on them, and on ``[views]``, that gives the figure's table;
- ``measured``: texts with values (`query`) over the table ``shown``, or ``{sql, text}`` for one
  text a row of a query: our figures beside the paper's words;
- ``panels``: what is drawn (`charts`);
- ``like``: the name of another figure, whose keys hold where the entry has none of its own.

With ``keeps_sentences``, texts and panels may name the rows as well: they are made with the table.

``streamplace paper`` makes a figure; ``python -m experiments.studies.papers.pages PAPER`` puts all
that were made in ``build/papers`` into ``docs/papers/PAPER.md``. Columns of the table are named as
a reader is to see them, with units; numbers are rounded when shown, never in ``table.csv``.
"""

from __future__ import annotations

import contextlib
import json
import os
import platform
import sys
import time
import tomllib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from experiments.studies.papers.query import Tables
from experiments.studies.papers.tables import (
    change,
    function_of,
    load,
    run_rows,
    runs_of,
    tables_of,
    to_csv,
)
from optim.errors import InvalidInput, Problem
from optim.util.files import write_atomic
from optim.util.process import usable_cores
from streamplace.present.table import markdown

if TYPE_CHECKING:
    import pandas as pd


REDUCED = "reduced run, smaller than the paper's"

Frames = dict[str, "pd.DataFrame"]  # Rows of several tables, by name.

Rows = Callable[[Path, bool], "pd.DataFrame | Frames"]
"""Makes the rows of a figure, perhaps a smaller one; goes on with what its folder has already."""


@dataclass(frozen=True)
class Figure:
    """A figure, table or stated result of a paper, and how to make it again."""

    name: str  # `paper/figure`, as the command line takes it
    # title, source: one line; paper, year and number of the figure or section.
    title: str
    source: str
    words: str  # what the paper says comes out, in our words
    rows: Rows  # called with a folder of its own and whether the run is reduced; gives frames
    # sql, views: the query on these that gives the table, and what it may name.
    sql: str
    # What is drawn of the table (`charts`), one below the other, with one x-axis.
    panels: Sequence[dict[str, Any]]
    # Queries on the table, and texts that set our figures beside the paper's words.
    texts: Sequence[tuple[str, str]] = ()
    views: Mapping[str, str] = field(default_factory=dict)
    readings: Sequence[str] = ()  # what we chose where the paper is silent, and other differences
    size: str = ""  # what full size means, and what `reduced` does to it
    # Whether texts and panels name the rows, too: sentences are then stored with the table.
    keeps_sentences: bool = False
    stored: Sequence[str] = ()  # the stored tables that the rows are

    @property
    def paper(self) -> str:
        """The part of the name before the slash."""
        return self.name.partition("/")[0]

    def to_dict(self) -> dict[str, Any]:
        """Return what ``streamplace paper --json`` lists."""
        texts = {key: getattr(self, key) for key in ("name", "title", "source", "words")}
        return {**texts, "readings": list(self.readings), "size": self.size}

    def table(self, rows: pd.DataFrame | Frames) -> pd.DataFrame:
        """Return the table of some rows; with these in its ``attrs`` where sentences need them."""
        frames = rows if isinstance(rows, dict) else {"runs": rows}
        with Tables(frames, self.views, self.name) as tables:
            table = tables.table(self.sql)
        if self.keeps_sentences:
            table.attrs["frames"] = frames
        return table

    def plot(self, table: pd.DataFrame, axes: Any) -> None:
        """Draw a table on matplotlib axes: on a list of them where there are several panels."""
        from experiments.studies.papers.charts import draw_panels

        with self._tables_of(table) as tables:
            draw_panels(tables, self.panels, axes)

    def measured(self, table: pd.DataFrame) -> list[str]:
        """Return the sentences on a table."""
        with self._tables_of(table) as tables:
            return [sentence for sql, text in self.texts for sentence in tables.texts(sql, text)]

    def _tables_of(self, table: pd.DataFrame) -> Tables:
        frames = {"shown": table, **table.attrs.get("frames", {})}
        return Tables(frames, self.views, self.name)


def read_figures(path: Path) -> list[Figure]:
    """Return the figures of a paper's ``figures.toml``, in its order."""
    document = tomllib.loads(path.read_text(encoding="utf-8"))
    texts, views = document.get("texts", {}), document.get("views", {})
    # `like` takes what an entry does not say from another one of the file
    by_name = {entry["name"]: entry for entry in document["figure"]}
    whole = ({**by_name.get(entry.get("like"), {}), **entry} for entry in document["figure"])
    return [_figure(path.parent, entry, texts, views) for entry in whole]


def _figure(
    folder: Path, entry: dict[str, Any], texts: Mapping[str, str], views: Mapping[str, str]
) -> Figure:
    def text_of(text: str) -> str:
        return texts.get(text, text)

    sentences = [
        ("FROM shown", one) if isinstance(one, str) else (one["sql"], one["text"])
        for one in entry.get("measured", ())
    ]
    words: dict[str, Any] = {
        key: text_of(entry[key]) for key in ("source", "words", "size") if key in entry
    }
    return Figure(
        name=f"{folder.name.replace('_', '-')}/{entry['name']}",
        title=entry["title"],
        **words,
        sql=entry["sql"],
        panels=entry["panels"],
        rows=partial(_rows, folder, entry),
        texts=[(sql, text_of(text)) for sql, text in sentences],
        views=views,
        readings=tuple(map(text_of, entry.get("readings", ()))),
        keeps_sentences=entry.get("keeps_sentences", False),
        stored=entry.get("tables", ()),
    )


def _rows(paper: Path, entry: dict[str, Any], folder: Path, reduced: bool) -> pd.DataFrame | Frames:
    """Return the rows of an entry: made, or those that are in the folder."""
    if "tables" in entry:
        return {name: _stored_table(paper.name, name, folder, reduced) for name in entry["tables"]}
    if "sweep" in entry:
        spec = load(paper / entry["sweep"], entry["reduced"] if reduced else None)
        return run_rows(spec, folder, wide=entry.get("wide", False))
    if "run" in entry:
        run = change(entry, entry.get("reduced", {})) if reduced else entry
        return runs_of(paper.name, run, folder / "parts")
    make = function_of(paper.name, entry["rows"])
    rows: pd.DataFrame | Frames = make(folder, reduced, **entry.get("given", {}))
    return rows


def _stored_table(paper: str, name: str, folder: Path, reduced: bool) -> pd.DataFrame:
    """Return a table of the paper, made where the folder has it not."""
    import pandas as pd

    path = folder / f"{name}.csv"
    if not path.is_file():
        folder.mkdir(parents=True, exist_ok=True)
        write_atomic(path, to_csv(tables_of(paper)[name].make(reduced)))
    return pd.read_csv(path)


@dataclass(frozen=True)
class Made:
    """A finished figure: its folder, table and sentences, and the seconds that this call took."""

    figure: Figure
    folder: Path
    table: pd.DataFrame
    measured: tuple[str, ...]
    reduced: bool
    seconds: float


def run_figure(
    figure: Figure, output: str | Path, *, reduced: bool = False, quiet: bool = False
) -> Made:
    """Make a figure; one that was interrupted is gone on with.

    `output`: folder for all figures; this one's is in it, under its name. A reduced run has
    another. `quiet`: show no progress on standard error. Raises `InvalidInput`: the folder cannot
    be used. Raises `StreamplaceError`: a run failed, or Spark did.
    """
    began = time.monotonic()
    folder = folder_of(figure, output, reduced)
    rows_folder = folder / "rows"
    try:
        rows_folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        reason = f"cannot be made: {error.strerror}"
        raise InvalidInput(
            Problem("--output", str(folder), reason, "choose another folder")
        ) from None
    with (
        Path(os.devnull).open("w", encoding="utf-8") as nowhere,
        contextlib.redirect_stderr(nowhere if quiet else sys.stderr),  # of sweeps and replays
    ):
        rows = figure.rows(rows_folder, reduced)
    table = figure.table(rows)
    measured = tuple(figure.measured(table))
    write_atomic(folder / "table.csv", to_csv(table))
    write_atomic(folder / "measured.json", json.dumps(measured, ensure_ascii=False))
    label = f"*This is a {REDUCED}.*\n\n" if reduced else ""
    write_atomic(folder / "table.md", label + to_markdown(table))
    draw(figure, table, folder / "plot.svg", reduced=reduced)
    provenance = _provenance(figure, rows, reduced)
    # last: a folder with a page is finished
    write_atomic(folder / "page.md", page(figure, table, measured, reduced, provenance=provenance))
    return Made(figure, folder, table, measured, reduced, time.monotonic() - began)


def folder_of(figure: Figure, output: str | Path, reduced: bool) -> Path:
    """Return where a figure's files go; a reduced run never mixes with a full one."""
    paper, _, name = figure.name.partition("/")
    return Path(output) / paper / (f"{name}-reduced" if reduced else name)


def draw(figure: Figure, table: pd.DataFrame, path: Path, *, reduced: bool) -> None:
    """Draw a table as an SVG file, and in a folder of figures as PNG too."""
    from experiments.studies.papers.charts import tidy
    from streamplace.present.plots import canvas, to_png, to_svg

    title = f"{figure.title} (reduced)" if reduced else figure.title
    with canvas(len(figure.panels), title) as (drawing, axes):
        figure.plot(table, axes)
        tidy(drawing)
        write_atomic(path, to_svg(drawing, title))
        if path.name == "plot.svg":
            write_atomic(path.with_suffix(".png"), to_png(drawing))


def _provenance(figure: Figure, rows: pd.DataFrame | Frames, reduced: bool) -> str:
    from optim.methods.registry import package_version

    command = f"streamplace paper {figure.name}" + (" --reduced" if reduced else "")
    count = sum(map(len, rows.values())) if isinstance(rows, dict) else len(rows)
    cores = usable_cores()
    return (
        f"`{command}`: {count:,} rows, streamplace {package_version('streamplace')}, "
        f"Python {platform.python_version()}, {cores} cores."
    )


# --- texts -----------------------------------------------------------------------------------


def to_markdown(table: pd.DataFrame) -> str:
    """Return the table for reading: four significant digits, unknown as a dash."""
    names_prover = "by" in table.columns  # a column says who proves each
    heads = [by_whom(str(name), names_prover=names_prover) for name in table.columns]
    # integers, unsigned integers and floats stand to the right
    right = [head for head, kind in zip(heads, table.dtypes, strict=True) if kind.kind in "iuf"]
    return markdown(heads, [[*map(_cell, row)] for row in table.itertuples(index=False)], right)


def by_whom(head: str, *, names_prover: bool = False) -> str:
    """Say of a column of proofs who gives them: one solver, unless a column says so."""
    if "prove" not in head:
        return head
    if head.startswith(("proved", "proven (")) or head == "proven":
        head = head.replace("proved", "optimal").replace("proven", "optimal")
    head = head.removesuffix(", proved").removeprefix("proven ")
    return head if names_prover else f"{head}, by one solver"


def _cell(value: Any) -> str:
    import pandas as pd

    from streamplace.present.numbers import number

    if isinstance(value, bool):
        return "yes" if value else "no"
    if not isinstance(value, str) and pd.isna(value):
        return "–"
    if isinstance(value, int):
        return f"{value:,}"
    if isinstance(value, float):
        return number(value)
    return str(value)


def linked(table: pd.DataFrame, link: str) -> str:
    """Return the words that stand for a stored table."""
    return f"[{len(table)} rows]({link})"


def page(
    figure: Figure,
    table: pd.DataFrame,
    measured: Sequence[str],
    reduced: bool,
    *,
    provenance: str = "",
    link: str = "",
) -> str:
    """Return the page: the paper's words, ours, the plot, the table.

    `measured`: our figures as sentences. `provenance`: command, versions and size of the run; empty
    where the page says so elsewhere. `link`: where the table is stored, for a page of the
    documentation, which does not show it.
    """
    about = [f"{figure.source}. `{figure.name}`"]
    about += [figure.size.removesuffix(".")] if figure.size else []
    about += [linked(table, link)] if link else []
    parts = [f"# {figure.title}", ". ".join(about)]
    if reduced:
        parts.append(f"**This is a {REDUCED}.**")
    parts += ["## The paper", figure.words] if figure.words else []
    parts += ["## Measured"]
    if measured:
        parts.append("\n".join(f"- {sentence}" for sentence in measured))
    parts += ["![Plot](plot.svg)"] + ([] if link else [to_markdown(table).rstrip()])
    if figure.readings:
        readings = "\n".join(f"- {reading}" for reading in figure.readings)
        parts += ["## Readings", readings]
    if provenance:
        parts += ["## How it was made", provenance]
    return "\n\n".join(parts) + "\n"
