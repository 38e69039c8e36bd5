"""The instances of the benchmark: where each comes from, its best known value, its bounds.

``cases.json`` has them; ``python -m experiments.studies.bench.proofs`` solves and certifies them. A
new case is an entry with `name`, `family`, `objective` and `source`; published names and sources
stay. A source is one of

``{"generator": kind, "seed": n, "parameters": {…}}``
    Made by one of `experiments.generators`.
``{"example": file, "variation": {resource: factor, …}}``
    One of `examples` (see `EXAMPLES`), capacities multiplied; ``"links": factor`` multiplies the
    capacities of the links, ``"what_if": text`` makes changes as `experiments.sweep.spec`.
``{"kafka": seed, "operation": {"mode": …, "brokers": […]}, "max_migrations": n}``
    What an operation may do to a cluster of `cluster_of`, disk
    balanced; the last is left out where moves are not limited.
``{"import": format, "needs": NAME, "file": path, "options": {…}}``
    A file of others, which is not copied here: found below a folder that the user names.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np

from experiments.generators import generate
from optim import Evaluation, Instance, Plan, evaluate
from optim.errors import InvalidInput, Problem
from optim.figures.catalogue import OBJECTIVES
from optim.methods.audit import broken_by
from optim.rules.base import Violation
from streamplace.clusters.exchange.declarations import Ledger
from streamplace.clusters.exchange.sources import import_instance
from streamplace.clusters.kafka.cluster import (
    LEADERSHIP,
    Broker,
    Cluster,
    Operation,
    Partition,
    follower_cpu,
)
from streamplace.clusters.kafka.importer import UNITS
from streamplace.clusters.kafka.model import document_of

TABLE: Path = Path(__file__).with_name("cases.json")
DEFAULT_TASKS = 2_000  # Up to how many tasks a case is run unasked.
EXAMPLES = Path(__file__).with_name("examples.json")
"""The examples that are needed, by file name: an installed package has no folder `examples`."""
ADDRESSES = {
    "ctap": "the CTAP library of S. Elloumi: its tass*.dat and tassc*.dat",
    "zerotune": "the query graphs published with ZeroTune, ICDE 2024",
}
RESOURCES = ("disk", "nw_in", "nw_out", "cpu")
SIZES = ((6, 3), (9, 3), (12, 4), (18, 6), (24, 4))  # Brokers and racks.
EACH = (15, 40)  # Partitions a broker.


@dataclass(frozen=True)
class Case:
    """An instance, its best known value, and how well that is known to be the best."""

    # name, family: unique and readable, the family first.
    name: str
    family: str
    objective: str  # what it is judged by
    source: dict[str, Any]  # how it is made; see the module
    # tasks, nodes: its size.
    tasks: int = 0
    nodes: int = 0
    instance_sha256: str = ""  # of its file
    # best, best_by: the best known value, in the objective's unit, and what found it; `None` where
    # no plan is known.
    best: float | None = None
    best_by: str | None = None
    # claimed, claimed_by: the tightest bound on the value that a method states, as an exact text,
    # an integer or `p/q`, and who proves it; `None` where none does.
    claimed: str | None = None
    claimed_by: str | None = None
    # The bound that a checked certificate proves, a text as well, maybe weaker; `None` where there
    # is none.
    certified: str | None = None
    certificate_sha256: str | None = None  # of that certificate, its JSON written with sorted keys

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

        `data`: the folder with the files of others, where it is made of one. Raises `InvalidInput`:
        it cannot be made, or it is another one here than the one that was proved.
        """
        try:
            instance = instance_of(self.source, data)
        except InvalidInput as error:
            raise error.within(self.name) from None
        # bounds are proved of these very bytes
        if sha256(instance.to_json()) != self.instance_sha256:
            reason = "is another instance here than the one whose bound was proved"
            remedy = "use the versions of constraints.txt"
            if self.foreign is not None:
                remedy += ", and the file as it is published"
            raise InvalidInput(Problem(self.name, None, reason, remedy))
        return instance

    def judged(self, instance: Instance, plan: Plan) -> tuple[Evaluation, Sequence[Violation]]:
        """Have the referee judge a plan; return its findings, and the rules that count and break.

        Of a plan for the sustainable rate, what is too much at the current input breaks none: it is
        what the rate says.
        """
        evaluation, figure = evaluate(instance, plan), OBJECTIVES[self.objective]
        nodes, slots = plan.node_indices(instance), plan.slot_indices(instance)
        return evaluation, broken_by(figure, instance, nodes, slots, evaluation)


