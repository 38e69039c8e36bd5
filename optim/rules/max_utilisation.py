"""``max_utilisation``: the share of capacities, of nodes and links, that may be used.

What exceeds it is reported as a violation of the capacity; dropping it leaves the capacities whole.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from optim.rules.base import Form, Rule

if TYPE_CHECKING:
    from optim.format.instance import Instance


def _present(instance: Instance) -> str | None:
    """Never by itself: methods that keep capacities keep shares of them."""
    return None


def _dropped(instance: Instance) -> Instance:
    whole = replace(
        instance.limits,
        max_utilisation=np.ones(instance.num_resources),
        max_link_utilisation=1.0,
    )
    return replace(instance, limits=whole)


MAX_UTILISATION = Rule(
    name="max_utilisation",
    field="limits.max_utilisation",
    form=Form.SHARE,
    present=_present,
    dropped=_dropped,
    violations=lambda placement: (),
)
