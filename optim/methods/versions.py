"""Versions of what takes part in a result."""

from __future__ import annotations

import platform
from functools import cache
from importlib.metadata import PackageNotFoundError, version
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from optim.methods.registry import Method

_SOLVER_PACKAGES = {"cbc": "pulp", "highs": "highsbox", "scip": "ortools", "cp-sat": "ortools"}
PACKAGES = (
    "streamplace",
    "numpy",
    "scipy",
    "numba",
    "pulp",
    "ortools",
    "highsbox",
    "pymetis",
    "mtkahypar",
    "pyspark",
    "pydantic",
)
"""What ``streamplace versions`` lists."""


@cache
def package_version(name: str) -> str | None:
    """Return an installed distribution's version, ``None`` when it is not installed."""
    try:
        return version(name)
    except PackageNotFoundError:
        return None


def versions_of(method: Method, solver: str | None) -> dict[str, str]:
    """Return the versions that decide what a method returns."""
    names = ["streamplace", "numpy"]
    if solver in _SOLVER_PACKAGES:
        names.append(_SOLVER_PACKAGES[solver])
    if method.kind == "search" or method.name == "partition":
        names += ["numba", "pymetis"]
    found = {name: package_version(name) for name in names}
    return {"python": platform.python_version(), **{n: v for n, v in found.items() if v}}
