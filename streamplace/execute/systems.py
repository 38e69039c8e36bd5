"""Running systems as the loop sees them: look at what runs, and carry a plan out."""

from __future__ import annotations

import subprocess
import tempfile
from abc import ABC, abstractmethod
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from optim.errors import InvalidInput, Problem
from streamplace.clusters.exchange.transfer import export_plan, import_instance
from streamplace.clusters.kafka.admin import is_address

if TYPE_CHECKING:
    from collections.abc import Sequence

    from optim.format.instance import Instance
    from optim.format.plan import Plan
    from streamplace.clusters.exchange.declarations import Ledger


@dataclass
class System(ABC):
    """A running system.

    Attributes
    ----------
    url
        Its address.
    options
        Of the import.
    limits
        What a plan must keep.
    timeout
        Seconds of an answer.
    wait
        Seconds until all runs as planned; ``None``: 60, of Kafka no limit.
    throttle
        Of Kafka: bytes a second that a broker copies.
    command
        Carries plans out: the exported file comes after it. Empty: `carry_out` does.
    """

    name = ""

    url: str
    options: Sequence[tuple[str, str]] = ()
    limits: Sequence[tuple[str, str]] = ()
    timeout: float = 10.0
    wait: float | None = None
    throttle: int | None = None
    command: Sequence[str] = ()
    ledger: Ledger | None = field(default=None, init=False)

    def look(self) -> Instance:
        """Import what runs.

        Raises
        ------
        InvalidInput
            It cannot be.
        """
        made = import_instance(
            self.name, [self.url], self.options, limits=self.limits, timeout=self.timeout
        )
        self.ledger = made.ledger
        return made.instance

    def place_counts(self, instance: Instance, plan: Plan | None = None) -> Counter[object]:
        """Return what has to be the same for a plan to be what runs: each task and its node."""
        node = instance.tasks.node if plan is None else plan.node_indices(instance)
        named = zip(instance.tasks.ids, node.tolist(), strict=True)
        return Counter((task, instance.nodes.ids[n] if n >= 0 else None) for task, n in named)

    def apply(self, instance: Instance, plan: Plan) -> str | None:
        """Carry a plan out; return what is not as planned at the end, ``None`` where all is.

        Raises
        ------
        InvalidInput
            It does not fit the system as it is now; nothing was changed.
        """
        exported = export_plan(self.name, instance, plan)
        with tempfile.TemporaryDirectory(prefix=f"streamplace-{self.name}-") as folder:
            file = exported.save(Path(folder) / f"{self.name}-{plan.sha256[:8]}.json")[0]
            if not self.command:
                return self.carry_out(file)
            try:
                done = subprocess.run([*self.command, str(file)], check=False)
            except OSError as error:
                reason = f"cannot be run: {error}"
                raise InvalidInput(Problem("--apply", self.command[0], reason)) from None
        return f"{self.command[0]} ended with {done.returncode}" if done.returncode else None

    def _wait(self, usual: float) -> float:
        return usual if self.wait is None else self.wait

    @abstractmethod
    def carry_out(self, file: Path) -> str | None:
        """Carry an exported plan out, as `apply`."""

    def check_apply(self) -> None:
        """Refuse to begin where plans cannot be carried out.

        Raises
        ------
        InvalidInput
            They cannot.
        """
        return


class Flink(System):
    """Flink: quotas are set when task managers start, so that a command of the site's rolls out."""

    name = "flink"

    def place_counts(self, instance: Instance, plan: Plan | None = None) -> Counter[object]:
        """Count each operator's tasks by node: which index runs where is Flink's choice."""
        node = instance.tasks.node if plan is None else plan.node_indices(instance)
        named = zip(instance.tasks.operator.tolist(), node.tolist(), strict=True)
        ids, nodes = instance.operators.ids, instance.nodes.ids
        return Counter((ids[o] if o >= 0 else None, nodes[n] if n >= 0 else None) for o, n in named)

    def check_apply(self) -> None:
        """Refuse to begin without a command."""
        if not self.command:
            reason = "needs a command: Flink's quotas are set when task managers start"
            remedy = "--apply COMMAND, which gets the sheet's file and rolls it out"
            raise InvalidInput(Problem("--apply", None, reason, remedy))

    def carry_out(self, file: Path) -> str | None:
        """Refuse: see `check_apply`."""
        self.check_apply()
        return None


class Storm(System):
    """Storm: a rebalance brings the placement along."""

    name = "storm"

    def check_apply(self) -> None:
        """Refuse to begin at the UI's address."""
        from streamplace.clusters.storm.nimbus import is_nimbus

        if not self.command and not is_nimbus(self.url):
            remedy = "nimbus://HOST:PORT, or --apply COMMAND, which gets the placement's file"
            raise InvalidInput(
                Problem("URL", self.url, "is not Nimbus: nothing is applied", remedy)
            )

    def carry_out(self, file: Path) -> str | None:
        """Rebalance the topologies, and wait until all executors run as planned."""
        from streamplace.clusters.storm.nimbus import Nimbus
        from streamplace.clusters.storm.placement import load_placement
        from streamplace.clusters.storm.submit import submit

        with Nimbus(self.url, self.timeout) as nimbus:
            verdict = submit(nimbus, load_placement(str(file)), self._wait(60.0))
        if verdict.holds:
            return None
        return f"{verdict.as_planned} of {verdict.planned} executors run as planned"


class Kafka(System):
    """Kafka: a reassignment in steps, by its Admin interface."""

    name = "kafka"

    def check_apply(self) -> None:
        """Refuse to begin with a folder."""
        if not self.command and not is_address(self.url):
            remedy = "HOST:PORT of a broker, or --apply COMMAND, which gets the reassignment's file"
            raise InvalidInput(Problem("URL", self.url, "is no address of a broker", remedy))

    def carry_out(self, file: Path) -> str | None:
        """Move replicas, elect leaders, and wait until all is as planned."""
        from streamplace.clusters.kafka.admin import KafkaAdmin
        from streamplace.clusters.kafka.submit import Settings, load_reassignment, submit

        config = dict(self.options).get("command_config")
        settings = Settings(self.throttle, wait=self._wait(float("inf")))
        with KafkaAdmin(self.url, self.timeout, config) as admin:
            verdict = submit(admin, load_reassignment(str(file)), settings).verdict
        if verdict.holds:
            return None
        return f"{verdict.as_planned} of {verdict.planned} partitions are as planned"


SYSTEMS: dict[str, type[System]] = {one.name: one for one in (Flink, Storm, Kafka)}
