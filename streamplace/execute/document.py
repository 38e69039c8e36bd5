"""The steps as a file: what ``steps -o`` writes and ``run-steps`` reads."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, TypeAdapter

from optim.errors import InvalidInput, Problem
from optim.format.kinds import refuse_other_kind
from optim.format.read import parse_json, validate
from optim.util.files import read_bytes

if TYPE_CHECKING:
    from formulations.stepping.steps import Steps
    from optim.format.instance import Instance
    from optim.format.tables import Ints


class MoveDocument(BaseModel):
    """A task from one node to another; from ``null`` where it was nowhere."""

    model_config = ConfigDict(extra="forbid", strict=True, frozen=True)
    task: str
    source: str | None = Field(alias="from")
    target: str | None = Field(alias="to")


class StepsDocument(BaseModel):
    """Batches of moves, one after the other."""

    model_config = ConfigDict(extra="forbid", strict=True, frozen=True)
    format: Literal["streamplace.steps/1"]
    instance: str
    instance_sha256: str
    plan_sha256: str
    found: Literal[True]
    batches: list[list[MoveDocument]]
    seconds: list[float | None]
    parked: list[str] = []
    exchanged: list[list[str]] = []
    notes: list[str] = []
    back: bool = False
    proven_no_order_without_parking: bool = False
    blocked: list[Any] = []


_ADAPTER: TypeAdapter[StepsDocument] = TypeAdapter(StepsDocument)


def steps_text(steps: Steps) -> str:
    """Return the steps as JSON text."""
    return json.dumps(steps.to_dict(), ensure_ascii=False, indent=1) + "\n"


def load_steps(path: str, instance: Instance) -> StepsDocument:
    """Read a file of steps.

    Raises
    ------
    InvalidInput
        It holds no steps, or those of another instance.
    """
    value = parse_json(read_bytes(path))
    refuse_other_kind(value, "streamplace.steps")
    document = validate(_ADAPTER, value)
    if document.instance_sha256 != instance.sha256:
        reason = f"is another instance's; {instance.name!r} has {instance.sha256}"
        raise InvalidInput(Problem("instance_sha256", document.instance_sha256, reason))
    return document


def placements(instance: Instance, document: StepsDocument) -> list[Ints]:
    """Return where tasks are before the first batch, and after each.

    Tasks are where their first move takes them from, all others at home.

    Raises
    ------
    InvalidInput
        A move takes a task from where it is not, or names what the instance does not have.
    """
    tasks = instance.tasks.index
    nodes: dict[str | None, int] = {None: -1}
    nodes.update(instance.nodes.index)
    node = instance.tasks.node.copy()
    problems: list[Problem] = []
    met: set[str] = set()
    found: list[Ints] = []
    for first in (True, False):
        for b, batch in enumerate(document.batches):
            for m, move in enumerate(batch):
                path = f"batches[{b}][{m}]"
                if move.task not in tasks or {move.source, move.target} - nodes.keys():
                    problems.append(Problem(path, move.task, "names what is not in the instance"))
                    continue
                t = tasks[move.task]
                if first and move.task not in met:
                    node[t] = nodes[move.source]
                    met.add(move.task)
                elif not first:
                    if node[t] != nodes[move.source]:
                        problems.append(Problem(f"{path}.from", move.source, "is not where it is"))
                    node[t] = nodes[move.target]
            if not first:
                found.append(node.copy())
        if first:
            found.append(node.copy())
        if problems:
            raise InvalidInput(problems)
    return found
