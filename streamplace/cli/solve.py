"""``streamplace solve``: from an instance to a checked plan."""

from __future__ import annotations

import json
import os
import time
from contextlib import suppress
from dataclasses import fields, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from optim.certificates import grade
from optim.errors import ExitCode, InvalidInput, Problem, SolverError, raise_any
from optim.figures.catalogue import find_objective
from optim.format.changes import altered
from optim.methods.registry import OWN, Settings, get_method, method_names
from optim.methods.solve import solve
from optim.referee import Termination
from optim.util.files import behind_links, is_special, read_bytes, write_atomic
from optim.util.process import processor_seconds
from optim.util.progress import is_kept, watching
from streamplace.cli.fewest_moves import (
    FURTHER,
    Asking,
    check_moves,
    curve_of,
    draw_curve,
    fewest_within,
    print_curve,
)
from streamplace.cli.result_text import print_cases, print_result
from streamplace.explain.what_if import (
    add_what_if,
    aim_of,
    cases_of,
    solve_pinned,
    the_case,
)
from streamplace.present.arguments import (
    STDIN,
    add_ignore,
    add_instance,
    add_json,
    add_option,
    amount,
    count,
    declare,
    gap,
    load_instance,
    one_document,
    seconds,
    share,
    whole,
)
from streamplace.present.streams import (
    STDOUT,
    console_beside,
    print_json,
    stopped_by_signals,
    talk_console,
    write_document,
)
from streamplace.present.tables import ProgressLine, size_line, unit_of

if TYPE_CHECKING:
    import argparse
    from collections.abc import Iterator, Mapping

    from optim.format.instance import Instance
    from optim.methods.registry import Method
    from optim.referee import Result
    from optim.util.progress import Progress
    from streamplace.explain.what_if import Aim

_DRAWN = (".svg", ".png", ".pdf")

LONG_HINT = (
    "without --time-limit or --gap the run ends with the proof; Ctrl-C returns the best plan so far"
)

NOT_KEPT = (
    "no folder for machine code is writable: set NUMBA_CACHE_DIR to a writable one, or run "
    "`streamplace warm` as the user who installed it"
)

EXAMPLES = """\
examples:
  streamplace solve cluster.json                     the method is chosen; a note says why
  streamplace solve cluster.json --method imc-milp --solver scip --time-limit 60 -o plan.json
  streamplace solve cluster.json --method balance-milp --warm-start flux --gap 0.5%
  streamplace solve cluster.json --method top-down --repair --option priority=imc
  streamplace solve cluster.json --method top-down --json | python -m json.tool

exit codes: 0 a feasible, checked plan; 1 internal error or refused plan; 2 usage or invalid input;
3 infeasible; 4 no feasible plan; 130 interrupted, 143 and 129 stopped by SIGTERM and SIGHUP
(the best plan so far is still reported)"""


