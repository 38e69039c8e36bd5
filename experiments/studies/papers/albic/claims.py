"""Who judges the paper's claims, and from which stored tables."""

from __future__ import annotations

from typing import TYPE_CHECKING

from experiments.studies.papers.albic import judges_collocation as collocation
from experiments.studies.papers.albic import judges_jobs as jobs
from experiments.studies.papers.albic import judges_milp as milp
from experiments.studies.papers.claims import Finding, Judged, verdict_of

if TYPE_CHECKING:
    from collections.abc import Callable

    import pandas as pd


def _of(judge: Callable[..., Finding], *tables: str) -> Judged:
    """Return a judge that is called with the tables of jobs put together, as its last frame."""
    others = sum(not name.startswith("job-") for name in tables)

    def judged(*frames: pd.DataFrame) -> Finding:
        import pandas as pd

        return judge(*frames[:others], pd.concat(frames[others:]))

    return Judged(judged, *tables)


full = collocation.at_full_size
_FIGURES = {
    "F2": Judged(milp.ahead_of_flux(20), "solving"),
    "F3": Judged(milp.ahead_of_flux(40), "solving"),
    "F4": Judged(milp.largest, "solving", "fig-2", "fig-3", "fig-4"),
    "F4b": Judged(milp.quickly_near, "fig-2", "fig-3", "fig-4"),
    "F4c": Judged(milp.budgets, "budgets"),
    "F5a": Judged(milp.balanced_sooner, "scale-in"),
    "F5b": Judged(milp.emptied_as_soon, "scale-in", "fig-5"),
    "F7a": _of(milp.milp_even, "job-1"),
    "F7b": _of(milp.flux_uneven, "job-1"),
    "F7c": _of(milp.potc_uneven, "job-1"),
    "F7d": _of(milp.less_overhead, "job-1"),
    "F8": Judged(milp.by_budget, "periods"),
    "F9": Judged(milp.pauses, "periods"),
    "F10a": Judged(full(collocation.lower_distance), "paper-size", "collocation"),
    "F10b": Judged(full(collocation.more_collocated), "paper-size", "collocation"),
    "F10c": Judged(full(collocation.obtainable), "paper-size", "collocation"),
    "F10d": Judged(full(collocation.fewer_parts), "paper-size", "collocation"),
    "F11a": Judged(full(collocation.at_each_size, by_size=True), "paper-size", "sizes"),
    "F12a": _of(jobs.reaches_optimum, "job-2"),
    "F12b": _of(jobs.climbs(2), "job-2"),
    "F12c": _of(jobs.consistently_lower, "job-2"),
    "F12d": _of(jobs.halves, "job-2"),
    "F12e": _of(jobs.less_saved, "job-2"),
    "F13a": _of(jobs.half_of_job_2, "job-2", "job-3"),
    "F13b": _of(jobs.same_trend, "job-2", "job-3"),
    "F13c": _of(jobs.bears_half, "job-2", "job-3"),
    "F14a": Judged(jobs.random_starts, "cola-starts"),
    "F14b": _of(jobs.climbs(4, 59.0), "job-4"),
    "F14c": _of(jobs.cheap_and_even, "job-4"),
}
"""Those of the figures, which the claim about the whole is made of."""

_TABLES = tuple(dict.fromkeys(name for one in _FIGURES.values() for name in one.tables))


def _all_of(*frames: pd.DataFrame) -> Finding:
    """A1: all claims of the figures together."""
    tables = dict(zip(_TABLES, frames, strict=True))
    found = {
        name: one.judge(*(tables[table] for table in one.tables)).verdict
        for name, one in _FIGURES.items()
    }
    by_verdict = {
        level: [name for name, its in found.items() if its == level]
        for level in ("same", "in part", "different")
    }
    return Finding(
        verdict_of(*[level == "same" for level in found.values()]),
        f"of {len(found)} claims of the figures "
        + "; ".join(
            f"{len(names)} {level}" + (f" ({', '.join(names)})" if level != "same" else "")
            for level, names in by_verdict.items()
        ),
    )


JUDGES: dict[str, Judged] = {
    "ALBIC-A1": Judged(_all_of, *_TABLES),
    "ALBIC-D1": _of(collocation.part_load, "collocation", "job-2"),
    "ALBIC-D2": Judged(collocation.recalculations, "collocation"),
    "ALBIC-D3": _of(collocation.far_below, "collocation", "job-2", "job-3", "job-4"),
    **{f"ALBIC-{name}": judged for name, judged in _FIGURES.items()},
    "ALBIC-S1": _of(jobs.fewer_moves, "job-2", "job-3", "job-4"),
    "ALBIC-S2": Judged(jobs.from_cola, "after-cola"),
    "ALBIC-S3": _of(jobs.little_to_collocate, "job-1"),
}
