"""Marks of functions that numba may compile: what Python calls, and what such functions call."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable

_HELPERS: dict[Any, str] = {}


class Entry:
    """What Python calls: a function with a twin in machine code."""

    compiled: Any


def helper(function: Callable[..., Any]) -> Any:
    """Mark what other kernels call: its twin has no way in from Python."""
    _HELPERS[function] = "helper"
    return function


def inlined(function: Callable[..., Any]) -> Any:
    """Mark tiny helpers in hot loops: a call that is not inlined counts references to arrays."""
    _HELPERS[function] = "inlined"
    return function


def kind_of(function: Any) -> str | None:
    """Say whether a function is a ``helper``, ``inlined``, or no part of a kernel (``None``)."""
    return _HELPERS.get(function) if hasattr(function, "__code__") else None
