"""Published optima of the constrained task assignment problem, class D: no assignment cost.

There a least cut is sought; what is not cut is collocated. Source: the CTAP library; the files hold
tasks, processors, assignment costs, the upper triangle of communication costs, sizes, capacities.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from optim import Instance, solve


def read(path: Path) -> Instance:
    numbers = iter(path.read_text().split())
    num_tasks, num_nodes = int(next(numbers)), int(next(numbers))
    costs = [float(next(numbers)) for _ in range(num_tasks * num_nodes)]
    assert not any(costs)
    pairs = [
        [f"t{i}", f"t{j}", float(next(numbers))]
        for i in range(num_tasks)
        for j in range(i + 1, num_tasks)
    ]
    sizes = [float(next(numbers)) for _ in range(num_tasks)]
    rooms = [float(next(numbers)) for _ in range(num_nodes)]
    return Instance.from_dict(
        {
            "format": "streamplace.instance/1",
            "name": path.stem,
            "resources": ["size"],
            "nodes": [{"id": f"n{k}", "capacity": {"size": c}} for k, c in enumerate(rooms)],
            "tasks": [{"id": f"t{i}", "load": {"size": s}} for i, s in enumerate(sizes)],
            "traffic": [pair for pair in pairs if pair[2] > 0],
        }
    )


@pytest.mark.parametrize("letter", "abcde")
def test_published_optimum(letter: str, shared_data: Path) -> None:
    folder = shared_data / "ctap"
    if not folder.is_dir():
        pytest.skip("the CTAP files are not here")
    made = read(folder / f"tassc1003D{letter}.dat")
    published = float((folder / f"tassc1003D{letter}.sol").read_text().split()[-1])
    result = solve(made, "imc-exact")
    assert result.termination == "optimal"
    assert result.evaluation is not None
    assert result.evaluation.internode_traffic == pytest.approx(published)
    assert np.isclose(made.total_traffic - (result.bound or 0.0), published)