RARE = (
    "--keep-rate-after-losing", "--starts", "--start-broken", "--plot", "--cross-check",
    "--write-model", "--drop-node", "--fail-node", "--scale-load", "--scale-rate", "--budget",
    "--add-node", "--or",
)  # fmt: skip
"""Options that ``--help-all`` shows."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the command's arguments."""
    add_instance(parser)
    method = declare(
        parser, "--method M", "a name (`streamplace methods`), FILE.py or module:NAME; else those "
        "that suit"
    )  # fmt: skip
    method.completer = lambda **_: method_names()  # type: ignore[attr-defined]
    declare(
        parser, "--objective EXPR", "what to optimise: a figure (docs/figures.md), a weighted sum "
        "that is maximised (0.7*FIGURE-0.3*FIGURE), or levels, by commas; some methods take a few "
        "figures alone"
    )  # fmt: skip
    aims = parser.add_mutually_exclusive_group()
    declare(
        aims, "--target-rate R", "carry R times the current input with the fewest moves; with the "
        "fewest nodes where tasks have no current node, or with --objective nodes_used", amount
    )  # fmt: skip
    declare(
        aims, "--keep-rate-after-losing N", "N is 1: the plan that carries most whichever single "
        "node is lost (--objective rate_after_loss)", int, choices=[1]
    )  # fmt: skip
    declare(parser, "--solver S", "cbc, highs, scip or cp-sat, for the exact methods")
    declare(
        parser, "--time-limit S", "seconds for building and solving; no limit if left out, 10 "
        "without --method", seconds
    )  # fmt: skip
    declare(
        parser, "--gap G", "stop at this gap to the bound: 1%% (of the mean load for load "
        "distance)", gap
    )  # fmt: skip
    declare(parser, "--seed N", "default 0", whole, 0)
    declare(
        parser, "--threads N", "of the solver; without --method, or of a search: side by side "
        "(default 1)", count
    )  # fmt: skip
    declare(parser, "--warm-start METHOD|PLAN", "start from a method's plan, or a plan file")
    declare(
        parser, "--starts", "none: an exact method's solver gets no start but --warm-start "
        "(default: own)", default="own", choices=("own", "none")
    )  # fmt: skip
    declare(parser, "--repair", "let repair finish a plan that is not feasible")
    declare(
        parser, "--start-broken HOW", "where the current placement breaks limits that cannot all "
        "be satisfied: mend (none more than now, all as little as can be) or refuse (there is no "
        "plan); default mend", default="mend"
    )  # fmt: skip
    add_ignore(parser)
    add_option(parser, "an option of the method (`streamplace methods METHOD`)")
    declare(parser, "-o, --output PLAN", "write the plan to this file; - is standard output")
    declare(
        parser, "--write-model FILE", "write the method's linear model, FILE.mps or FILE.lp, "
        "before it is solved"
    )  # fmt: skip
    declare(
        parser, "--fewest-moves-within P%", "the fewest moves whose plan is within P %% of the "
        "best objective reached", share
    )  # fmt: skip
    declare(parser, "--curve", "the objective against what is moved", choices=("moves", "cost"))
    declare(parser, "--plot FILE", "draw the curve: .svg, .png or .pdf")
    add_what_if(parser)
    declare(
        parser, "--certificate FILE", "prove the bound for `streamplace certify`, and write the "
        "proof to this file"
    )  # fmt: skip
    declare(parser, "--cross-check", "solve again with a second solver, and compare")
    add_json(parser)


def run(args: argparse.Namespace) -> int:
    """Solve; a signal that ends the program ends the search, and the best plan is reported."""
    with stopped_by_signals() as received:
        try:
            return received.exit_code(_run(args))
        except KeyboardInterrupt:
            if received.signal is None:
                raise
            return received.exit_code(ExitCode.INTERRUPTED)


