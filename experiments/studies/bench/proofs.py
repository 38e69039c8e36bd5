"""Solve and certify the instances of the benchmark, one after another, and keep what is better.

    python -m experiments.studies.bench.proofs [--only TEXT] [--data FOLDER] [--seconds S]
    [--new] [--again]

Each row is written as it comes; started again, what is closed by a certificate is left alone. A
better value is never given for a worse one, nor a tighter bound for a weaker one, but a certified
bound is taken before any that is only claimed.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from dataclasses import asdict, replace
from fractions import Fraction
from pathlib import Path
from typing import Any, NamedTuple

from experiments.studies.bench.cases import TABLE, Case, instance_of, read, sha256
from optim import Instance, Plan, solve
from optim.certificates.check import SENSES, Refused, Unreadable
from optim.certificates.write import certify, number, rounded
from optim.errors import StreamplaceError
from optim.methods.registry import get_method
from optim.referee import Result
from optim.util.files import write_atomic
from streamplace.present.arguments import declare

CERTIFICATES = Path(__file__).with_name("certificates")
"""Where the certificates are, packed, by the names of their cases."""
PLANS = Path(__file__).with_name("plans")
"""Where the plans of the best known values are, packed, by the names of their cases."""
MOST_KEPT = 20_000  # Plans of more tasks are not stored.
METHODS: dict[str, tuple[str, ...]] = {
    "imc_gain": ("imc-exact", "imc-search", "partition"),
    "internode_traffic": ("storm-milp", "imc-exact", "imc-search"),
    "sustainable_rate": ("throughput-exact", "throughput-search"),
    "load_distance": ("balance-milp", "balance-search"),
    "used_capacity": ("eoa-milp", "gma"),
    "nodes_used": ("eoa-milp", "gma"),
    "joint": ("joint-search", "joint-milp"),
}
"""What is tried, by objective; the family ``joint`` has methods of its own."""
SECONDS = 60.0
SAME = 1e-9  # Relative: how much better a value must be for it to count as better.
MOST_BYTES, MOST_SEARCHED = 2_000_000, 20_000
"""Files above are not certified; of more tasks, exact methods are not tried."""
EXACT = frozenset(
    {"imc-exact", "storm-milp", "eoa-milp", "joint-milp", "balance-milp", "throughput-exact"}
)


def methods_of(case: Case) -> tuple[str, ...]:
    """Return the methods that are tried on a case."""
    return METHODS["joint" if case.family == "joint" else case.objective]


def better(objective: str, new: float, old: float | None) -> bool:
    """Whether a value is better than the best known one by more than rounding."""
    if old is None:
        return True
    ahead = new - old if SENSES[objective] == "max" else old - new
    return ahead > SAME * max(abs(new), abs(old))


def tighter(case: Case, bound: Fraction, current: str | None) -> bool:
    """Whether a bound is to stand in a case instead of what is there."""
    if current is None:
        return True
    old = Fraction(current)
    return bound < old if SENSES[case.objective] == "max" else bound > old


def closed(case: Case) -> bool:
    """Whether a certificate proves the best known value to be the best there is."""
    if case.best is None or case.proven is None:
        return False
    return abs(case.best - case.proven) <= 1e-6 * abs(case.best)


def has_certificate(case: Case) -> bool:
    """Whether the certificate of a certified bound is available; true where none is needed."""
    return case.certified is None or certificate_of(case).is_file()


def certificate_of(case: Case) -> Path:
    """Return where the certificate of a case is."""
    return CERTIFICATES / f"{case.name}.json.gz"


def keep_certificate(case: Case, text: str) -> None:
    """Keep the certificate of a case."""
    CERTIFICATES.mkdir(exist_ok=True)
    write_atomic(certificate_of(case), text)


def plan_of(case: Case) -> Path:
    """Return where the plan of a case's best known value is."""
    return PLANS / f"{case.name}.json.gz"


def keep_plan(case: Case, plan: Plan) -> None:
    """Keep the plan of the best known value."""
    if case.tasks <= MOST_KEPT:
        PLANS.mkdir(exist_ok=True)
        plan.save(plan_of(case))


def with_value(case: Case, value: float, by: str) -> Case:
    """Return the case with a value, if that is better."""
    return (
        replace(case, best=value, best_by=by) if better(case.objective, value, case.best) else case
    )


def with_claim(case: Case, bound: Fraction, by: str) -> Case:
    """Return the case with a bound that a method states, if that is tighter."""
    if not tighter(case, bound, case.claimed):
        return case
    return replace(case, claimed=str(number(bound)), claimed_by=by)


def with_certificate(case: Case, bound: Fraction, certificate: dict[str, Any]) -> Case:
    """Return the case with a checked certificate, if its bound is tighter than a certified one."""
    if not tighter(case, bound, case.certified):
        return case
    digest = sha256(text_of(certificate))
    return replace(case, certified=str(number(bound)), certificate_sha256=digest)


def text_of(certificate: dict[str, Any]) -> str:
    """Return a certificate as the text that is hashed and stored."""
    return json.dumps(certificate, sort_keys=True)


class Proved(NamedTuple):
    """A case with what is better, the text of a new certificate, and a plan of the best value."""

    case: Case
    certificate: str | None
    plan: Plan | None


