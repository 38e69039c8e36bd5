"""``streamplace flink submit``: a user's program, unchanged, with the groups of a plan."""

from __future__ import annotations

import json
import sys
from typing import TYPE_CHECKING

from experiments.cli.arguments import add_json, assignment, seconds

if TYPE_CHECKING:
    import argparse

    from experiments.flink.client import FlinkClient

EXAMPLES = """\
examples:
  streamplace flink submit http://localhost:8081 sheet.json --jar job.jar --class org.example.Job \\
    -- --topic orders
  streamplace flink submit http://localhost:8081 sheet.json --sql job.sql \\
    -D parallelism.default=4
  streamplace flink submit http://localhost:8081 sheet.json --jar job.jar --dry-run

The sheet is what `streamplace export flink` wrote; task managers must offer its quotas. The job's
id goes to stdout. exit codes: 0 all subtasks run, 1 submitted but they do not all run, 2 refused.

Needs the extra: pip install 'streamplace[flink]'. docs/flink.md says more."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the command's arguments."""
    parser.add_argument("verb", choices=("submit",), help="what to do")
    parser.add_argument("url", metavar="URL", help="the job manager's REST address")
    parser.add_argument("plan", metavar="SHEET", help="that `export flink` wrote, or a plan")
    parser.add_argument("arguments", metavar="ARG", nargs="*", help="of the program, after --")
    parser.add_argument("--instance", metavar="FILE", help="of a plan that is no sheet")
    program = parser.add_mutually_exclusive_group(required=True)
    program.add_argument("--jar", metavar="FILE", help="the program")
    program.add_argument("--sql", metavar="FILE", help="a script, as Flink's SQL client takes it")
    parser.add_argument("--class", metavar="NAME", dest="main", help="the jar's class with main()")
    parser.add_argument(
        "-D",
        metavar="K=V",
        dest="settings",
        type=assignment,
        action="append",
        default=[],
        help="a key of Flink's configuration; may be given again",
    )
    parser.add_argument(
        "--managed-memory",
        metavar="MB",
        type=int,
        default=0,
        help="of a slot, for RocksDB, Python and batch operators; default 0",
    )
    parser.add_argument("--flink-home", metavar="DIR", help="an unpacked Flink, not the package")
    parser.add_argument("--dry-run", action="store_true", help="check all, submit nothing")
    parser.add_argument(
        "--wait", metavar="S", type=float, default=60.0, help="for subtasks to run; default 60"
    )
    parser.add_argument(
        "--timeout", metavar="S", type=seconds, default=10.0, help="of an answer; default 10"
    )
    add_json(parser)


def run(args: argparse.Namespace) -> int:
    """Check, submit, and wait until all subtasks run.

    Raises
    ------
    InvalidInput
        The plan, the program and the cluster do not fit; then nothing was submitted.
    """
    from pathlib import Path

    from experiments.cli.inputs import load_instance
    from experiments.flink.inputs import read_plan
    from experiments.flink.live import wait_until_running
    from experiments.flink.sheet import Sheet
    from experiments.flink.sql import read_script
    from experiments.flink.submitting import check_quotas, groups_of_job, submit
    from experiments.interchange.importers.flink_reading import read_task_managers
    from experiments.interchange.ledger import Ledger
    from experiments.interchange.sources import read_text
    from experiments.interchange.web import WebClient
    from optim.errors import InvalidInput, Problem

    instance = None if args.instance is None else load_instance(args.instance)
    sheet = read_plan(args.plan, instance)
    if not isinstance(sheet, Sheet):
        remedy = "`streamplace export flink INSTANCE PLAN -o SHEET`, or --instance INSTANCE"
        raise InvalidInput(Problem(args.plan, None, "does not name vertices", remedy))
    script = None if args.sql is None else read_script(read_text(Path(args.sql)))
    if args.jar is not None and not Path(args.jar).is_file():
        raise InvalidInput(Problem("--jar", args.jar, "does not exist"))
    client = WebClient(args.url.rstrip("/"), args.timeout)
    ledger = Ledger()
    managers = read_task_managers(client.get("taskmanagers"), "taskmanagers", ledger)
    ledger.check()

    def make(flink: FlinkClient) -> object:
        if script is not None:
            graph = flink.graph_of_sql(script)
        else:
            graph = flink.graph_of_jar(args.jar, args.main, args.arguments)
        check_quotas(sheet, groups_of_job(sheet, flink.vertices_of(graph)), managers)
        return graph

    job, groups = submit(
        args.url,
        sheet,
        dict(args.settings),
        make,
        home=args.flink_home,
        managed=args.managed_memory,
        dry_run=args.dry_run,
    )
    runs = job is not None and wait_until_running(client, job, args.wait)
    slots = sum(group.parallelism for group in groups)
    if args.json:
        answer = {"job": job, "running": runs, "groups": len(groups), "slots": slots}
        sys.stdout.write(json.dumps(answer) + "\n")
    elif job is not None:
        sys.stdout.write(f"{job}\n")
    if not args.quiet:
        state = "fits, and was not submitted" if job is None else "does not run yet"
        state = "runs" if runs else state
        sys.stderr.write(f"plan {sheet.key}: {slots} slots in {len(groups)} groups: {state}\n")
    return 0 if runs or args.dry_run else 1
