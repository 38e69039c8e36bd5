"""A rule that a plan breaks, or a reason why no plan can exist."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Sequence


@dataclass(frozen=True)
class Violation:
    """A rule that a plan breaks, or a reason why no plan can exist.

    Attributes
    ----------
    rule
        Name of the rule, as ``--ignore`` takes it where it can be dropped.
    where
        The node, task, link, slot or limit; of loads as ``PLACE.RESOURCE``. A remark in parentheses
        may follow.
    amount
        By how much.
    needed, available
        The two figures whose difference is the amount.
    """

    rule: str
    where: str
    amount: float
    needed: float
    available: float

    def __str__(self) -> str:
        return (
            f"{self.rule} at {self.where}: needs {self.needed:.6g}, has {self.available:.6g} "
            f"({self.amount:.6g} off)"
        )

    @property
    def key(self) -> tuple[str, str]:
        """Rule and place; without the nodes of a count, which may be others in another plan."""
        return self.rule, self.where.partition(" (on ")[0]

    def resource(self, resources: Sequence[str]) -> int | None:
        """Return the index of the resource that `where` ends with; ``None`` where it has none."""
        named = [r for r in resources if f".{r} (" in f"{self.where} ("]
        return resources.index(max(named, key=len)) if named else None

    def to_dict(self) -> dict[str, Any]:
        """Return the violation as plain data."""
        return dict(vars(self))
