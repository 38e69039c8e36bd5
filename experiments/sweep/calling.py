"""The inside of the isolated child: finds the runner function and hands it its arguments."""

from __future__ import annotations

import importlib
import zlib
from collections import OrderedDict
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from optim.errors import InvalidInput, Problem

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

KEPT_DOCUMENTS = 8
"""Documents that a child keeps; its caller counts along, and sends only what is not there."""


@dataclass(frozen=True)
class Call:
    """One run as it goes through the pipe.

    Attributes
    ----------
    runner
        Dotted name ``module:function``; called with the instance's JSON and the arguments, it
        returns columns of the row.
    sha256
        Of the instance.
    packed
        Its compressed JSON; None if the child has it.
    arguments
        Keyword arguments of `optim.solve`.
    """

    runner: str
    sha256: str
    packed: bytes | None
    arguments: Mapping[str, Any]


class Recent:
    """Keeps the entries used last; two of them that see the same calls hold the same keys."""

    def __init__(self, size: int = KEPT_DOCUMENTS) -> None:
        self._size = size
        self._entries: OrderedDict[str, Any] = OrderedDict()

    def get(self, key: str) -> Any:
        """Return an entry and mark it as used; None if it is not there."""
        if key not in self._entries:
            return None
        self._entries.move_to_end(key)
        return self._entries[key]

    def put(self, key: str, value: Any) -> None:
        """Add an entry; the one that was unused for longest goes."""
        self._entries[key] = value
        self._entries.move_to_end(key)
        while len(self._entries) > self._size:
            self._entries.popitem(last=False)


_documents = Recent()


def handle(call: Call) -> dict[str, Any]:
    """Do one run and return the columns that it fills."""
    if call.packed is not None:
        _documents.put(call.sha256, zlib.decompress(call.packed))
    document = _documents.get(call.sha256)
    function = find_runner(call.runner)
    return dict(function(document, dict(call.arguments)))


def find_runner(name: str) -> Callable[[bytes, dict[str, Any]], Mapping[str, Any]]:
    """Import the function that a dotted name ``module:function`` names.

    Raises
    ------
    InvalidInput
        There is none.
    """
    module, _, attribute = name.partition(":")
    try:
        found = getattr(importlib.import_module(module), attribute)
    except (ImportError, AttributeError, ValueError) as error:
        reason = f"names no function: {error}"
        raise InvalidInput(Problem("runner", name, reason, "write module:function")) from None
    if not callable(found):
        raise InvalidInput(Problem("runner", name, "is not a function"))
    function: Callable[[bytes, dict[str, Any]], Mapping[str, Any]] = found
    return function
