"""``streamplace paper``: make the papers' figures again."""

from __future__ import annotations

import contextlib
import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

from experiments.studies.papers.claims import command as claims_command
from optim.errors import ExitCode
from streamplace.present.arguments import add_json

if TYPE_CHECKING:
    import argparse
    from collections.abc import Sequence

    from experiments.studies.papers.figure import Figure, Made

DEFAULT_OUTPUT = "build/papers"

EXAMPLES = """\
examples:
  streamplace paper                                  what there is
  streamplace paper task-allocation/fig-4a
  streamplace paper task-allocation/fig-6 --reduced -o /tmp/papers
  streamplace paper task-allocation                  all figures of that paper
  streamplace paper --claims                         what the papers claim, and what holds here
  streamplace paper --claims task-allocation --check
  streamplace paper --tables task-allocation         the tables behind its claims, measured again

Each makes DIR/<paper>/<figure>/ with table.csv, table.md, plot.svg, plot.png and page.md, which
sets the paper's words beside our figures. An interrupted one is taken up again by the same
command. docs/papers has the results."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the command's arguments."""
    parser.add_argument(
        "name",
        metavar="NAME",
        nargs="?",
        help="a figure, or a paper for all of its figures; leave it out to list them",
    )
    parser.add_argument(
        "-o",
        "--output",
        metavar="DIR",
        type=Path,
        default=Path(DEFAULT_OUTPUT),
        help=f"folder of all figures, each in a folder of its own; default {DEFAULT_OUTPUT}",
    )
    parser.add_argument(
        "--reduced",
        action="store_true",
        help="a smaller run in a folder of its own, labelled so everywhere",
    )
    parser.add_argument(
        "--master", metavar="M", help="Spark master of the sweeps; default local[*]"
    )
    add_json(parser)
    claims_command.add_arguments(parser)


def run(args: argparse.Namespace) -> int:
    """List the figures, or make those that are named.

    Raises
    ------
    StreamplaceError
        As `experiments.studies.papers.running.run_figure`.
    """
    from experiments.studies.papers import all_figures, find_figures
    from experiments.studies.papers.figure import run_figure

    if args.claims or args.check or args.write:
        return claims_command.run_claims(args)
    if args.tables:
        return claims_command.run_tables(args)
    if args.name is None:
        _list(all_figures(), args.json)
        return int(ExitCode.OK)
    quiet = bool(getattr(args, "quiet", False))
    made = []
    try:
        with _session(args.master):
            for figure in find_figures(args.name):
                if not quiet:
                    sys.stderr.write(f"{figure.name}: {figure.title}\n")
                done = run_figure(figure, args.output, reduced=args.reduced, quiet=quiet)
                made.append(done)
                if not args.json:
                    _tell(done)
    except KeyboardInterrupt:
        sys.stderr.write(
            f"\ninterrupted: finished parts are stored in {args.output}; the same command goes on "
            "from there\n"
        )
        return int(ExitCode.INTERRUPTED)
    if args.json:
        content = [_content(done) for done in made]
        sys.stdout.write(json.dumps(content, ensure_ascii=False, allow_nan=False) + "\n")
    return int(ExitCode.OK)


def _session(master: str | None) -> contextlib.AbstractContextManager[Any]:
    """Open a session that the sweeps find active, where one is asked for."""
    if master is None:
        return contextlib.nullcontext()
    from experiments.spark.session import spark_session

    return spark_session(master, "streamplace paper")


def _list(figures: Sequence[Figure], as_json: bool) -> None:
    if as_json:
        content = [figure.to_dict() for figure in figures]
        sys.stdout.write(json.dumps(content, ensure_ascii=False) + "\n")
        return
    width = max((len(figure.name) for figure in figures), default=0)
    for figure in figures:
        sys.stdout.write(f"{figure.name:{width}}  {figure.title}\n")


def _tell(made: Made) -> None:
    from experiments.studies.papers.texts import REDUCED, to_markdown

    lines = [f"{made.figure.title}: {made.figure.source}"]
    if made.reduced:
        lines.append(f"({REDUCED})")
    lines += ["", f"The paper: {made.figure.words}", ""]
    lines += [f"Here: {sentence}" for sentence in made.measured]
    lines += ["", to_markdown(made.table), f"{made.folder / 'page.md'} ({made.seconds:.0f} s)", ""]
    sys.stdout.write("\n".join(lines) + "\n")


def _content(made: Made) -> dict[str, Any]:
    records = json.loads(made.table.to_json(orient="records"))  # unknown becomes null
    return {
        **made.figure.to_dict(),
        "reduced": made.reduced,
        "folder": str(made.folder),
        "seconds": made.seconds,
        "measured": list(made.measured),
        "table": records,
    }
