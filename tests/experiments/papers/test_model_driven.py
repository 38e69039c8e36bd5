"""The figures of the model-driven scheduling paper, from results without a sweep."""

from __future__ import annotations

import pandas as pd
import pytest

from experiments.generators import generate
from experiments.papers import find_figures
from experiments.papers.model_driven import fig_7, fig_9
from experiments.papers.model_driven.slots import FEWER, RSM_BEST, SAM_ALL, SAM_BEST
from optim import solve

METHODS = {
    "LSA+RSM": ("lsa+rsm", {}),
    "MBA+SAM": ("mba+sam", {}),
    "least for threads": ("slots-milp", {"items": "threads", "cpu": "vm", "traffic": False}),
    "least for bundles": ("slots-milp", {"traffic": False}),
}


def rows_of(shape: str, rates: list[float], methods: dict) -> pd.DataFrame:
    rows = []
    for rate in rates:
        instance = generate("micro_dag", shape=shape, rate=rate)
        for label, (method, options) in methods.items():
            result = solve(instance, method, **options)
            rows.append(
                {
                    "instance.shape": shape,
                    "instance.rate": rate,
                    "method_label": label,
                    "result": result.to_json(),
                }
            )
    return pd.DataFrame(rows)


@pytest.fixture(scope="module")
def slots() -> pd.DataFrame:
    return fig_7.FIGURE.table(rows_of("linear", [50.0, 200.0], METHODS))


def test_the_figures_are_found() -> None:
    names = [figure.name for figure in find_figures("model-driven")]
    assert names == ["model-driven/fig-7", "model-driven/fig-8", "model-driven/fig-9"]


def test_slots_beside_the_papers_and_the_fewest(slots: pd.DataFrame) -> None:
    assert slots[SAM_ALL].tolist() == [4, 15]
    assert slots[SAM_BEST].tolist() == ["4", "15"]
    assert slots[RSM_BEST].tolist() == ["7", "26"]
    assert slots["paper LSA + RSM"].tolist() == ["7", "25 + 3"]
    assert slots[FEWER].tolist() == pytest.approx([100 * (1 - 4 / 7), 100 * (1 - 15 / 27)])
    sentences = fig_7.FIGURE.measured(slots)
    assert "43 to 44 % fewer" in sentences[0]
    assert "SAM in 1 (linear at 200)" in sentences[1]


def test_the_slots_are_drawn(slots: pd.DataFrame) -> None:
    from experiments.papers.drawing import canvas, to_svg

    with canvas(1, "slots") as (drawing, axes):
        fig_7.FIGURE.plot(slots, axes)
        text = to_svg(drawing)
    assert "LSA+RSM: extra slots of the mapping" in text


def test_planned_and_predicted_rates() -> None:
    methods = {m.upper(): (m, {"slots": 20}) for m in ("mba+dsm", "mba+sam", "lsa+dsm")}
    table = fig_9.FIGURE.table(rows_of("linear", [150.0, 160.0, 170.0, 280.0, 290.0], methods))
    found = table.set_index(fig_9.METHOD)
    assert found[fig_9.PLANNED].to_dict() == {"MBA+DSM": 280, "MBA+SAM": 280, "LSA+DSM": 160}
    assert found[fig_9.SHUFFLED]["MBA+DSM"] == pytest.approx(265.65, abs=0.01)
    assert found[fig_9.NEAREST]["MBA+DSM"] == pytest.approx(200)
    assert found[fig_9.CAPACITY]["MBA+SAM"] == pytest.approx(280)
    assert "MBA+DSM 266 shuffled" in fig_9.FIGURE.measured(table)[0]