def _run(args: argparse.Namespace) -> int:
    """Read, choose, solve, have it checked, report, and write the plan."""
    options = _options(args)
    _aim(args)
    one_document(args.json, args.output != STDOUT)
    files = {
        "--output": args.output, "--certificate": args.certificate,
        "--write-model": args.write_model, "--plot": args.plot,
    }  # fmt: skip
    _check_files({f: Path(p) for f, p in files.items() if p not in (None, STDOUT)}, args.instance)
    if args.certificate is not None and cases_of(args):
        reason = "proves a bound of the instance in the file, and a what-if case changes it"
        raise InvalidInput(Problem("--certificate", args.certificate, reason, "leave one out"))
    if args.plot is not None and args.curve is None:
        reason, remedy = "draws a curve, and no curve is computed", "add --curve moves"
        raise InvalidInput(Problem("--plot", args.plot, reason, remedy))
    began = time.perf_counter()
    instance = load_instance(args.instance)
    if len(cases_of(args)) > 1:
        _refuse_of_one_plan(args)
        return _solve_cases(args, instance, _settings(args, options))
    settings = _settings(args, options)
    aim = aim_of(instance, args.method, settings) if cases_of(args) else None
    instance = the_case(args, instance)
    read = time.perf_counter() - began
    # what the certificate may cost is measured against this
    before = processor_seconds()
    if args.fewest_moves_within is not None:
        check_moves(instance, "--fewest-moves-within", f"{100 * args.fewest_moves_within:g}%")
    result = _solve(args, instance, settings, aim)
    result = replace(result, times={"read": read, **result.times})
    more: dict[str, Any] = {}
    if args.fewest_moves_within is not None:
        result, fewest = fewest_within(_asking(args, instance, result), args.fewest_moves_within)
        more = {} if fewest is None else {"fewest": fewest.to_dict()}
    curve = None
    if args.curve and result.plan:
        assert result.objective is not None
        curve = curve_of(_asking(args, instance, result), args.curve)
        objective = find_objective(result.objective.name)
        more["curve"] = curve.to_dict()
        if args.plot is not None:
            draw_curve(curve, objective, unit_of(instance, objective.unit), args.plot)
    if result.plan is not None:
        write_document(args.output, result.plan.to_json())
    busy = processor_seconds() - before
    if args.cross_check:
        result = cross_checked(instance, result, settings)
    result = certified(args, instance, result, busy)
    why = None
    if result.termination is Termination.INFEASIBLE:
        from streamplace.explain.explanation import why_no_plan  # only now: models of conflicts

        result, why = why_no_plan(instance, result, settings)
        more |= {} if why is None else why.clashes()
    if args.json:
        print_json({**result.to_dict(), **more})
    else:
        console = console_beside(args.output)
        print_result(console, instance, result, args.output, why)
        if curve is not None:
            print_curve(console, instance, objective, curve)
    return int(result.exit_code)


def _refuse_of_one_plan(args: argparse.Namespace) -> None:
    """Refuse options that are about one plan, where several cases are reported as a table."""
    names = ("output", "write_model", "fewest_moves_within", "curve", "plot", "cross_check")
    given = [name for name in names if getattr(args, name) not in (None, False)]
    reason, remedy = "holds one plan, and --or asks for several", "leave one out"
    raise_any([Problem(f"--{n.replace('_', '-')}", None, reason, remedy) for n in given])


def _asking(args: argparse.Namespace, instance: Instance, result: Result) -> Asking:
    """Return how further plans are asked for: all together have the time of the first."""
    limit = FURTHER if args.time_limit is None else args.time_limit
    return Asking(instance, result, args.target_rate, limit, args.seed, args.threads or 1)


def _settings(args: argparse.Namespace, options: dict[str, str]) -> Settings:
    """Return what is asked; the rules that clash are found afterwards, with what would help."""
    return Settings(
        objective=args.objective, solver=args.solver, time_limit=args.time_limit, gap=args.gap,
        seed=args.seed, threads=args.threads, warm_start=args.warm_start, starts=args.starts,
        repair=args.repair, ignore=args.ignore, target_rate=args.target_rate,
        start_broken=args.start_broken, write_model=args.write_model, explain=0.0, options=options,
    )  # fmt: skip


def _solve_cases(args: argparse.Namespace, instance: Instance, settings: Settings) -> int:
    """Solve the instance as it is and in each case, and print a table."""
    solved, aim = [], aim_of(instance, args.method, settings)
    for case in ([], *cases_of(args)):
        changed = altered(instance, case)
        solved.append((case, changed, _solve(args, changed, settings, aim if case else None)))
    print_cases(solved, as_json=args.json)
    return int(max(result.exit_code for _, _, result in solved))


