"""A placement as rules see it: what figures are made from, and the dealing to slots."""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING

from optim.figures import placement

if TYPE_CHECKING:
    from optim.rules.dealing import Dealing


class Placement(placement.Placement):
    """Where every task of an instance is."""

    @cached_property
    def dealing(self) -> Dealing:
        """Whether each node's tasks can be dealt to its slots."""
        from optim.rules.dealing import deal

        return deal(self.instance, self.node)
