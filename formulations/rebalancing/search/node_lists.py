"""Doubly linked lists of the key groups on each node, for compiled searches.

A state that uses them has the arrays ``first`` and ``size`` by node, ``before`` and ``after`` by
key group; -1 ends a list.
"""

# mypy: allow-untyped-defs
from __future__ import annotations

from optim.util.compiled import inlined


@inlined
def link(state, k, node):
    """Put a key group at the head of a node's list."""
    head = state.first[node]
    state.after[k] = head
    state.before[k] = -1
    if head >= 0:
        state.before[head] = k
    state.first[node] = k
    state.size[node] += 1


@inlined
def unlink(state, k, node):
    """Take a key group out of its node's list."""
    ahead, behind = state.before[k], state.after[k]
    if ahead >= 0:
        state.after[ahead] = behind
    else:
        state.first[node] = behind
    if behind >= 0:
        state.before[behind] = ahead
    state.size[node] -= 1
