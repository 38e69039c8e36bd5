"""Reading what the command line names: an instance, a plan, or standard input."""

from __future__ import annotations

import importlib
import sys
from typing import Any

from optim import Instance
from optim.errors import InvalidInput, Problem
from optim.util.files import MAX_BYTES

STDIN = "-"


def load_instance(name: str) -> Instance:
    """Read and validate an instance from a file, or from standard input for ``-``.

    Raises
    ------
    InvalidInput
        The file cannot be read, or its content cannot be taken.
    """
    if name != STDIN:
        return Instance.load(name)
    try:
        return Instance.from_json(_read_stdin())
    except InvalidInput as error:
        raise error.within("standard input") from None


def _read_stdin() -> bytes:
    data = sys.stdin.buffer.read(MAX_BYTES + 1)
    if len(data) > MAX_BYTES:
        reason = f"holds more than {MAX_BYTES} bytes"
        raise InvalidInput(
            Problem(STDIN, None, reason, "use the group form, or split the instance")
        )
    return data


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
