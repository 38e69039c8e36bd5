"""``local_first``: streams whose receivers depend on the placement; no limit of its own.

A sender's traffic stays on its node where a receiver is there, and crosses in full where none is.
Engines that know traffic as pairs of tasks do not see that, and refuse. Over links, and where
crossing costs load, it also matters which receivers are the nearest: a form of its own.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from optim.errors import InvalidInput, Problem
from optim.rules.base import Form, Rule

if TYPE_CHECKING:
    from optim.format.instance import Instance
    from optim.rules.placement import Placement
    from optim.rules.violation import Violation


def _present(instance: Instance) -> str | None:
    some = any(stream.pattern == "local_first" for stream in instance.streams)
    if not some or not instance.flows.local:
        return None
    targets = instance.flows.local[0].targets
    ids, end = instance.operators.ids, int(instance.tasks.operator[targets[0]])
    return f"streams[].pattern = local_first (to {ids[end]})"


def _sent_over_links(instance: Instance) -> str | None:
    words = _present(instance)
    if words is None:
        return None
    if instance.crossing_cost.any():
        return f"{words} with crossing_cost"
    return f"{words} with links[].capacity" if np.isfinite(instance.links.capacity).any() else None


def _dropped(instance: Instance) -> Instance:
    streams = tuple(
        stream._replace(pattern="full", sender_weights=None)
        if stream.pattern == "local_first"
        else stream
        for stream in instance.streams
    )
    return replace(instance, streams=streams)


def _violations(placement: Placement) -> tuple[Violation, ...]:
    return ()


def refuse_local_first(instance: Instance, why: str) -> None:
    """Refuse an instance with such streams, for what knows pairs of tasks only.

    Raises
    ------
    InvalidInput
        With why that is.
    """
    words = _present(instance)
    if words is not None:
        reason = f"sends to whoever is near, and {why}"
        raise InvalidInput(Problem(words, None, reason, "give the stream another pattern"))


LOCAL_FIRST = Rule(
    name="local_first",
    field="streams[].pattern",
    form=Form.LOCAL_FIRST,
    present=_present,
    dropped=_dropped,
    violations=_violations,
)
LOCAL_FIRST_LINKS = Rule(
    name="local_first_links",
    field="streams[].pattern",
    form=Form.LOCAL_FIRST_LINKS,
    present=_sent_over_links,
    dropped=_dropped,
    violations=_violations,
    node_key=lambda instance: instance.nodes.rack,
)
