"""What `conflicts` claims of random small instances, held against all placements."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from formulations.conflicts.decide import Judge, conflicts
from formulations.conflicts.rule_instances import Atoms, atoms_of
from optim import Instance
from optim.rules import broken
from optim.rules.placement import Placement
from tests.fuzz.generate import generate
from tests.fuzz.product import known_fields

_MOST = 700


def exists(atoms: Atoms, kept: list[int]) -> bool:
    """Whether any placement keeps rule instances, by the referee on all of them."""
    instance = atoms.keep(kept)
    every = itertools.product(range(instance.num_nodes), repeat=instance.num_tasks)
    return any(not broken(Placement(instance, np.array(p, np.int32))) for p in every)


def small(seed: int) -> Instance | None:
    """Return a random instance that is small enough, tightened so that many have no plan."""
    document = generate(seed, known_fields(), modelled=0.0)
    for node in document["nodes"] if seed % 2 else []:
        for name, value in node.get("capacity", {}).items():
            node["capacity"][name] = value * (0.4 + 0.1 * (seed % 5))
    instance = Instance.from_dict(document)
    few = instance.num_nodes**instance.num_tasks <= _MOST
    return instance if few and instance.num_tasks and instance.num_nodes else None


def check(seed: int) -> str | None:
    """Hold one instance against brute force; return what was claimed."""
    instance = small(seed)
    if instance is None:
        return None
    atoms = atoms_of(instance)
    verdict, found = conflicts(Judge(atoms, 20.0))
    truth = exists(atoms, list(range(len(atoms))))
    assert verdict is None or verdict == truth, seed
    for core in found:
        assert not exists(atoms, core.tolist()), seed
        for atom in core.tolist():
            assert exists(atoms, [a for a in core.tolist() if a != atom]), seed
    return f"{verdict} {bool(found)}"


def test_conflicts_agree_with_brute_force() -> None:
    claims = [claim for seed in (*range(16), 1234) if (claim := check(seed))]
    assert "False True" in claims
    assert "True False" in claims


@pytest.mark.slow
def test_conflicts_agree_with_brute_force_on_many() -> None:
    claims = [claim for seed in range(1000, 4000) if (claim := check(seed))]
    assert claims.count("False True") >= 500


def test_what_may_only_be_on_leaving_nodes_is_in_no_conflict_with_leaving() -> None:
    """Without its list of nodes it was barred from where the whole instance lets it be."""
    document = {
        "format": "streamplace.instance/1",
        "name": "bound",
        "resources": ["cpu"],
        "nodes": [
            {"id": "n0", "capacity": {"cpu": 3}, "leaving": True},
            {"id": "n1", "capacity": {"cpu": 5}},
        ],
        "tasks": [
            {"id": "a", "load": {"cpu": 4}, "node": "n1", "allowed": ["n0"]},
            {"id": "b", "load": {"cpu": 4}, "node": "n1"},
        ],
    }
    atoms = atoms_of(Instance.from_dict(document))
    verdict, found = conflicts(Judge(atoms, 20.0))
    told = [{atoms.rule_of(atom) for atom in core.tolist()} for core in found]
    assert (verdict, told) == (False, [{"capacity", "allowed"}])
    # fewer rules forbid nothing more: a on n0 breaks its capacity alone
    without = [atom for atom in range(len(atoms)) if atoms.rule_of(atom) != "allowed"]
    rules = {v.rule for v in broken(Placement(atoms.keep(without), np.array([0, 1], np.int32)))}
    assert rules == {"capacity"}
