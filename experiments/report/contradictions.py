"""Runs are graded against each other before anything is drawn: proofs must not be beaten.

No table is made from runs that contradict one another. Either a proof is false, or the referee
is, or the rows do not belong together; none of these may be averaged away.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from experiments.report.database import ask
from experiments.report.queries import define_graded
from optim.errors import StreamplaceError

if TYPE_CHECKING:
    from collections.abc import Mapping

    from duckdb import DuckDBPyConnection

_SHOWN = 20
_SHOWN_KEY = 12

_RUN = "{'contestant': contestant, 'seed': seed, 'run_key': run_key, 'instance': instance}"

_CONTRADICTIONS = {
    # each proven optimum against the best of them
    "optima": (
        "{first} and {second} both claim the proven optimum of {name}, but with {a:.9g} and "
        "{b:.9g}",
        f"""WITH proved AS (
  SELECT problem, objective_name, sense, objective, sizes, {_RUN} AS run FROM claims
  WHERE proved AND objective IS NOT NULL),
best AS (
  SELECT problem, objective_name,
    CASE min(sense)
      WHEN 'max'
        THEN first({{'objective': objective, 'run': run}} ORDER BY objective DESC, run DESC)
      ELSE first({{'objective': objective, 'run': run}} ORDER BY objective, run) END AS best
  FROM proved GROUP BY problem, objective_name)
SELECT p.problem, p.objective_name, p.run AS first, p.objective AS first_value,
  best.run AS second, best.objective AS second_value
FROM proved p JOIN best USING (problem, objective_name)
WHERE abs(p.objective - best.objective)
  > tolerance(objective_name, p.objective, best.objective, p.sizes)
ORDER BY problem, objective_name, first
""",
    ),
    # every feasible plan, measured by any objective, against the tightest bound proved on it
    "bound": (
        "{first} has a feasible plan with {name} {a:.9g}, beyond the bound {b:.9g} proved by "
        "{second}",
        f"""WITH plans AS (
  SELECT problem, objective_name, objective AS value, sizes, {_RUN} AS run FROM claims
  WHERE objective IS NOT NULL
  UNION
  SELECT problem, metric, value, sizes, {_RUN} FROM measured WHERE value IS NOT NULL),
bounds AS (
  SELECT problem, objective_name, min(sense) AS sense,
    CASE min(sense)
      WHEN 'max' THEN first({{'bound': bound, 'run': run}} ORDER BY bound, run)
      ELSE first({{'bound': bound, 'run': run}} ORDER BY bound DESC, run DESC) END AS tightest
  FROM (SELECT *, {_RUN} AS run FROM claims WHERE bound IS NOT NULL)
  GROUP BY problem, objective_name)
SELECT p.problem, p.objective_name, p.run AS first, p.value AS first_value,
  tightest.run AS second, tightest.bound AS second_value
FROM plans p JOIN bounds USING (problem, objective_name)
WHERE beats(objective_name, p.value, tightest.bound, p.sizes)
ORDER BY problem, objective_name, first
""",
    ),
    # feasible plans of a problem that another run proved to have none
    "infeasible": (
        "{first} has a feasible plan, but {second} claims to have proved that there is none",
        f"""WITH refused AS (
  SELECT problem, first({_RUN} ORDER BY contestant, seed, run_key) AS second FROM runs
  WHERE verdict = 'proven infeasible' GROUP BY problem)
SELECT problem, '' AS objective_name, {_RUN} AS first, CAST(NULL AS DOUBLE) AS first_value,
  second, CAST(NULL AS DOUBLE) AS second_value
FROM judged JOIN refused USING (problem) WHERE has_plan ORDER BY problem, first
""",
    ),
    # runs that claim a proven optimum away from their own bound
    "own bound": (
        "{first} claims a proven optimum with {name} {a:.9g}, away from its own bound {b:.9g}",
        f"""SELECT problem, objective_name, {_RUN} AS first, objective AS first_value,
  {_RUN} AS second, bound AS second_value
FROM claims
WHERE proved AND abs(objective - bound) > tolerance(objective_name, objective, bound, sizes)
ORDER BY problem, objective_name, first
""",
    ),
}
"""Of each kind the sentence and the query."""


@dataclass(frozen=True)
class Contradiction:
    """Two runs (or one and itself) that cannot both be right; `kind` is of `_CONTRADICTIONS`."""

    kind: str
    instance: str
    first: str
    second: str
    text: str


class ContradictoryRuns(StreamplaceError):
    """Runs of the sweep contradict each other; carries all contradictions found."""

    def __init__(self, found: list[Contradiction]) -> None:
        self.found = found
        lines = [item.text for item in found[:_SHOWN]]
        if len(found) > _SHOWN:
            lines.append(f"… and {len(found) - _SHOWN} more")
        many = "contradiction" if len(found) == 1 else "contradictions"
        super().__init__(
            f"no report: the runs hold {len(found)} {many}\n"
            + "\n".join(f"  {line}" for line in lines)
            + "\n  A proof or a plan above is false. Re-run these with --debug and report them."
        )


def grade(con: DuckDBPyConnection) -> None:
    """Compare all runs in the views with each other.

    A feasible plan may not beat a bound of the same problem and objective by more than rounding
    (`Figure.tolerance`); proven optima may not differ by more; a problem proven
    infeasible may have no feasible plan; and a proven optimum meets its own bound.

    Raises
    ------
    ContradictoryRuns
        Something of this is broken; names the runs.
    """
    found = contradictions(con)
    if found:
        raise ContradictoryRuns(found)


def contradictions(con: DuckDBPyConnection) -> list[Contradiction]:
    """Return every contradiction, each pair of runs once per objective."""
    define_graded(con)
    found: dict[tuple[str, frozenset[str]], Contradiction] = {}
    for kind, (text, query) in _CONTRADICTIONS.items():
        for row in ask(con, query):
            runs, name = (row["first"], row["second"]), row["objective_name"]
            first, second = map(_run_name, runs)
            told = text.format(
                first=first, second=second, name=name, a=row["first_value"], b=row["second_value"]
            )
            instance = row["first"]["instance"]
            one = Contradiction(kind, instance, first, second, f"{instance}: {told}")
            found.setdefault((name, frozenset(run["run_key"] for run in runs)), one)
    return list(found.values())


def _run_name(run: Mapping[str, Any]) -> str:
    return f"{run['contestant']} (seed {run['seed']}, run {run['run_key'][:_SHOWN_KEY]})"
