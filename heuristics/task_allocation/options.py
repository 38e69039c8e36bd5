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
)
"""Options of the published algorithms: the paper's section 5."""
