"""``streamplace report DIR``: what a sweep found, as a page, as text and in the terminal."""

from __future__ import annotations

import logging
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import argparse

    from experiments.report.document import Report

logger = logging.getLogger(__name__)

EXAMPLES = """\
examples:
  streamplace report build/demo
  streamplace report build/demo -o report.html
  streamplace report build/demo --figures paper --latex

Writes one self-contained page, the same as Markdown beside it, and a folder of CSV files, one a
table; prints the opening tables. The runs are graded first: when they contradict each other (a
plan beyond a proven bound, two different proven optima, a plan of a case proven infeasible) no
report is made, and the runs are named (exit code 1).
docs/reports.md tells what every column means."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of the command."""
    parser.add_argument("folder", metavar="DIR", help="result folder of a sweep")
    parser.add_argument(
        "-o",
        "--output",
        metavar="FILE",
        help="the page, ending in .html (default: report.html in DIR)",
    )
    parser.add_argument(
        "--figures", metavar="OUT", help="folder for the figures as SVG and PDF files"
    )
    parser.add_argument(
        "--latex",
        action="store_true",
        help="tables for LaTeX too: in OUT, without it beside the CSV files",
    )
    parser.add_argument(
        "--master", default="local[*]", metavar="URL", help="Spark master (default: %(default)s)"
    )


def run(args: argparse.Namespace) -> int:
    """Make the report, write it and print its opening.

    Raises
    ------
    InvalidInput
        The folder is no result folder, or the output cannot be written.
    experiments.report.grading.ContradictoryRuns
        The runs contradict each other.
    """
    from experiments.cli.console import answer_console
    from experiments.report.build import check_folder
    from experiments.report.terminal import print_report
    from experiments.report.writing import (
        check_output,
        figures_folder,
        write_drawings,
        write_latex,
        write_report,
    )
    from optim.exit_codes import ExitCode

    folder = check_folder(args.folder)
    output = check_output(args.output or folder / "report.html")
    figures = figures_folder(args.figures) if args.figures else None
    logger.info("reading %s", folder)
    report = report_of(folder, args.master)
    paths = write_report(report, output)
    if figures:
        write_drawings(report, figures)
        paths.append(figures)
    if args.latex:
        write_latex(report, figures or paths[2])
    console = answer_console()
    print_report(report, console)
    console.print()
    for path, what in zip(paths, ("report", "Markdown", "tables", "figures"), strict=False):
        console.print(f"{what:<9} {path}", soft_wrap=True)
    return int(ExitCode.OK)


def report_of(folder: str | Path, master: str = "local[*]") -> Report:
    """Return the report of a result folder.

    Parameters
    ----------
    folder
        The folder.
    master
        Spark master; not used where a session is running.
    """
    from experiments.report.build import make_findings, make_report, read_sweep
    from experiments.report.views import report_session
    from experiments.spark.session import spark_session

    with spark_session(master, app_name="streamplace report") as session:
        spark = report_session(session)
        findings = make_findings(spark, read_sweep(spark, Path(folder)))
    return make_report(findings)
