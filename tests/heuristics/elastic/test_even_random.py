"""The Elastic Allocator's baselines: round robin over slots, and random."""

from __future__ import annotations

import pytest

from heuristics.elastic.baselines import slot_nodes
from optim import Instance, solve
from optim.errors import UnsuitableMethod
from tests.optim.make import nodes


def made(count: int = 6, **parts: object) -> Instance:
    return Instance.from_dict(
        {
            "format": "streamplace.instance/1",
            "name": "e",
            "nodes": nodes(3, capacity={"cpu": 10}),
            "operators": [{"id": "a", "group": {"tasks": count, "load": {"cpu": count}}}],
            **parts,
        }
    )


def where(instance: Instance, method: str, **kw: object) -> list[str]:
    plan = solve(instance, method, **kw).plan  # type: ignore[arg-type]
    assert plan is not None
    return [plan.assignment[t] for t in instance.tasks.ids]


def test_even_deals_slot_by_slot() -> None:
    unequal = [
        {**n, "slots": s} for n, s in zip(nodes(3, capacity={"cpu": 9}), (3, 1, 2), strict=True)
    ]
    instance = made(8, nodes=unequal)
    assert slot_nodes(instance).tolist() == [0, 1, 2, 0, 2, 0]
    assert where(instance, "even") == ["n1", "n2", "n3", "n1", "n3", "n1", "n1", "n2"]


def test_even_does_not_look_at_what_runs() -> None:
    def placed(**running: object) -> list[str]:
        parts = {"tasks": [{"id": "run", "allowed": ["n1"], **running}]}
        return where(made(2, nodes=nodes(2, capacity={"cpu": 10}, slots=2), **parts), "even")

    assert placed() == ["n1", "n2", "n1"]
    assert placed(node="n1", slot=0, load={"cpu": 9}) == placed()


def test_even_keeps_allowed_nodes_and_leaves_leaving_ones() -> None:
    leaving = nodes(3, capacity={"cpu": 10})
    leaving[1]["leaving"] = True
    instance = made(4, nodes=leaving, tasks=[{"id": "a/1", "allowed": ["n1", "n2"]}])
    assert where(instance, "even") == ["n1", "n1", "n3", "n1"]


def test_even_without_any_slot_places_nothing_and_says_so() -> None:
    result = solve(made(2, nodes=nodes(2, capacity={"cpu": 10}, slots=0)), "even")
    assert result.plan is None
    assert result.unplaced == ("a/0", "a/1")
    assert result.exit_code == 4


def test_random_follows_the_seed_alone() -> None:
    instance = made(40, nodes=nodes(3, capacity={"cpu": 40}))
    assert where(instance, "random", seed=1) == where(instance, "random", seed=1)
    assert where(instance, "random", seed=1) != where(instance, "random", seed=2)
    assert set(where(instance, "random")) == {"n1", "n2", "n3"}


def test_random_draws_evenly_and_keeps_running_tasks() -> None:
    large = nodes(3, capacity={"cpu": 3000})
    instance = made(3000, nodes=large, tasks=[{"id": "a/0", "allowed": ["n3"]}])
    placed = where(instance, "random", seed=5)
    assert placed[0] == "n3"
    assert [placed.count(n) for n in ("n1", "n2", "n3")] == pytest.approx([1000] * 3, abs=100)


@pytest.mark.parametrize("method", ["even", "random"])
def test_they_overload_by_design(method: str) -> None:
    small = made(
        6,
        nodes=nodes(3, capacity={"cpu": 3}, background={"cpu": 1}, slots=1),
        tasks=[{"id": "a/0", "allowed": ["n1"]}, {"id": "a/1", "allowed": ["n1"]}],
        links=[{"id": "up", "nodes": ["n1"], "capacity": 0}],
        traffic=[["a/0", "a/5", 1], ["a/1", "a/4", 1], ["a/0", "a/3", 1], ["a/0", "a/2", 1]],
    )
    result = solve(small, method)
    assert result.plan is not None
    assert not result.feasible
    assert result.exit_code == 4


@pytest.mark.parametrize("method", ["even", "random"])
def test_the_objective_names_what_is_measured(method: str) -> None:
    first, second = (solve(made(), method, objective=o) for o in ("utilisation", "deviation"))
    assert first.plan is not None
    assert second.plan is not None
    assert first.plan.assignment == second.plan.assignment
    assert first.objective is not None
    assert second.objective is not None
    assert (first.objective.name, second.objective.name) == ("used_capacity", "cpu_deviation")


@pytest.mark.parametrize("method", ["even", "random"])
def test_other_limits_are_refused_with_the_remedy(method: str) -> None:
    tasks = [{"id": f"a/{i}", "node": "n1"} for i in range(6)]
    instance = made(6, tasks=tasks, limits={"max_migrations": 1})
    with pytest.raises(UnsuitableMethod, match="--ignore max_migrations"):
        solve(instance, method)
