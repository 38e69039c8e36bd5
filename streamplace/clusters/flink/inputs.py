"""Reading the plan that is to be carried out or verified: an exported sheet, or a plan."""

from __future__ import annotations

from typing import TYPE_CHECKING

from optim.errors import InvalidInput, Problem
from optim.format.plan import Plan
from optim.format.read import parse_json
from optim.util.files import read_bytes
from streamplace.clusters.exchange.placements import places_of_plan
from streamplace.clusters.flink.sheet import SHEET_FORMAT, Sheet, sheet_of

if TYPE_CHECKING:
    from optim.format.instance import Instance

_MAX_FILE = 256 << 20


def read_plan(name: str, instance: Instance | None) -> Sheet | Plan:
    """Read a sheet; or a plan, which becomes one with its instance.

    Raises
    ------
    InvalidInput
        The file is neither, or the plan is for another instance.
    """
    try:
        data = read_bytes(name, _MAX_FILE)
        value = parse_json(data)
        kind = value.get("format") if isinstance(value, dict) else None
        if kind == SHEET_FORMAT:
            return Sheet.from_dict(value)
        if not isinstance(kind, str) or not kind.startswith("streamplace.plan/"):
            remedy = "a file of `export flink`, or a plan"
            raise InvalidInput(Problem("format", kind, "is no plan", remedy))
        plan = Plan.from_json(data.decode())
        return plan if instance is None else sheet_of(instance, places_of_plan(instance, plan))
    except InvalidInput as error:
        raise error.within(name) from None
