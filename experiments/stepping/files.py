"""The systems' files of each batch."""

from __future__ import annotations

import itertools
import json
from typing import TYPE_CHECKING, Any

from experiments.interchange.declaring import EXPORTERS
from experiments.interchange.exporters.kafka import ELECTION, ROLLBACK
from experiments.interchange.ledger import Ledger
from experiments.interchange.placing import Places
from experiments.stepping.document import placements
from optim.errors import InvalidInput, Problem
from optim.options import read_options
from optim.util.files import write_atomic

if TYPE_CHECKING:
    from pathlib import Path

    from experiments.stepping.document import StepsDocument
    from optim.format.instance import Instance
    from optim.format.tables import Ints

WHOLE = frozenset({"storm"})
"""Systems that are told the whole placement each time."""
AT_ONCE = frozenset({"flink"})
"""Systems that change in one step: a job is stopped and started again."""
SYSTEMS = ("flink", "kafka", "moves", "storm")


def batch_files(
    system: str, instance: Instance, document: StepsDocument, states: list[Ints]
) -> list[dict[str, str]]:
    """Return the files of each batch: ending to content, the empty ending for the file itself.

    Parameters
    ----------
    states
        As `experiments.stepping.document.placements` returns them.
    """
    if system == "moves":
        return [{"": _moves(batch)} for batch in document.batches]
    if system in AT_ONCE:
        return [_written(system, instance, states[-1])] if document.batches else []
    if system in WHOLE:
        return [_written(system, instance, state) for state in states[1:]]
    return [reassignment(instance, *pair) for pair in itertools.pairwise(states)]


def write_batches(
    folder: Path, system: str, instance: Instance, document: StepsDocument
) -> list[Path]:
    """Write the files of each batch into a folder; return the main one of each.

    Raises
    ------
    InvalidInput
        The system is unknown, or cannot take these moves.
    """
    if system not in SYSTEMS:
        raise InvalidInput(Problem("--files", system, "is unknown", f"one of {', '.join(SYSTEMS)}"))
    folder.mkdir(parents=True, exist_ok=True)
    states, paths = placements(instance, document), []
    for number, texts in enumerate(batch_files(system, instance, document, states), 1):
        paths.append((folder / f"batch-{number:04}.json").resolve())
        for ending, text in texts.items():
            write_atomic(paths[-1] if not ending else paths[-1].with_suffix(ending), text)
    return paths


def _moves(batch: list[Any]) -> str:
    moves = [move.model_dump(by_alias=True) for move in batch]
    return json.dumps({"moves": moves}, ensure_ascii=False, indent=1) + "\n"


def _written(system: str, instance: Instance, node: Ints) -> dict[str, str]:
    exporter, ledger = EXPORTERS.get(system), Ledger()
    options = read_options(exporter.name, exporter.options, ())
    texts = exporter.write(instance, Places(node), options, ledger)
    ledger.check()
    return texts


def reassignment(instance: Instance, before: Ints, after: Ints) -> dict[str, str]:
    """Return Kafka's reassignment from one placement to another, and what is to be elected.

    Only lists that differ are in it. All that this package knows of the exporter is here: it writes
    the lists and the leaders that are not those of the instance, and beside them what these were.
    """
    then, now = (_written("kafka", instance, node) for node in (before, after))
    old, new = _lists(then[""]), _lists(now[""])
    home = {**_lists(then[ROLLBACK]), **_lists(now[ROLLBACK])}
    changed, led = [], _elected(then) ^ _elected(now)
    for key in sorted({*old, *new}):
        was, replicas = (lists.get(key, home[key]) for lists in (old, new))
        if replicas != was:
            changed.append({"topic": key[0], "partition": key[1], "replicas": replicas})
        if replicas[0] != was[0]:
            led.add(key)
    texts = {"": json.dumps({"version": 1, "partitions": changed}, ensure_ascii=False) + "\n"}
    if led:
        names = [{"topic": topic, "partition": number} for topic, number in sorted(led)]
        texts[ELECTION] = json.dumps({"partitions": names}, ensure_ascii=False) + "\n"
    return texts


def _lists(text: str) -> dict[tuple[str, int], list[int]]:
    partitions = json.loads(text)["partitions"]
    return {(p["topic"], p["partition"]): p["replicas"] for p in partitions}


def _elected(texts: dict[str, str]) -> set[tuple[str, int]]:
    some = json.loads(texts[ELECTION])["partitions"] if ELECTION in texts else []
    return {(p["topic"], p["partition"]) for p in some}
