"""Placing the work of distributed stream-processing jobs on nodes.

>>> from optim import Instance, solve, evaluate

Everything is loaded on first use, so that importing the package costs next to nothing; the names
stand in ``__init__.pyi``.
"""

from __future__ import annotations

import sys
from functools import cache
from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable

# `__init__.pyi` imports the names, which is what type checkers and editors read; at run time the
# same lines say where a name is loaded from. That is SPEC 1 of Scientific Python; its `lazy_loader`
# reads no stub out of a zip, from which Spark's workers import.


def lazy(package: str) -> tuple[Callable[[str], Any], Callable[[], list[str]]]:
    """Return ``__getattr__`` and ``__dir__`` of a package whose stub names what it offers."""

    @cache
    def modules() -> dict[str, str]:
        import ast

        specification = sys.modules[package].__spec__
        assert specification is not None
        assert specification.origin is not None
        loader: Any = specification.loader
        stub = ast.parse(loader.get_data(specification.origin + "i"))
        imports = [node for node in stub.body if isinstance(node, ast.ImportFrom)]
        return {name.name: str(node.module) for node in imports for name in node.names}

    def get(name: str) -> Any:
        if name == "__all__":  # what `from … import *` asks for
            return sorted(modules())
        if name not in modules():
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        value = getattr(import_module(modules()[name]), name)
        setattr(sys.modules[package], name, value)
        return value

    return get, lambda: sorted(modules())


__getattr__, __dir__ = lazy(__name__)
