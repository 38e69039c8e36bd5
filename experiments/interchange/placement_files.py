"""Files that say where tasks are: told apart by what they hold."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from experiments.interchange.declaring import EXPORTERS
from experiments.interchange.foreign import is_whole
from experiments.interchange.placing import Places, places_of_plan
from experiments.interchange.sources import read_text
from optim.errors import InvalidInput, Problem
from optim.format.plan import PLAN_FORMAT, Plan
from optim.format.read import parse_json

if TYPE_CHECKING:
    from optim.format.instance import Instance


def read_placement(name: str, instance: Instance) -> Places:
    """Read a placement: a plan, or what an exporter wrote.

    Raises
    ------
    InvalidInput
        The file is none of these, or does not fit the instance.
    """
    text = read_text(Path(name))
    try:
        kind = _kind_of(text)
        if kind == "plan":
            return places_of_plan(instance, Plan.from_json(text))
        reader = EXPORTERS.get(kind).read_back
        assert reader is not None
        return reader(text, instance)
    except InvalidInput as error:
        raise error.within(name) from None


def _kind_of(text: str) -> str:
    start = text.lstrip()
    if start.startswith("{"):
        value = parse_json(text.encode())
        if isinstance(value, dict) and value.get("format") == PLAN_FORMAT:
            return "plan"
        return "kafka" if isinstance(value, dict) and "partitions" in value else "storm"
    head = start.partition("\n")[0].strip()
    if head.startswith("task,from,to"):
        return "moves"
    if head.startswith("task,"):
        return "csv"
    if is_whole(head):
        return "metis"
    raise InvalidInput(
        Problem(
            "$",
            head[:40] or None,
            "is no placement",
            "a plan, or a file of export kafka, storm, metis, csv or moves",
        )
    )
