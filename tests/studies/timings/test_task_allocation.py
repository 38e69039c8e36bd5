"""The benchmarks of task allocation measure what they say, on small work."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from experiments.generators import generate
from experiments.studies.timings import methods
from experiments.studies.timings.registry import collocated
from optim import solve

CTAP = """3 2
0 0 0
0 0 0
5 1
4
1 1 1
2 1
"""


@pytest.mark.slow
def test_the_search_that_is_timed_is_the_search() -> None:
    instance = generate("random_graphs", seed=3)
    optimum = solve(instance, "imc-exact").objective
    assert optimum is not None and optimum.value is not None
    gain = methods.searcher(instance, 20)()
    assert gain == pytest.approx(optimum.value, rel=0.05)
    assert gain <= optimum.value * (1 + 1e-9)


def test_random_jobs_are_of_the_stated_size_and_repeat() -> None:
    for number in range(20):
        job = methods.random_job(number)
        load = job.tasks.load.sum() / job.nodes.capacity.sum()
        assert 65 <= job.num_tasks <= 150
        assert 5 <= job.num_operators <= 6
        assert 0.649 <= load <= 0.951
        assert methods.random_job(number).sha256 == job.sha256


def test_a_ctap_file_and_its_published_cut(tmp_path: Path) -> None:
    (tmp_path / "tassDa.dat").write_text(CTAP)
    (tmp_path / "tassDa.sol").write_text("1 1\n2 1\n3 2\n\n5\n")
    # tasks 1 and 2 on the larger processor cut 1 + 4
    line = methods.ctap_row(tmp_path / "tassDa.dat", 10)
    assert line[:7] == ["tassDa", "3 on 2", "5", "5", "5", "yes", "optimal"]
    (tmp_path / "tassDa.sol").write_text("4\n")
    assert methods.ctap_row(tmp_path / "tassDa.dat", 10)[5] == "NO"


@pytest.mark.slow
def test_the_reference_partition_is_judged_by_the_referee() -> None:
    pytest.importorskip("mtkahypar")
    instance = generate("community", seed=1, tasks=200, nodes=4)
    found = methods.highest(instance)
    assert found is not None and found[1] > 0
    assert set(np.unique(found[0])) <= set(range(4))
    assert 0 < collocated(solve(instance, "imc-search", seed=1)) <= 100
