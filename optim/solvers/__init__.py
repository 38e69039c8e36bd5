"""Solver back ends behind one interface: ``solve_linear(model, "highs", …)``."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from optim.solvers.backends import SOLVERS, available, capabilities
    from optim.solvers.interface import (
        LIMITED_WORK,
        LinearSolution,
        LinearTermination,
        SolverCapabilities,
        relative_gap,
    )
    from optim.solvers.solve import solve_kept, solve_linear

__all__ = [
    "LIMITED_WORK",
    "SOLVERS",
    "LinearSolution",
    "LinearTermination",
    "SolverCapabilities",
    "available",
    "capabilities",
    "relative_gap",
    "solve_kept",
    "solve_linear",
]

_HOMES = {
    "SOLVERS": "backends",
    "available": "backends",
    "capabilities": "backends",
    "LIMITED_WORK": "interface",
    "LinearSolution": "interface",
    "LinearTermination": "interface",
    "SolverCapabilities": "interface",
    "relative_gap": "interface",
    "solve_kept": "solve",
    "solve_linear": "solve",
}


def __getattr__(name: str) -> Any:
    # the solvers' child processes import this package too: it has to cost nothing
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from importlib import import_module

    return getattr(import_module(f"{__name__}.{_HOMES[name]}"), name)
