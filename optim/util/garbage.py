"""Large documents without the garbage collector, which would walk over them again and again."""

from __future__ import annotations

import contextlib
import gc
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator


@contextlib.contextmanager
def collection_paused() -> Iterator[None]:
    """Pause the search for reference cycles while millions of objects without any are made.

    Each of its passes looks at all that is there; at a million tasks they take half of the time.
    """
    if not gc.isenabled():
        yield
        return
    gc.disable()
    try:
        yield
    finally:
        gc.enable()
