"""The back ends by name: what they can do, and whether they are there."""

from __future__ import annotations

from functools import cache
from importlib import import_module
from importlib.util import find_spec
from typing import TYPE_CHECKING

from optim.errors import Problem, SolverUnavailable, UnsuitableMethod, meant

if TYPE_CHECKING:
    from optim.solvers.interface import Backend, SolverCapabilities

_MODULES = {
    "cbc": "optim.solvers.cbc",
    "highs": "optim.solvers.highs",
    "scip": "optim.solvers.scip",
    "cp-sat": "optim.solvers.cp_sat",
}

#: Names of the solvers, in the order they are listed to users.
SOLVERS: tuple[str, ...] = tuple(_MODULES)


def load(name: str) -> Backend:
    """Return a back end by name; the solver itself is not imported yet.

    Raises
    ------
    SolverUnavailable
        There is no solver of that name.
    """
    if name not in _MODULES:
        remedy = meant(str(name), SOLVERS, "use one of")
        raise SolverUnavailable(Problem("solver", name, "is not a known solver", remedy))
    backend: Backend = import_module(_MODULES[name]).BACKEND
    return backend


def refuse_continuous(name: str | None, what: str) -> None:
    """Refuse a solver of integers only before anything is done, where a model will have others.

    Raises
    ------
    UnsuitableMethod
        Names what is continuous, and the solvers that take it.
    """
    if name is not None and capabilities(name).integer_only:
        others = ", ".join(other for other in SOLVERS if not capabilities(other).integer_only)
        reason = f"takes integers only, and {what}"
        raise UnsuitableMethod(Problem("--solver", name, reason, f"use one of {others}"))


def capabilities(name: str) -> SolverCapabilities:
    """Return what a solver can do."""
    return load(name).capabilities


def available(name: str) -> bool:
    """Whether the solver is installed here."""
    try:
        load(name).version()
    except (ImportError, OSError):
        return False
    return True


def require(name: str) -> Backend:
    """Return a back end that is installed.

    Raises
    ------
    SolverUnavailable
        It is unknown or missing.
    """
    backend = load(name)
    try:
        backend.version()
    except (ImportError, OSError) as error:
        package = backend.capabilities.package
        others = [other for other in SOLVERS if other != name and available(other)]
        remedy = f"pip install {package}" + (f", or use {', '.join(others)}" if others else "")
        reason = f"is not installed ({error})"
        raise SolverUnavailable(Problem("solver", name, reason, remedy)) from error
    return backend


@cache
def ortools_version() -> str:
    """Return "OR-Tools <version>"; raises `ImportError` where it is missing.

    It is not imported for that, which takes a second and 100 MB.
    """
    from importlib.metadata import version

    if find_spec("ortools") is None:
        raise ImportError("No module named 'ortools'")
    return f"OR-Tools {version('ortools')}"
