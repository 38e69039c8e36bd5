"""``top-down``: the paper's example, its words taken literally, and what holds for every plan."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from heuristics.task_allocation.groups import grouped_job, stable_descending
from heuristics.task_allocation.top_down import METHOD, place_groups
from optim.errors import InvalidInput
from optim.figures.measures import imc_gain_of
from optim.format.instance import Instance
from optim.methods.solve import solve
from optim.referee import evaluate_indices
from tests.heuristics.task_allocation import literal
from tests.optim.kernels.cases import problems
from tests.optim.make import nodes


def job(
    groups: list[tuple[int, float]],
    rates: list[tuple[int, int, float]],
    capacities: list[float],
    **parts: Any,
) -> Instance:
    """Groups as (tasks, cost of all), edges as (group, group, traffic), capacities of the nodes."""
    return Instance.from_dict(
        {
            "format": "streamplace.instance/1",
            "name": "job",
            "nodes": [{"id": f"n{i}", "capacity": {"cpu": c}} for i, c in enumerate(capacities)],
            "operators": [
                {"id": f"v{i + 1}", "group": {"tasks": k, "load": {"cpu": c}}}
                for i, (k, c) in enumerate(groups)
            ],
            "streams": [{"from": f"v{a}", "to": f"v{b}", "rate": c} for a, b, c in rates],
            **parts,
        }
    )


def figure_2() -> Instance:
    """Groups of 10, 20, 10, 10 tasks, each group 40 % of a node, nodes with 40 % to spare."""
    return job(
        [(10, 40), (20, 40), (10, 40), (10, 40)],
        [(1, 2, 20), (2, 3, 20), (3, 4, 2)],
        [40] * 4,
    )


def placed(instance: Instance, **options: str) -> np.ndarray[Any, Any]:
    return place_groups(grouped_job(instance), **options)


@st.composite
def jobs(draw: st.DrawFn) -> Instance:
    """Draw a job as in the paper: one resource, groups of equal tasks, acyclic edges."""
    groups = draw(
        st.lists(st.tuples(st.integers(1, 9), st.integers(1, 40)), min_size=2, max_size=5)
    )
    pairs = [(a, b) for a in range(1, len(groups)) for b in range(a + 1, len(groups) + 1)]
    chosen = draw(st.lists(st.sampled_from(pairs), unique=True, min_size=1))
    rates = [(a, b, draw(st.integers(1, 20))) for a, b in chosen]
    capacities = draw(st.lists(st.sampled_from([5, 10, 20, 40]), min_size=1, max_size=5))
    return job([(k, k * c / 8) for k, c in groups], rates, capacities)


def test_figure_2_collocates_a_hundred_links() -> None:
    made = figure_2()
    table = literal.counts(made, placed(made))
    assert table[0] == [5, 5, 0, 0]
    assert table[1] == [10, 10, 0, 0]
    assert sum(a * b for a, b in zip(table[0], table[1], strict=True)) == 100
    assert solve(made, "top-down").objective.value == pytest.approx(20 / 2 + 2 / 2)  # type: ignore[union-attr]


@given(jobs())
@settings(max_examples=300)
def test_equals_the_paper_word_by_word(instance: Instance) -> None:
    expected = literal.top_down(instance, literal.operator_rates(instance))
    assert literal.counts(instance, placed(instance)) == literal.counts(instance, expected)


@given(
    problems(groups=True),
    st.sampled_from(["significance", "imc"]),
    st.sampled_from(["shrink", "give_up"]),
)
def test_plans_keep_what_the_method_honours(instance: Instance, priority: str, k_rule: str) -> None:
    node = placed(instance, priority=priority, k_rule=k_rule)
    rules = {v.rule for v in evaluate_indices(instance, node).violations}
    ours = {"placed", "min_load", "max_migrations"} | (
        {"capacity"} if (instance.headroom < 0).any() else set()
    )
    assert rules <= ours
    assert not instance.nodes.leaving[node[node >= 0]].any()


def test_priority_imc_takes_the_heavier_pair_first() -> None:
    # v2 is costly: by traffic per cost the pair with v1 wins, by traffic the pair with v2
    made = job([(2, 2), (2, 2), (2, 20)], [(1, 2, 5), (2, 3, 8)], [12, 12])
    by_significance, by_traffic = placed(made), placed(made, priority="imc")
    assert literal.counts(made, by_significance)[0] == literal.counts(made, by_significance)[1]
    assert imc_gain_of(made, by_traffic) != imc_gain_of(made, by_significance)


def test_k_rule_shrinks_or_gives_up() -> None:
    # ratio 4: a split costs 1 + 4·2 = 9 and fits no node of 6; 1 + 2·2 does
    made = job([(1, 1), (4, 8)], [(1, 2, 4)], [6, 4])
    assert literal.counts(made, placed(made)) == [[1, 0], [2, 2]]
    # single tasks: the costlier first, each to the emptiest node
    assert literal.counts(made, placed(made, k_rule="give_up")) == [[0, 1], [3, 1]]


def test_the_partner_is_laid_beside_every_host() -> None:
    # v1 and v2 fill two nodes in part; v3 (cost 2) finds room for one task beside each half
    made = job([(2, 4), (2, 4), (2, 4)], [(1, 2, 9), (2, 3, 1)], [6, 6, 6])
    assert literal.counts(made, placed(made))[2] == [1, 1, 0]


def test_hosts_with_more_of_the_partner_come_first() -> None:
    # v1 and v2: two of each on n0, one of each on n1, which has more room
    made = job([(3, 3), (3, 3), (1, 1)], [(1, 2, 9), (2, 3, 1)], [5, 5])
    assert literal.counts(made, placed(made)) == [[2, 1], [2, 1], [1, 0]]


def test_fusion_empties_the_smaller_node() -> None:
    # ⟨v1,v2⟩ stands on n0, ⟨v3,v4⟩ on n1; ⟨v2,v3⟩ comes last and everything fits on n0
    made = job([(1, 2), (1, 2), (1, 2), (1, 2)], [(1, 2, 9), (3, 4, 8), (2, 3, 1)], [10, 9])
    assert set(placed(made).tolist()) == {0}


def test_fusion_leaves_two_full_nodes_alone() -> None:
    made = job([(1, 2), (1, 2), (1, 2), (1, 2)], [(1, 2, 9), (3, 4, 8), (2, 3, 1)], [5, 5])
    assert placed(made).tolist() == [0, 0, 1, 1]


def test_failure_is_told_and_repair_finishes() -> None:
    # 5+4+3 and 4+4+4 of 12 each; single tasks go to the emptiest node and the last 4 fits nowhere
    made = job([(1, 5), (4, 16), (1, 3)], [(1, 2, 1), (2, 3, 1)], [12, 12])
    node = placed(made)
    assert (node < 0).any()
    failed = solve(made, "top-down")
    assert failed.plan is None
    assert failed.exit_code == 4
    assert failed.unplaced
    mended = solve(made, "top-down", repair=True)
    assert mended.repaired
    assert mended.feasible


def test_several_resources_all_fit_the_first_orders() -> None:
    made = Instance.from_dict(
        {
            "format": "streamplace.instance/1",
            "name": "slots",
            "resources": ["cpu", "slot"],
            "nodes": [
                {"id": "n0", "capacity": {"cpu": 100, "slot": 2}},
                {"id": "n1", "capacity": {"cpu": 50, "slot": 6}},
            ],
            "operators": [
                {"id": "a", "group": {"tasks": 2, "load": {"cpu": 4, "slot": 2}}},
                {"id": "b", "group": {"tasks": 4, "load": {"cpu": 4, "slot": 4}}},
            ],
            "streams": [{"from": "a", "to": "b", "rate": 8}],
        }
    )
    assert literal.counts(made, placed(made)) == [[0, 2], [0, 4]]


def test_groups_of_unlike_tasks_are_cut() -> None:
    made = job([(3, 3), (2, 2)], [(1, 2, 6)], [9], tasks=[{"id": "v1/1", "load": {"cpu": 5}}])
    grouped = grouped_job(made)
    assert grouped.size.tolist() == [2, 1, 2]
    assert grouped.load[:, 0].tolist() == [1, 5, 1]
    assert grouped.members[grouped.member_indptr[0] : grouped.member_indptr[1]].tolist() == [0, 2]
    assert dict(
        zip(
            zip(grouped.edge_u.tolist(), grouped.edge_v.tolist(), strict=True),
            grouped.edge_rate,
            strict=True,
        )
    ) == {(0, 2): 4.0, (1, 2): 2.0}


@given(problems(groups=True))
def test_group_traffic_adds_up(instance: Instance) -> None:
    grouped = grouped_job(instance)
    assert grouped.edge_rate.sum() == pytest.approx(instance.total_traffic)
    assert (grouped.edge_u < grouped.edge_v).all()
    assert np.sort(grouped.members).tolist() == list(range(instance.num_tasks))


def test_large_full_streams_are_never_spread_out() -> None:
    made = job([(20_000, 20_000), (20_000, 20_000)], [(1, 2, 1)], [21_000] * 2)
    assert literal.counts(made, placed(made)) == [[10_500, 9_500], [10_500, 9_500]]


def test_too_many_pairs_of_unlike_tasks_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    loads = [{"id": f"v{g}/{i}", "load": {"cpu": 1 + i / 100}} for g in (1, 2) for i in range(9)]
    made = job([(9, 9), (9, 9)], [(1, 2, 1)], [99], tasks=loads)
    monkeypatch.setattr("heuristics.task_allocation.groups.MAX_PAIRS", 81)
    assert grouped_job(made).num_groups == 18
    monkeypatch.setattr("heuristics.task_allocation.groups.MAX_PAIRS", 80)
    with pytest.raises(InvalidInput, match=r"81.*more than 80 pairs.*margin"):
        grouped_job(made)
    assert grouped_job(made, margin=0.1).num_groups == 2


def test_tasks_without_operators_are_groups_of_one() -> None:
    made = Instance.from_dict(
        {
            "format": "streamplace.instance/1",
            "name": "listed",
            "nodes": nodes(2, capacity={"cpu": 2}),
            "tasks": [{"id": t, "load": {"cpu": 1}} for t in "abcd"],
            "traffic": [["a", "c", 5], ["b", "d", 4]],
        }
    )
    assert placed(made).tolist() == [0, 1, 0, 1]


def test_ties_do_not_depend_on_rounding() -> None:
    assert stable_descending(np.array([0.1 + 0.2, 0.3, 0.5, np.inf])).tolist() == [3, 2, 0, 1]


def test_declares_itself() -> None:
    assert METHOD.read_options({}) == {
        "priority": "significance",
        "k_rule": "shrink",
        "margin": 0.0,
        "normalise": False,
        "alpha": None,
    }
