"""Performance profiles: the share of cases that a method solves within a factor of the best.

References
----------
E. D. Dolan, J. J. Moré, Benchmarking optimization software with performance profiles,
Mathematical Programming 91 (2002), 201-213. https://doi.org/10.1007/s101070100263
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Container, Sequence

    from experiments.report.database import Columns

_SAME = 1e-6
"""Ratios this close to the best count as the best."""


@dataclass(frozen=True)
class Profile:
    """The profile of one contestant, a step function.

    Attributes
    ----------
    contestant
        Whose it is.
    ratios
        Where it steps, ascending.
    shares
        Its value from each step on.
    """

    contestant: str
    ratios: tuple[float, ...]
    shares: tuple[float, ...]

    def at(self, ratio: float) -> float:
        """Return the share of cases within `ratio` of the best."""
        reached = 0.0
        for step, share in zip(self.ratios, self.shares, strict=True):
            if step > ratio * (1 + _SAME) + _SAME:
                break
            reached = share
        return reached

    @property
    def total(self) -> float:
        """The share of cases solved at all."""
        return self.shares[-1] if self.shares else 0.0


def profiles(
    ratios: Columns, names: Sequence[str], num_cases: int, contestants: Container[str] | None = None
) -> list[Profile]:
    """Return the profiles of all contestants that solve a case, the best at the left first.

    ρ(τ) is the share of cases with r ≤ τ, where r is the ratio (or difference) of a run to the
    best known on its case. A run among several on one case (its seeds) counts as its part of it,
    and a case without a ratio counts as not solved.

    Parameters
    ----------
    ratios
        Columns ``contestant``, ``ratio``, ``runs`` (how many have this ratio) and ``tries`` (how
        many runs the contestant had on the case).
    names
        The contestants.
    num_cases
        Number of cases in the profile, the same for all contestants.
    contestants
        Whose profiles; all if not given.
    """
    if not num_cases:
        return []
    who, ratio, runs, tries = (ratios[n] for n in ("contestant", "ratio", "runs", "tries"))
    found = []
    for number, name in enumerate(names):
        mine = who == number
        if mine.any() and (contestants is None or name in contestants):
            steps, place = np.unique(ratio[mine], return_inverse=True)
            parts = np.bincount(place, weights=runs[mine] / tries[mine])
            shares = np.minimum(parts.cumsum() / num_cases, 1.0)
            found.append(Profile(name, tuple(steps.tolist()), tuple(shares.tolist())))
    found.sort(key=lambda profile: (-_area(profile), profile.contestant))
    return found


def _area(profile: Profile) -> float:
    """Return a rank: cases solved, each counted the less the farther it is from the best."""
    before, area = 0.0, 0.0
    for ratio, share in zip(profile.ratios, profile.shares, strict=True):
        area += (share - before) / (1.0 + max(0.0, ratio))
        before = share
    return area
