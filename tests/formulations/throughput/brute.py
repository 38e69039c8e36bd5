"""Exact methods of the family against all placements, on as many random instances as wanted.

    python -m tests.formulations.throughput.brute throughput-exact 0 3000
    python -m tests.formulations.throughput.brute throughput-milp 0 1000 scip

Every 50 instances a line counts how they ended; any instance where a method and the trial of all
placements differ is told with its seed, and makes the exit code 1.
"""

from __future__ import annotations

import sys
from collections import Counter
from typing import Any

from optim import UnsuitableMethod, solve
from tests.formulations.throughput.small import small
from tests.formulations.throughput.test_exact import check


def main(method: str, first: str, last: str, *solver: str) -> int:
    """Try the instances of some seeds; return whether any differs."""
    ended: Counter[str] = Counter()
    asked: dict[str, Any] = {"start_broken": "refuse"}
    if solver:
        asked["solver"] = solver[0]
    for seed in range(int(first), int(last)):
        instance = small(seed)
        try:
            result = solve(instance, method, **asked)
            check(instance, result)
            ended[str(result.termination)] += 1
        except UnsuitableMethod as error:
            ended[f"refused: {error.problems[0].reason[:60]}"] += 1
        except Exception as error:
            print(seed, type(error).__name__, str(error)[:400], flush=True)
            ended["wrong"] += 1
        if (seed + 1) % 50 == 0:
            print(seed + 1, method, *solver, dict(ended), flush=True)
    print(method, *solver, dict(ended))
    return int(ended["wrong"] > 0)


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
