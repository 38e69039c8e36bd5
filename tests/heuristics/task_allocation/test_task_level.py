"""``task-level`` and ``naive``: the paper's words taken literally, hand-made jobs, limits."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from heuristics.task_allocation import naive, task_level
from heuristics.task_allocation.groups import grouped_job
from optim.errors import InvalidInput
from optim.format.instance import Instance
from optim.methods.registry import Request
from optim.referee.evaluate import evaluate_indices
from tests.heuristics.task_allocation import literal
from tests.heuristics.task_allocation.test_top_down import figure_2, job, jobs
from tests.optim.moves.cases import problems


def placed(instance: Instance, *options: Any) -> np.ndarray[Any, Any]:
    return task_level.place_pairs(grouped_job(instance), *options)


@given(jobs())
@settings(max_examples=300)
def test_equals_the_paper_word_by_word(instance: Instance) -> None:
    expected = literal.task_level(instance, literal.operator_rates(instance))
    assert placed(instance).tolist() == expected


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


def test_shuffling_too_many_pairs_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    made = job([(5, 5), (5, 5)], [(1, 2, 1)], [99])
    monkeypatch.setattr(task_level, "MAX_PAIRS", 24)
    assert placed(made, "task_imc", "row").min() >= 0
    with pytest.raises(InvalidInput, match=r"pair_order.*25 task pairs.*more than 24.*diagonal"):
        placed(made, "task_imc", "shuffled")


def test_priorities() -> None:
    # one edge of 8 over 2 × 8 task pairs, one of 3 over 2 × 1
    made = job([(8, 8), (2, 2), (1, 1)], [(1, 2, 8), (2, 3, 3)], [3, 3, 3, 3])
    tables = {p: literal.counts(made, placed(made, p)) for p in ("task_imc", "group_imc")}
    together = {p: sum(b * c for b, c in zip(t[1], t[2], strict=True)) for p, t in tables.items()}
    assert together["task_imc"] == 2
    assert together["group_imc"] < 2


def test_naive_fills_node_after_node() -> None:
    made = job([(1, 1), (1, 1), (1, 1), (1, 1)], [(1, 2, 9), (3, 4, 5)], [2, 4])
    assert naive.place_pairs(grouped_job(made)).tolist() == [1, 1, 1, 1]
    # task-level starts the second group pair on the node with most room
    assert placed(made.replace(nodes=_nodes(3, 3))).tolist() == [0, 0, 1, 1]
    made = made.replace(nodes=_nodes(4, 4))
    assert naive.place_pairs(grouped_job(made)).tolist() == [0, 0, 0, 0]


def _nodes(*capacities: float) -> list[dict[str, Any]]:
    return [{"id": f"n{i}", "capacity": {"cpu": c}} for i, c in enumerate(capacities)]


def test_naive_breaks_pairs_that_fit_no_node() -> None:
    made = job([(1, 2), (1, 2)], [(1, 2, 9)], [3, 3])
    assert naive.place_pairs(grouped_job(made)).tolist() == [0, 1]


def test_methods_run() -> None:
    for method in (naive.METHOD, task_level.METHOD):
        outcome = method.run(figure_2(), Request(options=method.read_options({})))
        assert outcome.node is not None
        assert outcome.node.min() >= 0
