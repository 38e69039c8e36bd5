"""The instances of the benchmark: where each comes from, its best known value, its bounds.

``python -m experiments.studies.bench.proving`` solves and certifies them.
"""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass, replace
from fractions import Fraction
from pathlib import Path
from typing import TYPE_CHECKING, Any

from experiments.studies.bench.sources import made
from optim.errors import InvalidInput, Problem

if TYPE_CHECKING:
    from optim import Evaluation, Instance, Plan
    from optim.rules.violation import Violation

TABLE: Path = Path(__file__).with_name("cases.json")
DEFAULT_TASKS = 2_000
"""Up to how many tasks a case is run unasked."""


@dataclass(frozen=True)
class Case:
    """An instance, its best known value, and how well that is known to be the best.

    Attributes
    ----------
    name, family
        Unique and readable, the family first.
    objective
        What it is judged by.
    source
        How it is made; see `sources`.
    tasks, nodes
        Its size.
    instance_sha256
        Of its file.
    best, best_by
        The best known value, in the objective's unit, and what found it; ``None`` where no plan is
        known.
    claimed, claimed_by
        The tightest bound on the value that a method states, as an exact text, an integer or
        ``p/q``, and who proves it; ``None`` where none does.
    certified
        The bound that a checked certificate proves, a text as well, maybe weaker; ``None`` where
        there is none.
    certificate_sha256
        Of that certificate, its JSON written with sorted keys.
    """

    name: str
    family: str
    objective: str
    source: dict[str, Any]
    tasks: int
    nodes: int
    instance_sha256: str
    best: float | None
    best_by: str | None
    claimed: str | None
    claimed_by: str | None
    certified: str | None
    certificate_sha256: str | None

    @property
    def proven(self) -> float | None:
        """The certified bound as a double; ``None`` where what there is is only claimed."""
        return None if self.certified is None else float(Fraction(self.certified))

    @property
    def stated(self) -> float | None:
        """The claimed bound as a double."""
        return None if self.claimed is None else float(Fraction(self.claimed))

    @property
    def bound(self) -> float | None:
        """The certified bound, or what is claimed where none is."""
        return self.stated if self.certified is None else self.proven

    @property
    def foreign(self) -> str | None:
        """The name of the data that it needs and that is not ours; ``None`` where it needs none."""
        return self.source.get("needs")

    @property
    def unasked(self) -> bool:
        """Whether it is run when nothing is said of which are."""
        return self.foreign is None and self.tasks <= DEFAULT_TASKS

    def instance(self, data: Path | None = None) -> Instance:
        """Make the instance.

        Parameters
        ----------
        data
            The folder with the files of others, where it is made of one.

        Raises
        ------
        InvalidInput
            It cannot be made, or it is another one here than the one that was proved.
        """
        try:
            instance = made(self.source, data)
        except InvalidInput as error:
            raise error.within(self.name) from None
        if sha256(instance.to_json()) != self.instance_sha256:
            reason = "is another instance here than the one whose bound was proved"
            remedy = "use the versions of constraints.txt"
            if self.foreign is not None:
                remedy += ", and the file as it is published"
            raise InvalidInput(Problem(self.name, None, reason, remedy))
        return instance

    def judged(self, instance: Instance, plan: Plan) -> tuple[Evaluation, tuple[Violation, ...]]:
        """Have the referee judge a plan; return its findings, and the rules that count and break.

        Of a plan for the sustainable rate, what is too much at the current input breaks none: it is
        what the rate says.
        """
        from optim import evaluate
        from optim.figures.catalogue import OBJECTIVES

        found = evaluate(instance, plan)
        if found.feasible:
            return found, ()
        binding = OBJECTIVES[self.objective].binding(instance)
        return found, evaluate(
            binding, replace(plan, claimed_instance_sha256=None, _instance=None)
        ).violations


def sha256(text: str) -> str:
    """Return the hash of a text."""
    return hashlib.sha256(text.encode()).hexdigest()


def read(table: Path = TABLE) -> list[Case]:
    """Return the committed cases."""
    return [Case(**entry) for entry in json.loads(table.read_text("utf-8"))]
