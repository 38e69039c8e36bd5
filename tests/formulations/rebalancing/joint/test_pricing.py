"""What is said of places that a model leaves out, against models of all places and brute force."""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Iterator
from dataclasses import replace

import numpy as np
import pytest

from experiments.generators import generate
from formulations.rebalancing.joint import search as joint_search
from formulations.rebalancing.joint.pricing import complete_tasks, price_places
from formulations.rebalancing.joint.problem import (
    JointAim,
    JointModel,
    JointProblem,
    all_places,
    backbone_of,
    columns_of,
    joint_problem,
)
from formulations.rebalancing.joint.search import Effort, find, relax
from optim.rules.budget import NodeCount
from optim.solvers.inprocess import dual_bound
from optim.solvers.linear_model import LinearModel
from tests.formulations.rebalancing.joint.cases import local_joint, placements, varied_joint
from tests.formulations.rebalancing.joint.test_backbone import uneven
from tests.formulations.rebalancing.ruled_cases import ruled_case
from tests.slowly import slowly


def cases(seed: int) -> Iterator[tuple[JointProblem, bool]]:
    """Yield problems with every kind of traffic and rule, and whether emptying is the goal."""
    drawn = [varied_joint(seed), local_joint(seed), uneven(seed), joint_problem(ruled_case(seed))]
    balance = drawn[0].balance
    some = np.arange(balance.num_tasks) % 2 == seed % 2
    count = NodeCount("max_nodes_used", 0, "nodes", (some,), 2)
    counted = replace(balance, counted=replace(balance.rules, counts=(count,)))
    for problem in (*drawn, replace(drawn[0], balance=counted)):
        yield problem, False
        home = problem.balance.home
        yield problem.with_cap(0.6 * problem.balance.levels(home).distance), False
        if problem.balance.has_leaving:
            yield problem, True
            yield problem.with_left(0.7 * problem.left(home)), False


@pytest.mark.seeds(10)
@pytest.mark.parametrize("seed", [*range(10), *slowly(*range(10, 300))])
def test_places_left_out_win_what_the_model_of_all_says_by_any_duals(seed: int) -> None:
    rng = np.random.default_rng([seed, 31])
    for problem, left in cases(seed):
        backbone = backbone_of(problem)
        core, allowed = backbone.problem, all_places(problem.balance)
        best = max((problem.value(p, left) for p in placements(problem)), default=None)
        aim = JointAim("left" if left else "traffic")
        whole = backbone.build(columns_of(core, allowed), aim)
        for share in (0.0, 0.5):
            places = allowed & (rng.random(allowed.shape) < share)
            every, home = np.arange(len(places)), problem.balance.home
            places[every, home] = allowed[every, home]
            complete = complete_tasks(core)
            places[complete] = allowed[complete]
            built = backbone.build(columns_of(core, places), aim)
            arrays = built.model.freeze()
            drawn = rng.choice([0.3, 3.0]) * rng.standard_normal(len(arrays.row_lower))
            drawn *= rng.random(len(drawn)) < 0.5
            side = np.where(drawn > 0, arrays.row_lower, arrays.row_upper)
            duals = np.where(np.isfinite(side), drawn, 0.0)
            priced = price_places(backbone, built, duals, places, allowed, 10_000, left=left)
            assert priced is not None
            gains, more = plain_prices(whole, built, duals, allowed & ~places)
            found = zip(priced.task.tolist(), priced.node.tolist(), strict=True)
            assert dict(zip(found, priced.gain, strict=True)) == pytest.approx(gains, abs=1e-9)
            assert priced.more == pytest.approx(more, abs=1e-9)
            assert (np.diff(priced.gain) <= 0.0).all()
            proven = arrays.offset + priced.more - dual_bound(
                -arrays.cost, arrays.matrix, arrays.row_lower, arrays.row_upper,
                arrays.lower, arrays.upper, duals,
            )  # fmt: skip
            assert best is None or proven >= best - 1e-9