def _solve(
    args: argparse.Namespace, instance: Instance, settings: Settings, pinned: Aim | None = None
) -> Result:
    """Solve an instance; a changed one for the pinned aim of the case as it is."""
    talk = talk_console(args.quiet)
    # without a method the time is limited to 10 s
    endless = args.method is not None and args.time_limit is None and args.gap is None
    lines: list[ProgressLine] = []  # of the first method that begins

    def chosen(method: Method, solver: str | None, why: str) -> None:
        if lines:
            return
        on = f" on {solver}" if solver else ""
        talk.print(f"method {method.name}{on}: {why}")
        objective = find_objective(method.objective)
        unit, reference = unit_of(instance, objective.unit), objective.reference_of(instance)
        lines.append(ProgressLine(objective, unit, reference, hint=LONG_HINT if endless else ""))

    def progress(now: Progress) -> None:
        for line in lines:
            line(now)

    if not args.quiet:
        talk.print(size_line(instance))
        settings = replace(settings, chosen=chosen, progress=progress)
    announced: list[bool] = []

    def compiling(begins: bool) -> None:
        if begins and not announced:
            where = "stored on disk" if is_kept() else f"in each run anew, as {NOT_KEPT}"
            talk.print(f"compiling kernels for the first use ({where}; not in the time limit)")
        announced.append(True)

    try:
        with watching(compiling):
            return solve_pinned(instance, pinned, args.method, settings)
    finally:
        for line in lines:
            line.close()


def _aim(args: argparse.Namespace) -> None:
    """Turn what is asked of the rate into an objective; refuse another one beside it."""
    if args.keep_rate_after_losing is None:
        return
    if args.objective not in (None, "rate_after_loss"):
        reason = "is not the objective of --keep-rate-after-losing"
        raise InvalidInput(Problem("--objective", args.objective, reason, "leave one of them out"))
    args.objective = "rate_after_loss"


def _options(args: argparse.Namespace) -> dict[str, Any]:
    """Gather ``--option k=v``; a name that `solve` itself takes is pointed to its flag."""
    # `--option objective=…` is taken as `--objective`, which it was before there was one
    flags = {"instance", "method", *(each.name for each in fields(Settings))} - {"options"}
    problems = []
    options: dict[str, Any] = {}
    for name, value in args.option:
        if name == "objective" and args.objective is None:
            args.objective = value
            continue
        if name in flags:
            remedy = f"use --{name.replace('_', '-')}"
            problems.append(Problem(f"--option {name}", value, "is not a method's option", remedy))
        elif name in options:
            problems.append(Problem(f"--option {name}", value, "is given twice", "give it once"))
        options[name] = value
    raise_any(problems)
    return options


def _check_files(files: Mapping[str, Path], instance: str) -> None:
    """Refuse, before any time is spent, outputs that could not be written, or not side by side."""
    flag_of: dict[Path, str] = {}
    for flag, path in files.items():
        _check_writable(flag, path, instance)
        if flag == "--plot" and path.suffix.lower() not in _DRAWN:
            reason, remedy = "has no suffix of an image", f"end it in {', '.join(_DRAWN)}"
            raise InvalidInput(Problem(flag, str(path), reason, remedy))
        other = flag_of.setdefault(path.resolve(), flag)
        if other != flag and not is_special(path):
            reason, remedy = f"is the file of {other}, too", "choose another place"
            raise InvalidInput(Problem(flag, str(path), reason, remedy))


def _check_writable(flag: str, path: Path, instance: str) -> None:
    """Refuse an output that could not be written before any time is spent on solving."""
    folder = behind_links(path).parent
    reason = ""
    if path.is_dir():
        reason = "is a directory, not a file"
    elif is_special(path):
        if not os.access(path, os.W_OK):
            reason = "may not be written"
    # links too: by device and number, not by name
    elif path.exists() and Path(instance).exists() and path.samefile(instance):
        reason = "is the instance itself"
    elif not folder.is_dir():
        reason = f"cannot be written: there is no folder {str(folder)!r}"
    elif not os.access(folder, os.W_OK):
        reason = f"cannot be written: no permission in {str(folder)!r}"
    if reason:
        raise InvalidInput(Problem(flag, str(path), reason, "choose another place"))


# --- a second solver, and a certificate ---

