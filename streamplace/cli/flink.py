"""``streamplace flink``: submit a program so that it runs as planned, or watch a cluster."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from optim.errors import InvalidInput, Problem
from streamplace.clusters.exchange.sources import read_text
from streamplace.clusters.exchange.web import WebClient
from streamplace.clusters.flink.exporter import Sheet, read_plan
from streamplace.clusters.flink.fetch import read_managers, wait_until_running
from streamplace.clusters.flink.submit import check_quotas, groups_of_job, read_script, submit
from streamplace.clusters.flink.watch import watch
from streamplace.present.arguments import (
    add_json,
    add_option,
    assignment,
    count,
    delay,
    growth,
    seconds,
)
from streamplace.present.inputs import load_instance
from streamplace.present.streams import print_json

if TYPE_CHECKING:
    from streamplace.clusters.flink.submit import FlinkClient

EXAMPLES = """\
examples:
  streamplace flink submit http://localhost:8081 sheet.json --jar job.jar --class org.example.Job \\
    --args --topic orders
  streamplace flink submit http://localhost:8081 sheet.json --sql job.sql \\
    -D parallelism.default=4
  streamplace flink submit http://localhost:8081 sheet.json --jar job.jar --dry-run
  streamplace flink watch http://localhost:8081 --every 300 --gain 0.1
  streamplace flink watch http://localhost:8081 --apply ./roll-out.sh --cool-down 3600

The sheet is what `streamplace export flink` wrote; task managers must offer its quotas. The job's
id goes to stdout. exit codes of submit: 0 all subtasks run, 1 submitted but they do not all run, 2
refused. Submit needs the extra: pip install 'streamplace[flink]'. docs/flink.md says more."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the command's arguments."""
    parser.add_argument("verb", choices=("submit", "watch"), help="what to do")
    parser.add_argument("url", metavar="URL", help="the job manager's REST address")
    parser.add_argument(
        "plan", metavar="SHEET", nargs="?", help="of submit: what `export flink` wrote, or a plan"
    )
    parser.add_argument(
        "--timeout", metavar="S", type=seconds, default=10.0, help="of an answer; default 10"
    )
    add_json(parser)
    _add_submit(parser.add_argument_group("submit"))
    _add_watch(parser.add_argument_group("watch"))
    add_option(parser, "of watch: an option of the import")


def _add_submit(group: argparse._ArgumentGroup) -> None:
    group.add_argument("--instance", metavar="FILE", help="of a plan that is no sheet")
    group.add_argument("--jar", metavar="FILE", help="the program")
    group.add_argument("--sql", metavar="FILE", help="a script, as Flink's SQL client takes it")
    group.add_argument("--class", metavar="NAME", dest="main", help="the jar's class with main()")
    group.add_argument(
        "--args", metavar="ARG", dest="arguments", nargs=argparse.REMAINDER, default=[],
        help="all that follows is the program's own",
    )  # fmt: skip
    group.add_argument(
        "-D", metavar="K=V", dest="settings", type=assignment, action="append", default=[],
        help="a key of Flink's configuration; may be given again",
    )  # fmt: skip
    group.add_argument(
        "--managed-memory", metavar="MB", type=count, default=0,
        help="of a slot, for RocksDB, Python and batch operators; default 0",
    )  # fmt: skip
    group.add_argument("--flink-home", metavar="DIR", help="an unpacked Flink, not the package")
    group.add_argument("--dry-run", action="store_true", help="check all, submit nothing")
    group.add_argument(
        "--wait", metavar="S", type=delay, default=60.0, help="for subtasks to run; default 60"
    )


def _add_watch(group: argparse._ArgumentGroup) -> None:
    group.add_argument(
        "--every", metavar="S", type=seconds, default=300.0, help="from look to look; default 300"
    )
    group.add_argument("--rounds", metavar="N", type=count, help="looks; default without end")
    group.add_argument("--method", metavar="NAME", help="that plans; default as `solve` chooses")
    group.add_argument("--objective", metavar="NAME", help="default what the method optimises")
    group.add_argument(
        "--time-limit", metavar="S", type=seconds, default=30.0, help="of a plan; default 30"
    )
    group.add_argument(
        "--gain", metavar="SHARE", type=growth, default=0.1,
        help="improvement from which on a plan is worth a restart; default 0.1",
    )  # fmt: skip
    group.add_argument(
        "--cool-down", metavar="S", type=seconds, default=3600.0,
        help="from one plan that is applied to the next; default 3600",
    )  # fmt: skip
    group.add_argument(
        "--apply",
        metavar="COMMAND",
        help="run it with the sheet's file after it; without it nothing is done: a dry run",
    )


def run(args: argparse.Namespace) -> int:
    """Submit, or watch."""
    return watch(args) if args.verb == "watch" else _submit(args)


def _submit(args: argparse.Namespace) -> int:
    """Check that plan, program and cluster fit, submit, and wait until all subtasks run."""
    if args.plan is None or (args.jar is None) == (args.sql is None):
        remedy = "streamplace flink submit URL SHEET --jar FILE, or --sql FILE"
        raise InvalidInput(Problem("SHEET, --jar, --sql", None, "are what submit takes", remedy))
    instance = None if args.instance is None else load_instance(args.instance)
    sheet = read_plan(args.plan, instance)
    if not isinstance(sheet, Sheet):
        remedy = "`streamplace export flink INSTANCE PLAN -o SHEET`, or --instance INSTANCE"
        raise InvalidInput(Problem(args.plan, None, "does not name vertices", remedy))
    script = None if args.sql is None else read_script(read_text(Path(args.sql)))
    if args.jar is not None and not Path(args.jar).is_file():
        raise InvalidInput(Problem("--jar", args.jar, "does not exist"))
    client = WebClient(args.url.rstrip("/"), args.timeout)
    managers = read_managers(client)

    def make(flink: FlinkClient) -> object:
        if script is not None:
            graph = flink.graph_of_sql(script)
        else:
            graph = flink.graph_of_jar(args.jar, args.main, args.arguments)
        check_quotas(sheet, groups_of_job(sheet, flink.vertices_of(graph)), managers)
        return graph

    job, groups = submit(
        args.url, sheet, dict(args.settings), make, home=args.flink_home,
        managed=args.managed_memory, dry_run=args.dry_run,
    )  # fmt: skip
    runs = job is not None and wait_until_running(client, job, args.wait)
    slots = sum(group.parallelism for group in groups)
    if args.json:
        answer = {"job": job, "running": runs, "groups": len(groups), "slots": slots}
        print_json(answer, indent=None)
    elif job is not None:
        sys.stdout.write(f"{job}\n")
    if not args.quiet:
        state = "fits, and was not submitted" if job is None else "does not run yet"
        state = "runs" if runs else state
        sys.stderr.write(f"plan {sheet.key}: {slots} slots in {len(groups)} groups: {state}\n")
    return 0 if runs or args.dry_run else 1
