"""Performance profiles: the share of cases that a method solves within a factor of the best.

References
----------
E. D. Dolan, J. J. Moré, Benchmarking optimization software with performance profiles,
Mathematical Programming 91 (2002), 201-213. https://doi.org/10.1007/s101070100263
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

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


def profiles(rows: Iterable[Mapping[str, Any]], num_cases: int) -> list[Profile]:
    """Return the profiles of all contestants that solve a case, the best at the left first.

    ρ(τ) is the share of cases with r ≤ τ, where r is the ratio (or difference) of a run to the
    best known on its case. A run among several on one case (its seeds) counts as its part of it,
    and a case without a ratio counts as not solved.

    Parameters
    ----------
    rows
        ``contestant``, ``ratio``, ``runs`` (how many have this ratio) and ``tries`` (how many
        runs the contestant had on the case).
    num_cases
        Number of cases in the profile, the same for all contestants.
    """
    if not num_cases:
        return []
    weights: dict[str, dict[float, list[float]]] = {}
    for item in rows:
        steps = weights.setdefault(item["contestant"], {})
        steps.setdefault(item["ratio"], []).append(item["runs"] / item["tries"])
    found = [_profile(name, steps, num_cases) for name, steps in weights.items()]
    found.sort(key=lambda profile: (-_area(profile), profile.contestant))
    return found


def _profile(name: str, steps: Mapping[float, list[float]], num_cases: int) -> Profile:
    ratios = sorted(steps)
    shares, parts = [], []
    for ratio in ratios:
        parts += steps[ratio]
        shares.append(math.fsum(parts) / num_cases)
    return Profile(name, tuple(ratios), tuple(shares))


def _area(profile: Profile) -> float:
    """Return a rank: cases solved, each counted the less the farther it is from the best."""
    before, area = 0.0, 0.0
    for ratio, share in zip(profile.ratios, profile.shares, strict=True):
        area += (share - before) / (1.0 + max(0.0, ratio))
        before = share
    return area
