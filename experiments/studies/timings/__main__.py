"""Measure timings, one table each: ``python -m experiments.studies.timings [NAME…]``.

With ``--against CHECKOUT`` each is run as a process of its own in this checkout and in another, in
turn, and the least CPU seconds of both are compared, those of the runs alone;
``commands.processes`` is so compared command by command.
"""

from __future__ import annotations

import argparse
import ast
import json
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from experiments.studies.timings import commands
from experiments.studies.timings.registry import (
    RUNS_ALONE,
    LeftOut,
    Timing,
    machine,
    spend,
    text,
    timings,
)
from optim.errors import InvalidInput, Problem, meant
from optim.util.files import write_atomic

HERE = Path(__file__).resolve().parents[3]


def compare(name: str, words: Sequence[str], other: Path, repeats: int) -> list[object]:
    """Run ``python WORDS`` in both checkouts by turns; return the row of least CPU seconds."""
    best: dict[Path, float] = {}
    ended: dict[Path, set[int]] = {HERE: set(), other: set()}
    for number in range(repeats):
        # by turns, as what slows the machine down lasts longer than a run
        for checkout in (HERE, other) if number % 2 else (other, HERE):
            spent = spend(commands.run, words, checkout, checkout, **{RUNS_ALONE: "1"})
            best[checkout] = min(best.get(checkout, float("inf")), spent.cpu)
            ended[checkout].add(spent.value)
    same = "0" if ended[HERE] == ended[other] == {0} else f"{ended[other]} and {ended[HERE]}"
    # least CPU seconds of each: disturbances only add
    ratio = best[HERE] / best[other] if best[other] else float("nan")
    return [name, f"{best[other]:.2f}", f"{best[HERE]:.2f}", f"{ratio:.2f}", same]


def paired(
    chosen: Sequence[Timing], args: argparse.Namespace, overrides: dict[str, Any]
) -> dict[str, Any]:
    """Return the table of both checkouts; of `commands.processes` those whose names hold `only`."""
    other = args.against.resolve()
    if not (other / "streamplace").is_dir():
        remedy = "name the folder of a checkout, as `git worktree add FOLDER COMMIT` makes it"
        raise InvalidInput(Problem("--against", str(args.against), "is no checkout", remedy))
    rows = []
    with tempfile.TemporaryDirectory() as folder:
        processes: dict[str, Sequence[str]]
        for one in chosen:
            if one.rows is commands.processes:
                all_processes = commands.processes_of(Path(folder))
                only = str(overrides.get("only", ""))
                processes = {name: words for name, words in all_processes.items() if only in name}
            elif (other / "experiments/studies/timings/registry.py").is_file():
                flags = [flag for flag in ("--quick",) if args.quick]
                more = [f"--set={word}" for word in args.set]
                processes = {
                    one.name: ["-m", "experiments.studies.timings", one.name, *flags, *more]
                }
            else:
                reason = f"has no {one.name}: it is older than this registry"
                remedy = "compare commands.processes, which any checkout has"
                raise InvalidInput(Problem("--against", str(args.against), reason, remedy))
            for name, words in processes.items():
                rows.append(compare(name, words, other, args.repeats))
                print(*rows[-1], file=sys.stderr, flush=True)
    return {
        "name": "against", "title": f"{HERE} beside {other}, least of {args.repeats}", "aim": "",
        "columns": ["process", "CPU s there", "here", "ratio", "exit codes"], "rows": rows,
    }  # fmt: skip


def values_of(words: Sequence[str], parameters: Sequence[str]) -> dict[str, Any]:
    """Read ``NAME=VALUE`` by Python's own spelling of values; other text stays text."""
    values: dict[str, Any] = {}
    for word in words:
        name, equals, value = word.partition("=")
        if not equals or name not in parameters:
            reason = "is no NAME=VALUE" if not equals else "is no parameter of these timings"
            raise InvalidInput(Problem("--set", word, reason, meant(name, parameters)))
        try:
            values[name] = ast.literal_eval(value)
        except (ValueError, SyntaxError):
            values[name] = value
    return values


def run(args: argparse.Namespace) -> int:
    """Measure what is asked for; a timing that fails does not end the others."""
    chosen = timings(args.names)
    overrides = values_of(args.set, [p for one in chosen for p in one.parameters])
    if args.list:
        for one in chosen:
            parameters = " ".join(f"{name}={value}" for name, value in one.parameters.items())
            print(f"{one.name:<38} {one.title}" + (f" [{parameters}]" if parameters else ""))
        return 0
    print(machine() + "\n", flush=True)
    tables: list[dict[str, Any]] = []
    failed = 0
    if args.against:
        tables.append(paired(chosen, args, overrides))
        print(text(tables[0]))
    for one in () if args.against else chosen:
        applicable = {name: value for name, value in overrides.items() if name in one.parameters}
        try:
            tables.append(one.measure({**(one.quick if args.quick else {}), **applicable}))
        except LeftOut as reason:
            print(f"### {one.name}: left out: {reason}\n", flush=True)
            continue
        except Exception as error:  # a method that fails must not take the other tables along
            failed += 1
            print(f"{one.name} failed: {error!r}", file=sys.stderr, flush=True)
            continue
        print(text(tables[-1]), flush=True)
    if args.json:
        document = {"format": "streamplace.timings/1", "machine": machine(), "tables": tables}
        write_atomic(args.json, json.dumps(document, indent=1, default=str) + "\n")
    return 1 if failed else 0


def main(words: Sequence[str] | None = None) -> int:
    """Read the command line; 0 all measured, 1 a timing failed, 2 invalid input."""
    parser = argparse.ArgumentParser(
        prog="python -m experiments.studies.timings", description=(__doc__ or "").splitlines()[0]
    )
    parser.add_argument("names", nargs="*", metavar="NAME", help="of a timing or a module; all")
    parser.add_argument("--list", action="store_true", help="names, titles, parameters")
    parser.add_argument("--quick", action="store_true", help="the smallest work of each")
    parser.add_argument(
        "--set", action="append", default=[], metavar="NAME=VALUE", help="a parameter of the work"
    )
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the tables there as well")
    parser.add_argument("--against", type=Path, metavar="CHECKOUT", help="compare with another")
    parser.add_argument(
        "--repeats", type=int, default=3, metavar="N", help="runs in each checkout (3)"
    )
    try:
        return run(parser.parse_args(words))
    except InvalidInput as error:
        print(f"error: {error}", file=sys.stderr)
        return 2


if __name__ == "__main__":
    sys.exit(main())
