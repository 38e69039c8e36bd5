"""Kafka: each batch is a reassignment, carried out as `streamplace.clusters.kafka.submit` does it.

New replicas are in sync before old ones go, and no list is shorter than the partition's factor.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from optim.errors import InvalidInput
from streamplace.clusters.kafka.submit import Settings, load_reassignment, submit
from streamplace.execute.run import BatchFailed

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from streamplace.clusters.kafka.admin import Admin
    from streamplace.clusters.kafka.cluster import Key


@dataclass(frozen=True)
class Kafka:
    """Submits batches to a cluster.

    Attributes
    ----------
    admin
        The cluster.
    factors
        Partition to the number of replicas before the first batch.
    settings
        How a batch is carried out.
    """

    admin: Admin
    factors: Mapping[Key, int]
    settings: Settings = field(default_factory=Settings)

    def run(self, number: int, file: Path, lock: int, *, again: bool) -> None:
        """As `streamplace.execute.run.Executor.run`."""
        plan = load_reassignment(str(file))
        for key, replicas in plan.lists.items():
            factor = self.factors.get(key, 1)
            if len(set(replicas)) < max(1, factor):
                raise BatchFailed(f"{key} has {factor} replicas, not {replicas}")
        try:
            outcome = submit(self.admin, plan, self.settings)
        except InvalidInput as error:
            raise BatchFailed(str(error)) from None
        if not outcome.verdict.holds:
            told = [*outcome.verdict.text().splitlines(), *set(outcome.given_up.values())]
            raise BatchFailed("; ".join(map(str.strip, told)))
