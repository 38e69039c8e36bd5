"""The bound by exchanges: below every optimum, what a node spends by hand, and what it is for."""

from __future__ import annotations

from itertools import product
from typing import TYPE_CHECKING

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from experiments.generators.rebalancing import CLUSTER
from formulations.rebalancing import exchanges
from formulations.rebalancing.bound import counting_bound, finite_budgets, without_switches
from formulations.rebalancing.exchanges import Exchanges, exchange_bound
from formulations.rebalancing.problem import Watch, balance_problem
from tests.formulations.rebalancing.balance.cases import (
    awkward_problem,
    brute_force,
    varied_problem,
)
from tests.formulations.rebalancing.make import make_problem
from tests.formulations.rebalancing.test_bound_with_copies import replicas

if TYPE_CHECKING:
    from collections.abc import Callable

    from formulations.rebalancing.problem import BalanceProblem

#: Grids so coarse that most loads lie between cells and most exchanges reach the last one, and one
#: on which whole loads are whole cells.
GRIDS = [(6,), (25, 90), (2_000,)]


def bounded(problem: BalanceProblem, grids: tuple[int, ...]) -> float:
    """Return the bound of small problems, which is not asked for otherwise."""
    bare, least = without_switches(problem), 0.0
    with pytest.MonkeyPatch.context() as patch:
        for name, value in (("SMALL", 0), ("COARSE", 0), ("GRIDS", grids)):
            patch.setattr(exchanges, name, value)
        top = problem.levels(problem.home).distance
        for taken, budget in finite_budgets(bare):
            least = exchange_bound(bare, taken, budget, least, top, Watch())
    return least


@pytest.mark.parametrize("grids", GRIDS)
@pytest.mark.parametrize("make", [varied_problem, awkward_problem])
@settings(max_examples=40, deadline=None)
@given(seed=st.integers(0, 100_000))
def test_below_every_optimum(
    make: Callable[..., BalanceProblem], grids: tuple[int, ...], seed: int
) -> None:
    problem = make(seed, num_tasks=5, num_nodes=4)
    best = brute_force(problem)
    if best is not None:
        assert bounded(problem, grids) <= best[0].distance + 1e-9 * max(1.0, problem.mean)


@pytest.mark.parametrize("grids", GRIDS)
def test_below_optima_with_copies(grids: tuple[int, ...]) -> None:
    for seed in range(40):
        problem = balance_problem(replicas(seed))
        best = brute_force(problem)
        if best is not None:
            assert bounded(problem, grids) <= best[0].distance + 1e-9, seed


def test_sums_that_there_are_by_hand() -> None:
    """A node too high by 1 gives a 3 and takes a 2, though loads that leave are 0.2 to 3."""
    problem = make_problem([3.0, 0.2, 2.0, 2.2], [0, 0, 1, 1], 2, background=[4.0, 1.0])
    # loads 7.2 and 5.2: each node is 1 off; within 0.1 only an exchange brings both
    one, two = (Exchanges(problem, np.ones(4), budget, 2_000) for budget in (1.0, 2.0))
    assert one.is_exact
    assert one.refutes(0.1)
    assert not two.refutes(0.1)
    assert two.refutes(0.9) is one.refutes(1.0) is False
    # within 0.7 one migration will not do either: 0.2 is too little, 2 and more are too much
    assert one.refutes(0.7)
    limited = make_problem(
        [3.0, 0.2, 2.0, 2.2], [0, 0, 1, 1], 2, background=[4.0, 1.0], max_moves=1
    )
    assert counting_bound(limited, 0.0, 1.0) < 0.1


@settings(max_examples=60, deadline=None)
@given(
    seed=st.integers(0, 100_000),
    cells=st.sampled_from([5, 12, 400]),
    reach=st.sampled_from([2.0, 9.0, 120.0]),
)
def test_each_node_spends_what_its_cheapest_exchange_costs(
    seed: int, cells: int, reach: float
) -> None:
    """By enumeration: equal where loads are whole cells and all are distinct, else not more."""
    rng = np.random.default_rng(seed)
    home = rng.integers(0, 3, 7)
    problem = make_problem(rng.integers(1, 9, 7).astype(float), home, 3)
    taken = rng.integers(1, 4, 7).astype(float)
    found = Exchanges(problem, taken, 9.0, cells)
    vars(found)["reach"] = reach  # 120: more than all loads twice
    found.price = rng.random(exchanges.CLASSES) * found.most
    distance = float(rng.random() * 4)
    price, spent = next(found.priced(distance))
    paid, load = price[found.kinds], problem.load.astype(int)
    arriving = np.full(120, np.inf)  # the least price of arrivals of each load
    arriving[0] = 0.0
    pairs = list(zip(load.tolist(), paid.tolist(), strict=True))
    for x in range(1, 120):
        arriving[x] = min((arriving[x - w] + p for w, p in pairs if w <= x), default=np.inf)
    deviation = problem.base_load - problem.share
    for node in range(3):
        here, least = np.flatnonzero(home == node), np.inf
        for goes in product((False, True), repeat=len(here)):
            gone = here[list(goes)]
            gain = np.arange(120) - load[gone].sum()
            within = np.abs(deviation[node] + gain) <= distance + 1e-9
            cost = (taken - paid)[gone].sum() + arriving[within].min(initial=np.inf)
            least = min(least, float(cost))
        assert spent[node] <= least + 1e-9
        if found.is_exact and reach == 120.0:
            assert spent[node] == pytest.approx(least)


def test_what_counting_leaves_open_is_closed() -> None:
    shape = {"nodes": 20, "key_groups": 20, "max_migrations": 16}
    problem = balance_problem(CLUSTER.make(0, shape))
    top = problem.levels(problem.home).distance
    counted = counting_bound(problem, 0.0, top)
    ((taken, budget),) = finite_budgets(problem)
    least = exchange_bound(problem, taken, budget, counted, top, Watch())
    assert least > 1.1 * counted