TEXT_SECONDS = 2.5e-5
"""Of a task, to make the instance's text."""


def certified(args: argparse.Namespace, instance: Instance, result: Result, busy: float) -> Result:
    """Prove the result's bound, and write the proof; what cannot be proved is noted.

    Without ``--certificate`` the bound is proved where that costs little, given the processor
    seconds that the solve took, and nothing is written.
    """
    if args.certificate is None:
        # the proof is of the file's bytes, which have to be made first
        making = TEXT_SECONDS * instance.num_tasks
        return grade.affordable(result, lambda: instance.to_json().encode(), making, busy)
    is_file = args.instance != STDIN
    text = read_bytes(args.instance) if is_file else instance.to_json().encode()
    began = time.perf_counter()
    result, document = grade.insisted(result, text)
    if document is not None:
        write_atomic(args.certificate, json.dumps(document) + "\n")
    return replace(result, times={**result.times, "certify": time.perf_counter() - began})


def cross_checked(instance: Instance, result: Result, settings: Settings) -> Result:
    """Solve again with another solver, or another exact method where the method has one only.

    Raises `SolverError`: a plan of one is better than the bound of the other.
    """
    second = None
    if result.objective is not None:
        for method, solver in _second_solvers(result):
            with suppress(InvalidInput):  # it does not suit the instance, or is not installed
                same = method == result.method
                second = solve(
                    instance, method,
                    replace(
                        settings, solver=solver, warm_start=None, starts=OWN, target_rate=None,
                        write_model=None,
                        objective=settings.objective if same else result.objective.name,
                        options=settings.options if same else {},
                    ),
                )  # fmt: skip
                break
    if second is None or result.objective is None:
        note = f"no cross-check: {result.method} has no second solver for this instance"
        return replace(result, notes=(*result.notes, note))
    figure, pair = find_objective(result.objective.name), (result, second)
    # a plan of either that beats the bound of the other shows that one is wrong
    for claimant, other in (pair, pair[::-1]):
        if claimant.bound is None or other.objective is None or other.evaluation is None:
            continue
        if claimant.bound_of != "problem":  # others may have better plans
            continue
        value, reference = other.objective.value, figure.reference_of(other.evaluation)
        if (
            (other.feasible or _as_little(result, second))
            and value is not None
            and figure.beats_bound(value, claimant.bound, reference)
        ):
            claim = f"{_name(claimant)} claims {claimant.bound:.9g} as a bound"
            raise SolverError(f"{claim}, but {_name(other)} has a plan of {value:.9g}")
    agreed = second.termination == result.termination == "optimal"
    outcome = "agrees" if agreed else f"ended with {second.termination}, bound {second.bound}"
    notes = (*result.notes, f"cross-check: {_name(second)} {outcome}")
    return replace(result, notes=notes, bound_by="two solvers" if agreed else result.bound_by)


def _as_little(result: Result, second: Result) -> bool:
    """Whether both break limits that are broken today, and no more than is proved to be least."""
    pair = result.mending, second.mending
    proved = Termination.OPTIMAL in (result.termination, second.termination)
    return proved and None not in pair and abs(pair[0].excess - pair[1].excess) <= 1e-9  # type: ignore[union-attr]


def _name(result: Result) -> str:
    return f"{result.method} with {result.solver}" if result.solver else result.method


def _second_solvers(result: Result) -> Iterator[tuple[str, str | None]]:
    """Yield (method, solver): the method's other solvers, then other exact methods."""
    first = (result.solver or "").partition(" ")[0]  # its version stands behind
    solvers = get_method(result.method).solvers if first else ()
    yield from ((result.method, solver) for solver in solvers if solver != first)
    assert result.objective is not None
    others = [get_method(name) for name in method_names() if name != result.method]
    for other in sorted(others, key=lambda method: (not method.solvers, method.name)):
        if other.kind == "exact" and result.objective.name in (other.objective, *other.objectives):
            yield other.name, None
