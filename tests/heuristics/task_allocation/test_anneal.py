"""Annealing: what it says it gained is what the referee finds; limits hold at any temperature."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from heuristics.task_allocation.annealing import (
    BY_TABLE,
    CHANCES,
    Excess,
    Heat,
    _advance,
    anneal,
    anneal_by_table,
    in_whole_units,
    matrix_of,
    table_of,
)
from optim.figures.measures import imc_gain_of
from optim.kernels.descent import descend
from optim.kernels.state import state_of
from optim.util.compiled import seeded
from tests.optim.kernels.cases import placements, problems
from tests.optim.kernels.test_descent import rules
from tests.optim.kernels.test_state import check
from tests.optim.make import instance as small
from tests.optim.make import nodes

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from optim.format.instance import Instance
    from optim.kernels.state import State


def within_bounds(instance: Instance) -> Excess:
    """No load beyond the bounds."""
    width = state_of(instance, np.full(instance.num_tasks, -1, np.int32)).load.shape[1]
    return Excess(np.zeros(width), np.zeros(width))


def annealed(
    instance: Instance, state: State, by_table: bool, proposals: int, hot: float, seed: int
) -> float:
    """Anneal everything by either kernel, and hold the table against a new one."""
    everyone = np.arange(instance.num_tasks)
    if not by_table:
        return float(anneal(state, everyone, proposals, hot, hot / 6, seeded(seed)))
    matrix = matrix_of(instance)
    table = table_of(matrix, state.node, instance.num_nodes)
    asked = within_bounds(instance), everyone, proposals, hot, hot / 6, seeded(seed)
    gained = float(anneal_by_table(state, matrix, table, CHANCES, *asked))
    fresh = table_of(matrix, state.node, instance.num_nodes)
    np.testing.assert_allclose(table, fresh, atol=1e-9)
    return gained


@given(st.data())
def test_gain_is_the_referees_after_every_proposal(data: st.DataObject) -> None:
    instance = data.draw(problems(groups=data.draw(st.booleans())))
    state = state_of(instance, data.draw(placements(instance)))
    hot = data.draw(st.sampled_from([0.1, 5.0, 1e6]))
    by_table = data.draw(st.booleans())
    if not instance.num_tasks:
        return
    for seed in range(20):
        before, broken = imc_gain_of(instance, state.node), rules(instance, state.node)
        gained = annealed(instance, state, by_table, 1, hot, seed)
        assert imc_gain_of(instance, state.node) - before == pytest.approx(gained, abs=1e-9)
        assert rules(instance, state.node) <= broken
        fresh = state_of(instance, state.node)  # annealing leaves the chains as they were
        check(instance, state._replace(first=fresh.first, after=fresh.after, before=fresh.before))


@pytest.mark.parametrize("by_table", [False, True])
def test_leaves_a_local_optimum_that_descent_cannot(by_table: bool) -> None:
    rng = np.random.default_rng(5)
    made = small(
        nodes=nodes(6, capacity={"cpu": 20}),
        operators=[],
        streams=[],
        tasks=[{"id": f"t{i}", "load": {"cpu": 1}} for i in range(120)],
        traffic=[
            [f"t{i}", f"t{j}", 1]
            for i in range(120)
            for j in range(i)
            if rng.random() < (0.4 if i // 20 == j // 20 else 0.1)
        ],
    )
    start = (np.arange(120) % 6).astype(np.int32)
    state = state_of(made, start)
    descend(state, np.arange(120), 50, 1e-9)
    stuck = imc_gain_of(made, state.node)
    annealed(made, state, by_table, 200_000, 0.6, 0)
    state = state_of(made, state.node)
    descend(state, np.arange(120), 50, 1e-9)
    assert imc_gain_of(made, state.node) > 1.05 * stuck
    again = state_of(made, start)
    descend(again, np.arange(120), 50, 1e-9)
    annealed(made, again, by_table, 200_000, 0.6, 0)
    again = state_of(made, again.node)
    descend(again, np.arange(120), 50, 1e-9)
    assert np.array_equal(again.node, state.node)


@pytest.mark.parametrize(
    ("most", "price"), [((0, 0), (0, 0)), ((3, 1), (0.5, 2)), ((0, 0), (1, 1))]
)
def test_by_table_follows_a_plain_reading_of_its_proposals(
    most: tuple[float, float], price: tuple[float, float]
) -> None:
    """Every proposal told anew from the same random numbers, without a table."""
    made = small(
        nodes=[
            {"id": f"n{i}", "capacity": {"cpu": 16, "mem": 9}, "min_load": {"cpu": 4}}
            for i in range(4)
        ],
        resources=["cpu", "mem"],
        operators=[],
        streams=[],
        tasks=[{"id": f"t{i}", "load": {"cpu": 1 + i % 3, "mem": 1}} for i in range(24)],
        traffic=[[f"t{i}", f"t{j}", 1 + (i * j) % 7] for i in range(24) for j in range(i)],
    )
    matrix, node = matrix_of(made), (np.arange(24) % 4).astype(np.int32)
    state, table = state_of(made, node), table_of(matrix, node, 4)
    random, load = seeded(3), np.array(made.tasks.load)
    numbers, x = [], int(random[0])
    for _ in range(1000):
        x ^= (x << 13) % 2**64
        x ^= x >> 7
        x ^= (x << 17) % 2**64
        numbers.append(x)
    excess = Excess(np.array(most, np.float64), np.array(price, np.float64))

    def beyond(node: NDArray[np.int32]) -> NDArray[np.float64]:
        """(2, N, 2) load above capacity, and below the least."""
        loads = np.array([load[node == n].sum(axis=0) for n in range(4)])
        return np.maximum(0, [loads - [16, 9], [4, 0] - loads])

    accepted, beyonds = 0, 0
    for x in numbers:
        task, other = ((x >> 42) * 24) >> 22, (((x >> 20) % 2**22) * 24) >> 22
        after = node.copy()
        moved = x % 256 < 77
        after[task] = (((x >> 20) % 2**22) * 4) >> 22 if x % 256 < 13 else node[other]
        if not moved:
            after[other] = node[task]
        change = imc_gain_of(made, after) - imc_gain_of(made, node)
        chance = np.log(((x >> 8) % 4096 + 0.5) / 4096)
        out, by_now = beyond(after), beyond(node)
        kept = ((out <= by_now) | (out <= most)).all()
        change -= ((out - by_now).sum(axis=(0, 1)) * price).sum()
        if after[task] != node[task] and change >= chance * 3.0 - 1e-9 and kept:
            node, accepted, beyonds = after, accepted + 1, beyonds + int(out.any())
        anneal_by_table(state, matrix, table, CHANCES, excess, np.arange(24), 1, 3.0, 3.0, random)
        assert np.array_equal(state.node, node)
    assert accepted > 50
    assert (beyonds > 10) == any(most)


def test_whole_units_anneal_as_fractions_do() -> None:
    """Whole rates lose nothing by it: the same proposals, gain and placement."""
    rng = np.random.default_rng(2)
    pairs = [[f"t{i}", f"t{j}", float(rng.integers(1, 9))] for i in range(40) for j in range(i)]
    tasks = [{"id": f"t{i}", "load": {"cpu": 1}} for i in range(40)]
    room = nodes(5, capacity={"cpu": 10})
    made = small(nodes=room, operators=[], streams=[], tasks=tasks, traffic=pairs)
    results = []
    for matrix, unit in ((matrix_of(made), 1.0), in_whole_units(matrix_of(made))):
        state = state_of(made, (np.arange(40) % 5).astype(np.int32))
        table = table_of(matrix, state.node, 5)
        asked = within_bounds(made), np.arange(40), 20_000, 9.0 * unit, unit, seeded(1)
        gained = anneal_by_table(state, matrix, table, CHANCES, *asked) / unit
        results.append((matrix.dtype, table.dtype, gained, state.placement().tolist()))
    assert [r[0] for r in results] == [r[1] for r in results] == [np.float64, np.int32]
    assert results[0][2:] == results[1][2:]


def test_whole_units_are_fine_and_do_not_overflow() -> None:
    rng = np.random.default_rng(3)
    rates = np.triu(rng.uniform(0.5, 2.0, (30, 30)), 1)
    exact = rates + rates.T
    for scale in (1e-9, 1.0, 1e12):
        whole, unit = in_whole_units(exact * scale)
        assert whole.dtype == np.int32
        assert whole.sum(axis=1, dtype=np.int64).max() < 2**29
        np.testing.assert_allclose(whole / unit, exact * scale, rtol=1e-6)
    # rates too unlike, and no traffic at all: as they are
    exact[0, 1] = exact[1, 0] = 1e9
    for matrix in (exact, np.zeros((3, 3)), np.zeros((0, 0))):
        same, unit = in_whole_units(matrix)
        assert same is matrix
        assert unit == 1.0


def test_tasks_are_proposed_in_turn() -> None:
    """As many cold proposals as tasks bring each task to its only partner: none is left out."""
    pairs = 50
    tasks = [{"id": f"t{i}", "load": {"cpu": 1.0}} for i in range(2 * pairs)]
    traffic = [[f"t{2 * i}", f"t{2 * i + 1}", 1.0] for i in range(pairs)]
    room = nodes(2, capacity={"cpu": 200.0})
    apart = small(tasks=tasks, traffic=traffic, nodes=room, operators=[], streams=[])
    state = state_of(apart, np.arange(2 * pairs, dtype=np.int32) % 2)
    gained = anneal(state, np.arange(2 * pairs), 2 * pairs, 1e-6, 1e-7, seeded(3))
    assert gained == pairs == imc_gain_of(apart, state.node)


@pytest.mark.parametrize("num_nodes", [4, 8])
def test_nodes_of_many_tasks_exceed_their_bounds_on_the_way(num_nodes: int) -> None:
    rng = np.random.default_rng(4)
    tasks = [{"id": f"t{i}", "load": {"cpu": 1 + i % 5}} for i in range(100)]
    pairs = [[f"t{i}", f"t{j}", float(rng.integers(1, 99))] for i in range(100) for j in range(i)]
    room = nodes(num_nodes, capacity={"cpu": 360 / num_nodes})
    made = small(nodes=room, operators=[], streams=[], tasks=tasks, traffic=pairs)
    state = state_of(made, np.arange(100, dtype=np.int32) // 5 % num_nodes)
    heat = Heat(matrix_of(made), 1.0, 60.0, 4.0, BY_TABLE, 120.0)
    go_on, least = _advance(state, heat, np.arange(100), 0), []
    for cooled in (0.2, 0.6, 0.8, 1.0):
        go_on(20_000, 60.0 * 0.1**cooled, 55.0 * 0.1**cooled, cooled)
        least.append(float(state.room.min()))
    many = num_nodes == 4  # 25 tasks a node; of 8, 12
    assert (min(least[:2]) < -1e-6) == many
    assert min(least) > -3.0 - 1e-6
    assert least[-1] > -1e-6


def test_bounds_hold_again_before_the_cooling_ends() -> None:
    tasks = [{"id": f"t{i}", "load": {"cpu": 1 + i % 5}} for i in range(100)]
    pairs = [[f"t{i}", f"t{j}", 1.0 + i * j % 7] for i in range(100) for j in range(i)]
    room = nodes(2, capacity={"cpu": 160})
    made = small(nodes=room, operators=[], streams=[], tasks=tasks, traffic=pairs)
    heat = Heat(matrix_of(made), 1.0, 60.0, 4.0, BY_TABLE, 1e-3)  # what is beyond costs little
    beyond = []
    for cooled in (0.4, 0.8):
        state = state_of(made, np.arange(100, dtype=np.int32) // 5 % 2)
        _advance(state, heat, np.arange(100), 0)(20_000, 60.0, 60.0, cooled)
        beyond.append(bool(state.room.min() < -1e-6))
    assert beyond == [True, False]
