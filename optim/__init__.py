"""Placing the work of distributed stream-processing jobs on nodes.

>>> from optim import Instance, solve, evaluate

Everything is loaded on first use, so that importing the package costs next to nothing.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from optim.errors import InvalidInput, StreamplaceError, UnsuitableMethod
    from optim.evaluation import Evaluation, Violation
    from optim.instance import Instance
    from optim.plan import Plan
    from optim.referee import evaluate
    from optim.registry import Method, all_methods, get_method
    from optim.results import Result, Termination
    from optim.solving import solve

_WHERE = {
    "Evaluation": "optim.evaluation",
    "Instance": "optim.instance",
    "InvalidInput": "optim.errors",
    "Method": "optim.registry",
    "Plan": "optim.plan",
    "Result": "optim.results",
    "StreamplaceError": "optim.errors",
    "Termination": "optim.results",
    "UnsuitableMethod": "optim.errors",
    "Violation": "optim.evaluation",
    "all_methods": "optim.registry",
    "evaluate": "optim.referee",
    "get_method": "optim.registry",
    "solve": "optim.solving",
}

__all__ = [
    "Evaluation",
    "Instance",
    "InvalidInput",
    "Method",
    "Plan",
    "Result",
    "StreamplaceError",
    "Termination",
    "UnsuitableMethod",
    "Violation",
    "all_methods",
    "evaluate",
    "get_method",
    "solve",
]


def __getattr__(name: str) -> Any:
    if name not in _WHERE:
        raise AttributeError(f"module 'optim' has no attribute {name!r}")
    value = getattr(import_module(_WHERE[name]), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted(__all__)