def sha256(text: str) -> str:
    """Return the hash of a text."""
    return hashlib.sha256(text.encode()).hexdigest()


def read(table: Path = TABLE) -> list[Case]:
    """Return the committed cases."""
    return [Case(**entry) for entry in json.loads(table.read_text("utf-8"))]


def instance_of(source: dict[str, Any], data: Path | None = None) -> Instance:
    """Make the instance of a source.

    `source`: as the table has it; see the module. `data`: the folder with the files of others;
    needed by their sources alone. Raises `InvalidInput`: a file is not there or cannot be read,
    with what would help; or a source of no such form.
    """
    if "generator" in source:
        return generate(source["generator"], source["seed"], **source["parameters"])
    if "example" in source:
        return _example(source["example"], source["variation"])
    if "kafka" in source:
        return _cluster(source)
    if "import" in source:
        return _imported(source, data)
    raise InvalidInput(Problem("source", sorted(source), "is no source of an instance"))


def _example(name: str, variation: dict[str, Any]) -> Instance:
    from experiments.sweep.spec import Variation, scale_capacity

    examples = json.loads(EXAMPLES.read_text("utf-8"))
    if name not in examples:
        remedy = f"one of {', '.join(examples)}"
        raise InvalidInput(Problem("example", name, "is not among the examples", remedy))
    document = examples[name]
    factors = {key: by for key, by in variation.items() if key not in ("links", "what_if")}
    document = scale_capacity(document, factors)
    for link in document.get("links", ()):
        link["capacity"] *= variation.get("links", 1)
    if "what_if" in variation:
        document = Variation("case", "what_if").apply(document, variation["what_if"])
    return Instance.from_dict(document)


def _cluster(source: dict[str, Any]) -> Instance:
    described = source["operation"]
    operation = Operation(described["mode"], frozenset(described.get("brokers", ())))
    # who leads changes no disk: of leaders, what goes out is balanced
    balanced = None if operation.mode in LEADERSHIP else "disk"
    document = document_of(cluster_of(source["kafka"]), operation, balanced, Ledger())
    if "max_migrations" in source:
        document["limits"] = {"max_migrations": source["max_migrations"]}
    return Instance.from_dict(document)


def _imported(source: dict[str, Any], data: Path | None) -> Instance:
    path = _foreign_file(source["needs"], source["file"], data)
    options = [(key, str(value)) for key, value in source.get("options", {}).items()]
    return import_instance(source["import"], [str(path)], options).instance


def _foreign_file(needs: str, file: str, data: Path | None) -> Path:
    get = f"get {ADDRESSES[needs]}"
    if data is None:
        raise InvalidInput(
            Problem("--data", None, f"is needed: {file} is not ours", f"{get}, and name its folder")
        )
    if not data.is_dir():
        raise InvalidInput(Problem("--data", str(data), "is no folder", get))
    for path in (data / needs / file, data / file):
        if path.is_file():
            return path
    below = sorted(data.rglob(Path(file).name))
    if below:
        return below[0]
    raise InvalidInput(Problem("--data", str(data), f"holds no {file}", get))


def packed(folder: Path) -> str:
    """Return the text of `EXAMPLES` from the folder of the examples."""
    names = [f"capsys-{kind}{query}.json" for kind in ("q", "rate-q") for query in range(1, 7)]
    names.append("flink-drain.json")
    documents = {name: json.loads((folder / name).read_text("utf-8")) for name in names}
    return json.dumps(documents, separators=(",", ":")) + "\n"


