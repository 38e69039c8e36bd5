"""Who wants to know that a kernel is compiled: the first use of a method on a machine takes longer.

Kept apart from `optim.util.compiled` so that listening does not load numba.
"""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

_listeners: list[Callable[[], None]] = []


@contextmanager
def listening(listener: Callable[[], None]) -> Iterator[None]:
    """Call `listener` whenever a kernel starts to be compiled; loading from disk is not told."""
    _listeners.append(listener)
    try:
        yield
    finally:
        _listeners.remove(listener)


def tell() -> None:
    """Tell everyone who listens."""
    for listener in _listeners:
        listener()
