"""``streamplace paper --claims`` and ``--tables``: judge claims, and make their tables."""

from __future__ import annotations

import json
import sys
import time
from typing import TYPE_CHECKING

from optim.errors import ExitCode
from optim.util.store import Records

if TYPE_CHECKING:
    import argparse
    from collections.abc import Sequence
    from pathlib import Path

    from experiments.studies.papers.claims.verdicts import Judgement

JOURNAL = "tables-made.jsonl"
"""In the output: tables that a run of many has made; gone once it has made all."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments about claims."""
    group = parser.add_argument_group("claims")
    which = group.add_mutually_exclusive_group()
    which.add_argument(
        "--claims",
        action="store_true",
        help="judge the claims of the papers, or of the paper NAME, from the stored tables",
    )
    which.add_argument(
        "--tables",
        action="store_true",
        help="make the tables behind the claims again: NAME is PAPER, PAPER/TABLE or all; "
        "--reduced makes smaller ones in DIR; an interrupted run continues",
    )
    then = group.add_mutually_exclusive_group()
    then.add_argument(
        "--check", action="store_true", help="end 1 where a committed verdict no longer holds"
    )
    then.add_argument("--write", action="store_true", help="write the verdicts to be committed")
    group.add_argument(
        "--from",
        dest="tables_from",
        metavar="DIR",
        help="judge from the tables in DIR, as `--tables --reduced -o DIR` leaves them; "
        "from the stored ones where DIR has none",
    )


def run_claims(args: argparse.Namespace) -> int:
    """Judge claims and print, compare or write the verdicts."""
    from pathlib import Path

    from experiments.studies.papers.claims import tables, verdicts

    papers = tables.claiming_papers(args.name)
    root = Path(args.tables_from) if args.tables_from else tables.PAPERS
    found = verdicts.judgements(papers, root)
    if args.json:
        content = [one.to_dict() for one in found]
        sys.stdout.write(json.dumps(content, ensure_ascii=False) + "\n")
    else:
        _tell(papers, found)
    if args.write:
        for path in verdicts.write_verdicts(found):
            sys.stderr.write(f"{path}\n")
    if args.check:
        changed = verdicts.no_longer_hold(found)
        for line in changed:
            sys.stderr.write(f"{line}\n")
        if changed:
            return int(ExitCode.INTERNAL)
    return int(ExitCode.OK)


def run_tables(args: argparse.Namespace) -> int:
    """Make tables, full ones into the papers' folders and smaller ones into the output's."""
    from experiments.studies.papers.claims import tables
    from experiments.studies.papers.claims.tables import PAPERS, has_table

    root: Path = args.output if args.reduced else PAPERS
    wanted = tables.makings(args.name or "all")
    # the papers' folders have every table already: what a run of many has made stands in a file
    journal = Records(args.output / JOURNAL) if len(wanted) > 1 and not args.reduced else None
    made = journal.read() if journal else []
    for paper, name, one in wanted:
        table = f"{paper}/{name}"
        if (args.reduced and has_table(paper, name, root)) or table in made:
            where = journal.path if journal else root
            sys.stderr.write(f"{table}: skipped, {where} has it\n")
            continue
        began = time.monotonic()
        path = tables.make_table(paper, name, one, args.reduced, root)
        sys.stderr.write(f"{path} ({time.monotonic() - began:.0f} s)\n")
        if journal:
            journal.add(table)
    if journal:
        journal.path.unlink(missing_ok=True)
    return int(ExitCode.OK)


def _tell(papers: Sequence[str], found: Sequence[Judgement]) -> None:
    from experiments.studies.papers.claims.pages import counts

    for one in found:
        star = "*" if one.claim.starred else ""
        line = f"{one.claim.id + star:13} {one.finding.verdict:10} {one.finding.figure}"
        sys.stdout.write(line.rstrip() + "\n")
        if one.finding.cause:
            sys.stdout.write(f"{'':24} {one.finding.cause}\n")
        if one.finding.left_out:
            left = f"left out: {one.finding.left_out} ({one.finding.left_out_why})"
            sys.stdout.write(f"{'':24} {left}\n")
    sys.stdout.write("\nStarred claims in brackets.\n\n" + counts(papers, found) + "\n")
    starred = [one for one in found if one.claim.starred]
    open_ones = [
        one.claim.id for one in starred if one.finding.verdict != "same" and not one.finding.cause
    ]
    but = f", all but {', '.join(open_ones)}" if open_ones else ""
    held = len(starred) - len(open_ones)
    text = f"\n{held} of {len(starred)} starred claims are the same or have a cause shown{but}.\n"
    sys.stdout.write(text)