def cluster_of(seed: int) -> Cluster:
    """Return a cluster whose racks and capacities hold, and whose loads are uneven."""
    rng = np.random.default_rng(seed)
    count, racks = SIZES[seed % len(SIZES)]
    new = int(rng.integers(0, 3)) * (seed % 2)  # empty brokers in every other cluster
    # in three of ten clusters, three of ten brokers are twice as large
    larger = rng.random(count) < (0.3 if rng.random() < 0.3 else 0.0)
    full = list(range(count - new))
    partitions = _partitions(rng, full, racks, int(rng.integers(*EACH)) * count)
    capacity = _capacities(partitions, count - new)
    brokers = {
        b: Broker(
            b,
            f"r{b % racks}",
            capacity={r: c * (2 if larger[b] else 1) for r, c in capacity.items()},
        )
        for b in range(count)
    }
    return Cluster(f"cluster-{seed}", brokers, partitions, RESOURCES, UNITS)


def _partitions(
    rng: np.random.Generator, brokers: Sequence[int], racks: int, count: int
) -> list[Partition]:
    partitions: list[Partition] = []
    ordered = sorted(brokers, key=lambda b: (b // racks, b % racks))  # racks by turns
    while len(partitions) < count:
        # lognormal with median e²³ = 10 GB a partition, e¹³ = 440 kB/s into it
        topic, factor = f"t{len(partitions)}", int(rng.choice((2, 3, 3)))
        size, rate, fan = rng.lognormal(23, 1), rng.lognormal(13, 1), rng.choice((0.5, 1, 2, 4))
        first = int(rng.integers(len(brokers)))
        for number in range(int(rng.choice((4, 8, 16, 32)))):
            replicas = _replica_brokers(
                ordered, racks, first + number, factor, number // len(brokers)
            )
            disk, into = size * rng.lognormal(0, 0.5), rate * rng.lognormal(0, 0.5)
            # consumers read each record `fan` times, the factor - 1 followers once
            out = into * (fan + factor - 1)
            # a byte out costs a fifth of a byte in (chosen)
            cpu = 1e-6 * (into + 0.2 * out)
            leading = {"disk": disk, "nw_in": into, "nw_out": out, "cpu": cpu}
            follows = follower_cpu(cpu, into, out)
            following = {"disk": disk, "nw_in": into, "nw_out": 0.0, "cpu": follows}
            partitions.append(
                Partition(
                    topic, number, replicas, replicas[0], replicas, leading, following, size=disk
                )
            )
    return partitions


def _replica_brokers(
    ordered: Sequence[int], racks: int, at: int, factor: int, turn: int
) -> list[int]:
    """Return brokers of distinct racks, round robin, as Kafka deals them out."""
    brokers = [ordered[at % len(ordered)]]
    # the second replica's distance grows with every turn round the brokers
    step = at + 1 + turn
    while len(brokers) < factor:
        b = ordered[step % len(ordered)]
        if b % racks not in {h % racks for h in brokers}:
            brokers.append(b)
        step += 1
    return brokers


def _capacities(partitions: Sequence[Partition], full: int) -> dict[str, float]:
    """Return capacities that are enough everywhere: twice the most that a broker has now."""
    load_on: dict[str, dict[int, float]] = {r: dict.fromkeys(range(full), 0.0) for r in RESOURCES}
    for partition in partitions:
        for broker in partition.replicas:
            for r in RESOURCES:
                load_on[r][broker] += partition.load(r, broker == partition.leader)
    return {r: 2.0 * max(loads.values()) for r, loads in load_on.items()}


if __name__ == "__main__":  # where an example has changed
    EXAMPLES.write_text(packed(Path(__file__).parents[3] / "examples"), "utf-8")
