"""The CAPSys instances: what the script writes, what the repository tells, what a file holds."""

from __future__ import annotations

import importlib.util
import json
from typing import TYPE_CHECKING

import numpy as np
import pytest

from optim import Instance
from optim.referee import evaluate_indices

if TYPE_CHECKING:
    from pathlib import Path
    from types import ModuleType

QUERIES = ["q1", "q2", "q3", "q4", "q5", "q6"]


@pytest.fixture(scope="module")
def make_capsys(examples: Path) -> ModuleType:
    specification = importlib.util.spec_from_file_location(
        "make_capsys", examples / "make_capsys.py"
    )
    assert specification is not None
    assert specification.loader is not None
    module = importlib.util.module_from_spec(specification)
    specification.loader.exec_module(module)
    return module


def test_the_committed_files_are_what_the_script_writes(
    make_capsys: ModuleType, examples: Path, tmp_path: Path
) -> None:
    make_capsys.main(tmp_path)
    written = {path.name: path.read_bytes() for path in tmp_path.iterdir()}
    committed = {path.name: path.read_bytes() for path in examples.glob("capsys-*q*.json")}
    assert written == committed
    assert len(committed) == 12


def test_the_facts_are_those_of_the_repository(make_capsys: ModuleType, shared_data: Path) -> None:
    facts = json.loads((shared_data / "capsys_queries.json").read_text())["queries"]
    ours = {
        query.upper(): [[*op[:6], [op.target] if op.target else []] for op in operators]
        for query, operators in make_capsys.QUERIES.items()
    }
    assert ours == facts


@pytest.mark.parametrize("query", QUERIES)
def test_load_is_three_quarters_of_the_capacity_and_slots_bind(query: str, examples: Path) -> None:
    instance = Instance.load(examples / f"capsys-{query}.json")
    assert instance.resources == ("cpu", "slot")
    share = instance.total_load / instance.nodes.capacity.sum(axis=0)
    assert share[0] == pytest.approx(0.75, abs=1e-6)
    assert instance.total_load[1] == pytest.approx(instance.num_tasks)
    assert instance.nodes.capacity[:, 1].tolist() == [8.0] * 4
    assert "CASP-Systems-BU/CAPSys" in instance.origin
    assert "Apache-2.0" in instance.origin


@pytest.mark.parametrize("query", QUERIES)
def test_the_current_placement_is_dealt_round_robin_and_feasible(
    query: str, examples: Path
) -> None:
    instance = Instance.load(examples / f"capsys-{query}.json")
    assert instance.has_current
    assert instance.tasks.node.tolist() == [t % 4 for t in range(instance.num_tasks)]
    assert evaluate_indices(instance, np.asarray(instance.tasks.node)).feasible


def test_forward_between_unequal_sizes_is_rescale(examples: Path) -> None:
    patterns = {
        query: [
            stream.pattern for stream in Instance.load(examples / f"capsys-{query}.json").streams
        ]
        for query in QUERIES
    }
    assert patterns == {
        "q1": ["full"] * 3,
        "q2": ["full"] * 4 + ["rescale"],
        "q3": ["full", "rescale", "rescale", "full"],
        "q4": ["full"] * 4,
        "q5": ["full"] * 4,
        "q6": ["full"] * 2,
    }


def test_the_load_share_can_be_chosen(make_capsys: ModuleType) -> None:
    half = Instance.from_dict(make_capsys.instance("q3", load_share=0.5))
    assert half.total_load[0] / half.nodes.capacity[:, 0].sum() == pytest.approx(0.5, abs=1e-6)
