"""Check a better value, or a tighter bound, and print the row that belongs in `cases.json`.

    python -m experiments.studies.bench.submit CASE [--plan PLAN] [--certificate FILE] [--by NAME]

The plan is judged by the referee, the certificate by its checker, against the case's instance.
``--write`` puts the row into the table, plan and certificate beside it, for a pull request. Ends
with 0 where something is better, 1 where nothing is, or where what is given cannot be read or does
not hold, 2 where there is no such case.
"""

from __future__ import annotations

import argparse
import json
import sys
from dataclasses import asdict
from fractions import Fraction
from pathlib import Path
from typing import Any

from experiments.studies.bench.cases import TABLE, Case, read
from experiments.studies.bench.proofs import (
    SAME,
    keep_certificate,
    keep_plan,
    text_of,
    with_certificate,
    with_value,
    write,
)
from optim import Instance, Plan
from optim.certificates import check
from optim.certificates.check import SENSES
from optim.errors import InvalidInput, Problem
from optim.util.files import read_bytes


def checked_value(case: Case, instance: Instance, plan: Path) -> float:
    """Return the value of a plan, as the referee has it.

    Raises `InvalidInput`: the plan breaks a rule, has no value, or one beyond what is proved.
    """
    evaluation, broken = case.judged(instance, Plan.load(plan))
    if broken:
        raise InvalidInput(Problem(str(plan), None, f"breaks a rule: {broken[0]}"))
    value = getattr(evaluation, case.objective)
    if value is None:
        raise InvalidInput(Problem(str(plan), None, f"has no {case.objective}"))
    _check_sides(case, value, case.proven, str(plan))
    return float(value)


def checked_bound(case: Case, instance: Instance, path: Path) -> tuple[Fraction, dict[str, Any]]:
    """Return the bound of a certificate, and the certificate, as the checker has them.

    Raises `InvalidInput`: it does not hold, is of another instance or objective, or assumes a rule
    away.
    """
    try:
        text = read_bytes(path)
        # exact numbers, as the checker reads them, and the hash that the certificate names
        document, sha256 = check.parse(instance.to_json().encode())
        check.check(check.Instance(document, frozenset()), sha256, check.parse(text)[0])
    except (check.Refused, check.Unreadable, *check.MALFORMED) as error:
        raise InvalidInput(Problem(str(path), None, f"does not hold: {error}")) from None
    certificate = json.loads(text)
    if certificate["objective"] != case.objective or certificate["assumes"]:
        reason = f"is not about {case.objective} with all rules"
        raise InvalidInput(Problem(str(path), certificate["objective"], reason))
    bound = Fraction(str(certificate["bound"]))
    if case.best is not None:
        _check_sides(case, case.best, float(bound), str(path))
    return bound, certificate


def _check_sides(case: Case, value: float, bound: float | None, what: str) -> None:
    if bound is None:
        return
    # no value lies beyond a bound: one of the two is false
    beyond = value - bound if SENSES[case.objective] == "max" else bound - value
    if beyond > SAME * max(1.0, abs(value), abs(bound)):
        reason = f"{value:.9g} and {bound:.9g} cannot both be true: please report this"
        raise InvalidInput(Problem(what, None, reason))


def main(words: list[str] | None = None) -> int:
    """Check what is given and print the row."""
    parser = argparse.ArgumentParser(prog="python -m experiments.studies.bench.submit")
    parser.add_argument("case", metavar="CASE", help="its name in the table")
    parser.add_argument("--plan", metavar="PLAN", type=Path, help="a plan, streamplace.plan/1")
    parser.add_argument("--certificate", metavar="FILE", type=Path, help="of a tighter bound")
    parser.add_argument("--by", metavar="NAME", default="unnamed", help="what found the plan")
    parser.add_argument("--data", metavar="FOLDER", type=Path, help="with the files of others")
    parser.add_argument("--write", action="store_true", help="put the row into the table")
    args = parser.parse_args(words)
    cases = {case.name: case for case in read(TABLE)}
    try:
        # nothing is written before plan and certificate have both been checked
        row, certificate = submitted(cases, args)
    except InvalidInput as error:
        sys.stderr.write(f"error: {error}\n")
        return 1 if args.case in cases else 2
    if row == cases[args.case]:
        sys.stderr.write("nothing is better than what is known\n")
        return 1
    if args.write:
        if certificate is not None and row.certificate_sha256 != cases[row.name].certificate_sha256:
            keep_certificate(row, text_of(certificate))
        if args.plan is not None and row.best != cases[row.name].best:
            keep_plan(row, Plan.load(args.plan))
        write({**cases, row.name: row}, TABLE)
    sys.stdout.write(json.dumps(asdict(row), indent=1) + "\n")
    return 0


def submitted(
    cases: dict[str, Case], args: argparse.Namespace
) -> tuple[Case, dict[str, Any] | None]:
    """Return the case with what is better, and the certificate that was given."""
    if args.case not in cases:
        remedy = "their names are in experiments/studies/bench/cases.json"
        raise InvalidInput(Problem("CASE", args.case, "is no case of the table", remedy))
    case, certificate = cases[args.case], None
    instance = case.instance(args.data)
    if args.plan is not None:
        case = with_value(case, checked_value(case, instance, args.plan), args.by)
    if args.certificate is not None:
        bound, certificate = checked_bound(case, instance, args.certificate)
        case = with_certificate(case, bound, certificate)
    return case, certificate


if __name__ == "__main__":
    sys.exit(main())
