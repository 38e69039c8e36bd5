"""Ids that must be unique."""

from __future__ import annotations


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
