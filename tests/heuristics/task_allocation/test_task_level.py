"""``task-level`` and ``naive``: the paper's words taken literally, hand-made jobs, limits."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from heuristics.task_allocation import naive, task_level
from heuristics.task_allocation.groups import grouped_job
from heuristics.task_allocation.task_pairs import uneven_pairs
from optim import solve
from optim.format.instance import Instance
from optim.methods.registry import Request
from optim.referee import evaluate_indices
from tests.heuristics.task_allocation import literal
from tests.heuristics.task_allocation.test_top_down import figure_2, job, jobs
from tests.optim.kernels.cases import problems


def placed(instance: Instance, *options: Any) -> np.ndarray[Any, Any]:
    return task_level.place_pairs(grouped_job(instance), *options)


@given(jobs())
@settings(max_examples=300)
def test_equals_the_paper_word_by_word(instance: Instance) -> None:
    expected = literal.task_level(instance, literal.task_rates(instance))
    assert placed(instance, "task_imc", "row").tolist() == expected


@given(jobs(), st.data())
@settings(max_examples=200, deadline=None)
def test_task_pairs_go_by_their_own_traffic(instance: Instance, data: st.DataObject) -> None:
    value = instance.to_dict()
    number = st.integers(0, instance.num_tasks - 1)
    ids = list(instance.tasks.ids)
    pairs = st.tuples(number, number).filter(lambda ends: ends[0] != ends[1])
    drawn = data.draw(st.dictionaries(pairs, st.sampled_from([1, 2, 5]), max_size=8))
    value["traffic"] = [[ids[a], ids[b], rate] for (a, b), rate in drawn.items()]
    made = Instance.from_dict(value)
    expected = literal.task_level(made, literal.task_rates(made))
    assert placed_by_own_rates(made, "task_imc", "row").tolist() == expected


def placed_by_own_rates(instance: Instance, *options: Any) -> np.ndarray[Any, Any]:
    made = grouped_job(instance)
    options = (*options, *("task_imc", "row", 0)[len(options) :])
    return task_level.place_pairs(made, *options, uneven_pairs(instance, made))


@pytest.mark.parametrize("method", ["naive", "task-level"])
def test_one_to_one_streams_keep_every_link_that_fits(method: str) -> None:
    value = job([(100, 100), (100, 100)], [], [20] * 10).to_dict()
    ids = [operator["id"] for operator in value["operators"]]
    value["streams"] = [{"from": ids[0], "to": ids[1], "rate": 100, "pattern": "one_to_one"}]
    made = Instance.from_dict(value)
    result = solve(made, method)
    assert result.evaluation is not None
    assert result.evaluation.imc_gain == pytest.approx(100)


@given(
    problems(groups=True),
    st.sampled_from(["task_imc", "group_imc", "significance"]),
    st.sampled_from(task_level.PAIR_ORDERS),
)
def test_plans_keep_what_the_methods_honour(
    instance: Instance, priority: str, pair_order: str
) -> None:
    for node in (
        placed(instance, priority, pair_order, 3),
        naive.place_pairs(grouped_job(instance)),
    ):
        rules = {v.rule for v in evaluate_indices(instance, node).violations}
        overfull = {"capacity"} if (instance.headroom < 0).any() else set()
        assert rules <= {"placed", "min_load", "max_migrations"} | overfull
        assert not instance.nodes.leaving[node[node >= 0]].any()


def test_figure_2_collocates_less_than_top_down() -> None:
    links = {}
    for order in task_level.PAIR_ORDERS:
        table = literal.counts(figure_2(), placed(figure_2(), "significance", order))
        links[order] = sum(a * b for a, b in zip(table[0], table[1], strict=True))
    assert max(links.values()) <= 100
    assert links["row"] < 100


def test_pair_orders() -> None:
    made = job([(2, 2), (2, 2)], [(1, 2, 4)], [2, 2])
    by_order = {o: placed(made, "task_imc", o).tolist() for o in task_level.PAIR_ORDERS}
    assert by_order["row"] == [0, 1, 0, 1]
    assert by_order["diagonal"] == [0, 1, 0, 1]
    wide = job([(1, 1), (4, 4)], [(1, 2, 4)], [3, 3])
    assert placed(wide, "task_imc", "column").tolist() == [0, 0, 0, 1, 1]
    first, second = (placed(figure_2(), "task_imc", "shuffled", 5).tolist() for _ in range(2))
    assert first == second


def test_pairs_too_many_to_be_listed_are_walked_in_strides() -> None:
    count = task_level.STRIDE * 8  # of which the first stride is a divisor
    for rows, columns in ((2_500, 2_600), (count // 8, 8)):
        turn = np.empty(0, np.int64)
        walked = [
            task_level._pair(k, rows, columns, task_level.SHUFFLED, turn) for k in range(1000)
        ]
        assert len(set(walked)) == 1000
        assert all(0 <= i < rows and 0 <= j < columns for i, j in walked)


def test_priorities() -> None:
    # one edge of 8 over 2 × 8 task pairs, one of 3 over 2 × 1
    made = job([(8, 8), (2, 2), (1, 1)], [(1, 2, 8), (2, 3, 3)], [3, 3, 3, 3])
    tables = {p: literal.counts(made, placed(made, p, "row")) for p in ("task_imc", "group_imc")}
    together = {p: sum(b * c for b, c in zip(t[1], t[2], strict=True)) for p, t in tables.items()}
    assert together["task_imc"] == 2
    assert together["group_imc"] < 2


def test_naive_fills_node_after_node() -> None:
    made = job([(1, 1), (1, 1), (1, 1), (1, 1)], [(1, 2, 9), (3, 4, 5)], [2, 4])
    assert naive.place_pairs(grouped_job(made)).tolist() == [1, 1, 1, 1]
    # task-level starts the second group pair on the node with most room
    assert placed(made.replace(nodes=_nodes(3, 3)), "task_imc", "row").tolist() == [0, 0, 1, 1]
    made = made.replace(nodes=_nodes(4, 4))
    assert naive.place_pairs(grouped_job(made)).tolist() == [0, 0, 0, 0]


def _nodes(*capacities: float) -> list[dict[str, Any]]:
    return [{"id": f"n{i}", "capacity": {"cpu": c}} for i, c in enumerate(capacities)]


def test_naive_breaks_pairs_that_fit_no_node() -> None:
    made = job([(1, 2), (1, 2)], [(1, 2, 9)], [3, 3])
    assert naive.place_pairs(grouped_job(made)).tolist() == [0, 1]


@pytest.mark.parametrize("method", ["naive", "task-level", "top-down"])
@pytest.mark.parametrize("alpha", [1.25, 2.0])
def test_balance_mode_bounds_every_node_by_the_mean(method: str, alpha: float) -> None:
    made = job([(16, 16), (16, 16), (8, 8)], [(1, 2, 9), (2, 3, 5)], [40] * 5)
    free, bounded = solve(made, method), solve(made, method, alpha=alpha)
    assert free.evaluation is not None
    assert bounded.evaluation is not None
    assert bounded.feasible
    assert bounded.evaluation.max_utilisation <= alpha * (40 / 5) / 40 + 1e-9  # type: ignore[operator]
    assert free.evaluation.max_utilisation > alpha * (40 / 5) / 40  # type: ignore[operator]


def test_methods_run() -> None:
    for method in (naive.METHOD, task_level.METHOD):
        outcome = method.run(figure_2(), Request(options=method.read_options({})))
        assert outcome.node is not None
        assert outcome.node.min() >= 0
