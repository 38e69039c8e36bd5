"""What a job's pages say beside loads and rates, and what of it changes the worth of a plan."""

from __future__ import annotations

from collections import Counter
from statistics import fmean
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

    from streamplace.clusters.exchange.ledger import Ledger
    from streamplace.clusters.flink.pages import Job, Vertex

_PRESSED = 0.1
"""Share of time under back-pressure from which on Flink's own pages call it low, not none."""
_UNEVEN = 1.1
"""Most key groups of a subtask, by the mean, from which on a warning is due."""
_NAMED = 5


def labels_of(vertices: Sequence[Vertex]) -> dict[str, str]:
    """Return labels of the operator that is made of vertices."""
    pressed = [share for vertex in vertices if (share := _pressure(vertex)) is not None]
    most = [vertex.most for vertex in vertices if vertex.most]
    found = {
        "back-pressured": f"{max(pressed):.2f}" if pressed else "",
        "max parallelism": str(min(most)) if most else "",
    }
    return {name: text for name, text in found.items() if text}


def tell_of_jobs(jobs: Sequence[Job], ledger: Ledger) -> None:
    """Warn of what has ended, of back-pressure, uneven key groups, and the adaptive scheduler."""
    for job in jobs:
        _tell_ended(job, ledger)
        _tell_pressure(job, ledger)
        for vertex in job.vertices.values():
            _tell_key_groups(vertex, ledger)
        if (job.scheduler or "").lower().startswith("adaptive"):
            ledger.warn(
                f"{job.name} runs under the {job.scheduler} scheduler, which chooses parallelism "
                "itself and takes no groups of `export flink`: its plan holds until the next "
                "rescaling, and needs jobmanager.scheduler: Default to be submitted"
            )


def _tell_ended(job: Job, ledger: Ledger) -> None:
    for vertex in job.vertices.values():
        states = Counter(s.state or "" for s in vertex.everyone() if s.ended)
        if not states:
            continue
        told = ", ".join(f"{number} {state}" for state, number in sorted(states.items()))
        again = "" if set(states) == {"FINISHED"} else "; import again once the job has recovered"
        ledger.warn(
            f"{vertex.name or vertex.id}: of {vertex.parallelism} subtasks {told}: no CPU, slot or "
            f"traffic of theirs is counted, though a new start runs them again{again}"
        )


def _pressure(vertex: Vertex) -> float | None:
    """Return the share of time its running subtasks are held by back-pressure."""
    told = [share for share in vertex.rates("held") if share is not None]
    return fmean(told) if told else None


def _tell_pressure(job: Job, ledger: Ledger) -> None:
    pressed = [(v, _pressure(v) or 0.0) for v in job.vertices.values()]
    names = [f"{v.name or v.id} {share:.0%}" for v, share in pressed if share > _PRESSED]
    if names:
        more = f" and {len(names) - _NAMED} more" if len(names) > _NAMED else ""
        ledger.warn(
            f"{job.name} is back-pressured ({', '.join(names[:_NAMED])}{more} of the time): it is "
            "at its limit, and the rates are what it carries, not what arrives"
        )


def _tell_key_groups(vertex: Vertex, ledger: Ledger) -> None:
    """Tell where keys are dealt unevenly: whole key groups on subtasks that do not divide them."""
    groups, width = vertex.most, vertex.parallelism
    if not groups or not 1 < width < groups or not any(how == "HASH" for _, how in vertex.inputs):
        return
    least, rest = divmod(groups, width)
    if (least + (rest > 0)) * width <= _UNEVEN * groups:
        return
    fewer = next(n for n in range(width, 0, -1) if groups % n == 0)
    more = next(n for n in range(width, groups + 1) if groups % n == 0)
    ledger.warn(
        f"{vertex.name or vertex.id}: {groups} key groups on {width} subtasks: {rest} have "
        f"{least + 1}, {width - rest} have {least}, up to "
        f"{(least + 1) * width / groups:.2f} × the mean; {fewer} or {more} subtasks have the same"
    )
