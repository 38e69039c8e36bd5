"""The bound by densities of traffic, against enumeration and by hand."""

from __future__ import annotations

import numpy as np
import pytest

from experiments.generators import generate
from formulations.storm.problem import (
    WorkerRows,
    density_bound,
    list_states,
    make_problem,
    storm_jobs,
)
from optim import Instance, solve
from optim.figures.measures import imc_gain_of
from optim.methods.reduce import lowered
from tests.slowly import slowly


def inside_at_most(made: Instance) -> float:
    """Return the bound; all traffic where there is none."""
    made = lowered(made, frozenset())
    jobs = storm_jobs(made, "storm-milp")
    found = density_bound(made, make_problem(made, jobs), np.inf)
    return made.total_traffic if found is None else found


def square(loads: list[float], room: float) -> Instance:
    """Two components of two executors, each sending to each with a rate of its loads' product."""
    names = ["a/0", "a/1", "b/0", "b/1"]
    return Instance.from_dict({
        "format": "streamplace.instance/1", "name": "square", "resources": ["cpu"],
        "nodes": [{"id": f"n{i}", "capacity": {"cpu": room}} for i in range(2)],
        "operators": [{"id": "a"}, {"id": "b"}],
        "tasks": [
            {"id": name, "operator": name[0], "load": {"cpu": load}}
            for name, load in zip(names, loads, strict=True)
        ],
        "traffic": [
            [names[i], names[j], loads[i] * loads[j]] for i in (0, 1) for j in (2, 3)
        ],
    })  # fmt: skip


def test_by_hand() -> None:
    """Half of each component on each node; and 4/3 of a node that holds 3 of each, of two nodes."""
    assert inside_at_most(square([1, 1, 1, 1], 2)) == pytest.approx(2.0, rel=1e-4)
    assert inside_at_most(square([3, 1, 3, 1], 6)) == pytest.approx(12.0, rel=1e-4)


def test_local_first_streams_may_stay_as_a_whole() -> None:
    """Half of the pairs, and each sender of the stream has a receiver on its node."""
    document = square([1, 1, 1, 1], 2.002).to_dict()
    document["operators"].append({"id": "c", "group": {"tasks": 2, "load": {"cpu": 0.002}}})
    near = {"from": "a", "to": "c", "rate": 3.0, "pattern": "local_first"}
    made = Instance.from_dict({**document, "streams": [near]})
    assert imc_gain_of(made, np.array([0, 1, 0, 1, 0, 1], dtype=np.int32)) == 5.0
    assert 5.0 <= inside_at_most(made) <= 5.01


def random_job(rng: np.random.Generator) -> Instance:
    """6 to 8 executors in up to 3 components on 2 or 3 nodes, unlike, and little room."""
    count, nodes, parts = (int(rng.integers(*ends)) for ends in ((6, 9), (2, 4), (1, 4)))
    load = rng.integers(1, 9, (count, 2)).astype(float)
    rate = rng.uniform(0.5, 1.0, (count, count)) * (rng.random((count, count)) < 0.9)
    if rng.random() < 0.8:  # heavy ones send most, as with fields grouping
        rate *= load[:, :1] * load[:, 0]
    room = load.sum(axis=0) / nodes * rng.uniform(1.0, 1.2, (nodes, 1)) + load.max(axis=0) / 5
    names, resources = [f"e{i}" for i in range(count)], ("cpu", "mem")
    pairs = [(i, j) for i in range(count) for j in range(i) if rate[i, j] > 0]
    return Instance.from_dict({
        "format": "streamplace.instance/1", "name": "random", "resources": list(resources),
        "nodes": [
            {"id": f"n{n}", "capacity": dict(zip(resources, room[n].tolist(), strict=True))}
            for n in range(nodes)
        ],
        "operators": [{"id": f"o{c}"} for c in range(parts)],
        "tasks": [
            {"id": name, "operator": f"o{rng.integers(parts)}",
             "load": dict(zip(resources, own.tolist(), strict=True))}
            for name, own in zip(names, load, strict=True)
        ],
        "traffic": [[names[i], names[j], float(rate[i, j])] for i, j in pairs],
    })  # fmt: skip


def most_inside(made: Instance) -> float:
    """Return the most traffic inside nodes of all placements that fit; below 0 for none."""
    shape = (made.num_nodes,) * made.num_tasks
    node = np.indices(shape).reshape(made.num_tasks, -1).T
    fits = np.ones(len(node), dtype=np.bool_)
    for n in range(made.num_nodes):
        held = (node == n).astype(float) @ made.tasks.load
        fits &= (held <= made.nodes.capacity[n] + 1e-9).all(axis=1)
    u, v, rate = made.pairs
    inside = (node[:, u] == node[:, v]) @ rate
    return float(inside[fits].max(initial=-1.0))


@pytest.mark.parametrize(("jobs", "at_least"), [(15, 2), *slowly((80, 15))])
def test_no_placement_has_more_inside(jobs: int, at_least: int) -> None:
    rng, said = np.random.default_rng(7), 0
    for number in range(jobs):
        made = random_job(rng)
        if not made.has_traffic:
            continue
        bound = inside_at_most(made)
        assert most_inside(made) <= bound * (1 + 1e-9), number
        said += bound < 0.999 * made.total_traffic
    assert said > at_least


def test_many_unlike_executors_have_a_bound_worth_the_name() -> None:
    made = generate("storm_reference", seed=1, stages=4, replication="10", grouping="fields")
    plan = solve(made, "storm-online").evaluation
    assert plan is not None
    assert plan.internode_traffic is not None
    least = made.total_traffic - inside_at_most(made)
    assert 0.3 * made.total_traffic < least < plan.internode_traffic


def test_a_model_that_is_solved_to_its_end_needs_no_bound(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("formulations.storm.problem.density_bound", None)
    result = solve(square([1.0, 2.0, 3.0, 4.0], 6.0), "storm-milp", form="workers")
    assert str(result.termination) == "optimal"


def test_more_equal_executors_than_short_integers_hold() -> None:
    """One class of 70,000 executors has as many states: their counts are listed as they are."""
    count, nodes = 70_000, [{"id": n, "slots": 3} for n in "ab"]
    one = {"id": "o", "topology": "t", "group": {"tasks": count}}
    head = {"format": "streamplace.instance/1", "name": "many", "nodes": nodes}
    made = Instance.from_dict(
        {**head, "topologies": [{"id": "t", "workers": 3}], "operators": [one]}
    )
    problem = make_problem(made, storm_jobs(made, "storm-milp"))
    states = list_states(problem)
    np.testing.assert_array_equal(states.of_job, [np.arange(count + 1)])
    np.testing.assert_array_equal(states.fitting[0], np.arange(count + 1))
    # a node that holds something has a worker at least, and at most its slots
    rows = WorkerRows(problem, states)
    least, most = rows.priced(0, np.array([1.0, 0.0])), rows.priced(0, np.array([0.0, 1.0]))
    np.testing.assert_array_equal(least, np.minimum(np.arange(count + 1), 1))
    np.testing.assert_array_equal(most, np.minimum(np.arange(count + 1), 3))
