"""Names: of formats that do not exist, and ids that must be unique."""

from __future__ import annotations

from difflib import get_close_matches
from importlib import import_module
from typing import TYPE_CHECKING, Any

from optim.errors import InvalidInput, Problem

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping


def unknown_format(name: str, known: Iterable[str]) -> InvalidInput:
    """Return the error for a format that is none, with a guess at what was meant."""
    names = list(known)
    close = get_close_matches(name, names, 1)
    remedy = f"did you mean {close[0]}?" if close else f"one of {', '.join(names)}"
    return InvalidInput(Problem("FORMAT", name, "is no format", remedy))


def load_format(name: str, modules: Mapping[str, str], attribute: str) -> Any:
    """Return what the module of a format declares; it is loaded now.

    Parameters
    ----------
    modules
        Module by name of the format.
    attribute
        What the modules call it.

    Raises
    ------
    InvalidInput
        There is no such format.
    """
    if name not in modules:
        raise unknown_format(name, modules)
    return getattr(import_module(modules[name]), attribute)


class UniqueNames:
    """Hands out ids: the wanted one, or, where that is taken, one with a mark after it."""

    def __init__(self) -> None:
        self._taken: set[str] = set()

    def take(self, wanted: str, mark: str = "") -> str:
        """Return an id that nobody has yet.

        Parameters
        ----------
        wanted
            Preferred; cut to 200 characters.
        mark
            Tried after the wanted id before numbers are, such as a part of a hash.
        """
        base = wanted[:200].strip() or "unnamed"
        tries = [base] + ([f"{base} ({mark[:40]})"] if mark else [])
        for name in tries:
            if name not in self._taken:
                self._taken.add(name)
                return name
        number = 2
        while f"{base} ({number})" in self._taken:
            number += 1
        name = f"{base} ({number})"
        self._taken.add(name)
        return name