def plain_prices(
    whole: JointModel,
    part: JointModel,
    duals: np.ndarray,
    out: np.ndarray,
) -> tuple[dict[tuple[int, int], float], float]:
    """Return what places that are out win, and all of them together, from the columns of all."""
    problem, columns, arrays = whole.problem, whole.columns, whole.model.freeze()
    dual = {key: duals[row] for key, row in rows(part.model)}
    gain = arrays.cost + arrays.matrix.T @ [dual.get(key, 0.0) for key, _ in rows(whole.model)]
    moves = zip(columns.task.tolist(), columns.node.tolist(), gain, strict=False)
    gains = {(k, n): g for k, n, g in moves if out[k, n]}
    free = []
    pairs = zip(columns.pair.tolist(), columns.pair_node.tolist(), gain[len(columns.task) :],
                strict=False)  # fmt: skip
    for p, n, g in pairs:
        ends = [int(problem.source[p]), int(problem.target[p])]
        single = [e for e in ends if problem.degree[e] <= 1]
        if payers := [e for e in ends if e not in single and out[e, n]]:
            for e in payers:
                gains[e, n] += max(0.0, g) / len(payers)
        elif out[ends, n].any():
            free.append((p, n, g, single))
    most = [max([0.0, *(gains[k, n] for n in np.flatnonzero(row))]) for k, row in enumerate(out)]
    pair = {p: max(0.0, *(g for q, _, g, _ in free if q == p), 0.0) for p, *_ in free}
    paid = {p: sum(most[e] for e in single) for p, _, _, single in free}
    for _, n, g, single in free:
        gains.update({(e, n): max(g, gains[e, n]) for e in single if out[e, n]})
    return gains, sum(most) + sum(max(0.0, pair[p] - paid[p]) for p in pair)


def rows(model: LinearModel) -> Iterator[tuple[tuple[object, ...], int]]:
    """Yield what each row is of, alike ones by number, and its number in the model."""
    alike: Counter[tuple[object, ...]] = Counter()
    for block in model.row_blocks:
        of = [np.broadcast_to(np.asarray(of), block.size) for of in block.of.values()]
        for at in range(block.size):
            key = block.name, *(one[at].item() for one in of)
            alike[key] += 1
            yield (*key, alike[key]), block.start + at


@pytest.mark.seeds(4)
@pytest.mark.parametrize("seed", [*range(10), *slowly(*range(10, 300))])
@pytest.mark.parametrize("none", [1e-7, 1e9])
def test_a_relaxation_that_begins_with_some_places_bounds_as_that_of_all(
    seed: int, none: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    for problem, left in cases(seed):
        backbone, every = backbone_of(problem), list(placements(problem))
        if backbone.problem.is_dense or not every:
            continue
        aim = JointAim("left" if left else "traffic")
        best = relax(backbone.build(columns_of(backbone.problem, all_places(problem.balance)), aim))
        assert best is not None
        monkeypatch.setattr(joint_search, "AT_ONCE", 0)
        monkeypatch.setattr(joint_search, "NONE", none)
        monkeypatch.setattr(joint_search, "pruned_places", only_starts)
        monkeypatch.setattr(joint_search, "collocation_bound", lambda _: np.inf)
        found = find(problem, [every[0]], Effort(first=1, kernels=()), for_left=left)
        monkeypatch.undo()
        most = max(problem.value(p, left) for p in every)
        assert found.bound >= most - 1e-9
        if none < 1.0:
            expected = max(found.value, min(best.bound, 0.0) if left else best.bound)
            assert found.bound == pytest.approx(expected, rel=1e-6, abs=1e-6)


def only_starts(problem: JointProblem, _: int, starts: tuple[np.ndarray, ...]) -> np.ndarray:
    """Stand for `pruned_places`: nothing but the starts is promising."""
    places = np.zeros((problem.balance.num_tasks, problem.balance.num_nodes), dtype=np.bool_)
    for placement in (problem.balance.home, *starts):
        places[np.arange(len(places)), placement] = True
    return places & all_places(problem.balance)


def test_rows_without_a_price_are_refused() -> None:
    problem = next(p for p in map(varied_joint, itertools.count()) if p.num_pairs > 1)
    backbone, allowed = backbone_of(problem), all_places(problem.balance)
    built = backbone.build(columns_of(backbone.problem, allowed), JointAim(min_traffic=1.0))
    with pytest.raises(AssertionError, match="traffic: rows without a price"):
        price_places(backbone, built, np.zeros(built.model.num_rows), allowed, allowed, 1)


def test_a_problem_of_millions_of_places_is_bounded_without_a_model_of_them() -> None:
    # 200 nodes, 10,000 tasks: of 2,490,000 columns the LP has 30,512; it was not solved before
    instance = generate(
        "cluster", seed=1, nodes=200, key_groups=50, varies=40, one_to_one=50,
        max_migrations=200, max_load_distance=1.0,
    )  # fmt: skip
    problem = joint_problem(instance)
    found = find(problem, [problem.balance.home], Effort(first=1, kernels=()))
    assert found.built is not None
    assert found.built.model.num_variables < 40_000
    assert found.bound == pytest.approx(3.79548, abs=1e-4)
