"""The kinds of generated instances that are the paper's jobs."""

from __future__ import annotations

import pytest

from experiments.generators import generate
from optim.kernels.first_fit import packings


def test_figure_2() -> None:
    made = generate("figure2")
    assert made.operators.num_tasks.tolist() == [10, 20, 10, 10]
    assert made.headroom[:, 0].tolist() == [40] * 4


@pytest.mark.parametrize(("kind", "total"), [("twitter", 143), ("bargain", 790)])
def test_jobs_sum_to_the_papers_totals(kind: str, total: float) -> None:
    assert generate(kind).total_traffic == pytest.approx(total)
    assert generate(kind, input_rate=0.5).total_traffic == pytest.approx(total / 2)
    assert (next(packings(generate(kind))) >= 0).all()
