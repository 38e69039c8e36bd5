"""The instances of the benchmark, made by generators, with the bounds that were proved of them.

``python -m experiments.placement.cases`` proves all anew and prints what belongs in `cases.json`.
"""

from __future__ import annotations

import hashlib
import json
import sys
from dataclasses import asdict, dataclass
from fractions import Fraction
from pathlib import Path
from typing import TYPE_CHECKING, Any

from experiments.generators import generate
from optim.errors import InvalidInput, Problem

if TYPE_CHECKING:
    from optim import Instance

TABLE = Path(__file__).with_name("cases.json")
SET: tuple[tuple[str, str, int, dict[str, Any]], ...] = (
    *(("imc_gain", "random_graphs", seed, {}) for seed in range(4)),
    ("imc_gain", "figure2", 0, {}),
    ("imc_gain", "pipeline", 0, {"nodes": 6, "tasks": "8,12,9,11"}),
    ("imc_gain", "community", 1, {"tasks": 12, "nodes": 3, "degree": 3}),
    ("sustainable_rate", "bargain", 0, {"nodes": 12, "link_share": 0.2}),
    ("sustainable_rate", "random_graphs", 1, {}),
    *(("load_distance", "cluster", seed, {}) for seed in range(2)),
    ("load_distance", "cluster", 2, {"nodes": 60, "max_migrations": 20}),
    ("load_distance", "scale_in", 0, {}),
    ("nodes_used", "eoa_random", 0, {"nodes": 6, "operators": 12}),
)
"""Objective, kind, seed, parameters."""


@dataclass(frozen=True)
class Case:
    """An instance as it is generated, its best known value, and an exact proven bound."""

    name: str
    objective: str
    kind: str
    seed: int
    parameters: dict[str, Any]
    instance_sha256: str
    best: float
    bound: str
    certificate_sha256: str

    @property
    def proven(self) -> float:
        """The bound as a double."""
        return float(Fraction(self.bound))

    def instance(self) -> Instance:
        """Generate the instance.

        Raises
        ------
        InvalidInput
            The generator makes another one here than the one that was proved.
        """
        made = generate(self.kind, self.seed, **self.parameters)
        if sha256(made.to_json()) != self.instance_sha256:
            reason = "is generated otherwise here than when its bound was proved"
            remedy = "use the versions of constraints.txt"
            raise InvalidInput(Problem(self.name, None, reason, remedy))
        return made


def sha256(text: str) -> str:
    """Return the hash of a text."""
    return hashlib.sha256(text.encode()).hexdigest()


def read() -> list[Case]:
    """Return the committed cases."""
    return [Case(**entry) for entry in json.loads(TABLE.read_text("utf-8"))]


def prove(objective: str, kind: str, seed: int, parameters: dict[str, Any]) -> Case | None:
    """Solve and certify an instance; ``None`` where there is no certificate."""
    from optim import solve
    from optim.certificates.check import Refused
    from optim.certificates.write import certify

    made = generate(kind, seed, **parameters)
    name = "-".join([kind, str(seed), *map(str, parameters.values()), objective])
    result = solve(made, objective=objective, time_limit=60)
    if result.plan is None or result.objective is None or result.objective.value is None:
        return None
    try:
        proof = certify(made.to_json().encode(), objective, dict(result.plan.assignment))
    except Refused:
        return None
    return Case(
        name, objective, kind, seed, parameters, sha256(made.to_json()), result.objective.value,
        str(proof.document["bound"]), sha256(json.dumps(proof.document, sort_keys=True)),
    )  # fmt: skip


if __name__ == "__main__":
    found = [case for case in (prove(*entry) for entry in SET) if case is not None]
    sys.stdout.write(json.dumps([asdict(case) for case in found], indent=1) + "\n")
