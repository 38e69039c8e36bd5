"""Sets over slots and nodes of a topology alone in conflicts: named and proven."""

from __future__ import annotations

import itertools
import random
from typing import Any

import numpy as np
import pytest

from formulations.conflicts.decide import Judge, conflicts
from formulations.conflicts.rule_instances import atoms_of
from optim.format.instance import Instance
from optim.rules import RULES, broken
from optim.rules.base import Rule
from optim.rules.placement import Placement
from streamplace.explain.explanation import why_infeasible
from tests.optim.make import instance
from tests.test_methods_by_rules import made

_OF_NO_PLACEMENT = {
    "max_utilisation", "max_load", "copies", "crossing_cost", "local_first", "local_first_links",
}  # fmt: skip


@pytest.mark.parametrize(
    "rule", [r for r in RULES if r.name not in _OF_NO_PLACEMENT], ids=lambda r: r.name
)
def test_each_rule_is_gone_without_its_rule_instances(rule: Rule) -> None:
    case = made(rule.name)
    atoms = atoms_of(case)
    own = [a for a in range(len(atoms)) if atoms.rule_of(a) in {rule.name, *rule.other_violations}]
    assert own
    assert rule.present(atoms.keep(range(len(atoms)))) is not None
    assert rule.present(atoms.keep(set(range(len(atoms))) - set(own))) is None


def named(case: Instance) -> list[list[str]]:
    atoms = atoms_of(case)
    verdict, found = conflicts(Judge(atoms, 120.0))
    assert verdict is False
    return [sorted({atoms.rule_of(a) for a in core.tolist()}) for core in found]


def test_too_few_nodes_of_its_own() -> None:
    case = instance(
        nodes=[{"id": f"n{i}", "capacity": {"cpu": 5}} for i in range(4)],
        topologies=[{"id": "t", "exclusive_nodes": 1}],
        operators=[{"id": "a", "topology": "t", "group": {"tasks": 2, "load": {"cpu": 6}}}],
        streams=[],
    )
    assert named(case) == [["capacity", "exclusive_nodes"]]
    found = why_infeasible(case, 120.0)
    assert found.feasible is False
    told = {clash.rule: clash for rules in found.conflicts for clash in rules}
    assert (told["exclusive_nodes"].where, told["exclusive_nodes"].available) == ("t", 1.0)
    assert told["exclusive_nodes"].needed == 2.0


def test_a_set_in_one_slot_that_fits_no_node() -> None:
    case = instance(
        nodes=[{"id": f"n{i}", "slots": 2, "capacity": {"cpu": 5}} for i in range(3)],
        operators=[{"id": "a", "group": {"tasks": 2, "load": {"cpu": 6}}}],
        sets=[{"id": "s", "operator": "a", "rule": "together", "over": "slot"}],
        streams=[],
    )
    assert named(case) == [["capacity", "slot_sets"]]
    found = why_infeasible(case, 120.0)
    assert found.feasible is False
    assert {clash.rule for rules in found.conflicts for clash in rules} == {"capacity", "slot_sets"}


def test_more_apart_than_the_slots_of_the_only_nodes_take() -> None:
    tasks: list[dict[str, Any]] = [{"id": f"t{i}", "allowed": ["n0"]} for i in range(3)]
    case = instance(
        nodes=[{"id": f"n{i}", "slots": 2} for i in range(2)],
        operators=[],
        streams=[],
        tasks=tasks,
        sets=[{"id": "s", "tasks": ["t0", "t1", "t2"], "rule": "apart", "over": "slot"}],
    )
    assert named(case) == [["allowed", "slot_sets", "slots"]]


@pytest.mark.parametrize("seed", range(60))
def test_a_conflict_is_one_and_no_plan_is_denied(seed: int) -> None:
    rng = random.Random(seed)
    names = [f"t{i}" for i in range(4)]
    sets = []
    for k in range(rng.randint(0, 2)):
        rule = rng.choice(["apart", "together", "spread"])
        more = {"spread": {"at_least": rng.randint(1, 3)}}.get(rule, {})
        members = sorted(rng.sample(names, rng.randint(2, 4)))
        sets.append({"id": f"s{k}", "tasks": members, "rule": rule, "over": "slot", **more})
    case = instance(
        nodes=[{"id": f"n{i}", "slots": rng.randint(0, 2), "capacity": {"cpu": rng.randint(2, 6)}}
               for i in range(3)],
        topologies=[{"id": "p", "exclusive_nodes": rng.randint(1, 2)}, {"id": "q"}],
        operators=[{"id": "a", "topology": "p"}, {"id": "b", "topology": "q"}],
        tasks=[{"id": t, "operator": rng.choice("ab"), "load": {"cpu": rng.randint(1, 3)}}
               for t in names],
        sets=sets,
        streams=[],
    )  # fmt: skip
    atoms = atoms_of(case)
    verdict, found = conflicts(Judge(atoms, 120.0))
    every = [np.array(node, dtype=np.int32) for node in itertools.product(range(3), repeat=4)]
    possible = any(not broken(Placement(case, node)) for node in every)
    assert verdict in (None, possible)
    for core in found:
        kept = atoms.keep(core.tolist())
        assert all(broken(Placement(kept, node)) for node in every)