def prove(
    case: Case, data: Path | None = None, seconds: float = SECONDS, proof: float = SECONDS
) -> Proved:
    """Solve and certify a case.

    `data`: the folder with the files of others. `seconds`, `proof`: for each method, and of the
    processor for the certificate; 0 for none, and no exact method.
    """
    instance = case.instance(data)
    plan: Plan | None = None
    worth: float | None = None
    for method in methods_of(case):
        # no proof is asked for, or the model would be too large
        if method in EXACT and (not proof or instance.num_tasks > MOST_SEARCHED):
            continue
        try:
            value, bound, proposed = _solve_case(instance, case, method, seconds)
        except StreamplaceError as error:
            sys.stderr.write(f"  {method}: {str(error).splitlines()[0]}\n")
            continue
        if bound is not None:
            case = with_claim(case, bound, method)
        if value is None:
            continue
        case = with_value(case, value, method)
        if better(case.objective, value, worth):
            plan, worth = proposed, value
        # value and bound meet
        if bound is not None and not better(case.objective, float(bound), value):
            break  # as the method says, there is none better
    text = instance.to_json().encode()
    if plan is None:
        return Proved(case, None, None)
    # a plan is stored only where it has the best known value
    same = case.best is not None and not better(case.objective, case.best, worth)
    best = plan if same else None
    if not proof or len(text) > MOST_BYTES:
        return Proved(case, None, best)
    try:
        written = certify(
            text, case.objective, plan.assignment, value=worth, claimed=case.stated, seconds=proof,
            nodes=20_000,
        )  # fmt: skip
    except (Refused, Unreadable) as error:  # or it is too large for the checker
        sys.stderr.write(f"  no certificate: {error}\n")
        return Proved(case, None, best)
    after = with_certificate(case, written.bound, written.document)
    certificate = text_of(written.document)
    # a certificate as good as the one that is lost takes its place
    if (
        after is case
        and not has_certificate(case)
        and case.certified == str(written.document["bound"])
    ):
        after = replace(case, certificate_sha256=sha256(certificate))
    return Proved(after, None if after is case else certificate, best)


def _solve_case(
    instance: Instance, case: Case, method: str, seconds: float
) -> tuple[float | None, Fraction | None, Plan | None]:
    """Return the value, the bound in the case's objective, and the plan."""
    objectives = get_method(method).objectives
    objective = case.objective if case.objective in objectives else None
    result: Result = solve(instance, method, objective=objective, time_limit=seconds)
    value, bound = None, None
    if result.plan is not None:
        evaluation, broken = case.judged(instance, result.plan)
        value = None if broken else getattr(evaluation, case.objective)
    name = None if result.objective is None else result.objective.name
    if result.bound is not None and name is not None:
        if name == case.objective:
            bound = rounded(Fraction(result.bound), Fraction(0), case.objective)
        # internode traffic = all traffic - IMC gain: a bound on one is one on the other
        elif {name, case.objective} == {"imc_gain", "internode_traffic"}:
            rest = Fraction(instance.total_traffic) - Fraction(result.bound)
            bound = rounded(rest, Fraction(0), case.objective)
    return value, bound, result.plan


def begun(case: Case, data: Path | None) -> Case:
    """Return a case with its size and hash, which a new entry of the table has not."""
    if case.instance_sha256:
        return case
    instance = instance_of(case.source, data)
    text = instance.to_json()
    return replace(
        case, tasks=instance.num_tasks, nodes=instance.num_nodes, instance_sha256=sha256(text)
    )


def write(cases: dict[str, Case], table: Path = TABLE) -> None:
    """Write the table."""
    write_atomic(table, json.dumps([asdict(case) for case in cases.values()], indent=1) + "\n")


def main(words: list[str] | None = None) -> None:
    """Work through the table and store the rows as they come."""
    parser = argparse.ArgumentParser(prog="python -m experiments.studies.bench.proofs")
    declare(parser, "--only TEXT", "cases with TEXT in their name", default="")
    declare(parser, "--data FOLDER", "with the files of others", Path)
    declare(parser, "--seconds S", "a method (60)", float, SECONDS)
    proof = "of the processor for a proof (60); 0: searches alone"
    declare(parser, "--proof S", proof, float, SECONDS)
    declare(parser, "--most-tasks N", "at most so large", int, 10**6)
    declare(parser, "--again", "also what has a value or is closed")
    declare(parser, "--new", "only what has no value yet")
    args = parser.parse_args(words)
    for entry in read(TABLE):
        if args.only not in entry.name or (entry.foreign and args.data is None):
            continue
        began = time.process_time()
        case = begun(entry, args.data)
        # closed, with certificate and plan in their folders: nothing is left to do
        whole = has_certificate(case) and (case.tasks > MOST_KEPT or plan_of(case).is_file())
        done = (closed(case) and whole) or (args.new and case.best is not None)
        if case.tasks > args.most_tasks or (done and not args.again):
            continue
        before = case.best
        case, certificate, plan = prove(case, args.data, args.seconds, args.proof)
        # the table as it is now: other processes may be at work
        cases = {old.name: old for old in read(TABLE)} | {case.name: case}
        if certificate is not None:
            keep_certificate(case, certificate)
        if plan is not None and (case.best != before or not plan_of(case).is_file()):
            keep_plan(case, plan)
        write(cases, TABLE)
        summary = f"{case.best} by {case.best_by}, claimed {case.stated}, certified {case.proven}"
        sys.stderr.write(f"{case.name}: {summary}, {time.process_time() - began:.1f} s\n")


if __name__ == "__main__":
    main()
