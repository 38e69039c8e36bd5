"""``streamplace trace``: recorded events → what every period came to → instances."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from optim.errors import ExitCode
from streamplace.present.arguments import add_json, assignment, declare, seconds, whole

if TYPE_CHECKING:
    from experiments.traces.folder import TraceFolder

_SHOWN = 10  # Periods without plan that are named.

EXAMPLES = """\
examples:
  streamplace trace experiments/studies/papers/albic_real/real_job_2.toml -o build/job2
  streamplace trace job.toml --events clicks=/data/clicks/*.csv.zip -o build/clicks
  streamplace trace job.toml -o build/clicks --append
  streamplace trace job.toml -o build/clicks --follow --carry cola
  streamplace trace build/clicks --instances 17 --placement cola
  streamplace trace build/clicks --instances all --carry flux
  streamplace replay build/job2 -o build/replay --policy albic --policy flux

docs/traces.md describes the job description, its expressions and the tables."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the command's arguments."""
    declare(parser, "JOB", "a job description (.toml), or the folder of a finished trace")
    declare(parser, "-o, --output DIR", "folder of the trace; not needed with a finished one")
    declare(
        parser, "--events NAME=PATH", "a recording in place of the one in the description; may be "
        "given again", assignment, [], action="append"
    )  # fmt: skip
    declare(parser, "--append", "add the files that the trace in DIR has not read yet")
    followed = parser.add_argument_group("follow")
    declare(
        followed, "--follow", "wait for files, and write the instance of every period that "
        "is over, until Ctrl-C or SIGTERM"
    )  # fmt: skip
    declare(followed, "--once", "with --follow: read the present files and end")
    declare(followed, "--every S", "seconds between two looks; default 10", seconds)
    spark = parser.add_argument_group("Spark")
    spark.add_argument(
        "--master", help="local[N], local[*] (default), spark://HOST:PORT, yarn, k8s://…"
    )
    declare(
        spark, "--spark-config K=V", "a setting, such as spark.driver.memory=4g; may be given "
        "again", assignment, [], action="append"
    )  # fmt: skip
    declare(
        spark, "--scratch DIR", "where zips are unpacked (default: in the folder of the trace, "
        "until it is done); on a cluster its workers must see it"
    )  # fmt: skip
    instances = parser.add_argument_group("instances")
    declare(
        instances, "--instances PERIODS", "write them, as all, 17 or 3-9, into DIR/instances, in "
        "place of those that are there"
    )  # fmt: skip
    declare(
        instances, "--placement P", "where key groups are at first: round-robin, worst, or a "
        "method (default: as the description says)"
    )  # fmt: skip
    declare(
        instances, "--carry METHOD", "plan every period by this method; its plan is what the next "
        "period begins with"
    )  # fmt: skip
    declare(instances, "--seed N", "of methods; default 0", whole)
    add_json(parser)


def run(args: argparse.Namespace) -> int:
    """Trace, and write instances where they are asked for.

    Raises `StreamplaceError`: as `experiments.traces.trace.run_trace` and
        `experiments.traces.instances.instances`.
    """
    from experiments.spark.remote import is_remote, output_at
    from experiments.spark.session import TRACE_SETTINGS

    _check(args)
    # periods without a plan of `--carry`, by number
    unplanned: dict[int, str] = {}
    session: dict[str, Any] = {
        "quick": False,
        "config": {**TRACE_SETTINGS, **dict(args.spark_config)},
    }
    with output_at(args.output or args.job, args.master or "local[*]", **session) as path:
        trace = _trace(args, path)
        written = _instances(args, trace, unplanned) if args.instances else []
        where = args.output if args.output and is_remote(args.output) else str(trace.path)
        _print(trace, where, written, unplanned, args)
    return int(ExitCode.OK)


def _check(args: argparse.Namespace) -> None:
    """Refuse what can be recognised as wrong, or of no use, before anything is done."""
    from experiments.traces.folder import is_trace
    from experiments.traces.instances import check_method, check_placement, read_range
    from optim.errors import Problem, raise_any

    tracing = ["events", "append", "follow", "output", "master", "spark_config", "scratch"]
    useless = (
        (args.follow, ("append", "instances"), "is of no use with --follow", "leave it out"),
        (not args.follow, ("once", "every"), "is of use with --follow only",
         "leave it out, or add --follow"),
        (args.instances is None and not args.follow, ("placement", "carry", "seed"),
         "is of use for instances only", "add --instances PERIODS, or leave it out"),
        (is_trace(args.job), tracing, "is of no use with a finished trace", "leave it out"),
    )  # fmt: skip
    raise_any([
        Problem(f"--{name.replace('_', '-')}", None if value is True else value, reason, remedy)
        for wrong, names, reason, remedy in useless
        for name in names
        if wrong and (value := getattr(args, name)) is not False and value not in (None, [])
    ])  # fmt: skip
    if args.instances is not None:
        read_range(args.instances)
    if args.placement is not None:
        check_placement(args.placement)
    if args.carry is not None:
        check_method(args.carry)


def _trace(args: argparse.Namespace, output: Path) -> TraceFolder:
    """Open a finished trace, or make one: of what is there, or following it until interrupted."""
    from experiments.spark.remote import is_remote
    from experiments.traces.folder import TraceFolder, is_trace
    from experiments.traces.instances import check_placement
    from experiments.traces.job import load_job
    from optim.errors import InvalidInput, Problem

    if is_trace(args.job):
        return TraceFolder.open(args.job)
    if Path(args.job).is_dir():
        reason = "is a folder without a trace"
        raise InvalidInput(Problem("JOB", args.job, reason, "name a job description"))
    job = load_job(args.job)
    if args.output is None:
        raise InvalidInput(Problem("--output", None, "is missing", "add -o DIR"))
    if args.instances and job.cluster is None:
        raise InvalidInput(Problem("cluster", None, "is missing", "add [cluster]"), args.job)
    if job.cluster is not None:
        check_placement(job.cluster.placement, "cluster.placement")
    tracing = {
        "master": args.master or "local[*]",
        "paths": dict(args.events),
        "scratch": args.scratch,
        "config": dict(args.spark_config),
        "quiet": bool(getattr(args, "quiet", False)),
        "uri": args.output if is_remote(args.output) else None,
    }
    if not args.follow:
        from experiments.traces.trace import run_trace

        return run_trace(job, output, **tracing, append=args.append)
    from experiments.traces.trace import Planning, follow
    from optim.util.process import sigterm_as_interrupt

    placement = args.placement or (job.cluster.placement if job.cluster else "")
    planning = Planning(placement, args.carry, args.seed or 0)
    every = 10.0 if args.every is None else args.every
    try:
        with sigterm_as_interrupt():
            follow(job, output, **tracing, every=every, once=args.once, planning=planning)
    except KeyboardInterrupt:
        sys.stderr.write("\nended: the same command goes on from here\n")
    if not is_trace(output):
        remedy = "let files arrive"
        raise InvalidInput(Problem("events", None, "hold no event so far", remedy), job.source)
    return TraceFolder.open(output)


def _instances(
    args: argparse.Namespace, trace: TraceFolder, unplanned: dict[int, str]
) -> list[Path]:
    from experiments.traces.folder import INSTANCES
    from experiments.traces.instances import InstanceMaker, instances, period_range
    from optim.util.files import file_name

    periods = period_range(args.instances, len(trace.manifest.periods))
    # with --carry each placement follows from all periods before it
    maker = InstanceMaker(trace, 0 if args.carry else periods[0], periods[-1])
    placement = args.placement or maker.cluster.placement
    folder = trace.path / INSTANCES
    written: list[Path] = []
    for instance in instances(maker, periods, placement, args.carry, args.seed or 0, unplanned):
        # older instances go only when the first new one is made: a refusal leaves them
        if not written:
            trace.remove_instances()
            folder.mkdir(exist_ok=True)
        path = folder / file_name(instance.name, ".json")
        instance.save(path)
        written.append(path)
    return written


def _print(
    trace: TraceFolder,
    where: str,
    written: list[Path],
    unplanned: dict[int, str],
    args: argparse.Namespace,
) -> None:
    manifest = trace.manifest

    def shown(path: Path) -> str:
        return f"{where}/{path.relative_to(trace.path)}"

    if args.json:
        content: dict[str, Any] = {
            "path": where,
            "periods": len(manifest.periods),
            "recordings": manifest.recordings,
            "operators": trace.totals,
            "rows": {name: trace.count(name) for name in ("loads", "rates", "states")},
            "instances": [shown(path) for path in written],
            "without_plan": [{"period": p, "reason": why} for p, why in unplanned.items()],
        }
        sys.stdout.write(json.dumps(content, ensure_ascii=False) + "\n")
        return
    from streamplace.present.numbers import listed, number, percent
    from streamplace.present.streams import answer_console, plain_table

    first, last = manifest.periods[0], manifest.periods[-1]
    lines = [f"{trace.job.name}: {len(manifest.periods)} periods from {first.start} to {last.end}"]
    lines += [_recording_line(name, counts) for name, counts in manifest.recordings.items()]
    sys.stdout.write("\n".join(lines) + "\n")
    headings = ["events", "without key", "cost", "key groups", "largest"]
    table = plain_table(["operator", *headings], right=headings)
    for spec in trace.job.operators:
        total = trace.totals.get(spec.id)
        used = 0 if total is None else int(total["key_groups"])
        table.add_row(
            spec.id,
            f"{0 if total is None else int(total['events']):,}",
            f"{sum(r['without_key'].get(spec.id, 0) for r in manifest.recordings.values()):,}",
            number(0.0 if total is None else total["cost"]),
            f"{used} of {spec.key_groups}",
            percent(None if total is None else total["largest"]),
        )
    answer_console().print(table)
    rows = ", ".join(f"{trace.count(name):,} {name}" for name in ("loads", "rates", "states"))
    sys.stdout.write(f"rows: {rows}, in {where}\n")
    if written:
        more = f" … {shown(written[-1])}" if len(written) > 1 else ""
        sys.stdout.write(f"instances: {shown(written[0])}{more}\n")
    if unplanned:
        some, why = listed([*map(str, unplanned)], _SHOWN), next(iter(unplanned.values()))
        sys.stdout.write(f"no plan of {args.carry} for {some}: nothing moved there; first: {why}\n")


def _recording_line(name: str, counts: Mapping[str, Any]) -> str:
    """Return a line on what became of the events of a recording."""
    words = {
        "no_time": "without a time",
        "outside": "outside the recording",
        "late_dropped": "late, dropped",
        "late_moved": "late, counted when they arrived",
        "late_kept": "late, counted in their period",
    }
    parts = [f"{counts[key]:,} {text}" for key, text in words.items() if counts[key]]
    parts += [
        f"{table}: {lookup['doubled']:,} rows dropped whose key stood twice"
        for table, lookup in counts["lookups"].items()
        if lookup["doubled"]
    ]
    parts += [
        f"{table}: {lookup['unmatched']:,} events without a match"
        for table, lookup in counts["lookups"].items()
        if lookup.get("unmatched")
    ]
    for what in ("cost", "state", "rate"):
        rest = sum(counts.get(f"without_{what}", {}).values())
        parts += [f"{rest:,} times without a {what}, taken as 0"] if rest else []
    return f"{name}: {counts['events']:,} events" + "".join(f"; {part}" for part in parts)
