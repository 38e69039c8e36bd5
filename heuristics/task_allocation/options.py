"""Options that the published algorithms share."""

from __future__ import annotations

from optim.methods.registry import Option

RELAXATIONS = (
    Option(
        "margin",
        "float",
        0.0,
        "even groups: loads within a group may differ by this share, the greatest counts for all",
        minimum=0.0,
        maximum=10.0,
    ),
    Option(
        "normalise",
        "bool",
        False,
        "capacity normalisation: nodes as whole multiples of the weakest",
    ),
    Option(
        "alpha",
        "float",
        None,
        "balance mode: a node holds at most this many times the mean load",
        minimum=1.0,
    ),
)
"""Options of the published algorithms: sections 5 and 2.2 of the paper."""
