"""The documents there are, told apart by their ``format``: one given for another is named."""

from __future__ import annotations

from typing import Any

from optim.errors import InvalidInput, Problem

_KINDS = {
    "streamplace.instance": "an instance",
    "streamplace.plan": "a plan",
    "streamplace.result": "a result",
    "streamplace.steps": "an order of moves",
}
_REMEDIES = {
    "streamplace.instance": "the instance comes first, then the plan: INSTANCE PLAN",
    "streamplace.plan": "name the plan's file: `streamplace solve -o` writes it; a result holds "
    "it under `plan`",
    "streamplace.steps": "`streamplace steps -o` writes it",
}


def refuse_other_kind(value: Any, wanted: str) -> None:
    """Refuse a document of another kind by its name, not by every key that differs.

    Parameters
    ----------
    value
        Parsed.
    wanted
        ``streamplace.instance``, ``streamplace.plan`` or ``streamplace.steps``.

    Raises
    ------
    InvalidInput
        It is another of our documents.
    """
    told = value.get("format") if isinstance(value, dict) else None
    kind = told.partition("/")[0] if isinstance(told, str) else ""
    if kind in _KINDS and kind != wanted:
        reason = f"is {_KINDS[kind]}, and {_KINDS[wanted]} is wanted here"
        raise InvalidInput(Problem("format", told, reason, _REMEDIES[wanted]))
