"""``streamplace bench``: a method on the open benchmark, by what is certified of its cases."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Callable
from contextlib import nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, Any

from optim import Instance
from optim.errors import ExitCode, InvalidInput, Problem
from streamplace.present.arguments import add_json, declare, seconds

if TYPE_CHECKING:
    from experiments.studies.bench.answers import Asker
    from experiments.studies.bench.cases import Case
    from experiments.studies.bench.rows import Contestant

EXAMPLES = """\
examples:
  streamplace bench --method top-down
  streamplace bench --my-method mypackage.placing:place --seconds 10
  streamplace bench --my-command './place --fast' -o results/
  streamplace bench --method default --family balance -o results/
  streamplace bench --peers --only papers --seconds 10
  streamplace report results/ -o report.html

`place` takes an instance as the format's dictionary and returns {task: node}, or yields better and
better ones; a command reads the instance from its standard input and writes {task: node}, or plans,
one a line, on its output. The referee evaluates every plan.

exit codes: 0 every plan is feasible; 2 invalid input; 4 a plan is missing, or breaks a rule;
130 interrupted: what was done is stored"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the command's arguments."""
    whose = parser.add_mutually_exclusive_group()
    declare(whose, "--my-method MODULE:FUNCTION", "a function of yours")
    declare(whose, "--my-command COMMAND", "a command of yours")
    declare(
        whose, "--method NAME", "a registered method, `default` (what solve chooses) or `portfolio`"
    )
    declare(
        whose, "--peers NAME", "packages from PyPI beside `solve`: value, bound, CPU seconds; "
        "without NAME all of them, on 26 cases unless cases are selected", nargs="*",
    )  # fmt: skip
    declare(
        parser, "--rows FILE", "store the rows of --peers in this file; rows that it has are not "
        "run again", Path,
    )  # fmt: skip
    declare(parser, "--label NAME", "name in tables, instead of its own")
    declare(parser, "--only TEXT", "cases whose name contains TEXT", default="")
    declare(parser, "--family NAME", "cases of this family; may be given again", action="append")
    declare(parser, "--large", "cases of more than 2,000 tasks as well")
    declare(
        parser, "--data FOLDER", "folder of external files; without it cases that need them are "
        "left out", Path,
    )  # fmt: skip
    declare(parser, "--all", "every case, also those that need external files")
    declare(parser, "--list", "list the cases, or rows of --peers; run nothing")
    declare(
        parser, "--instances FOLDER", "write the instances there, as CASE.json, and run nothing",
        Path,
    )  # fmt: skip
    declare(parser, "--seconds S", "limit on each instance (60)", seconds, 60.0)
    declare(
        parser, "-o, --output FOLDER|FILE.json", "add the runs to a folder that `streamplace "
        "report` reads, or write one JSON document",
    )  # fmt: skip
    declare(
        parser, "--plans FOLDER", "write the best plan of each case there, as CASE.json", Path
    )  # fmt: skip
    add_json(parser)


def run(args: argparse.Namespace) -> int:
    """Run a method on the cases and print how far it is from what was proved."""
    from experiments.studies.bench.rows import opened, store
    from experiments.studies.bench.scores import Lines, judged, summary_text
    from streamplace.present.streams import print_json, write_stdout

    cases = chosen(args)
    if args.rows is not None and args.peers is None:
        raise InvalidInput(Problem("--rows", str(args.rows), "is of --peers", "add --peers"))
    if args.peers is not None and args.instances is None:
        return _run_peers(cases, args)
    if args.list:
        write_stdout(_cases_text(cases, as_json=args.json))
        return int(ExitCode.OK)
    if args.instances is not None:
        return _write_instances(cases, args)
    if not (args.my_method or args.my_command or args.method):
        remedy = "--my-method, --my-command or --method; --list and --instances run none"
        raise InvalidInput(Problem("bench", None, "no method is named", remedy))
    contestant, ask = _contestant(args)
    runs, lines = [], Lines(cases)
    tell = (lambda _: None) if args.json else write_stdout
    folder = _folder(args.output)
    interrupted = False
    with nullcontext() if folder is None else opened(folder):
        try:
            tell(lines.head() + "\n")
            for case in cases:
                instance = _instance(case, args)
                if instance is None:
                    continue
                case_run = judged(case, instance, ask(instance, case.objective), args.seconds)
                runs.append(case_run)
                if args.plans is not None and case_run.plan is not None:
                    args.plans.mkdir(parents=True, exist_ok=True)
                    case_run.plan.save(args.plans / f"{case.name}.json")
                if folder is not None:
                    store(folder, contestant, case_run)
                tell(lines.of(case_run.row) + "\n")
        except KeyboardInterrupt:
            interrupted = True
    rows = [one.row for one in runs]
    document = _document(contestant, rows)
    if args.output and folder is None:
        from optim.util.files import write_atomic

        write_atomic(args.output, json.dumps(document, indent=1) + "\n")
    if args.json:
        print_json(document)
    elif rows:
        tell("\n" + summary_text(rows))
    # what is done has been stored and summed up
    if interrupted:
        raise KeyboardInterrupt
    if not rows:
        raise InvalidInput(Problem("--data", str(args.data), "holds no file that is needed"))
    return int(ExitCode.OK if all(row["feasible"] for row in rows) else ExitCode.NO_PLAN)


