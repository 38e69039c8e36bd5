"""State of a rebalancing search for large problems: key groups of a node in order of their load.

Key groups are numbered by (home, load), so those of a node that are still at home are a range of
numbers; those that came from elsewhere are in a linked list, in order of their load too. What two
nodes may exchange is then found by walking along both at once.
"""

# mypy: allow-untyped-defs
from __future__ import annotations

from formulations.rebalancing.search.state import book
from optim.util.compiled import helper


@helper
def enlist(fixed, state, k, node):
    """Put a key group from elsewhere into a node's list, which is sorted by load."""
    ahead, behind = -1, state.first[node]
    while behind >= 0 and fixed.load[behind] < fixed.load[k]:
        ahead, behind = behind, state.after[behind]
    state.after[k] = behind
    state.before[k] = ahead
    if behind >= 0:
        state.before[behind] = k
    if ahead >= 0:
        state.after[ahead] = k
    else:
        state.first[node] = k


@helper
def delist(state, k, node):
    """Take a key group from elsewhere out of a node's list."""
    ahead, behind = state.before[k], state.after[k]
    if ahead >= 0:
        state.after[ahead] = behind
    else:
        state.first[node] = behind
    if behind >= 0:
        state.before[behind] = ahead


@helper
def transfer(fixed, state, k, target):
    """Move a key group, whatever it breaks."""
    source = state.place[k]
    if source != fixed.home[k]:
        delist(state, k, source)
    if target != fixed.home[k]:
        enlist(fixed, state, k, target)
    state.size[source] -= 1
    state.size[target] += 1
    book(fixed, state, k, source, target)


@helper
def line_up(fixed, begin, state, node, buffer, offset):
    """Write a node's key groups into a buffer by ascending load; return how many.

    Where there are more than the buffer holds, every so many is taken, from `offset` on.
    """
    stride = 1 + state.size[node] // len(buffer)
    count, seen = 0, offset % stride
    at, end = begin[node], begin[node + 1]
    other = state.first[node]
    while True:
        while at < end and state.place[at] != node:
            at += 1
        if at < end and (other < 0 or fixed.load[at] <= fixed.load[other]):
            k = at
            at += 1
        elif other >= 0:
            k = other
            other = state.after[other]
        else:
            return count
        if seen % stride == 0 and count < len(buffer):
            buffer[count] = k
            count += 1
        seen += 1


@helper
def go_back(fixed, state, placement):
    """Return to a placement."""
    for k in range(len(placement)):
        if state.place[k] != placement[k]:
            transfer(fixed, state, k, placement[k])
