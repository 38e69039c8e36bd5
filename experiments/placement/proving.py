"""Solve and certify the instances of the benchmark."""

from __future__ import annotations

import json
import sys
from dataclasses import asdict, replace

from experiments.placement.cases import CERTIFICATE, Case, read, sha256


def prove(case: Case) -> Case:
    """Solve and certify a case anew; where there is no certificate, it stays as it is."""
    from optim import solve
    from optim.certificates.check import Refused
    from optim.certificates.write import certify

    made = case.instance()
    result = solve(made, objective=case.objective, time_limit=60)
    if result.plan is None or result.objective is None or result.objective.value is None:
        return case
    try:
        proof = certify(made.to_json().encode(), case.objective, dict(result.plan.assignment))
    except Refused:
        return case
    return replace(
        case,
        best=result.objective.value,
        best_by=result.method,
        bound=str(proof.document["bound"]),
        bound_by=CERTIFICATE,
        certificate_sha256=sha256(json.dumps(proof.document, sort_keys=True)),
    )


def main() -> None:
    """Print the table."""
    sys.stdout.write(json.dumps([asdict(prove(case)) for case in read()], indent=1) + "\n")