def _run_peers(cases: list[Case], args: argparse.Namespace) -> int:
    """Run peers beside `solve` and print what they come to; with ``--list`` what is stored."""
    from experiments.studies.bench import peers
    from optim.util.files import write_atomic
    from streamplace.cli.versions import gather
    from streamplace.present.streams import print_json, write_stdout

    file: Path = args.rows or peers.STORED
    names = peers.chosen_names(args.peers)
    if args.list:
        case_names = {case.name for case in cases}
        peer_names = set(names if args.peers else peers.peers())
        # stored rows of peers that are not installed here are shown, too
        named_rows = [
            (by, row)
            for by, row in peers.stored(file)
            if row["case"] in case_names and by in peer_names
        ]
    else:
        if not (args.only or args.family or args.large or args.all):
            cases = [case for case in cases if case.name in peers.CHOSEN]
        measured_rows = peers.measured(names, cases, args.seconds, args.rows, args.data)
        named_rows = list(measured_rows)
    rows = peers.rescored(named_rows)
    if args.output or args.json:
        cells = [{"by": name, **row} for name, row in rows]
        document = {"format": "streamplace.bench-peers/1", "versions": gather(), "cases": cells}
    if args.output:
        write_atomic(args.output, json.dumps(document, indent=1) + "\n")
    if args.json:
        print_json(document)
    else:
        write_stdout(peers.table(rows))
    return int(ExitCode.OK)


def _write_instances(cases: list[Case], args: argparse.Namespace) -> int:
    """Write the cases' instances, byte for byte those that certificates are of."""
    from optim.util.files import write_atomic

    count = 0
    args.instances.mkdir(parents=True, exist_ok=True)
    for case in cases:
        instance = _instance(case, args)
        if instance is not None:
            write_atomic(args.instances / f"{case.name}.json", instance.to_json())
            count += 1
    if not count:
        raise InvalidInput(Problem("--data", str(args.data), "holds no file that is needed"))
    sys.stderr.write(
        f"{count} {'instance' if count == 1 else 'instances'} written to {args.instances}\n"
    )
    return int(ExitCode.OK)


def _cases_text(cases: list[Case], *, as_json: bool) -> str:
    if as_json:
        from dataclasses import asdict

        return json.dumps([asdict(case) for case in cases], indent=1) + "\n"
    from experiments.studies.bench.scores import known_text

    return known_text(cases)


def chosen(args: argparse.Namespace) -> list[Case]:
    """Return the cases that are asked for.

    Raises `InvalidInput`: there is none, or a family that there is not.
    """
    from experiments.studies.bench.cases import DEFAULT_TASKS, read

    cases = read()
    families = list(dict.fromkeys(case.family for case in cases))
    for family in args.family or ():
        if family not in families:
            raise InvalidInput(
                Problem("--family", family, "is no family", f"one of {', '.join(families)}")
            )
    cases = [case for case in cases if not args.family or case.family in args.family]
    cases = [case for case in cases if args.only in case.name]
    if not cases:
        remedy = "--list shows their names, with --all of those that are not run unasked"
        raise InvalidInput(Problem("--only", args.only, "is in no case's name", remedy))
    runnable = [
        case
        for case in cases
        if args.all
        or ((case.foreign is None or args.data) and (args.large or case.tasks <= DEFAULT_TASKS))
    ]
    if not runnable:
        remedy = "add --large, or --data FOLDER where the files of others are"
        first_names = ", ".join(case.name for case in cases[:3])
        raise InvalidInput(Problem("cases", first_names, "are not run unasked", remedy))
    return runnable


def _instance(case: Case, args: argparse.Namespace) -> Instance | None:
    """Make a case's instance; ``None``, and said so, where a file of others is not there."""
    try:
        return case.instance(args.data)
    except InvalidInput as error:
        if case.foreign is None:
            raise
        sys.stderr.write(f"left out: {error.problems[0]}\n")
        return None


def _contestant(args: argparse.Namespace) -> tuple[Contestant, Asker]:
    """Return who is run, and how it is asked; a name that there is not is refused at once."""
    from experiments.studies.bench import answers
    from experiments.studies.bench.rows import Contestant

    # what is not registered says nothing of itself
    kind = "heuristic"
    if args.my_method:
        from optim.plugins import loaded

        method_name = args.my_method
        function: Callable[[dict[str, Any]], Any] = loaded(method_name, "--my-method")
        if not callable(function):
            raise InvalidInput(Problem("--my-method", method_name, "is no function"))
        ask = answers.function_asker(function, args.seconds)
    elif args.my_command:
        method_name = args.my_command
        ask = answers.command_asker(method_name, args.seconds)
    elif args.method in answers.CHOSEN:
        method_name, kind = args.method, "search"
        ask = answers.method_asker(method_name, args.seconds)
    else:
        from optim.methods.registry import get_method

        method = get_method(args.method)
        method_name, kind = method.name, method.kind
        ask = answers.method_asker(method, args.seconds)
    return Contestant(args.label or method_name, method_name, kind, args.seconds), ask


def _folder(output: str | None) -> Any:
    """Return the result folder that is to be written; ``None`` for a file, or nothing."""
    # a name without .json is a folder, unless a file of that name is there
    if not output or output.endswith(".json") or Path(output).is_file():
        return None
    from experiments.sweep.store import ResultFolder

    return ResultFolder(Path(output))


def _document(contestant: Contestant, rows: list[dict[str, Any]]) -> dict[str, Any]:
    from experiments.studies.bench.scores import summary
    from optim.util.files import finite
    from streamplace.cli.versions import gather

    document = {
        "format": "streamplace.bench/1", "method": contestant.method, "label": contestant.label,
        "seconds": contestant.limit, "versions": gather(), "cases": rows,
        "summary": summary(rows) if rows else [],
    }  # fmt: skip
    finite_document: dict[str, Any] = finite(document)
    return finite_document
