"""The systems' files of each batch."""

from __future__ import annotations

import itertools
import json
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from optim.errors import InvalidInput, Problem
from optim.options import read_options
from optim.util.files import write_atomic
from streamplace.clusters.exchange.declarations import EXPORTERS, Ledger
from streamplace.clusters.exchange.placements import Places
from streamplace.clusters.kafka import exporter as kafka
from streamplace.clusters.kafka.replicas import FACTOR
from streamplace.execute.document import placements

if TYPE_CHECKING:
    from pathlib import Path

    from formulations.stepping.steps import Steps
    from optim.format.instance import Instance
    from optim.format.tables import Ints
    from streamplace.execute.document import StepsDocument

WHOLE = frozenset({"storm"})
"""Systems that are told the whole placement each time."""
AT_ONCE = frozenset({"flink"})
"""Systems that change in one step: a job is stopped and started again."""
SYSTEMS = ("flink", "kafka", "moves", "storm")


def batch_files(
    system: str,
    instance: Instance,
    document: StepsDocument,
    states: list[Ints],
    ledger: Ledger,
) -> list[dict[str, str]]:
    """Return the files of each batch: ending to content, the empty ending for the file itself.

    Parameters
    ----------
    states
        As `streamplace.execute.document.placements` returns them.
    """
    if system == "moves":
        return [{"": _moves(batch)} for batch in document.batches]
    if system in AT_ONCE:
        return [_written(system, instance, states[-1], ledger)] if document.batches else []
    if system in WHOLE:
        return [_written(system, instance, state, ledger) for state in states[1:]]
    pairs = itertools.pairwise(states)
    return [reassignment(instance, *pair, ledger, back=document.back) for pair in pairs]


def write_batches(
    folder: Path, system: str, instance: Instance, document: StepsDocument, ledger: Ledger
) -> list[Path]:
    """Write the files of each batch into a folder; return the main one of each.

    Warnings are for the ledger.

    Raises
    ------
    InvalidInput
        The system is unknown, or cannot take these moves.
    """
    if system not in SYSTEMS:
        raise InvalidInput(Problem("--files", system, "is unknown", f"one of {', '.join(SYSTEMS)}"))
    folder.mkdir(parents=True, exist_ok=True)
    states, paths = placements(instance, document), []
    files = batch_files(system, instance, document, states, ledger)
    for number, texts in enumerate(files, 1):
        paths.append((folder / f"batch-{number:04}.json").resolve())
        for ending, text in texts.items():
            write_atomic(paths[-1] if not ending else paths[-1].with_suffix(ending), text)
    return paths


def _moves(batch: list[Any]) -> str:
    moves = [move.model_dump(by_alias=True) for move in batch]
    return json.dumps({"moves": moves}, ensure_ascii=False, indent=1) + "\n"


def _written(system: str, instance: Instance, node: Ints, ledger: Ledger) -> dict[str, str]:
    exporter = EXPORTERS.get(system)
    options = read_options(exporter.name, exporter.options, ())
    texts = exporter.write(instance, Places(node), options, ledger)
    ledger.check()
    return texts


def reassignment(
    instance: Instance, before: Ints, after: Ints, ledger: Ledger, *, back: bool = False
) -> dict[str, str]:
    """Return Kafka's reassignment from one placement to another, and what is to be elected.

    Only lists that differ are in it.
    """
    found = kafka.changes(instance, before, after, ledger, whole=False, back=back)
    ledger.check()
    listed = ((c.partition, c.after.replicas) for c in found if c.is_listed)
    texts, led = {"": kafka.reassignment(listed)}, kafka.elected(found)
    if led:
        texts[kafka.ELECTION] = kafka.elections(led)
    return texts


def with_lists(instance: Instance, found: Steps) -> Steps:
    """Return the steps with a note of Kafka's lists that change though no replica moves.

    They are part of the first batch, which holds nothing else where nothing moves.
    """
    if not any(FACTOR in told for told in instance.tasks.labels.values()):
        return found
    home, ledger = instance.tasks.node, Ledger()
    lists = [c for c in kafka.changes(instance, home, home, ledger, whole=False) if c.is_listed]
    if not lists:
        return found
    count = f"{len(lists):,} partitions change" if len(lists) > 1 else "1 partition changes"
    note = f"{count} the list of replicas without a move: in the batch at the present placement"
    if not found.batches:
        found = replace(found, batches=((),), seconds=(0.0,))
    return replace(found, notes=(*found.notes, note))
