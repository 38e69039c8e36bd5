"""Kafka: what its own tools print, saved in a folder, as an instance of replicas on brokers."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from optim.errors import InvalidInput, Problem
from optim.options import Option
from streamplace.clusters.exchange.declarations import Importer, Request
from streamplace.clusters.exchange.pages import is_whole
from streamplace.clusters.kafka.cluster import LEADERS, REPLICAS
from streamplace.clusters.kafka.folder import read_folder
from streamplace.clusters.kafka.following import follow
from streamplace.clusters.kafka.model import document_of
from streamplace.clusters.kafka.operations import MODES, Operation
from streamplace.clusters.kafka.pages import CAPACITIES

if TYPE_CHECKING:
    from collections.abc import Mapping

    from streamplace.clusters.exchange.ledger import Ledger

OPERATION = (
    Option("mode", "str", "rebalance", "what is to be done", choices=MODES),
    Option("brokers", "str", None, "those to add, remove or demote: 3,4"),
    Option("factor", "int", None, "replicas a partition is to have", minimum=1, maximum=1000),
    Option("topics", "str", None, "the only ones that are touched: orders,clicks"),
)


def operation_of(options: Mapping[str, Any]) -> Operation:
    """Return what the options ask for.

    Raises
    ------
    InvalidInput
        A broker is no number.
    """
    words = [word.strip() for word in (options["brokers"] or "").split(",") if word.strip()]
    wrong = [word for word in words if not is_whole(word)]
    if wrong:
        raise InvalidInput(Problem("--option brokers", wrong[0], "is no broker's number", "3,4"))
    topics = {word.strip() for word in (options["topics"] or "").split(",")} - {""}
    brokers = frozenset(map(int, words))
    return Operation(options["mode"], brokers, options["factor"], frozenset(topics))


def read(request: Request, ledger: Ledger) -> dict[str, Any]:
    """Make the document of an instance.

    Raises
    ------
    InvalidInput
        A file is missing or is not what it should be, by line or path.
    """
    if len(request.sources) != 1 or not Path(request.sources[0]).is_dir():
        reason = "is no folder" if len(request.sources) == 1 else "are several sources"
        remedy = "name one folder that holds topics.txt"
        raise InvalidInput(Problem("SOURCE", list(request.sources), reason, remedy))
    operation = operation_of(request.options)
    cluster = read_folder(Path(request.sources[0]), ledger)
    return document_of(cluster, operation, request.options["balance"], ledger)


IMPORTER = Importer(
    name="kafka",
    summary="Kafka's replicas on brokers, from what its own tools print",
    sources="a folder: topics.txt (kafka-topics.sh --describe) and, where there, log-dirs.json, "
    "brokers.json, rates.csv and current.txt",
    options=(
        *OPERATION,
        Option(
            "balance",
            "str",
            None,
            "the balanced resource; default disk, or nw_out for leadership",
            choices=(*CAPACITIES, REPLICAS, LEADERS),
        ),
    ),
    read=read,
    follow=follow,
)
