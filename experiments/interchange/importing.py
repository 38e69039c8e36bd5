"""Import: from a foreign system's state to an instance, with what was noticed on the way."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from experiments.interchange.declaring import IMPORTERS, Request
from experiments.interchange.ledger import Ledger
from experiments.interchange.limiting import read_limits
from experiments.interchange.placing import moves_to, with_places
from experiments.interchange.web import DEFAULT_TIMEOUT
from optim.errors import InvalidInput
from optim.format.instance import Instance
from optim.options import read_options
from optim.util.garbage import collection_paused

if TYPE_CHECKING:
    from collections.abc import Sequence

_MAX_ORIGIN = 20_000


@dataclass(frozen=True)
class Imported:
    """An instance and the ledger of its making."""

    instance: Instance
    ledger: Ledger


def import_instance(
    format_name: str,
    sources: Sequence[str],
    options: Sequence[tuple[str, str]] = (),
    *,
    placement: str | None = None,
    name: str | None = None,
    limits: Sequence[tuple[str, str]] = (),
    timeout: float = DEFAULT_TIMEOUT,
) -> Imported:
    """Make an instance.

    Parameters
    ----------
    format_name
        Name of one of `IMPORTERS`.
    sources
        Files, folders or an address, as the format takes them.
    options
        Those of the format, as texts.
    placement
        A file that says where tasks are, in place of what the sources say.
    name
        Of the instance, in place of one made from the source.
    limits
        What a plan must keep, as texts, such as ``max_migrations`` and ``10``.
    timeout
        Seconds that an answer over the net may take.

    Raises
    ------
    InvalidInput
        Anything that cannot be taken, by path.
    """
    from experiments.interchange.placement_files import read_placement

    importer = IMPORTERS.get(format_name)
    typed = read_options(importer.name, importer.options, options)
    bounds = read_limits(limits)
    ledger = Ledger()
    with collection_paused():
        document = importer.read(Request(tuple(sources), typed, timeout), ledger)
    ledger.check()
    if placement is not None:
        ledger.reading("where tasks are is read from a file of its own")
    origin = [f"imported by streamplace from {importer.name}", *ledger.readings]
    document["origin"] = "; ".join(origin)[:_MAX_ORIGIN]
    if name is not None:
        document["name"] = name
    if bounds:
        document["limits"] = document.get("limits", {}) | bounds
    instance = _instance(document, importer.name)
    if placement is not None:
        places = read_placement(placement, instance)
        if importer.follow is not None:
            importer.follow(document, moves_to(instance, places), typed, ledger)
            _check_placement(ledger, placement)
            instance = _instance(document, importer.name)
        instance = with_places(instance, places)
    return Imported(instance, ledger)


def _instance(document: dict[str, Any], source: str) -> Instance:
    try:
        return Instance.from_dict(document)
    except InvalidInput as error:
        raise error.within(f"the instance made from {source}") from None


def _check_placement(ledger: Ledger, placement: str) -> None:
    try:
        ledger.check()
    except InvalidInput as error:
        raise error.within(placement) from None
