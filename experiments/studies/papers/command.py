"""``streamplace paper``: make the papers' figures again."""

from __future__ import annotations

import argparse
import contextlib
import json
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from optim.errors import ExitCode, InvalidInput, Problem
from optim.util.store import Records
from streamplace.present.arguments import add_json, declare

if TYPE_CHECKING:
    from experiments.studies.papers.claims import Judgement
    from experiments.studies.papers.figure import Figure, Made

DEFAULT_OUTPUT = "build/papers"
JOURNAL = "tables-made.jsonl"
"""In the output: tables that a run of many has made; gone once it has made all."""

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
    declare(
        parser, "NAME", "a figure, or a paper for all of its figures; leave it out to list them",
        nargs="?",
    )  # fmt: skip
    declare(
        parser, "-o, --output DIR", "folder of all figures, each in a folder of its own; default "
        f"{DEFAULT_OUTPUT}", Path, Path(DEFAULT_OUTPUT),
    )  # fmt: skip
    declare(parser, "--reduced", "a smaller run in a folder of its own, labelled so everywhere")
    declare(parser, "--master M", "Spark master of the sweeps; default local[*]")
    add_json(parser)
    group = parser.add_argument_group("claims")
    which = group.add_mutually_exclusive_group()
    declare(
        which, "--claims", "assess the claims of the papers, or of the paper NAME, from the stored "
        "tables",
    )  # fmt: skip
    declare(
        which, "--tables", "make the tables behind the claims again: NAME is PAPER, PAPER/TABLE or "
        "all; --reduced makes smaller ones in DIR; an interrupted run continues",
    )  # fmt: skip
    then = group.add_mutually_exclusive_group()
    declare(then, "--check", "exit 1 if a committed verdict does not hold")
    declare(then, "--write", "write the verdicts to be committed")
    declare(
        group, "--from DIR", "assess from the tables in DIR, as `--tables --reduced -o DIR` leaves "
        "them; from the stored ones where DIR has none", dest="tables_from",
    )  # fmt: skip


def run(args: argparse.Namespace) -> int:
    """List the figures, or make those that are named.

    Raises `InvalidInput`: tables are to be made and claims to be judged at once, or ``--from`` is
    no folder. Raises `StreamplaceError`: as `experiments.studies.papers.figure.run_figure`.
    """
    from experiments.spark.session import spark_session
    from experiments.studies.papers import all_figures, find_figures
    from experiments.studies.papers.figure import run_figure

    if args.tables and (args.check or args.write):
        flag, remedy = "--check" if args.check else "--write", "run `streamplace paper --claims`"
        raise InvalidInput(Problem(flag, None, "judges claims and makes no tables", remedy))
    if args.tables_from and not Path(args.tables_from).is_dir():
        remedy = "name the folder that `--tables --reduced -o DIR` wrote"
        raise InvalidInput(Problem("--from", args.tables_from, "is no folder", remedy))
    if args.claims or args.check or args.write:
        return run_claims(args)
    if args.tables:
        return run_tables(args)
    if args.name is None:
        _list(all_figures(), args.json)
        return int(ExitCode.OK)
    quiet = bool(getattr(args, "quiet", False))
    finished = []
    try:
        # sweeps use the session that is active
        master = args.master
        with spark_session(master, "streamplace paper") if master else contextlib.nullcontext():
            for figure in find_figures(args.name):
                if not quiet:
                    sys.stderr.write(f"{figure.name}: {figure.title}\n")
                done = run_figure(figure, args.output, reduced=args.reduced, quiet=quiet)
                finished.append(done)
                if not args.json:
                    _print_figure(done)
    except KeyboardInterrupt:
        sys.stderr.write(
            f"\ninterrupted: finished parts are stored in {args.output}; the same command goes on "
            "from there\n"
        )
        return int(ExitCode.INTERRUPTED)
    if args.json:
        content = [_content(done) for done in finished]
        sys.stdout.write(json.dumps(content, ensure_ascii=False, allow_nan=False) + "\n")
    return int(ExitCode.OK)


def _list(figures: Sequence[Figure], as_json: bool) -> None:
    if as_json:
        content = [figure.to_dict() for figure in figures]
        sys.stdout.write(json.dumps(content, ensure_ascii=False) + "\n")
        return
    width = max((len(figure.name) for figure in figures), default=0)
    for figure in figures:
        sys.stdout.write(f"{figure.name:{width}}  {figure.title}\n")


