"""The command ``streamplace sweep``."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from optim.errors import ExitCode
from streamplace.present.arguments import declare
from streamplace.present.streams import print_json

if TYPE_CHECKING:
    from experiments.sweep.execution import SweepSummary
    from experiments.sweep.plan import Plan
    from experiments.sweep.spec import Spec

EXAMPLES = """\
examples:
  streamplace sweep examples/demo.toml -o build/demo
  streamplace sweep examples/demo.toml --dry-run
  streamplace sweep big.toml -o results --master spark://host:7077
  streamplace sweep big.toml -o results --retry-failed

The same command continues an interrupted sweep, and does the new runs of an extended one.
A run that fails is a row like any other. docs/sweeps.md describes the file."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments of ``streamplace sweep``."""
    declare(parser, "sweep", "what to run", Path, metavar="SWEEP.toml")
    declare(parser, "-o, --output DIR", "result folder, or a URI: new, or of this sweep")
    parser.add_argument(
        "--master",
        default="local[*]",
        help="Spark master: local[N], local[*] (default), spark://HOST:PORT, yarn, k8s://…",
    )
    declare(parser, "--retry-failed", "repeat the failed runs (row not ok)")
    where = parser.add_mutually_exclusive_group()
    declare(
        where, "--collect", "send rows through the driver: for clusters without a shared file "
        "system", default=None
    )  # fmt: skip
    declare(
        where, "--no-collect", "workers write rows (default: detected)",
        dest="collect", action="store_false"
    )  # fmt: skip
    declare(parser, "--dry-run", "check everything and count the runs, do none")
    declare(parser, "--json", "print the summary as JSON")


def run(args: argparse.Namespace) -> int:
    """Do what the arguments ask for and return the exit code.

    Raises `StreamplaceError`: as `experiments.sweep.run_sweep`.
    """
    from experiments.sweep.plan import plan_runs
    from experiments.sweep.spec import load_spec
    from optim.errors import InvalidInput, Problem

    spec = load_spec(args.sweep)
    if args.dry_run:
        _print_plan(spec, plan_runs(spec), args.json)
        return ExitCode.OK
    if args.output is None:
        raise InvalidInput(Problem("--output", None, "is missing", "add -o DIR, or --dry-run"))
    from experiments.sweep.execution import run_sweep

    try:
        summary = run_sweep(
            spec,
            args.output,
            args.master,
            retry_failed=args.retry_failed,
            progress=not getattr(args, "quiet", False),
            collect=args.collect,
        )
    except KeyboardInterrupt:
        again = f"finished runs are stored in {args.output}; the same command goes on from there"
        sys.stderr.write(f"interrupted: {again}\n")
        return ExitCode.INTERRUPTED
    _print_summary(summary, args.json)
    return ExitCode.OK


def _print(content: dict[str, Any], lines: Sequence[str], as_json: bool) -> None:
    if as_json:
        print_json(content, indent=None)
    else:
        sys.stdout.write("\n".join(lines) + "\n")


def _print_plan(spec: Spec, plan: Plan, as_json: bool) -> None:
    methods = list(dict.fromkeys(run.label for run in plan.runs))
    instances = list(dict.fromkeys(run.instance.name for run in plan.runs))
    content = {
        "name": spec.name, "runs": len(plan.runs), "methods": methods, "instances": instances,
        "notes": list(plan.notes),
    }  # fmt: skip
    more = " …" if len(instances) > 20 else ""
    lines = [
        f"{spec.name}: {len(plan.runs)} runs",
        f"methods   ({len(methods)}): {', '.join(methods)}",
        f"instances ({len(instances)}): {', '.join(instances[:20])}{more}",
        *plan.notes,
    ]
    _print(content, lines, as_json)


def _print_summary(summary: SweepSummary, as_json: bool) -> None:
    content = {**vars(summary), "path": str(summary.path), "notes": list(summary.notes)}
    ended = ", ".join(f"{count} {outcome}" for outcome, count in summary.outcomes.items())
    failed = f"{summary.failed} failed; --retry-failed does them again"
    lines = [
        f"{summary.total} runs: {ended}",
        f"{summary.done} done now in {summary.seconds:.1f} s, {summary.skipped} stored before",
        *([failed] if summary.failed else []),
        *summary.notes,
        f"rows: {summary.path}; next: streamplace report {summary.path}",
    ]
    _print(content, lines, as_json)
