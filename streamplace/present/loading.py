"""Functions that users name as ``module:function``."""

from __future__ import annotations

import importlib
import sys
from typing import Any

from optim.errors import InvalidInput, Problem


def loaded(path: str, argument: str) -> Any:
    """Import ``module:function``; modules of the folder that the command is given in are found."""
    module, _, attribute = path.partition(":")
    if "" not in sys.path:
        sys.path.insert(0, "")
    try:
        return getattr(importlib.import_module(module), attribute)
    except (ImportError, AttributeError, ValueError) as error:
        remedy = "name an importable module and a function of it"
        problem = Problem(argument, path, f"cannot be loaded: {error}", remedy)
        raise InvalidInput(problem) from None