def _print_figure(finished: Made) -> None:
    from experiments.studies.papers.figure import REDUCED, to_markdown

    lines = [f"{finished.figure.title}: {finished.figure.source}"]
    if finished.reduced:
        lines.append(f"({REDUCED})")
    lines += ["", f"The paper: {finished.figure.words}", ""]
    lines += [f"Here: {sentence}" for sentence in finished.measured]
    lines += [
        "",
        to_markdown(finished.table),
        f"{finished.folder / 'page.md'} ({finished.seconds:.0f} s)",
        "",
    ]
    sys.stdout.write("\n".join(lines) + "\n")


def _content(finished: Made) -> dict[str, Any]:
    records = json.loads(finished.table.to_json(orient="records"))  # unknown becomes null
    return {
        **finished.figure.to_dict(), "reduced": finished.reduced, "folder": str(finished.folder),
        "seconds": finished.seconds, "measured": list(finished.measured), "table": records,
    }  # fmt: skip


def run_claims(args: argparse.Namespace) -> int:
    """Judge claims and print, compare or write the verdicts."""
    from experiments.studies.papers import claims, tables

    papers = tables.claiming_papers(args.name)
    root = Path(args.tables_from) if args.tables_from else tables.PAPERS
    judgements = claims.judgements(papers, root)
    if args.json:
        content = [one.to_dict() for one in judgements]
        sys.stdout.write(json.dumps(content, ensure_ascii=False) + "\n")
    else:
        _print_claims(papers, judgements)
    if args.write:
        for path in claims.write_verdicts(judgements):
            sys.stderr.write(f"{path}\n")
    if args.check:
        changed = claims.no_longer_hold(judgements)
        for line in changed:
            sys.stderr.write(f"{line}\n")
        if changed:
            return int(ExitCode.INTERNAL)
    return int(ExitCode.OK)


def run_tables(args: argparse.Namespace) -> int:
    """Make tables, full ones into the papers' folders and smaller ones into the output's."""
    from experiments.studies.papers import tables
    from experiments.studies.papers.tables import PAPERS, has_table

    root: Path = args.output if args.reduced else PAPERS
    makings = tables.makings(args.name or "all")
    # the papers' folders have every table already: what a run of many has made stands in a file
    journal = Records(args.output / JOURNAL) if len(makings) > 1 and not args.reduced else None
    finished = journal.read() if journal else []
    for one in makings:
        table = f"{one.paper}/{one.name}"
        if (args.reduced and has_table(one.paper, one.name, root)) or table in finished:
            where = journal.path if journal else root
            sys.stderr.write(f"{table}: skipped, {where} has it\n")
            continue
        began = time.monotonic()
        path = tables.make_table(one, args.reduced, root)
        sys.stderr.write(f"{path} ({time.monotonic() - began:.0f} s)\n")
        if journal:
            journal.add(table)
    if journal:
        journal.path.unlink(missing_ok=True)
    return int(ExitCode.OK)


def _print_claims(papers: Sequence[str], judgements: Sequence[Judgement]) -> None:
    from experiments.studies.papers.claims import counts

    for one in judgements:
        star = "*" if one.claim.starred else ""
        line = f"{one.claim.id + star:13} {one.finding.verdict:10} {one.finding.figure}"
        sys.stdout.write(line.rstrip() + "\n")
        if one.finding.cause:
            sys.stdout.write(f"{'':24} {one.finding.cause}\n")
        if one.finding.left_out:
            note = f"left out: {one.finding.left_out} ({one.finding.left_out_why})"
            sys.stdout.write(f"{'':24} {note}\n")
    sys.stdout.write("\nStarred claims in brackets.\n\n" + counts(papers, judgements) + "\n")
    starred = [one for one in judgements if one.claim.starred]
    open_ones = [
        one.claim.id for one in starred if one.finding.verdict != "same" and not one.finding.cause
    ]
    but = f", all but {', '.join(open_ones)}" if open_ones else ""
    explained = len(starred) - len(open_ones)
    text = (
        f"\n{explained} of {len(starred)} starred claims are the same or have a cause shown{but}.\n"
    )
    sys.stdout.write(text)
