"""How long a run may take, guessed before and learned after, and chunks of even length from that.

Longest first: a long run that starts last keeps one core busy while all others idle.
"""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from experiments.sweep.planning import Run

MIN_CHUNK_SECONDS = 1.0
MAX_CHUNK_SECONDS = 60.0
LEARNED_COLUMNS = ("run_key", "method_label", "solver", "instance_sha256", "time_total")
"""What an `Estimator` reads of stored rows."""

_SHARE = 3
_UNKNOWN_SECONDS = 0.02
_UNLIMITED_SECONDS = 60.0
_EXACT_SECONDS_PER_CELL = 1e-4  # a guess for task × node models; runs soon tell better


class Estimator:
    """Estimates the seconds of runs.

    Parameters
    ----------
    rows
        Rows of earlier runs: of the same method on the same instance counts most, then of the
        same method on any.
    """

    def __init__(self, rows: Iterable[Mapping[str, Any]] = ()) -> None:
        exact: dict[Any, list[float]] = defaultdict(list)
        for row in rows:
            seconds = row.get("time_total")
            if seconds is not None:
                place = (row["method_label"], row["solver"])
                exact[*place, row["instance_sha256"]].append(seconds)
                exact[place].append(seconds)
        self._learned = {place: sum(values) / len(values) for place, values in exact.items()}

    def seconds(self, run: Run) -> float:
        """Return the estimate for one run."""
        place = (run.label, run.settings.solver)
        learned = self._learned.get((*place, run.instance.sha256), self._learned.get(place))
        return guess(run) if learned is None else learned


def guess(run: Run) -> float:
    """Return an estimate from the kind of method, the limits and the size of the instance."""
    limit = run.settings.time_limit
    most = min(run.timeout, _UNLIMITED_SECONDS if limit is None else limit)
    tasks, nodes = run.instance.num_tasks, run.instance.num_nodes
    match run.kind:
        case "exact":
            return min(most, _UNKNOWN_SECONDS + _EXACT_SECONDS_PER_CELL * tasks * nodes)
        case "search":
            return min(most, 1.0) if limit is None else most
        case _:
            return min(most, _UNKNOWN_SECONDS + 1e-5 * tasks)


def make_chunks(
    seconds: Sequence[float],
    slots: int,
    least: float = MIN_CHUNK_SECONDS,
    most: float = MAX_CHUNK_SECONDS,
) -> list[list[int]]:
    """Divide runs into chunks, longest runs first, each chunk a share of what is left.

    Large chunks first and small ones last keep all slots busy to the end, even where estimates
    are wrong, and still make few of them (guided self-scheduling).

    Parameters
    ----------
    seconds
        Estimate of each run.
    slots
        Runs at a time.
    least, most
        Bounds on a chunk's estimated seconds; one run may be longer.

    Returns
    -------
    list of list of int
        Indices of the runs; every run in exactly one chunk.
    """
    order = sorted(range(len(seconds)), key=lambda i: (-seconds[i], i))
    left = sum(seconds)
    chunks: list[list[int]] = []
    chunk: list[int] = []
    filled = 0.0
    target = _target(left, slots, least, most)
    for position, index in enumerate(order):
        chunk.append(index)
        filled += seconds[index]
        # A share of the runs is an end as well: estimates may be far too low.
        count = -(-(len(order) - position) // (_SHARE * slots))
        if filled >= target or (filled >= least and len(chunk) >= count):
            chunks.append(chunk)
            left -= filled
            chunk, filled = [], 0.0
            target = _target(left, slots, least, most)
    if chunk:
        chunks.append(chunk)
    return chunks


def _target(left: float, slots: int, least: float, most: float) -> float:
    return min(most, max(least, left / (_SHARE * slots)))
