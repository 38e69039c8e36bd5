"""Version of OR-Tools, read without importing it (importing takes a second, and 100 MB)."""

from __future__ import annotations

from functools import cache
from importlib.util import find_spec


@cache
def ortools_version() -> str:
    """Return "OR-Tools <version>"; raises `ImportError` where it is missing."""
    from importlib.metadata import version

    if find_spec("ortools") is None:
        raise ImportError("No module named 'ortools'")
    return f"OR-Tools {version('ortools')}"
