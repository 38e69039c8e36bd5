"""``streamplace bench``: a user's own method on fixed instances with proven bounds."""

from __future__ import annotations

import functools
import shlex
import subprocess
import time
from typing import TYPE_CHECKING, Any

from experiments.cli.arguments import add_json, seconds
from optim.errors import InvalidInput, Problem, StreamplaceError
from optim.exit_codes import ExitCode

if TYPE_CHECKING:
    import argparse
    from collections.abc import Callable

    from experiments.placement.cases import Case
    from optim import Evaluation, Instance
    from optim.methods.registry import Method

    Placer = Callable[[dict[str, Any]], Any]

EXAMPLES = """\
examples:
  streamplace bench --method top-down
  streamplace bench --my-method mypackage.placing:place --seconds 10
  streamplace bench --my-command './place --fast' -o mine.json

`place` takes an instance as the format's dictionary and returns {task: node}; a command reads
the instance from its standard input and writes {task: node}, or a plan, on its output. The referee
judges what comes back.

exit codes: 0 every plan is feasible; 2 invalid input; 4 a plan is missing, or breaks a rule"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the command's arguments."""
    whose = parser.add_mutually_exclusive_group(required=True)
    whose.add_argument("--my-method", metavar="MODULE:FUNCTION", help="a function of yours")
    whose.add_argument("--my-command", metavar="COMMAND", help="a command of yours")
    whose.add_argument("--method", metavar="NAME", help="a registered method")
    parser.add_argument("--only", metavar="TEXT", default="", help="cases whose name holds TEXT")
    parser.add_argument(
        "--seconds", metavar="S", type=seconds, default=60.0,
        help="limit of a command or registered method on each instance (60)",
    )  # fmt: skip
    parser.add_argument("-o", "--output", metavar="FILE", help="write the results as JSON as well")
    add_json(parser)


def run(args: argparse.Namespace) -> int:
    """Run a method on all cases and print how far it is from what was proved."""
    from experiments.cli.json_text import print_json
    from experiments.cli.streams import write_stdout
    from experiments.placement.cases import read

    place = _placer(args)
    cases = [case for case in read() if args.only in case.name]
    if not cases:
        remedy = "leave --only out to see their names"
        raise InvalidInput(Problem("--only", args.only, "is in no case's name", remedy))
    rows = [judged(case, place) for case in cases]
    document = _document(args, rows)
    if args.output:
        import json

        from optim.util.files import write_atomic

        write_atomic(args.output, json.dumps(document, indent=1) + "\n")
    if args.json:
        print_json(document)
    else:
        write_stdout(markdown(rows))
    return int(ExitCode.OK if all(row["feasible"] for row in rows) else ExitCode.NO_PLAN)


def judged(case: Case, place: Callable[[Case, Instance], Any]) -> dict[str, Any]:
    """Have a case placed, and the referee judge the plan; the row of the results."""
    from optim import Plan, evaluate
    from optim.figures.catalogue import OBJECTIVES
    from optim.format.plan import PLAN_FORMAT

    instance, figure = case.instance(), OBJECTIVES[case.objective]
    row: dict[str, Any] = {
        "case": case.name, "tasks": instance.num_tasks, "nodes": instance.num_nodes,
        "objective": case.objective, "bound": case.claimed, "best": case.best,
        "certificate_sha256": case.certificate_sha256,
        "value": None, "gap": None, "feasible": False, "problem": None,
    }  # fmt: skip
    began = time.perf_counter()
    try:
        answer = place(case, instance)
        row["seconds"] = time.perf_counter() - began
        if not isinstance(answer, Plan):
            told = dict(answer)
            if "format" not in told:
                told = {"format": PLAN_FORMAT, "instance": instance.name, "assignment": told}
            answer = Plan.from_dict(told)
        found: Evaluation = evaluate(instance, answer)
    except Exception as error:  # a method of others may fail in any way: the next case is run
        row.setdefault("seconds", time.perf_counter() - began)
        words = str(error) if isinstance(error, StreamplaceError) else repr(error)
        return {**row, "problem": words.splitlines()[0] if words else type(error).__name__}
    value = getattr(found, case.objective)
    row |= {"value": value, "feasible": found.feasible}
    if not found.feasible:
        return {**row, "problem": str(found.violations[0])}
    reference = figure.reference_of(found)
    if value is None:
        return {**row, "feasible": False, "problem": f"has no {case.objective}"}
    if case.proven is not None and figure.beats_bound(value, case.proven, reference):
        return {**row, "feasible": False, "problem": "beyond the proven bound: please report this"}
    return {**row, "gap": figure.gap(value, case.claimed, reference)}


def _placer(args: argparse.Namespace) -> Callable[[Case, Instance], Any]:
    if args.my_method:
        from experiments.cli.loading import loaded

        function: Placer = loaded(args.my_method, "--my-method")
        return lambda _, instance: function(instance.to_dict())
    if args.my_command:
        return functools.partial(_ask, shlex.split(args.my_command), args.seconds)
    from optim.methods.registry import get_method

    return functools.partial(_solve, get_method(args.method), args.seconds)


def _ask(command: list[str], limit: float, _: Case, instance: Instance) -> Any:
    import json

    done = subprocess.run(
        command, input=instance.to_json().encode(), capture_output=True, timeout=limit, check=False
    )
    if done.returncode:
        last = done.stderr.decode(errors="replace").strip().splitlines()[-1:]
        raise InvalidInput(
            Problem("--my-command", command[0], f"ended with {done.returncode}", *last)
        )
    return json.loads(done.stdout)


def _solve(method: Method, limit: float, case: Case, instance: Instance) -> Any:
    from optim import solve

    objective = case.objective if case.objective in method.objectives else None
    result = solve(instance, method.name, objective=objective, time_limit=limit)
    if result.plan is None:
        raise InvalidInput(Problem(method.name, None, f"has no plan: {result.termination}"))
    return result.plan


def _document(args: argparse.Namespace, rows: list[dict[str, Any]]) -> dict[str, Any]:
    from experiments.cli.versions import gather

    told = args.my_method or args.my_command or args.method
    return {"format": "streamplace.bench/1", "method": told, "versions": gather(), "cases": rows}


def markdown(rows: list[dict[str, Any]]) -> str:
    """Return the results as a table, and their summary as a line."""
    from optim.figures.catalogue import OBJECTIVES

    lines = ["| case | tasks × nodes | objective | value | bound | gap | s |", "|---" * 7 + "|"]
    for row in rows:
        percent = OBJECTIVES[row["objective"]].percent
        gap = None if row["gap"] is None else row["gap"] if percent else 100 * row["gap"]
        told = row["problem"] if gap is None else f"{gap:.3g} %"
        value = "" if row["value"] is None else f"{row['value']:.6g}"
        lines.append(
            f"| {row['case']} | {row['tasks']} × {row['nodes']} | {row['objective']} | {value} "
            f"| {row['bound']:.6g} | {told} | {row['seconds']:.2f} |"
        )
    kept = [row for row in rows if row["feasible"]]
    close = sum(row["gap"] <= OBJECTIVES[row["objective"]].optimal_gap for row in kept)
    lines.append(f"\n{len(kept)} of {len(rows)} feasible, {close} at the proven bound")
    return "\n".join(lines) + "\n"
