"""Timefold Solver (PyPI) on the traffic between tasks: its default construction and local search.

It needs a Python of its own (3.10 to 3.12) and a JVM, named by ``STREAMPLACE_TIMEFOLD``, which runs
this file: one JSON document on standard input (`load`, `room`, `pairs`, `seconds`, `answer`), the
node of each task, or null, to the file `answer`. Scores are whole numbers, and so is all that they
are computed from; the first resource alone is a constraint here.
"""

from __future__ import annotations

import json
import sys
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Any

from timefold.solver import SolverFactory  # type: ignore[import-not-found]
from timefold.solver.config import (  # type: ignore[import-not-found]
    Duration,
    ScoreDirectorFactoryConfig,
    SolverConfig,
    TerminationConfig,
)
from timefold.solver.domain import (  # type: ignore[import-not-found]
    PlanningEntityCollectionProperty,
    PlanningId,
    PlanningScore,
    PlanningVariable,
    ProblemFactCollectionProperty,
    ValueRangeProvider,
    planning_entity,
    planning_solution,
)
from timefold.solver.score import (  # type: ignore[import-not-found]
    ConstraintCollectors,
    ConstraintFactory,
    HardSoftScore,
    Joiners,
    constraint_provider,
)


@dataclass
class Node:
    """A node, and the load that it may have."""

    id: Annotated[int, PlanningId]
    room: int


@dataclass
class Pair:
    """Two tasks, and the traffic between them."""

    id: Annotated[int, PlanningId]
    first: int
    second: int
    rate: int


@planning_entity
@dataclass
class Task:
    """A task, and the node that is chosen for it."""

    id: Annotated[int, PlanningId]
    load: int
    node: Annotated[Node | None, PlanningVariable] = field(default=None)


@planning_solution
@dataclass
class Placement:
    """The problem with its solution."""

    nodes: Annotated[list[Node], ProblemFactCollectionProperty, ValueRangeProvider]
    pairs: Annotated[list[Pair], ProblemFactCollectionProperty]
    tasks: Annotated[list[Task], PlanningEntityCollectionProperty]
    score: Annotated[HardSoftScore | None, PlanningScore] = field(default=None)


@constraint_provider
def constraints(factory: ConstraintFactory) -> Any:
    """Capacity is hard; traffic inside nodes is the soft score."""
    return [
        factory.for_each(Task)
        .group_by(lambda task: task.node, ConstraintCollectors.sum(lambda task: task.load))
        .filter(lambda node, load: load > node.room)
        .penalize(HardSoftScore.ONE_HARD, lambda node, load: load - node.room)
        .as_constraint("capacity"),
        factory.for_each(Pair)
        .join(Task, Joiners.equal(lambda pair: pair.first, lambda task: task.id))
        .join(Task, Joiners.equal(lambda pair, one: pair.second, lambda task: task.id))
        .filter(lambda pair, one, other: one.node == other.node)
        .reward(HardSoftScore.ONE_SOFT, lambda pair, one, other: pair.rate)
        .as_constraint("traffic"),
    ]


def main() -> None:
    """Solve until the limit, and write the answer."""
    request = json.load(sys.stdin)
    config = SolverConfig(
        solution_class=Placement,
        entity_class_list=[Task],
        score_director_factory_config=ScoreDirectorFactoryConfig(
            constraint_provider_function=constraints
        ),
        termination_config=TerminationConfig(spent_limit=Duration(seconds=int(request["seconds"]))),
        random_seed=1,
    )
    problem = Placement(
        [Node(i, room) for i, room in enumerate(request["room"])],
        [Pair(i, *pair) for i, pair in enumerate(request["pairs"])],
        [Task(i, load) for i, load in enumerate(request["load"])],
    )
    solution = SolverFactory.create(config).build_solver().solve(problem)
    place = [None if task.node is None else task.node.id for task in solution.tasks]
    Path(request["answer"]).write_text(json.dumps({"place": place}), encoding="utf-8")


if __name__ == "__main__":
    main()
