"""``streamplace report DIR``: what a sweep found, as a page, as text and in the terminal."""

from __future__ import annotations

import logging
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING

from streamplace.present.arguments import declare
from streamplace.present.tables import Steps

if TYPE_CHECKING:
    import argparse
    from collections.abc import Callable

    from experiments.report.tables import Report

logger = logging.getLogger(__name__)

EXAMPLES = """\
examples:
  streamplace report build/demo
  streamplace report build/demo -o report.html
  streamplace report build/demo --figures paper --latex

Writes one self-contained page, the same as Markdown beside it, and a folder of CSV files, one a
table; prints the opening tables. The runs are graded first: when they contradict each other (a
plan beyond a bound, two different optima, a plan of a case reported as infeasible) no
report is made, and the runs are named (exit code 1).
docs/reports.md says what every column means."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of the command."""
    declare(parser, "folder", "result folder of a sweep, or its URI", metavar="DIR")
    declare(parser, "-o, --output FILE", "the page, ending in .html (default: report.html in DIR)")
    declare(parser, "--figures OUT", "folder for the figures as SVG and PDF files")
    declare(parser, "--latex", "tables for LaTeX too: in OUT, without it beside the CSV files")
    declare(
        parser, "--master URL", "Spark master where DIR or an output is at a URI that only Hadoop "
        "reads, as hdfs:", default="local[*]"
    )  # fmt: skip


def run(args: argparse.Namespace) -> int:
    """Make the report, write it and print its opening.

    Raises `InvalidInput`: the folder is no result folder, or the output cannot be written.
    Raises `experiments.report.findings.ContradictoryRuns`: the runs contradict each other.
    """
    from experiments.report.build import (
        check_output,
        figures_folder,
        print_report,
        write_drawings,
        write_latex,
        write_report,
    )
    from experiments.report.database import check_folder
    from experiments.spark.remote import files_at, input_at
    from optim.errors import ExitCode
    from optim.util.process import collection_paused
    from streamplace.present.streams import answer_console

    output = args.output or f"{args.folder.rstrip('/')}/report.html"
    with collection_paused(), ExitStack() as stack:
        page = stack.enter_context(files_at(output, args.master))
        folder = check_folder(stack.enter_context(input_at(args.folder, args.master)))
        check_output(page)
        figures = None
        if args.figures:
            figures = figures_folder(stack.enter_context(files_at(args.figures, args.master)))
        logger.info("reading %s", args.folder)
        tell = Steps(quiet=bool(getattr(args, "quiet", False)))
        stack.callback(tell.close)
        report = report_of(folder, tell)
        tell("writing")
        paths = write_report(report, page)
        if figures:
            write_drawings(report, figures)
        if args.latex:
            write_latex(report, figures or paths[2])
    locations = [f"{output.removesuffix(page.name)}{path.name}" for path in paths]
    locations += [args.figures] if figures else []
    console = answer_console()
    print_report(report, console)
    console.print()
    for path, what in zip(locations, ("report", "Markdown", "tables", "figures"), strict=False):
        console.print(f"{what:<9} {path}", soft_wrap=True)
    return int(ExitCode.OK)


def report_of(folder: str | Path, tell: Callable[[str], None] = lambda _: None) -> Report:
    """Return the report of a result folder; `tell` is called with what is being done."""
    from experiments.report.build import make_findings, make_report
    from experiments.report.database import read_sweep
    from experiments.sweep.store import connect

    tell("reading the rows")
    with connect() as con:
        read_sweep(con, Path(folder))
        findings = make_findings(con, tell)
    tell("drawing")
    return make_report(findings, Path(folder))
