"""Where an instance of the benchmark comes from: a generator, an example that is varied, a file.

``{"generator": kind, "seed": n, "parameters": {…}}``
    Made by one of `experiments.generators`.
``{"example": file, "variation": {resource: factor, …}}``
    One of `examples` (see `EXAMPLES`), capacities multiplied; ``"links": factor`` multiplies the
    capacities of the links, ``"what_if": text`` makes changes as `experiments.sweep.variations`.
``{"kafka": seed, "operation": {"mode": …, "brokers": […]}, "max_migrations": n}``
    What an operation may do to a cluster of `experiments.studies.timings.kafka_clusters`, disk
    balanced; the last is left out where moves are not limited.
``{"import": format, "needs": NAME, "file": path, "options": {…}}``
    A file of others, which is not copied here: found below a folder that the user names.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

from optim.errors import InvalidInput, Problem

if TYPE_CHECKING:
    from optim import Instance

EXAMPLES = Path(__file__).with_name("examples.json")
"""The examples that are needed, by file name: an installed package has no folder `examples`."""
ADDRESSES = {
    "ctap": "the CTAP library of S. Elloumi: its tass*.dat and tassc*.dat",
    "zerotune": "the query graphs published with ZeroTune, ICDE 2024",
}


def made(source: dict[str, Any], data: Path | None = None) -> Instance:
    """Make the instance of a source.

    Parameters
    ----------
    source
        As the table has it; see the module.
    data
        The folder with the files of others; needed by their sources alone.

    Raises
    ------
    InvalidInput
        A file is not there or cannot be read, with what would help; or a source of no such form.
    """
    if "generator" in source:
        from experiments.generators import generate

        return generate(source["generator"], source["seed"], **source["parameters"])
    if "example" in source:
        return _example(source["example"], source["variation"])
    if "kafka" in source:
        return _cluster(source)
    if "import" in source:
        return _imported(source, data)
    raise InvalidInput(Problem("source", sorted(source), "is no source of an instance"))


def _example(name: str, variation: dict[str, Any]) -> Instance:
    from experiments.sweep.variations import Variation, scale_capacity
    from optim import Instance

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
    from experiments.studies.timings.kafka_clusters import cluster_of
    from optim import Instance
    from streamplace.clusters.exchange.declarations import Ledger
    from streamplace.clusters.kafka.model import document_of
    from streamplace.clusters.kafka.operations import LEADERSHIP, Operation

    asked = source["operation"]
    operation = Operation(asked["mode"], frozenset(asked.get("brokers", ())))
    # who leads changes no disk: of leaders, what goes out is balanced
    balanced = None if operation.mode in LEADERSHIP else "disk"
    document = document_of(cluster_of(source["kafka"]), operation, balanced, Ledger())
    if "max_migrations" in source:
        document["limits"] = {"max_migrations": source["max_migrations"]}
    return Instance.from_dict(document)


def _imported(source: dict[str, Any], data: Path | None) -> Instance:
    from streamplace.clusters.exchange.transfer import import_instance

    path = _found(source["needs"], source["file"], data)
    options = [(key, str(value)) for key, value in source.get("options", {}).items()]
    return import_instance(source["import"], [str(path)], options).instance


def _found(needs: str, file: str, data: Path | None) -> Path:
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
    found = {name: json.loads((folder / name).read_text("utf-8")) for name in names}
    return json.dumps(found, separators=(",", ":")) + "\n"


if (
    __name__ == "__main__"
):  # python -m experiments.studies.bench.sources, where an example has changed
    EXAMPLES.write_text(packed(Path(__file__).parents[3] / "examples"), "utf-8")
