"""Where a key group may be, for compiled searches.

The fixed part of a search that asks has the arrays ``home``, ``leaving``, ``must_move``, ``row_of``
and the allowed sets as compressed rows.
"""

# mypy: allow-untyped-defs
from __future__ import annotations

from optim.util.compiled import inlined


@inlined
def may_be(fixed, k, node):
    """Whether a key group may be on a node."""
    home = fixed.home[k]
    if node == home:
        return not fixed.must_move[k]
    if fixed.leaving[node] and not fixed.into_leaving and not fixed.leaving[home]:
        return False
    row = fixed.row_of[k]
    if row < 0:
        return True
    for at in range(fixed.allowed_indptr[row], fixed.allowed_indptr[row + 1]):
        if fixed.allowed_nodes[at] == node:
            return True
    return False
